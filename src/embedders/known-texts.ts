import type { Embedder } from "../ports/embedder.ts";

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
    id: embedder.id,
    dimensions: embedder.dimensions,
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
