import { messageOf, RuntimeError } from "../contract/error.ts";
import type { Embedder } from "../ports/embedder.ts";
import { packageFile } from "../ports/package-file.ts";
import { createLocalEmbedder, type LocalEmbedder } from "./local.ts";
import { createTokenizer, readVocabulary } from "./word-pieces.ts";
import { createHashingEmbedder, createStaticEmbedder } from "./word-vectors.ts";

/** The local embedder; where it cannot be loaded, the static one, and `tell` hears why, once. */
export async function openDefaultEmbedder(
  tell: (sentence: string) => void,
  signal: AbortSignal,
  local: LocalEmbedder = createLocalEmbedder(),
): Promise<Embedder> {
  const stop = (): void => void local.close();
  signal.addEventListener("abort", stop, { once: true });
  try {
    signal.throwIfAborted();
    await local.load();
    return rememberTexts(local);
  } catch (thrown) {
    await local.close();
    if (signal.aborted) throw new RuntimeError("REQUEST_CANCELLED", "the local embedder was not waited for");
    // Word vectors are a file of the package, too.
    if (packageFile("assets") === undefined) throw thrown;
    tell(`${messageOf(thrown)}; word vectors are used instead, which find paraphrases less well`);
    return createStaticEmbedder();
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

/** Opens an embedder by its name in a configuration. */
export async function openNamedEmbedder(
  name: "local" | "static" | "hashing" | "remote",
  parts: { tell: (sentence: string) => void; openRemote: () => Promise<Embedder>; signal: AbortSignal },
): Promise<Embedder> {
  switch (name) {
    case "local":
      return openDefaultEmbedder(parts.tell, parts.signal);
    case "static":
      return createStaticEmbedder();
    case "hashing":
      return createHashingEmbedder();
    case "remote":
      return rememberTexts(await parts.openRemote());
  }
}

/** Some six megabytes of vectors. */
const KNOWN_MAX = 4_096;

/** The same embedder, which makes the vector of a text once as long as the text is among the last it was given. */
export function rememberTexts(embedder: Embedder, max = KNOWN_MAX): Embedder {
  const known = new Map<string, Float32Array>();
  const remember = (key: string, vector: Float32Array): void => {
    known.delete(key);
    known.set(key, vector);
    const oldest = known.keys().next();
    if (known.size > max && !oldest.done) known.delete(oldest.value);
  };
  return {
    ...embedder,
    async embed(texts, kind, signal) {
      const found = new Map<string, Float32Array>();
      for (const text of texts) {
        const vector = known.get(kind + text);
        if (vector !== undefined) found.set(text, vector);
      }
      const unknown = [...new Set(texts)].filter((text) => !found.has(text));
      const made = unknown.length === 0 ? [] : await embedder.embed(unknown, kind, signal);
      for (const [at, vector] of made.entries()) found.set(unknown[at] ?? "", vector);
      for (const [text, vector] of found) remember(kind + text, vector);
      return texts.flatMap((text) => found.get(text)?.slice() ?? []);
    },
    close: () => embedder.close(),
  };
}

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
