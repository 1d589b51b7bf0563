import type { Chunk } from "../ports/memory.ts";
import type { Fused } from "./fuse.ts";
import { byValue, type Ranked } from "./rank.ts";

/** The ids whose chunks a reading in context needs: those that were found and the ones next to them. */
export function idsWithNeighbours({ values }: Fused): readonly number[] {
  const ids = new Set<number>();
  for (const id of values.keys()) for (const near of [id - 1, id, id + 1]) if (near > 0) ids.add(near);
  return [...ids].sort((a, b) => a - b);
}

/**
 * Ranks chunks with what was said around them: the answer to a question seldom repeats it. A chunk rises towards its
 * better neighbour and never past it, so that talk about something else cannot push out a message that stands alone.
 * What its session has to say on the whole counts besides.
 */
export function rankInContext(fused: Fused, chunks: readonly Chunk[]): readonly Ranked[] {
  const ordered = [...chunks].sort((a, b) => a.id - b.id);
  const worthOf = (chunk: Chunk): number => fused.values.get(chunk.id) ?? fused.floor;
  const sessions = sessionValues(ordered, worthOf);
  return ordered
    .flatMap((chunk, index): readonly Ranked[] => {
      const own = worthOf(chunk);
      const near = [ordered[index - 1], ordered[index + 1]].filter((other) => areNeighbours(chunk, other));
      // The store gives ids in order, so the next one may be of another session, which nobody asked about.
      if (![chunk, ...near].some(({ id }) => fused.values.has(id))) return [];
      const best = Math.max(own, ...near.map(worthOf));
      const session = sessions.get(chunk.session_id) ?? own;
      return [{ id: chunk.id, value: own + NEIGHBOUR_PULL * (best - own) + SESSION_WEIGHT * session }];
    })
    .sort(byValue);
}

const NEIGHBOUR_PULL = 0.5;
const SESSION_WEIGHT = 0.3;
const SESSION_CHUNKS_MAX = 3;

/** The mean of a session's best chunks; a session of one is as good as that one. */
function sessionValues(chunks: readonly Chunk[], worthOf: (chunk: Chunk) => number): ReadonlyMap<string, number> {
  const bySession = Map.groupBy(chunks, (chunk) => chunk.session_id);
  return new Map(
    [...bySession].map(([sessionId, own]) => {
      const best = own
        .map(worthOf)
        .sort((a, b) => b - a)
        .slice(0, SESSION_CHUNKS_MAX);
      return [sessionId, best.reduce((sum, value) => sum + value, 0) / best.length] as const;
    }),
  );
}

function areNeighbours(chunk: Chunk, other: Chunk | undefined): other is Chunk {
  return other !== undefined && other.session_id === chunk.session_id && Math.abs(other.id - chunk.id) === 1;
}
