import type { Chunk, MemoryStore, Scope } from "../ports/memory.ts";
import { tokensIn } from "./split.ts";

/** How many chunks before and after one are told with it at most. */
const STEPS_MAX = 3;
/** What telling a chunk takes besides its text: who said it, where and when. */
const PLACE_TOKENS = 24;

interface Looking {
  readonly store: MemoryStore;
  readonly scope: Scope;
  /** What the chunks and what is told with them may take together; the chunks themselves are told whatever they take. */
  readonly tokensMax: number;
}

/**
 * What was said around chunks, by their ids, each in the order it was said. What is nearest to the best comes first, and
 * no text is told twice: what stands between two chunks is told with the better of them.
 */
export async function turnsAround(
  chunks: readonly Chunk[],
  { store, scope, tokensMax }: Looking,
): Promise<ReadonlyMap<number, readonly Chunk[]>> {
  const told = new Set(chunks.map(({ text }) => text));
  const around = new Map<number, readonly Chunk[]>();
  let left = tokensMax - chunks.reduce((sum, { text }) => sum + tokensIn(text), 0);
  /** Where the walk away from each chunk has come to, on either side. */
  let ends: readonly Walk[] = chunks.map((chunk) => ({ of: chunk.id, before: chunk, after: chunk }));
  for (let step = 1; step <= STEPS_MAX && left > 0; step += 1) {
    const ids = ends.flatMap(({ before, after }) => [before?.before ?? 0, after?.after ?? 0]).filter((id) => id > 0);
    const read = new Map((await store.read([...new Set(ids)], scope)).map((chunk) => [chunk.id, chunk]));
    ends = ends.map(({ of, before, after }) => ({
      of,
      before: read.get(before?.before ?? 0),
      after: read.get(after?.after ?? 0),
    }));
    for (const { of, before, after } of ends) {
      for (const chunk of [after, before]) {
        if (chunk === undefined || told.has(chunk.text)) continue;
        const tokens = tokensIn(chunk.text) + PLACE_TOKENS;
        if (tokens > left) continue;
        left -= tokens;
        told.add(chunk.text);
        around.set(of, [...(around.get(of) ?? []), chunk].sort(inOrder));
      }
    }
  }
  return around;
}

interface Walk {
  readonly of: number;
  readonly before: Chunk | undefined;
  readonly after: Chunk | undefined;
}

/** Chunks of one session have ascending ids in the order of their text. */
function inOrder(a: Chunk, b: Chunk): number {
  return a.id - b.id;
}
