import type { MemoryBatch, MemoryStore, NewChunk } from "@rkat/core/ports/memory";
import { toChunk } from "@rkat/core/recall/chunk";
import { createRandom } from "../test/crash/random.ts";
import { timeOf } from "./memory-store-stopwatch.ts";
import { createPassageText, type PassageText } from "./memory-store-text.ts";

export const DIMENSIONS = 384;
const BATCH_CHUNKS = 32;
const BATCHES_AT_ONCE = 16;
const VECTORS_AT_ONCE = 512;
const CHUNKS_PER_SESSION = 512;
const SESSION_MS = 3_600_000;
const MIDDLES = 1_000;
/** How far a vector lies from its middle: neighbours are about as alike as passages on one subject. */
const SPREAD = 0.8;

/**
 * Texts and vectors that are the same in every run, made as they are asked for: a million of them would not fit. The vectors
 * are not of the texts, since a model would take half a day for them; what a search costs does not depend on it.
 */
export interface MemoryData {
  readonly text: PassageText;
  readonly chunksPerSession: number;
  sessionOf(index: number): string;
  batch(from: number, to: number): MemoryBatch;
  vector(index: number): Float32Array;
}

export function createMemoryData(chunksPerSession = CHUNKS_PER_SESSION): MemoryData {
  const text = createPassageText();
  const random = createRandom(1);
  const middles = Array.from({ length: MIDDLES }, () => randomVector(random));
  const sessionOf = (index: number): string => {
    const number = Math.floor(index / chunksPerSession);
    return `01900000-0000-7000-8000-${number.toString(16).padStart(12, "0")}`;
  };
  const chunk = (index: number): NewChunk => {
    const seq = 1 + (index % chunksPerSession);
    const created_at_ms = Date.UTC(2025, 0, 1) + Math.floor(index / chunksPerSession) * SESSION_MS;
    const role = index % 2 === 0 ? "user" : "assistant";
    const source = { turn: (seq + 1) >> 1, seq, part: 0, role, kind: "text", created_at_ms } as const;
    return toChunk({ ...source, session_id: sessionOf(index), text: text.passage(index) });
  };
  return {
    text,
    chunksPerSession,
    sessionOf,
    batch: (from, to) => {
      const chunks = Array.from({ length: to - from }, (_, at) => chunk(from + at));
      const cursor = chunks.at(-1)?.seq ?? 0;
      return { session_id: sessionOf(from), cursor, chunks, discarded: [{ from_seq: 1, to_seq: cursor >> 1 }] };
    },
    vector: (index) => {
      const own = createRandom(index + 7);
      const middle = middles[Math.floor(own() * MIDDLES)] ?? new Float32Array(DIMENSIONS);
      const vector = randomVector(own);
      for (let at = 0; at < DIMENSIONS; at += 1) vector[at] = (middle[at] ?? 0) + SPREAD * (vector[at] ?? 0);
      return normalise(vector);
    },
  };
}

/** With plain loops, as all of its kind here: a million vectors are made before anything is measured. */
function randomVector(random: () => number): Float32Array {
  const vector = new Float32Array(DIMENSIONS);
  // Four numbers added up are near enough to the bell curve that directions are even.
  for (let at = 0; at < DIMENSIONS; at += 1) vector[at] = random() + random() + random() + random() - 2;
  return normalise(vector);
}

function normalise(vector: Float32Array): Float32Array {
  let squares = 0;
  for (let at = 0; at < vector.length; at += 1) squares += (vector[at] ?? 0) ** 2;
  const length = Math.sqrt(squares);
  for (let at = 0; at < vector.length; at += 1) vector[at] = (vector[at] ?? 0) / length;
  return vector;
}

/** CPU time of the adding alone, without the making of what is added; the wall's is of everything. */
export interface FillTimes {
  readonly addCpuMs: number;
  readonly putCpuMs: number;
  readonly wallMs: number;
}

export interface Fill {
  readonly from: number;
  readonly to: number;
  readonly embedderId: string;
  readonly onVector?: (id: number, vector: Float32Array) => void;
}

/** Adds entries `from` up to `to`, text first, then vectors. */
export async function fillMemory(store: MemoryStore, data: MemoryData, fill: Fill): Promise<FillTimes> {
  const startedMs = performance.now();
  const addCpuMs = await addTexts(store, data, fill);
  const putCpuMs = await putVectors(store, data, fill);
  return { addCpuMs, putCpuMs, wallMs: performance.now() - startedMs };
}

async function addTexts(store: MemoryStore, data: MemoryData, { from, to }: Fill): Promise<number> {
  let cpuMs = 0;
  for (let at = from; at < to; ) {
    const batches: MemoryBatch[] = [];
    while (batches.length < BATCHES_AT_ONCE && at < to) {
      // A batch is of one session.
      const { chunksPerSession } = data;
      const sessionEnd = (Math.floor(at / chunksPerSession) + 1) * chunksPerSession;
      const end = Math.min(at + BATCH_CHUNKS, to, sessionEnd);
      batches.push(data.batch(at, end));
      at = end;
    }
    cpuMs += (await timeOf(() => Promise.all(batches.map((batch) => store.add(batch))))).cpuMs;
  }
  return cpuMs;
}

async function putVectors(store: MemoryStore, data: MemoryData, fill: Fill): Promise<number> {
  const { from, to, embedderId, onVector } = fill;
  let cpuMs = 0;
  // Ids are given in the order of adding, from 1.
  for (let at = from; at < to; at += VECTORS_AT_ONCE) {
    const count = Math.min(VECTORS_AT_ONCE, to - at);
    const vectors = Array.from({ length: count }, (_, index) => ({
      id: at + index + 1,
      vector: data.vector(at + index),
    }));
    for (const { id, vector } of vectors) onVector?.(id, vector);
    cpuMs += (await timeOf(() => store.vectors.put(embedderId, vectors))).cpuMs;
  }
  return cpuMs;
}
