import type { Chunk } from "../ports/memory.ts";
import { plainWords } from "../text/terms.ts";

/** A chunk that stands for all that say the same. */
export interface Folded {
  readonly chunk: Chunk;
  /** How many of the chunks looked at say it. */
  readonly copies: number;
}

/** Keeps the first of chunks that say the same but for case, spaces and marks, in their order. */
export function foldDuplicates(chunks: readonly Chunk[]): readonly Folded[] {
  const folded = new Map<string, Folded>();
  for (const chunk of chunks) {
    const words = plainWords(chunk.text);
    const key = words === "" ? chunk.text : words;
    const first = folded.get(key);
    folded.set(key, { chunk: first?.chunk ?? chunk, copies: (first?.copies ?? 0) + 1 });
  }
  return [...folded.values()];
}
