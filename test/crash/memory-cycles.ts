import { spawn } from "node:child_process";
import { join } from "node:path";
import type { MemoryStore } from "@rkat/core/ports/memory";
import { openMemoryStore } from "@rkat/node/recall-index/open";
import { EVERYTHING, matchAll, textsOf } from "../support/memory-chunks.ts";
import { batchAfter, CRASH_EMBEDDER, memorySessions, textAt, vectorAt } from "./memory-expected.ts";

export interface MemoryCycleCounts {
  readonly cycles: number;
  /** Batches a process was told are taken in. */
  readonly acknowledged: number;
  /** Of those, how many were not there afterwards. */
  readonly lost: number;
  /** Sessions of which a batch was there in part, or a text, a posting or a vector was not the one that was put in. */
  readonly broken: number;
  /** Vectors that had to be made again. */
  readonly missing: number;
}

/** A memory that processes add to until they are killed. */
export interface MemoryPlace {
  /** What a process is told of where it is: see `memory-adder.ts`. */
  readonly reported: readonly string[];
  /** How many processes add to it at once. */
  readonly adders: number;
  open(): Promise<MemoryStore>;
}

export function folderPlace(folder: string): MemoryPlace {
  return { reported: [folder], adders: 1, open: async () => openMemoryStore({ folder }) };
}

/** Runs processes that add, kills each at a random moment, opens what they left, and counts what is wrong. */
export async function runMemoryCycles(
  place: MemoryPlace,
  cycles: number,
  random: () => number,
): Promise<MemoryCycleCounts> {
  const acks = new Map<string, number>();
  const total = { cycles, acknowledged: 0, lost: 0, broken: 0, missing: 0 };
  for (let cycle = 0; cycle < cycles; cycle += 1) {
    const reported = await Promise.all(Array.from({ length: place.adders }, () => addAndDie(place.reported, random)));
    for (const [sessionId, cursor] of reported.flat()) {
      total.acknowledged += 1;
      acks.set(sessionId, Math.max(cursor, acks.get(sessionId) ?? 0));
    }
    const store = await place.open();
    total.missing += (await store.status(CRASH_EMBEDDER)).pending;
    for (const sessionId of memorySessions) {
      total.lost += (await store.cursor(sessionId)) < (acks.get(sessionId) ?? 0) ? 1 : 0;
      total.broken += (await isWhole(store, sessionId)) ? 0 : 1;
    }
    await store.close();
  }
  return total;
}

async function isWhole(store: MemoryStore, sessionId: string): Promise<boolean> {
  const cursor = await store.cursor(sessionId);
  let end = 0;
  while (end < cursor) end = batchAfter(sessionId, end).cursor;
  const scope = { ...EVERYTHING, sessionId };
  const { best, chunks, holders } = await matchAll(store, [sessionId, `at${cursor}`], scope);
  const texts = textsOf(await store.read(best.map(({ id }) => id).sort((a, b) => a - b)));
  const expected = Array.from({ length: cursor }, (_, index) => textAt(sessionId, index + 1));
  const isTextWhole = end === cursor && chunks === cursor && JSON.stringify(texts) === JSON.stringify(expected);
  return (
    isTextWhole &&
    holders.get(`at${cursor}`) === Math.min(1, cursor) &&
    (await areVectorsTrue(store, sessionId, cursor))
  );
}

/** A vector is the one of its chunk, or it is missing; asked of a few. */
async function areVectorsTrue(store: MemoryStore, sessionId: string, cursor: number): Promise<boolean> {
  const scope = { ...EVERYTHING, sessionId };
  const missing = new Set((await store.vectors.missing(CRASH_EMBEDDER, 1_000_000)).map(({ id }) => id));
  for (const seq of [1, cursor >> 1, cursor - 1, cursor].filter((asked) => asked > 0)) {
    const { best } = await matchAll(store, [`at${seq}`], scope);
    const id = best[0]?.id ?? 0;
    const [nearest] = await store.nearest(CRASH_EMBEDDER, vectorAt(seq), { scope, max: 1 });
    const isFound = nearest?.id === id && nearest.similarity > 0.99;
    if (isFound === missing.has(id)) return false;
  }
  return true;
}

const ACKS_MAX = 60;

async function addAndDie(reported: readonly string[], random: () => number): Promise<readonly [string, number][]> {
  const script = join(import.meta.dirname, "memory-adder.ts");
  // Compiled once for all cycles: most of a cycle would otherwise be the start of its process.
  const env = { ...process.env, NODE_COMPILE_CACHE: join(reported[0] ?? "", "..", "compiled") };
  const child = spawn(process.execPath, [script, ...reported], { stdio: ["ignore", "pipe", "pipe"], env });
  const killAfter = Math.floor(random() * ACKS_MAX);
  const spins = Math.floor(random() * 2_000_000);
  let output = "";
  let errors = "";
  child.stderr.on("data", (chunk) => {
    errors += chunk;
  });
  child.stdout.on("data", (chunk) => {
    output += chunk;
    if (output.split("\n").length <= killAfter) return;
    // A moment more or less, so that the kill hits anywhere in a write.
    for (let spin = 0; spin < spins; spin += 1);
    child.kill("SIGKILL");
  });
  const signal = await new Promise((resolve) => child.on("close", (_code, by) => resolve(by)));
  if (signal !== "SIGKILL" || errors !== "") throw new Error(`the adding process ended by itself or warned: ${errors}`);
  return output
    .split("\n")
    .slice(0, -1)
    .map((line): [string, number] => {
      const [sessionId = "", cursor] = line.split(" ");
      return [sessionId, Number(cursor)];
    });
}
