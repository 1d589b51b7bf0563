import { hash } from "node:crypto";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openEmbeddedStore } from "@rkat/node/open-runtime";
import { afterAll, describe, expect, it } from "vitest";
import { scriptedRuntime } from "../../../../test/support/runtime.ts";
import { createVirtualClock } from "../../../../test/support/virtual-clock.ts";
import type { RuntimeOptions } from "../create-runtime.ts";
import type { MemoryBatch, MemoryStore } from "../ports/memory.ts";
import type { Store } from "../ports/store.ts";
import type { Tool } from "../ports/tool.ts";
import { createSystemClock } from "../runtime/system-clock.ts";
import { assembleContext, hashContext } from "../state/context.ts";
import { foldSession } from "../state/whole-state.ts";
import { createMemoryStoreInMemory } from "../stores/recall-in-memory.ts";
import { createCheckpoints } from "./checkpoints.ts";

const root = mkdtempSync(join(tmpdir(), "rkat-checkpoints-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const SMALL = { autoCompactThreshold: 1_600, maxSummaryTokens: 100, recentTurnBudget: 2 };
const LINE = "The rain went on and the kettle boiled for a second time. ".repeat(4);
const sha256 = (text: string): string => hash("sha256", text);

const look: Tool = {
  name: "look",
  description: "Looks out of the window.",
  inputSchema: { type: "object" },
  execute: () => LINE,
};

/** A process that has the folder open; every third answer asks for a tool. */
async function processOn(folder: string, options: RuntimeOptions & { change?: (store: Store) => Store } = {}) {
  const { change = (store: Store) => store, ...more } = options;
  let answers = 0;
  let ids = 0;
  // What came before has ids of its own.
  const later = readdirSync(folder).length > 0 ? "2" : "1";
  const newId = (): string => `01900000-0000-7000-800${later}-${(++ids).toString(16).padStart(12, "0")}`;
  const clock = { ...createVirtualClock(), newId };
  return scriptedRuntime(
    ({ tools, messages }) => {
      if (tools.length === 0) return { text: "They talked about rain." };
      answers += 1;
      const isAsked = messages.at(-1)?.role === "user" && answers % 3 === 0;
      return isAsked ? { calls: [{ name: "look", args: {} }] } : { text: `Noted, number ${answers}.` };
    },
    { store: change(await openEmbeddedStore(folder)), compaction: SMALL, tools: [look], clock, ...more },
  );
}

/** A folder with a session of so many turns, which was compacted on the way. */
async function lived(turns: number, options: RuntimeOptions = {}) {
  const folder = mkdtempSync(join(root, "state-"));
  const { runtime } = await processOn(folder, options);
  const session = await runtime.createSession("Be so kind as to remember the heron.");
  for (let turn = 1; turn < turns; turn += 1) await session.turn(`Turn ${turn}. ${LINE}`);
  await runtime.close();
  return { folder, id: session.id };
}

let first: ReturnType<typeof lived> | undefined;

/** A copy of a folder with a session of forty turns, which is made once. */
async function livedAlready() {
  first ??= lived(40);
  const { folder, id } = await first;
  const copy = mkdtempSync(join(root, "copy-"));
  cpSync(folder, copy, { recursive: true });
  return { folder: copy, id };
}

function checkpointIn(folder: string, id: string): string {
  return join(folder, "checkpoints", id.slice(-2), id);
}

/** The same folder without checkpoints. */
function withoutCheckpoints(folder: string): string {
  const copy = mkdtempSync(join(root, "copy-"));
  cpSync(folder, copy, { recursive: true });
  rmSync(join(copy, "checkpoints"), { recursive: true });
  return copy;
}

const TIMEOUT_MS = 120_000;

describe("coming back to a session", { timeout: TIMEOUT_MS }, () => {
  it("[F8] [L2] reads its context and not its history, and shows the model what the whole log says", async () => {
    const readOf = async (turns: number) => {
      const { folder, id } = await lived(turns);
      let read = 0;
      const counting = (store: Store): Store => ({
        ...store,
        log: {
          ...store.log,
          read: async (...range) => {
            const entries = await store.log.read(...range);
            read += entries.length;
            return entries;
          },
        },
      });
      const { runtime, model } = await processOn(folder, { change: counting });
      await runtime.session(id).turn("And now?");
      const asked = model.requests[0]?.messages ?? [];
      const log = await (await openEmbeddedStore(folder)).log.read(id, 1, Number.MAX_SAFE_INTEGER);
      const called = log.findLast(({ body }) => body.kind === "model_called");
      const before = log.filter(({ seq }) => seq <= (called?.seq ?? 0));
      expect(called?.body).toMatchObject({ context_sha256: hashContext(asked, sha256) });
      expect(hashContext(assembleContext(foldSession(id, before)), sha256)).toBe(hashContext(asked, sha256));
      await runtime.close();
      return { read, entries: log.length };
    };
    const [short, long] = [await readOf(30), await readOf(120)];
    expect(long.entries).toBeGreaterThan(3 * short.entries);
    // A tail may be longer or shorter, by where in it the checkpoint came.
    expect(long.read).toBeLessThan(short.entries);
    expect(long.read).toBeLessThan(long.entries / 4);
  });

  it("[F4] by a checkpoint that is torn, changed, of another session or version, or of another log goes by the log", async () => {
    const { folder, id } = await livedAlready();
    const other = await lived(30);
    const store = await openEmbeddedStore(folder);
    const entries = await store.log.read(id, 1, Number.MAX_SAFE_INTEGER);
    const text = readFileSync(checkpointIn(folder, id), "utf8");
    const resumed = (kept: string, log = store.log) =>
      createCheckpoints({
        log,
        store: { get: async () => kept, put: async () => {}, remove: async () => {} },
        hash: sha256,
        yieldToEventLoop: async () => {},
      }).resume(id);
    const {
      transcript: _t,
      rewrites: _r,
      compactions: _c,
      holes: _h,
      readOnlyTools: _o,
      ...right
    } = foldSession(id, entries);
    expect(await resumed(text)).toEqual(right);
    for (let length = 0; length < text.length; length += 1)
      expect(await resumed(text.slice(0, length))).toBeUndefined();
    const bytes = Buffer.from(text);
    for (let at = 0; at < bytes.length; at += 1) {
      const flipped = Buffer.from(bytes);
      flipped.writeUInt8(flipped.readUInt8(at) ^ (1 << (at % 8)), at);
      expect(await resumed(flipped.toString())).toBeUndefined();
    }
    expect(await resumed(readFileSync(checkpointIn(other.folder, other.id), "utf8"))).toBeUndefined();
    expect(await resumed(text.replace(/^rkat checkpoint \d+ /, "rkat checkpoint 1 "))).toBeUndefined();
    // Restored from a backup that ends earlier, and gone on with in another way since.
    const { lastSeq } = JSON.parse(text.slice(text.indexOf("\n"))).kept;
    const older = entries.filter(({ seq, span }) => seq + span <= lastSeq);
    const logOf = (all: typeof entries) => ({
      ...store.log,
      read: async (_id: string, from: number, max: number) => readOf(all, from, max),
    });
    expect(await resumed(text, logOf(older))).toBeUndefined();
    const gone = entries.map((entry) =>
      entry.seq + entry.span > lastSeq ? { ...entry, timestamp_ms: entry.timestamp_ms + 1 } : entry,
    );
    expect(await resumed(text, logOf(gone))).toBeUndefined();
    await store.close();
    for (const spoilt of ["", text.slice(0, 999), "null", `${text}\n`]) {
      writeFileSync(checkpointIn(folder, id), spoilt);
      const { runtime } = await processOn(folder);
      expect((await runtime.session(id).context()).sha256).toBe(hashContext(assembleContext(right), sha256));
      await runtime.close();
    }
  });

  it("[F4] holds nothing that was said", async () => {
    const { folder, id } = await livedAlready();
    const text = readFileSync(checkpointIn(folder, id), "utf8");
    for (const word of ["rain", "heron", "Noted", "kettle", "Looks"]) expect(text).not.toContain(word);
    expect(text.length).toBeLessThan(4_096);
  });

  it("[F5] gives every operation what it gives by the whole log", async () => {
    const { folder, id } = await livedAlready();
    const reported = async (place: string) => {
      const { runtime } = await processOn(place);
      const session = runtime.session(id);
      const turn = await session.turn("And now?");
      const [last] = (await session.compactions()).slice(-1);
      const history = await session.history();
      const pinned = history.messages[3]?.seq ?? 0;
      const fork = await session.fork(history.messages.length - 2);
      const answers = [
        turn,
        history,
        await session.context(),
        last,
        (await runtime.session(fork.id).history()).messages.length,
        await session.pin(pinned),
        await session.context(),
        await session.undoCompaction(last?.compactionId ?? ""),
        await session.context(),
      ];
      await runtime.close();
      return JSON.parse(JSON.stringify(answers).replaceAll(fork.id, "fork"));
    };
    expect(await reported(withoutCheckpoints(folder))).toEqual(await reported(folder));
  });

  it("[F5] knows the keys of texts that were injected before", async () => {
    const folder = mkdtempSync(join(root, "state-"));
    const before = await processOn(folder);
    const session = await before.runtime.createSession("Hello.");
    const given = { session_id: session.id, text: "It rains.", idempotency_key: "one" };
    await before.runtime.dispatch("injectContext", given);
    for (let turn = 1; turn < 40; turn += 1) await session.turn(`Turn ${turn}. ${LINE}`);
    await before.runtime.close();
    const { runtime } = await processOn(folder);
    expect(await runtime.dispatch("injectContext", given)).toEqual({ status: "duplicate" });
    const other = runtime.dispatch("injectContext", { ...given, text: "It snows." });
    await expect(other).rejects.toThrow("idempotency_key: one was already used with another text");
    await runtime.close();
  });

  it("[F9] takes in what another process did to what is shown", async () => {
    const { folder, id } = await livedAlready();
    const here = (await processOn(folder)).runtime;
    const there = (await processOn(folder, { clock: createSystemClock() })).runtime;
    await here.session(id).turn("Here?");
    const changes = [
      () => there.session(id).turn("There?"),
      () => there.session(id).compact(),
      async () => there.session(id).pin((await there.session(id).history()).messages[1]?.seq ?? 0),
      async () => there.session(id).undoCompaction((await there.session(id).compactions()).at(-1)?.compactionId ?? ""),
    ];
    for (const change of changes) {
      await change();
      expect((await here.session(id).context()).sha256).toBe((await there.session(id).context()).sha256);
    }
    expect(await here.session(id).history()).toEqual(await there.session(id).history());
    await here.close();
    await there.close();
  });

  it("[D1] takes into memory what it would by the whole log", async () => {
    const memory = createMemoryStoreInMemory();
    const { folder, id } = await lived(40, { memory: { store: memory } });
    const cursor = await memory.cursor(id);
    const batchesFrom = async (taken: number, place: string): Promise<readonly MemoryBatch[]> => {
      const batches: MemoryBatch[] = [];
      const noting: MemoryStore = {
        ...memory,
        cursor: async () => taken,
        add: async (batch) => void batches.push(batch),
        close: async () => {},
      };
      const { runtime } = await processOn(place, { memory: { store: noting } });
      await runtime.session(id).turn("And then, about the heron?");
      await runtime.close();
      return batches;
    };
    // From its first entry on, which only the whole log has; of that, what came since.
    const all = await batchesFrom(0, withoutCheckpoints(folder));
    const last = all.at(-1);
    const since = all.flatMap(({ chunks }) => chunks.filter(({ seq }) => seq > cursor));
    expect(since.length).toBeGreaterThan(0);
    expect(last?.discarded.length).toBeGreaterThan(0);
    expect(await batchesFrom(cursor, folder)).toEqual([{ ...last, chunks: since }]);
  });

  it("[F4] keeps none of a short session, and one of each that is long", async () => {
    const short = await lived(6);
    expect(readdirSync(short.folder)).not.toContain("checkpoints");
    const { folder, id } = await livedAlready();
    expect(readdirSync(join(folder, "checkpoints", id.slice(-2)))).toEqual([id]);
  });
});

function readOf<E extends { readonly seq: number; readonly span: number }>(
  all: readonly E[],
  from: number,
  max: number,
) {
  const start = all.findIndex(({ seq, span }) => seq + span > from);
  return start < 0 ? [] : all.slice(start, start + max);
}
