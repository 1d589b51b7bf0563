import { describe, expect, it } from "vitest";
import { createRandom } from "../../../../test/crash/random.ts";
import type { TermQuery } from "../ports/memory.ts";
import { rarity } from "../text/terms.ts";
import { type Matched, type Postings, rankPostings } from "./recall-rank-postings.ts";

const postings = (term: string, ...rows: readonly (readonly [id: number, count: number])[]): Postings => ({
  term,
  ids: Uint32Array.from(rows, ([id]) => id),
  counts: Uint32Array.from(rows, ([, count]) => count),
});
const matchedOf = (chunks: number, ...lists: readonly Postings[]): Matched => ({
  postings: lists,
  chunks,
  termsTotal: 10 * chunks,
  lengths: new Uint32Array(chunks + 1).fill(10),
});
const queryOf = (weights: ReadonlyMap<string, number>): TermQuery => ({ weights, max: 100, equalsMax: 24 });
const heron = queryOf(new Map([["heron", 1]]));
const idsOf = (ranked: readonly { readonly id: number }[]): readonly number[] => ranked.map(({ id }) => id);

describe("ranking by terms", () => {
  it("[D5] puts a rare term above a frequent one, and both above either", () => {
    const frequent = postings("the", [1, 1], [2, 1], [3, 1], [4, 1]);
    const rare = postings("harbour", [3, 1], [5, 1]);
    const weights = new Map([
      ["the", 1],
      ["harbour", 1],
    ]);
    const { best, holders } = rankPostings(matchedOf(100, frequent, rare), queryOf(weights));
    expect(idsOf(best)).toEqual([3, 5, 4, 2, 1]);
    expect(holders).toEqual(
      new Map([
        ["the", 4],
        ["harbour", 2],
      ]),
    );
  });

  it("[D5] finds nothing where nothing matches", () => {
    expect(rankPostings(matchedOf(100), queryOf(new Map())).best).toEqual([]);
  });

  it("[D5] [H5] keeps the best hundred, whatever their order, and lets no crowd of equals take their places", () => {
    const rows = Array.from({ length: 5_000 }, (_, at): [number, number] => [at + 1, 1 + ((at * 7_919) % 400)]);
    const { best: list } = rankPostings(matchedOf(20_000, postings("heron", ...rows)), heron);
    const counts = new Map(rows);
    const wanted = rows.map(([, count]) => count).sort((a, b) => b - a);
    expect(list.map(({ id }) => counts.get(id))).toEqual(wanted.slice(0, 100));
    for (const [at, { id, value }] of list.entries()) {
      const before = list[at - 1];
      if (before?.value === value) expect(before.id).toBeGreaterThan(id);
    }
    const crowd = Array.from({ length: 9_000 }, (_, at): [number, number] => [at + 10, 2]);
    const crowded = rankPostings(matchedOf(20_000, postings("heron", [1, 1], [2, 9], ...crowd)), heron);
    expect(crowded.best.length).toBe(26);
    expect(idsOf(crowded.best).slice(0, 2)).toEqual([2, 9_009]);
    expect(idsOf(crowded.best).at(-1)).toBe(1);
  });

  it("[L5] passes chunks over for a common term without changing what is best", () => {
    for (let seed = 1; seed <= 20; seed += 1) {
      const random = createRandom(seed);
      const chunks = 60_000;
      const termOf = (term: string, share: number): Postings => {
        const ids = Array.from({ length: chunks }, (_, at) => at + 1).filter(() => random() < share);
        return postings(term, ...ids.map((id) => [id, 1 + Math.floor(random() * 3)] as const));
      };
      // Many equals among the rare ones: common terms decide between them.
      const lists = [termOf("the", 0.9), termOf("rare", 0.0002 * seed), termOf("of", 0.7), termOf("some", 0.02)];
      const weights = new Map(lists.map(({ term }) => [term, random()]));
      const values = new Map<number, number>();
      for (const { term, ids, counts } of lists) {
        const worth = (weights.get(term) ?? 0) * rarity(ids.length, chunks) * 1.9;
        for (const [at, id] of ids.entries()) {
          const count = counts[at] ?? 0;
          values.set(id, (values.get(id) ?? 0) + (worth * count) / (count + 0.9));
        }
      }
      const { best } = rankPostings(matchedOf(chunks, ...lists), { weights, max: 100, equalsMax: 100 });
      const wanted = [...values].sort(([a, x], [b, y]) => Number((y - x).toFixed(9)) || b - a).slice(0, 100);
      expect(idsOf(best), `seed ${seed}`).toEqual(wanted.map(([id]) => id));
    }
  });
});
