import type { MemoryBatch } from "@rkat/core/ports/memory";
import { idOf } from "../support/entries.ts";
import { batchOf } from "../support/memory-chunks.ts";

export const memorySessions = [idOf(1), idOf(2), idOf(3)];
export const CRASH_EMBEDDER = "crash/one";
const DIMENSIONS = 48;

/** What follows a cursor of a session, always the same: one to five chunks. */
export function batchAfter(sessionId: string, cursor: number): MemoryBatch {
  const size = 1 + ((cursor * 7) % 5);
  const texts = Array.from({ length: size }, (_, index) => textAt(sessionId, cursor + 1 + index));
  return { ...batchOf(sessionId, cursor + 1, texts), discarded: [{ from_seq: 1, to_seq: Math.floor(cursor / 2) }] };
}

export function textAt(sessionId: string, seq: number): string {
  return `all of ${sessionId} at${seq} ${"word ".repeat(seq % 40)}end`;
}

/** A direction that no other seq comes near to. */
export function vectorAt(seq: number): Float32Array {
  return Float32Array.from({ length: DIMENSIONS }, (_, index) => Math.sin(seq * (index + 1) * 0.37 + index * index));
}
