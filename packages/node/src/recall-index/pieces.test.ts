import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { NewChunk } from "@rkat/core/ports/memory";
import { afterAll, expect, it } from "vitest";
import { openPrivateDb } from "../tables/private-db.ts";
import { openMemoryStore } from "./open.ts";

const root = mkdtempSync(join(tmpdir(), "rkat-pieces-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const BATCH_CHUNKS = 64;
const TERMS = 200;

/** Chunks with terms of their own, so that the index has many pages. */
function batchOf(session_id: string, number: number) {
  const chunks = Array.from({ length: BATCH_CHUNKS }, (_, at): NewChunk => {
    const seq = number * BATCH_CHUNKS + at + 1;
    const terms = new Map(Array.from({ length: TERMS }, (__, term) => [`${session_id}-${seq}-${term}`, 1]));
    const text = `chunk ${seq} of ${session_id}`;
    return { session_id, seq, turn: seq, part: 0, role: "user", kind: "text", created_at_ms: 0, text, terms };
  });
  return { session_id, chunks, cursor: (number + 1) * BATCH_CHUNKS, discarded: [] };
}

/** Rounds of the event loop while some work goes on. */
async function roundsOf(work: () => Promise<unknown>): Promise<number> {
  let [rounds, isOver] = [0, false];
  const count = (): void => {
    rounds += 1;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  await work();
  isOver = true;
  return rounds;
}

it("[L1] [D6] segments are merged in pieces, also by two processes at once, and every chunk is found", async () => {
  const folder = join(root, "merge");
  const stores = [openMemoryStore({ folder }), openMemoryStore({ folder })] as const;
  let most = 0;
  // The sixteenth batch of 64 makes a segment of 1,024.
  for (let number = 0; number < 16; number += 1) {
    const add = () => Promise.all(stores.map((store, at) => store.add(batchOf(at === 0 ? "one" : "other", number))));
    most = Math.max(most, await roundsOf(add));
  }
  expect(most).toBeGreaterThan((1_024 * TERMS) / 16_384);
  for (const session of ["one", "other"]) {
    for (const seq of [1, 500, 1_024]) {
      const query = { weights: new Map([[`${session}-${seq}-${seq % TERMS}`, 1]]), max: 5, equalsMax: 5 };
      const { best } = await stores[0].match(query, { discardedOnly: false });
      const found = await stores[1].read(best.map(({ id }) => id));
      expect(found.map(({ text }) => text)).toEqual([`chunk ${seq} of ${session}`]);
    }
  }
  for (const store of stores) await store.close();
});

it("[L1] a search looks up a few terms at a time, and is sound when the memory changes or is made anew meanwhile", async () => {
  const folder = join(root, "search");
  const store = openMemoryStore({ folder });
  for (let number = 0; number < 4; number += 1) await store.add(batchOf("one", number));
  const scope = { discardedOnly: false };
  const weights = new Map(Array.from({ length: TERMS }, (_, term) => [`one-7-${term}`, 1]));
  const search = async (meanwhile: () => Promise<unknown>): Promise<readonly string[]> => {
    const [{ best }] = await Promise.all([store.match({ weights, max: 5, equalsMax: 5 }, scope), meanwhile()]);
    return (await store.read(best.map(({ id }) => id))).map(({ text }) => text);
  };
  expect(await roundsOf(() => search(async () => {}))).toBeGreaterThan(TERMS / 16);
  expect(await search(() => store.add(batchOf("one", 4)))).toEqual(["chunk 7 of one"]);
  expect(await search(() => store.drop("one"))).toEqual([]);
  await store.add(batchOf("other", 0));
  expect(await search(() => store.following.empty())).toEqual([]);
  await store.close();
});

it("[L1] whoever asks first reads what every search needs in pieces, and whoever asks meanwhile waits for them", async () => {
  const folder = join(root, "known");
  // Two batches are merged to a segment of 128, and eight of those would be merged to one.
  const [batches, segments] = [15, 8];
  const filled = openMemoryStore({ folder });
  for (let number = 0; number < batches; number += 1) await filled.add(batchOf("one", number));
  await filled.close();
  const vector = new Float32Array(8).fill(1);
  const scope = { discardedOnly: false };
  const asks: Record<string, (store: ReturnType<typeof openMemoryStore>) => Promise<unknown>> = {
    status: (store) => store.status("e"),
    missing: (store) => store.vectors.missing("e", 1),
    read: (store) => store.read([1, batches * BATCH_CHUNKS]),
    nearest: (store) => store.nearest("e", vector, { scope, max: 1 }),
    "a search, and the status meanwhile": (store) =>
      Promise.all([
        store.match({ weights: new Map([["one-7-1", 1]]), max: 1, equalsMax: 1 }, scope),
        store.status("e"),
      ]),
    "two who ask for vectors": (store) => Promise.all([1, 2].map(() => store.vectors.missing("e", 1))),
  };
  for (const [what, ask] of Object.entries(asks)) {
    const store = openMemoryStore({ folder });
    const rounds = await roundsOf(() => ask(store));
    expect({ what, isInPieces: rounds >= segments - 1 }).toEqual({ what, isInPieces: true });
    expect(await store.status("e")).toMatchObject({ entries: batches * BATCH_CHUNKS, pending: batches * BATCH_CHUNKS });
    await store.close();
  }
});

const openTable = (folder: string) => {
  const db = openPrivateDb<string, string>(join(folder, "tables.db"), { isInPieces: true }, () => {});
  const fill = (round: number): void =>
    db.transactionSync(() => {
      for (let at = 0; at < 2_000; at += 1) db.put(String(at), `${round} ${at} ${"x".repeat(300)}`);
    });
  return { db, fill };
};

it("[L1] [F4] a file of tables that has grown is rewritten in pieces, without what a killed process has left", async () => {
  const folder = mkdtempSync(join(root, "rewrite-"));
  const { db, fill } = openTable(folder);
  writeFileSync(join(folder, "tables.db.0.new"), "left by a killed process");
  for (let round = 0; round < 20; round += 1) fill(round);
  expect(await roundsOf(() => db.whenAlone(() => db.remove("8")))).toBeGreaterThan(2_000 / 256);
  expect(readdirSync(folder).sort()).toEqual(["tables.db", "tables.db-lock"]);
  expect(db.get("7")).toBe(`19 7 ${"x".repeat(300)}`);
  await db.close();
});

it("[F4] what is written while a file of tables is rewritten is kept", async () => {
  const folder = mkdtempSync(join(root, "overtaken-"));
  const { db, fill } = openTable(folder);
  for (let round = 0; round < 20; round += 1) fill(round);
  const rewritten = db.whenAlone(() => {});
  await new Promise(setImmediate);
  db.put("7", "written meanwhile");
  await rewritten;
  expect([db.get("7"), db.getCount()]).toEqual(["written meanwhile", 2_000]);
  await db.close();
  const { db: again } = openTable(folder);
  expect([again.get("7"), again.getCount()]).toEqual(["written meanwhile", 2_000]);
  await again.close();
});
