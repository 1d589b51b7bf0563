import type { Chunk } from "../ports/memory.ts";
import type { Fused } from "./fuse.ts";
import { byValue, type Ranked } from "./rank.ts";

/** The ids next to chunks that were found, which a reading in context needs besides. */
export function idsBeside(found: readonly Chunk[]): readonly number[] {
  const ids = new Set(found.flatMap(({ before, after }) => [before, after]));
  for (const { id } of found) ids.delete(id);
  ids.delete(0);
  return [...ids];
}

/**
 * Ranks chunks with what was said around them: the answer to a question seldom repeats it. A chunk rises towards its
 * better neighbour and never past it, so that talk about something else cannot push out a message that stands alone.
 * What its session has to say on the whole counts besides.
 */
export function rankInContext(fused: Fused, chunks: readonly Chunk[]): readonly Ranked[] {
  const there = new Set(chunks.map(({ id }) => id));
  const worthOf = (id: number): number => fused.values.get(id) ?? fused.floor;
  const sessions = sessionValues(chunks, worthOf);
  return chunks
    .map(({ id, before, after, session_id }): Ranked => {
      const own = worthOf(id);
      const near = [before, after].filter((other) => there.has(other));
      const best = Math.max(own, ...near.map(worthOf));
      const session = sessions.get(session_id) ?? own;
      return { id, value: own + NEIGHBOUR_PULL * (best - own) + SESSION_WEIGHT * session };
    })
    .sort(byValue);
}

const NEIGHBOUR_PULL = 0.5;
const SESSION_WEIGHT = 0.3;
const SESSION_CHUNKS_MAX = 3;

/** The mean of a session's best chunks; a session of one is as good as that one. */
function sessionValues(chunks: readonly Chunk[], worthOf: (id: number) => number): ReadonlyMap<string, number> {
  const bySession = Map.groupBy(chunks, (chunk) => chunk.session_id);
  return new Map(
    [...bySession].map(([sessionId, own]) => {
      const best = own
        .map(({ id }) => worthOf(id))
        .sort((a, b) => b - a)
        .slice(0, SESSION_CHUNKS_MAX);
      return [sessionId, best.reduce((sum, value) => sum + value, 0) / best.length] as const;
    }),
  );
}
