import type { Chunk } from "../ports/memory.ts";
import { plainWords } from "../text/terms.ts";
import { isShort } from "./chunk.ts";
import { isBareQuestion } from "./in-context.ts";

/** A chunk that stands for all that say the same. */
export interface Folded {
  readonly chunk: Chunk;
  /** How many of the chunks looked at say it. */
  readonly copies: number;
}

/** Chunks by their ids, those among them that were said right before others. */
type ById = ReadonlyMap<number, Chunk>;

/**
 * Keeps the first of chunks that say the same but for case, spaces and marks, in their order. A short answer says what its
 * question makes of it: "yes" to one question is no copy of "yes" to another.
 */
export function foldDuplicates(chunks: readonly Chunk[], byId: ById): readonly Folded[] {
  const folded = new Map<string, Folded>();
  for (const chunk of chunks) {
    const asked = byId.get(chunk.before);
    const isAnswer = isShort(chunk.text) && isBareQuestion(asked);
    const key = isAnswer ? `${wordsOf(asked)}\n${wordsOf(chunk)}` : wordsOf(chunk);
    const first = folded.get(key);
    folded.set(key, { chunk: first?.chunk ?? chunk, copies: (first?.copies ?? 0) + 1 });
  }
  return [...folded.values()];
}

function wordsOf({ text }: Chunk): string {
  return plainWords(text) || text;
}

/**
 * Whether a chunk is a short reply that is given again and again, and to no question: all its meaning is that of what it
 * follows, which is found itself.
 */
export function isMereReply({ chunk, copies }: Folded, byId: ById): boolean {
  return copies > 1 && isShort(chunk.text) && byId.has(chunk.before) && !isBareQuestion(byId.get(chunk.before));
}
