import type { LexicalMatches } from "../ports/memory.ts";

/** A chunk with how well it answers; a list of them is ordered, best first, the newer of equals first. */
export interface Ranked {
  readonly id: number;
  readonly value: number;
}

/** The best of a scope by its terms. */
export interface RankedByTerms {
  readonly list: readonly Ranked[];
  /** Whether a chunk holds any of the terms. */
  holds(id: number): boolean;
}

/** So many are the best; of equals, mostly the same text said again, so many: they must not crowd out everything else. */
export const POOL_MAX = 100;
export const EQUALS_MAX = 24;

/** The chunks that hold terms of a question, by BM25. A common word has a million postings: plain loops, no objects. */
export function rankByTerms(matches: LexicalMatches, weights: ReadonlyMap<string, number>): RankedByTerms {
  const first = matches.postings.reduce((least, { ids }) => Math.min(least, ids[0] ?? least), Number.MAX_SAFE_INTEGER);
  const last = matches.postings.reduce((most, { ids }) => Math.max(most, ids.at(-1) ?? 0), 0);
  const values = new Float64Array(Math.max(0, last - first + 1));
  const lengthMean = matches.termsTotal / Math.max(1, matches.chunks) || 1;
  for (const { term, ids, counts } of matches.postings) {
    const worth = (weights.get(term) ?? 0) * rarity(ids.length, matches.chunks) * (SATURATION + 1);
    for (let at = 0; at < ids.length; at += 1) {
      const id = ids[at] ?? 0;
      const count = counts[at] ?? 0;
      const stretch = 1 + LENGTH_SHARE * (matches.lengthOf(id) / lengthMean - 1);
      values[id - first] = (values[id - first] ?? 0) + (worth * count) / (count + SATURATION * stretch);
    }
  }
  return { list: bestOf(values, first), holds: (id) => (values[id - first] ?? 0) > 0 };
}

function bestOf(values: Float64Array, first: number): readonly Ranked[] {
  const best: Ranked[] = [];
  let least = 0;
  for (let place = values.length - 1; place >= 0; place -= 1) {
    const value = values[place] ?? 0;
    if (value <= least) continue;
    let at = best.length;
    while (at > 0 && (best[at - 1]?.value ?? 0) < value) at -= 1;
    if (best[at - EQUALS_MAX]?.value === value) continue;
    best.splice(at, 0, { id: first + place, value });
    if (best.length > POOL_MAX) best.pop();
    if (best.length === POOL_MAX) least = best.at(-1)?.value ?? 0;
  }
  return best;
}

/** How much it tells that a chunk holds a term, by how many of the scope do. */
export function rarity(holders: number, chunks: number): number {
  return Math.log(1 + (chunks - holders + 0.5) / (holders + 0.5));
}

export function byValue(a: Ranked, b: Ranked): number {
  return b.value - a.value || b.id - a.id;
}

/**
 * k1 and b of BM25, lower than the usual 1.2 and 0.75: those suit articles, where a long one repeats itself. A message
 * that says a thing once has said it, and a longer one says more.
 */
const SATURATION = 0.9;
const LENGTH_SHARE = 0.4;
