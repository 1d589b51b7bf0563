import { messageOf, RuntimeError } from "../contract/error.ts";
import type { Embedder } from "../ports/embedder.ts";
import { packageFile } from "../ports/package-file.ts";
import { createLocalEmbedder, type LocalEmbedder } from "./local.ts";
import { createTokenizer, readVocabulary } from "./word-pieces.ts";
import { createHashingEmbedder, createStaticEmbedder } from "./word-vectors.ts";

/** The local embedder, or the static one if it cannot be loaded; `warn` receives the reason. */
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
    // Word vectors are a package file, too.
    if (packageFile("assets") === undefined) throw thrown;
    tell(`${messageOf(thrown)}; word vectors are used instead, which find paraphrases less well`);
    return createStaticEmbedder();
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

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

/** Caches the vectors of the most recent texts. */
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
 * Adds how well a built-in embedder understands a text. Summed word vectors know no more than words. A model has learnt
 * whole words or long pieces of its languages: single letters and unknown pieces mean that it hardly knows the text.
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
/** The beginning of a query shows its language. */
const PIECES_MAX = 64;

async function readPieces(): Promise<(text: string) => readonly string[]> {
  const vocabulary = await readVocabulary();
  const tokenize = createTokenizer(vocabulary);
  return (text) => tokenize(text, PIECES_MAX).map((number) => vocabulary[number] ?? UNKNOWN);
}

const UNKNOWN = "[UNK]";

/** The share of letter pieces with more than one letter; 1 if there are none. */
function shareRead(pieces: readonly string[]): number {
  const said = pieces.filter((piece) => piece === UNKNOWN || /\p{L}/u.test(piece));
  const read = said.filter((piece) => piece !== UNKNOWN && /\p{L}{2}/u.test(piece));
  return said.length === 0 ? 1 : read.length / said.length;
}
