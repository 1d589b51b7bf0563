import type { MemoryBatch, MemoryStore, NewChunk } from "../src/ports/memory.ts";
import { createRandom } from "../test/crash/random.ts";

export const DIMENSIONS = 384;
export const EMBEDDER = "bench/384";
const BATCH_CHUNKS = 32;
const BATCHES_AT_ONCE = 16;
const VECTORS_AT_ONCE = 512;
const WORDS = 200_000;
const WORDS_PER_CHUNK = 60;
const CHUNKS_PER_SESSION = 512;
const MIDDLES = 1_000;
/** How far a vector lies from its middle: neighbours are about as alike as passages on one subject. */
const SPREAD = 0.8;

/** Texts and vectors that are the same in every run, made as they are asked for: a million of them would not fit. */
export interface MemoryData {
  sessionOf(index: number): string;
  batch(from: number, to: number): MemoryBatch;
  vector(index: number): Float32Array;
  /** Words of a rank in the order of how common they are. */
  word(rank: number): string;
}

export function createMemoryData(): MemoryData {
  const random = createRandom(1);
  const middles = Array.from({ length: MIDDLES }, () => randomVector(random));
  const word = (rank: number): string => `w${rank.toString(36)}`;
  const sessionOf = (index: number): string => {
    const number = Math.floor(index / CHUNKS_PER_SESSION);
    return `01900000-0000-7000-8000-${number.toString(16).padStart(12, "0")}`;
  };
  const chunk = (index: number): NewChunk => {
    const own = createRandom(index + 1_000);
    const words = Array.from({ length: WORDS_PER_CHUNK }, () => word(Math.floor(WORDS ** own()) - 1));
    const terms = new Map<string, number>();
    for (const each of words) terms.set(each, (terms.get(each) ?? 0) + 1);
    const seq = 1 + (index % CHUNKS_PER_SESSION);
    const text = words.join(" ");
    const source = { turn: seq, seq, part: 0, role: "user", kind: "text", created_at_ms: 1_790_000_000_000 } as const;
    return { ...source, session_id: sessionOf(index), text, terms };
  };
  return {
    sessionOf,
    word,
    batch: (from, to) => {
      const chunks = Array.from({ length: to - from }, (_, at) => chunk(from + at));
      const cursor = chunks.at(-1)?.seq ?? 0;
      return { session_id: sessionOf(from), cursor, chunks, discarded: [{ from_seq: 1, to_seq: cursor >> 1 }] };
    },
    vector: (index) => {
      const own = createRandom(index + 7);
      const middle = middles[Math.floor(own() * MIDDLES)] ?? new Float32Array(DIMENSIONS);
      const aside = randomVector(own);
      return normalise(middle.map((value, at) => value + SPREAD * (aside[at] ?? 0)));
    },
  };
}

function randomVector(random: () => number): Float32Array {
  // Four numbers added up are near enough to the bell curve that directions are even.
  const values = Float32Array.from({ length: DIMENSIONS }, () => random() + random() + random() + random() - 2);
  return normalise(values);
}

function normalise(vector: Float32Array): Float32Array {
  const length = Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
  return vector.map((value) => value / length);
}

/** CPU time in ms of the adding alone, without the making of what is added. */
export interface FillTimes {
  readonly addCpuMs: number;
  readonly putCpuMs: number;
}

export interface Fill {
  readonly from: number;
  readonly to: number;
  readonly onVector: (id: number, vector: Float32Array) => void;
}

/** Adds entries `from` up to `to`, text first, then vectors. */
export async function fillMemory(
  store: MemoryStore,
  data: MemoryData,
  { from, to, onVector }: Fill,
): Promise<FillTimes> {
  let addCpuMs = 0;
  for (let at = from; at < to; ) {
    const batches: MemoryBatch[] = [];
    while (batches.length < BATCHES_AT_ONCE && at < to) {
      // A batch is of one session.
      const sessionEnd = (Math.floor(at / CHUNKS_PER_SESSION) + 1) * CHUNKS_PER_SESSION;
      const end = Math.min(at + BATCH_CHUNKS, to, sessionEnd);
      batches.push(data.batch(at, end));
      at = end;
    }
    addCpuMs += await cpuMsOf(() => Promise.all(batches.map((batch) => store.add(batch))));
  }
  let putCpuMs = 0;
  // Ids are given in the order of adding, from 1.
  for (let at = from; at < to; at += VECTORS_AT_ONCE) {
    const count = Math.min(VECTORS_AT_ONCE, to - at);
    const vectors = Array.from({ length: count }, (_, index) => ({
      id: at + index + 1,
      vector: data.vector(at + index),
    }));
    for (const { id, vector } of vectors) onVector(id, vector);
    putCpuMs += await cpuMsOf(() => store.vectors.put(EMBEDDER, vectors));
  }
  return { addCpuMs, putCpuMs };
}

/** CPU time, all threads: the machine is shared, and the clock on the wall counts others' work. */
export async function cpuMsOf(work: () => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}
