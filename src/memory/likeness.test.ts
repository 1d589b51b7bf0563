import { describe, expect, it } from "vitest";
import type { Embedder } from "../ports/embedder.ts";
import { createLikeness } from "./rank.ts";

const { signal } = new AbortController();

/** A model for which any two texts are at this cosine. */
function createEmbedder(strangers: number, failures = 0): Embedder {
  let left = failures;
  return {
    id: "fixed",
    dimensions: 2,
    embed: async (texts) => {
      if (left-- > 0) throw new Error("no model");
      return texts.map(() => Float32Array.of(strangers, Math.sqrt(1 - strangers ** 2)));
    },
    close: async () => {},
  };
}

const question = Float32Array.of(1, 0);

describe("likeness", () => {
  it.each([0, 0.4, 0.7])(
    "[D3] is 0 for strangers and 1 for the same, of a model whose strangers are at %d",
    async (cosine) => {
      const likeness = await createLikeness(createEmbedder(cosine))(question, signal);
      expect([likeness(-1), likeness(cosine), likeness(1)]).toEqual([0, 0, 1]);
      expect(likeness((1 + cosine) / 2)).toBeCloseTo(0.5);
    },
  );

  it("[D5] is measured again after the model failed", async () => {
    const likenessFor = createLikeness(createEmbedder(0.5, 1));
    await expect(likenessFor(question, signal)).rejects.toThrow("no model");
    expect((await likenessFor(question, signal))(0.5)).toBe(0);
  });
});
