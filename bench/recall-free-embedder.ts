import type { Embedder } from "@rkat/core/ports/memory";
import { DIMENSIONS } from "./memory-store-data.ts";

/** Vectors that cost nothing to make; keeping them counts. */
export function createFreeEmbedder(): Embedder {
  const vector = new Float32Array(DIMENSIONS).fill(1 / Math.sqrt(DIMENSIONS));
  return {
    id: "free",
    dimensions: DIMENSIONS,
    embed: async (texts) => texts.map(() => vector),
    close: async () => {},
  };
}
