import { describe, expect, it } from "vitest";
import type { Chunk, Embedder, LexicalMatches } from "../ports/memory.ts";
import { plainWords, queryTerms } from "../text/terms.ts";
import {
  createLikeness,
  createScore,
  descending,
  exactnessOf,
  type Fused,
  fuse,
  idsBeside,
  rankInContext,
} from "./rank.ts";

const SCOPE_CHUNKS = 1_000;
const rank = (fused: Fused, chunks: readonly Chunk[]) => rankInContext(fused, chunks, SCOPE_CHUNKS);

const chunkOf = (id: number, session_id: string, text = `text ${id}`): Chunk => ({
  id,
  session_id,
  text,
  turn: 1,
  seq: id,
  part: 0,
  role: "user",
  kind: "text",
  created_at_ms: 0,
  before: 0,
  after: 0,
});
/** Chunks that one session said one after the other. */
const talkOf = (session_id: string, ...ids: readonly number[]): readonly Chunk[] =>
  ids.map((id, at) => ({ ...chunkOf(id, session_id), before: ids[at - 1] ?? 0, after: ids[at + 1] ?? 0 }));
const idsOf = (ranked: readonly { readonly id: number }[]): readonly number[] => ranked.map(({ id }) => id);

describe("fusing rankings", () => {
  const byTerms = { list: [{ id: 1, value: 9 }], chunks: 100, rest: 0, weight: 0.5 };

  it("[D5] ranks first what both lists find, whatever their scales", () => {
    const list = [0.83, 0.82, 0.8, 0.7].map((value, index) => ({ id: index + 1, value }));
    const { values } = fuse([byTerms, { list, chunks: 4, weight: 0.5 }]);
    expect([...values].sort(([, a], [, b]) => b - a)[0]?.[0]).toBe(1);
  });

  it("[D5] gives a crowd of equals no more than its share of the pool", () => {
    const crowd = Array.from({ length: 100_000 }, (_, index) => ({ id: index + 10, value: 5 }));
    const { values } = fuse([{ ...byTerms, list: [...crowd, { id: 1, value: 4 }], chunks: 100_001 }]);
    expect(values.size).toBeLessThan(50);
    expect(values.has(1)).toBe(true);
  });
});

describe("ranking in context", () => {
  const fused = { values: new Map([[2, 4]]), floor: 0 };

  it("[D5] lifts the answer next to a question it does not repeat", () => {
    const [first, second, third] = talkOf("s1", 1, 2, 7, 8);
    const chunks = [first, second, third].filter((chunk) => chunk !== undefined);
    expect(idsBeside(chunks.slice(1, 2))).toEqual([1, 7]);
    expect(idsOf(rank(fused, chunks))).toEqual([2, 7, 1]);
  });

  it("[D5] lifts nothing in a small scope but what answers a bare question", () => {
    const small = (text: string) => {
      const chunks = talkOf("s1", 1, 2, 3).map((chunk) => (chunk.id === 2 ? { ...chunk, text } : chunk));
      return rankInContext({ values: new Map([[2, 4]]), floor: 0 }, chunks, 49);
    };
    expect(small("It is blue.").map(({ value }) => value)).toEqual([4, 0, 0]);
    expect(small("Which colour?")[0]?.id).toBe(3);
  });

  it("[D5] lifts nothing across sessions", () => {
    const values = new Map([...fused.values, [3, 1]]);
    const alone = rank({ values, floor: 0 }, talkOf("s2", 3)).find(({ id }) => id === 3);
    const both = rank({ values, floor: 0 }, [...talkOf("s1", 2), ...talkOf("s2", 3)]);
    expect(both.find(({ id }) => id === 3)).toEqual(alone);
  });

  it("[D5] leaves a message that stands alone above talk that is a little less to the point", () => {
    const values = new Map([
      [1, 4],
      [10, 3.8],
      [11, 3.8],
      [12, 3.8],
    ]);
    const chunks = [chunkOf(1, "alone"), ...talkOf("talk", 10, 11, 12)];
    expect(idsOf(rank({ values, floor: 0 }, chunks))[0]).toBe(1);
  });
});

describe("ranking answers", () => {
  const questionIn = (text: string, answer: Partial<Chunk> = {}): readonly Chunk[] => {
    const [asking, answering, later] = talkOf("s1", 1, 2, 3);
    if (asking === undefined || answering === undefined || later === undefined) return [];
    return [{ ...asking, text }, { ...answering, ...answer }, later];
  };
  const fused = {
    values: new Map([
      [1, 4],
      [3, 0.5],
    ]),
    floor: 0,
  };

  it.each(["Which colour?", "哪种颜色？", "أي لون؟", "Ποιο χρώμα;", "¿Qué color?", 'He asked: "which colour?"'])(
    "[D5] puts what the user answers above the bare question: %s",
    (text) => {
      expect(idsOf(rank(fused, questionIn(text)))).toEqual([2, 1, 3]);
    },
  );

  it("[D5] leaves a question of the user above what an assistant makes of it", () => {
    expect(idsOf(rank(fused, questionIn("Which colour?", { role: "assistant" })))).toEqual([1, 2, 3]);
  });

  it("[D5] leaves a message above what follows it when it tells something besides what it asks", () => {
    const text = `${"The fence was blue until the storm took half of it. ".repeat(4)}Which colour now?`;
    expect(idsOf(rank(fused, questionIn(text)))).toEqual([1, 2, 3]);
  });

  it("[D5] counts the talk around a chunk, however long its session is", () => {
    const far = (id: number, turn: number): Chunk => ({ ...chunkOf(id, "long"), turn });
    const values = new Map([
      [1, 3],
      [2, 3],
      [3, 3],
      [4, 3.1],
    ]);
    const ranked = rank({ values, floor: 0 }, [far(1, 1), far(2, 3), far(3, 5), far(4, 400)]);
    const alone = rank({ values, floor: 0 }, [far(4, 400)]);
    expect(ranked.find(({ id }) => id === 4)).toEqual(alone[0]);
  });
});

const nothing: LexicalMatches = { best: [], chunks: 0, holders: new Map() };
const scoreOf = (query: string, text: string, likeness?: number): number =>
  createScore(query, queryTerms(query), nothing)({ id: 1, text, likeness });

describe("a score", () => {
  it("[D3] is 1 for the same words and at least 0.99 for a passage", () => {
    const text = "We settled on argon2id for hashing passwords, with 64 MB of memory.";
    expect(scoreOf(text, text)).toBe(1);
    expect(scoreOf("settled on argon2id for hashing", text)).toBe(0.99);
    expect(scoreOf(`They said: ${text} And more.`, text)).toBe(0.99);
  });

  it("[D3] is below 0.99 for anything else", () => {
    expect(scoreOf("passwords hashing argon2id", "argon2id hashing passwords", 1)).toBeLessThan(0.99);
    expect(exactnessOf(plainWords("the memory"), "of the memory of others")).toBe(0);
  });

  it("[D3] is above 0.7 for most of the words or for a like meaning", () => {
    expect(scoreOf("which port does staging use?", "Staging uses port 6543.")).toBeGreaterThan(0.7);
    expect(scoreOf("any dessert ideas?", "Grandmother's lemon cake.", 0.8)).toBeGreaterThan(0.7);
  });

  it("[D3] is below 0.3 for one word of several, or none", () => {
    expect(scoreOf("boiling point of tungsten", "You should get to the point.")).toBeLessThan(0.3);
    expect(scoreOf("boiling point of tungsten", "The fence is blue.", 0)).toBeLessThan(0.3);
  });

  it("[D3] never rises down a list", () => {
    expect(descending([1, 0.5, 0.7, 0.2, 0.4, 0.1])).toEqual([1, 0.6, 0.6, 0.3, 0.3, 0.1]);
  });
});

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
      const likeness = await createLikeness(createEmbedder(cosine))(question);
      expect([likeness(-1), likeness(cosine), likeness(1)]).toEqual([0, 0, 1]);
      expect(likeness((1 + cosine) / 2)).toBeCloseTo(0.5);
    },
  );

  it("[D5] is measured again after the model failed", async () => {
    const likenessFor = createLikeness(createEmbedder(0.5, 1));
    await expect(likenessFor(question)).rejects.toThrow("no model");
    expect((await likenessFor(question))(0.5)).toBe(0);
  });
});
