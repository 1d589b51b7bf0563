import { describe, expect, it } from "vitest";
import { createHashingEmbedder } from "./open-embedder.ts";

const never = new AbortController().signal;

// Computed with the seed's function: h = h*31 + lower-case byte, modulo 4096, counted, scaled to length 1.
const FIXTURES: readonly { text: string; buckets: readonly (readonly [number, number])[] }[] = [
  {
    text: "The cat sat on the mat",
    buckets: [
      [113, 0.7071067811865475],
      [1376, 0.35355339059327373],
      [3046, 0.35355339059327373],
      [3551, 0.35355339059327373],
      [4054, 0.35355339059327373],
    ],
  },
  {
    text: "Hello, World! hello, world!",
    buckets: [
      [410, 0.7071067811865475],
      [1743, 0.7071067811865475],
    ],
  },
  {
    text: "naïve Ünïcödé 日本語 ÀB",
    buckets: [
      [46, 0.5],
      [186, 0.5],
      [405, 0.5],
      [3045, 0.5],
    ],
  },
  {
    text: "a b a\tB\n\nA",
    buckets: [
      [97, 0.8320502943378437],
      [98, 0.5547001962252291],
    ],
  },
  { text: "x", buckets: [[120, 1]] },
  { text: "", buckets: [] },
];

/** The buckets that are not empty, as `[bucket, value]`. */
async function bucketsOf(text: string): Promise<readonly (readonly [number, number])[]> {
  const [vector = new Float32Array()] = await createHashingEmbedder().embed([text], "passage", never);
  return [...vector.entries()].filter(([, value]) => value !== 0);
}

describe("the hashing embedder", () => {
  it.each(FIXTURES)("[D5] counts as the seed does: $text", async ({ text, buckets }) => {
    expect(await bucketsOf(text)).toEqual(buckets.map(([bucket, value]) => [bucket, Math.fround(value)]));
  });

  it("[D5] stops at the signal", async () => {
    const texts = ["one", "two"];
    await expect(createHashingEmbedder().embed(texts, "query", AbortSignal.abort())).rejects.toMatchObject({
      code: "REQUEST_CANCELLED",
    });
  });
});
