// Durable appends per second, and bytes written per turn, against the least a durable log can cost.
import { closeSync, fdatasyncSync, mkdtempSync, openSync, readdirSync, rmSync, statSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  createRuntime,
  createScriptedModel,
  type EntryBody,
  openEmbeddedStore,
  type Runtime,
  type Store,
} from "@rkat/node";
import { median, publish } from "./report.ts";

const WRITERS = [1, 16, 256];
const ROUNDS = 9;
const APPENDS = 8_192;
/** How much slower than the bare loop it may be, by number of writers. */
const SLOWER_MAX: Readonly<Record<number, number>> = { 1: 1 / 0.8, 16: 1 / 0.8, 256: 1 / 0.5 };

const folder = mkdtempSync(join(tmpdir(), "rkat-bench-append-"));
try {
  const speeds = await measureSpeeds();
  const bytes = await measureBytes();
  await publish({
    name: "append",
    tables: [
      [
        ["writers", "bare loop, appends/s", "rkat, appends/s", "rkat / bare"],
        ...speeds.map(({ writers, bare, rkat }) => [
          String(writers),
          bare.toFixed(0),
          rkat.toFixed(0),
          (rkat / bare).toFixed(2),
        ]),
      ],
      [
        ["bytes a turn (question, tool call, 1 KB result, answer)", "its messages as JSON", "written", "ratio"],
        ...bytes.map(({ turn, json, written }) => [
          `up to turn ${turn}`,
          json.toFixed(0),
          written.toFixed(0),
          (written / json).toFixed(2),
        ]),
      ],
    ],
    targets: [
      ...speeds.map(({ writers, bare, rkat }) => ({
        what: `bare loop over rkat, ${writers} writers`,
        value: bare / rkat,
        max: SLOWER_MAX[writers] ?? 2,
      })),
      ...bytes.map(({ turn, json, written }) => ({
        what: `bytes written over the turns' JSON, up to turn ${turn}`,
        value: written / json,
        max: 1.5,
      })),
    ],
    measured: { speeds, bytes },
  });
} finally {
  rmSync(folder, { recursive: true, force: true });
}

function bodyOf(text: string): EntryBody {
  const created_at = "2026-01-01T00:00:00.000Z";
  const blocks = [{ block_type: "text" as const, data: { text } }];
  return { kind: "assistant", message: { role: "block_assistant", blocks, stop_reason: "end_turn", created_at } };
}

async function measureSpeeds() {
  const body = bodyOf("x".repeat(120));
  const store = await openEmbeddedStore(join(folder, "speeds"));
  const fd = openSync(join(folder, "bare.log"), "a");
  const ends = new Map<string, number>();
  const speeds = [];
  for (const writers of WRITERS) {
    const bare: number[] = [];
    const rkat: number[] = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      bare.push(await speedOf(() => appendBare(fd, body, writers)));
      rkat.push(await speedOf(() => appendRkat(store, body, { writers, ends })));
    }
    speeds.push({ writers, bare: median(bare.slice(1)), rkat: median(rkat.slice(1)) });
  }
  closeSync(fd);
  await store.close();
  return speeds;
}

/**
 * The least a durable log can do: serialise, write, sync. With several writers, those that wait share a write and a sync,
 * and each is told when its own record is down.
 */
async function appendBare(fd: number, body: EntryBody, writers: number): Promise<void> {
  if (writers === 1) {
    for (let done = 0; done < APPENDS; done += 1) {
      writeSync(fd, JSON.stringify(body));
      fdatasyncSync(fd);
    }
    return;
  }
  let waiting: { json: string; resolve: () => void }[] = [];
  const commit = (): void => {
    const batch = waiting;
    waiting = [];
    writeSync(fd, batch.map(({ json }) => json).join("\n"));
    fdatasyncSync(fd);
    for (const { resolve } of batch) resolve();
  };
  const append = (json: string): Promise<void> =>
    new Promise((resolve) => {
      if (waiting.push({ json, resolve }) === 1) setImmediate(commit);
    });
  const write = async (): Promise<void> => {
    for (let done = 0; done < APPENDS; done += writers) await append(JSON.stringify(body));
  };
  await Promise.all(Array.from({ length: writers }, write));
}

async function appendRkat(
  store: Store,
  body: EntryBody,
  { writers, ends }: { writers: number; ends: Map<string, number> },
): Promise<void> {
  const write = async (writer: number): Promise<void> => {
    const sessionId = `01900000-0000-7000-8000-${writer.toString(16).padStart(12, "0")}`;
    for (let done = 0; done < APPENDS; done += writers) {
      const end = ends.get(sessionId) ?? 0;
      await store.log.append(sessionId, end, [{ span: 1, body }]);
      ends.set(sessionId, end + 1);
    }
  };
  await Promise.all(Array.from({ length: writers }, (_, writer) => write(writer)));
}

async function speedOf(work: () => Promise<void>): Promise<number> {
  const startedMs = performance.now();
  await work();
  return (APPENDS * 1_000) / (performance.now() - startedMs);
}

/**
 * What the state folder grew by, index and all, over what the turns' messages are as JSON. The store is closed at both
 * ends of a window, so that what the index owes is written and counted.
 */
async function measureBytes() {
  const state = join(folder, "bytes");
  const model = createScriptedModel((_, index) =>
    index % 2 === 0
      ? { text: "Let me look.", calls: [{ name: "look", args: { at: index } }] }
      : { text: "y".repeat(400) },
  );
  const look = { name: "look", description: "Looks.", inputSchema: {}, execute: () => "z".repeat(1_024) };
  const inRuntime = async <T>(work: (runtime: Runtime) => Promise<T>): Promise<T> => {
    const store = await openEmbeddedStore(state);
    const runtime = createRuntime({ model, store, tools: [look], env: {} });
    try {
      return await work(runtime);
    } finally {
      await runtime.close();
    }
  };
  const sessionId = await inRuntime(async (runtime) => (await runtime.createSession("Begin.")).id);
  const runTurns = (turns: number): Promise<number> =>
    inRuntime(async (runtime) => {
      const session = runtime.session(sessionId);
      for (let turn = 0; turn < turns; turn += 1) await session.turn("What is there now, please?");
      return JSON.stringify((await session.history()).messages).length;
    });
  const readings = [];
  let turn = 1;
  const json = await runTurns(99);
  let before = { json, written: sizeOf(state) };
  for (const turns of [900, 1_000]) {
    turn += turns;
    const now = { json: await runTurns(turns), written: sizeOf(state) };
    const each = (of: "json" | "written"): number => (now[of] - before[of]) / turns;
    readings.push({ turn, json: each("json"), written: each("written") });
    before = now;
  }
  return readings;
}

function sizeOf(path: string): number {
  return readdirSync(path, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0);
}
