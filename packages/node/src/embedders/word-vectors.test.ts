import { describe, expect, it } from "vitest";
import { createHashingEmbedder, createStaticEmbedder } from "./open-embedder.ts";

const never = new AbortController().signal;
const embedder = createStaticEmbedder();

function similarity(a: Float32Array | undefined, b: Float32Array | undefined): number {
  return (a ?? new Float32Array()).reduce((sum, x, index) => sum + x * (b?.[index] ?? 0), 0);
}

describe("the static embedder", () => {
  it("[D5] makes vectors of length 1, the same in any batch", async () => {
    const texts = ["hello", "日本語のテキスト", "👩‍👩‍👧‍👦🎉", "word ".repeat(100_000), "Ünïcödé"];
    const together = await embedder.embed(texts, "passage", never);
    const alone = await Promise.all(texts.map(async (text) => (await embedder.embed([text], "query", never))[0]));
    expect(alone).toEqual(together);
    for (const vector of together) expect(similarity(vector, vector)).toBeCloseTo(1, 5);
    expect(together.map((vector) => vector.length)).toEqual(texts.map(() => embedder.dimensions));
  });

  it("[D5] gives a text without a word no direction", async () => {
    expect(await embedder.embed(["", "\n"], "passage", never)).toEqual([new Float32Array(256), new Float32Array(256)]);
  });

  it("[D5] finds related words nearer than unrelated ones", async () => {
    const [question, related, unrelated] = await embedder.embed(
      ["Which doctor did she see?", "The physician examined her", "The fence was painted green"],
      "passage",
      never,
    );
    expect(similarity(question, related)).toBeGreaterThan(similarity(question, unrelated) + 0.1);
  });

  it("[D5] stops at the signal and says when its table is missing", async () => {
    await expect(embedder.embed(["x"], "query", AbortSignal.abort())).rejects.toMatchObject({
      code: "REQUEST_CANCELLED",
    });
    const lost = createStaticEmbedder({ name: "absent.bin", sha256: "00" });
    await expect(lost.embed(["x"], "query", never)).rejects.toMatchObject({ code: "CAPABILITY_UNAVAILABLE" });
  });

  it("[D5] can be closed twice", async () => {
    const closed = createStaticEmbedder();
    await closed.close();
    await closed.close();
  });
});

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
