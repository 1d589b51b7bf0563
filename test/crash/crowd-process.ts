// One of several servers on a database: writes to sessions and hears sessions until it is told to stop, or is killed.
// The first line on stdin says what to do; what was acknowledged and what was heard is told on stdout.
import { flushCompileCache } from "node:module";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { RuntimeError } from "@rkat/core/contract/error";
import { createRuntime, type Runtime } from "@rkat/core/create-runtime";
import type { Hold, Store } from "@rkat/core/ports/store";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { toNewEntries } from "@rkat/core/state/entry-events";
import { openPostgresStore } from "../support/postgres-store.ts";
import type { CrowdOrder } from "./crowd.ts";
import { bodiesOf } from "./expected.ts";

// It may never end by itself, so what it compiled would not be kept for the next one.
flushCompileCache();

const AGAIN_MS = 30;
/** So often is a held session appended to before it is given to whoever else wants it. */
const APPENDS_A_HOLD = 8;

const say = (line: string): boolean => process.stdout.write(`${line}\n`);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const stop = new AbortController();

/** Does something that may fail because a server or the database is away, until it is done or no longer wanted. */
async function persist<T>(work: () => Promise<T>, isWanted: () => boolean): Promise<T | undefined> {
  while (isWanted()) {
    try {
      return await work();
    } catch (error) {
      // Whoever calls a store handles these two and no others.
      const code = error instanceof RuntimeError ? error.code : "";
      if (code !== "SESSION_BUSY" && code !== "SESSION_STORE_ERROR") say(`wrong ${error}`);
      await sleep(AGAIN_MS);
    }
  }
  return undefined;
}

const isAlways = (): boolean => true;
const isWriting = (): boolean => !stop.signal.aborted;

async function writeTo(store: Store, sessionId: string): Promise<void> {
  while (isWriting()) {
    const hold = await persist(() => store.locks.hold(sessionId), isWriting);
    if (hold === undefined) return;
    await appendWhile(store, sessionId, hold);
    await persist(() => hold.release(), isAlways);
  }
}

async function appendWhile(store: Store, sessionId: string, { interrupted }: Hold): Promise<void> {
  try {
    for (let count = 0; count < APPENDS_A_HOLD && isWriting() && !interrupted.aborted; count += 1) {
      const end = (await store.sessions.get(sessionId))?.last_seq ?? 0;
      const entries = await store.log.append(sessionId, end, toNewEntries(bodiesOf(sessionId, end)));
      const last = entries.at(-1);
      const seq = last === undefined ? 0 : last.seq + last.span - 1;
      say(`ack ${sessionId} ${seq}`);
      store.signals.emit(sessionId, seq);
    }
  } catch (error) {
    const code = error instanceof RuntimeError ? error.code : "";
    if (code !== "SESSION_BUSY" && code !== "SESSION_STORE_ERROR") say(`wrong ${error}`);
  }
}

/** Where each subscriber is; whoever waits for all of them to have come somewhere is told of each step. */
const received = new Map<string, number>();
let onStep = (): void => {};

/** A reader as a client is one: when its stream ends it comes again, and says how far it has heard. */
async function listen(runtime: Runtime, sessionId: string, after: number): Promise<void> {
  received.set(sessionId, after);
  for (;;) {
    await persist(async () => {
      const seen = received.get(sessionId) ?? 0;
      for await (const { seq } of runtime.subscribe(sessionId, { after: seen })) {
        if (seq === 0) continue; // Not of the log.
        const last = received.get(sessionId) ?? 0;
        if (seq !== last + 1) say(`wrong a subscriber of ${sessionId} at ${last} got ${seq}`);
        received.set(sessionId, seq);
        say(`heard ${sessionId} ${seq}`);
        onStep();
      }
    }, isAlways);
  }
}

/** The next line of whoever started this. */
async function reported(): Promise<string> {
  const { value, done } = await lines.next();
  if (done === true) process.exit(0);
  return String(value);
}

async function work(): Promise<void> {
  const order = JSON.parse(await reported()) as CrowdOrder; // Written by `crowd.ts`.
  const { url, realm, leaseMs } = order;
  const store = await persist(() => openPostgresStore({ url, realm, leaseMs }), isAlways);
  if (store === undefined) return;
  const runtime = createRuntime({ store, model: createScriptedModel([]), env: {} });
  for (const [sessionId, after] of Object.entries(order.subscribed)) void listen(runtime, sessionId, after);
  const writing = order.writes.map((sessionId) => writeTo(store, sessionId));
  say("ready");
  await reported();
  stop.abort();
  await Promise.all(writing);
  say("stopped");
  const ends = JSON.parse(await reported()) as CrowdOrder["subscribed"];
  const isThere = (): boolean => Object.entries(ends).every(([id, end]) => (received.get(id) ?? 0) >= end);
  await new Promise<void>((resolve) => {
    onStep = () => {
      if (isThere()) resolve();
    };
    onStep();
  });
  say("caught up");
  process.exit(0);
}

await work();
