import { fork } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { createRuntime, createScriptedModel, openEmbeddedStore, type Store } from "@rkat/node";
import { openPostgresStore } from "../test/support/postgres-store.ts";

const TURNS = 100;
/** Between turns, as people are slower than machines. */
const PAUSE_MS = 40;

export interface Delay {
  readonly name: string;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly events: number;
}

/** From an event's arrival at a subscriber in the process of the turn to its arrival at one in another process. */
export async function measureDelays(url: string): Promise<readonly Delay[]> {
  const folder = mkdtempSync(join(tmpdir(), "rkat-bench-delay-"));
  const embedded = await delayOf("embedded", await openEmbeddedStore(folder), folder);
  const database = await delayOf("PostgreSQL", await openPostgresStore({ url, realm: "delay" }), url);
  rmSync(folder, { recursive: true, force: true });
  return [embedded, database];
}

async function delayOf(name: string, store: Store, place: string): Promise<Delay> {
  const model = createScriptedModel(() => ({ text: "Yes." }));
  const runtime = createRuntime({ store, model, env: {} });
  const session = await runtime.createSession("Begin.");
  const there = new Map<number, bigint>();
  let onReceived = (): void => {};
  const listener = fork(join(import.meta.dirname, "postgres-listener.ts"), [place, session.id]);
  listener.on("message", ({ seq, atNs }: { seq: number; atNs: string }) => {
    there.set(seq, BigInt(atNs));
    onReceived();
  });
  const received = (seq: number): Promise<void> =>
    new Promise((resolve) => {
      onReceived = () => {
        if (there.has(seq)) resolve();
      };
      onReceived();
    });
  const here = new Map<number, bigint>();
  const end = new AbortController();
  const first = (await store.sessions.get(session.id))?.last_seq ?? 0;
  void (async () => {
    for await (const { seq } of runtime.subscribe(session.id, { signal: end.signal }))
      if (seq !== 0) here.set(seq, process.hrtime.bigint());
  })();
  // From now on it hears, and does not only read.
  await received(Math.max(1, first));
  for (let turn = 0; turn < TURNS; turn += 1) {
    await session.turn("And now?");
    await sleep(PAUSE_MS);
  }
  await received(Math.max(...here.keys()));
  end.abort();
  listener.disconnect();
  await runtime.close();
  const delays = [...here].map(([seq, atNs]) => Number((there.get(seq) ?? atNs) - atNs) / 1e6).sort((a, b) => a - b);
  const at = (share: number): number =>
    delays[Math.min(delays.length - 1, Math.floor(delays.length * share))] ?? Number.NaN;
  return { name, p50Ms: at(0.5), p99Ms: at(0.99), events: delays.length };
}
