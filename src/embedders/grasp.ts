import type { Embedder } from "../ports/embedder.ts";
import { createTokenizer, readVocabulary } from "./word-pieces.ts";

/**
 * An embedder that ships, with how much it grasps of a text. Vectors that are added up from words say no more than words
 * do. A model has learnt the words of its languages whole or in long pieces: what falls into single signs, or is unknown,
 * it has hardly read.
 */
export function withGrasp(embedder: Embedder): Embedder {
  if (ADDED_UP.test(embedder.id)) return { ...embedder, grasp: async () => 0 };
  let reading: ReturnType<typeof readPieces> | undefined;
  return {
    ...embedder,
    grasp: async (text) => {
      reading ??= readPieces();
      return shareRead((await reading)(text));
    },
  };
}

const ADDED_UP = /^gte-small-static-|^hashing/;
/** A question tells its language by its beginning. */
const PIECES_MAX = 64;

async function readPieces(): Promise<(text: string) => readonly string[]> {
  const vocabulary = await readVocabulary();
  const tokenize = createTokenizer(vocabulary);
  return (text) => tokenize(text, PIECES_MAX).map((number) => vocabulary[number] ?? UNKNOWN);
}

const UNKNOWN = "[UNK]";

/** The share of pieces of more than one letter, among those that are letters; 1 where there are none. */
function shareRead(pieces: readonly string[]): number {
  const said = pieces.filter((piece) => piece === UNKNOWN || /\p{L}/u.test(piece));
  const read = said.filter((piece) => piece !== UNKNOWN && /\p{L}{2}/u.test(piece));
  return said.length === 0 ? 1 : read.length / said.length;
}
