import type { LexicalMatches, Ranked, TermQuery } from "../ports/memory.ts";
import { LENGTH_SHARE, rarity, SATURATION } from "../text/terms.ts";

/** The chunks of a scope with a term: ascending ids, and the count of the term in each. */
export interface Postings {
  readonly term: string;
  readonly ids: Uint32Array;
  readonly counts: Uint32Array;
}

/** The postings of the query's terms in a scope. */
export interface Matched {
  readonly postings: readonly Postings[];
  /** Chunks in the scope, and the sum of their lengths in terms. */
  readonly chunks: number;
  readonly termsTotal: number;
  /** Lengths in terms by id. */
  readonly lengths: Uint32Array;
}

/** The best of a scope by BM25. A common word has a million postings: plain loops, no objects. */
export function rankPostings(matched: Matched, { weights, max, equalsMax }: TermQuery): LexicalMatches {
  const { postings, chunks } = matched;
  const first = postings.reduce((least, { ids }) => Math.min(least, ids[0] ?? least), Number.MAX_SAFE_INTEGER);
  const last = postings.reduce((most, { ids }) => Math.max(most, ids.at(-1) ?? 0), 0);
  const terms = postings.map(({ term, ids, counts }): Weighed => {
    const worth = (weights.get(term) ?? 0) * rarity(ids.length, chunks) * (SATURATION + 1);
    return { ids, counts, worth };
  });
  terms.sort((a, b) => b.worth - a.worth);
  const range = { first, size: Math.max(0, last - first + 1) };
  const idsOf = new Map(postings.map(({ term, ids }) => [term, ids]));
  return {
    best: bestOfTerms(terms, matched, { ...range, max, equalsMax }),
    chunks,
    holders: new Map(postings.map(({ term, ids }) => [term, ids.length])),
    holds: (id, term) => {
      const ids = idsOf.get(term) ?? new Uint32Array();
      return ids[lastUpTo(ids, id)] === id;
    },
  };
}

interface Weighed extends Omit<Postings, "term"> {
  /** No chunk gets more for the term. */
  readonly worth: number;
}

type Bounds = Pick<TermQuery, "max" | "equalsMax"> & {
  /** The ids from `first` on. */
  readonly first: number;
  readonly size: number;
};

/** A term with more postings is added only where the chunk can still become one of the best. */
const COMMON_POSTINGS = 32_768;

/** The best of terms, which come in the order of their worth. */
function bestOfTerms(
  terms: readonly Weighed[],
  matched: Omit<Matched, "postings">,
  bounds: Bounds & { readonly isWhole?: boolean },
): readonly Ranked[] {
  const { chunks, termsTotal, lengths } = matched;
  const { first, size, max, isWhole = false } = bounds;
  const values = new Float64Array(size);
  const lengthMean = termsTotal / Math.max(1, chunks) || 1;
  let rest = terms.reduce((sum, { worth }) => sum + worth, 0);
  /** The value of the last of the best so far. */
  let least = 0;
  for (const { ids, counts, worth } of terms) {
    if (least === 0 && ids.length > COMMON_POSTINGS && !isWhole) least = bestOf(values, bounds)[max - 1]?.value ?? 0;
    const enough = least - rest;
    for (let at = 0; at < ids.length; at += 1) {
      const id = ids[at] ?? 0;
      const before = values[id - first] ?? 0;
      if (before < enough) continue;
      const count = counts[at] ?? 0;
      const stretch = 1 + LENGTH_SHARE * ((lengths[id] ?? 0) / lengthMean - 1);
      values[id - first] = before + (worth * count) / (count + SATURATION * stretch);
    }
    rest -= worth;
  }
  const best = bestOf(values, bounds);
  // Chunks that became equal are limited in number: then others follow, which may have been passed over.
  const isMissing = least > 0 && (best[max - 1]?.value ?? 0) < least;
  return isMissing ? bestOfTerms(terms, matched, { ...bounds, isWhole: true }) : best;
}

/** The place of the last number that is not above `limit`; -1 if all are. */
export function lastUpTo(ascending: Uint32Array | Float64Array, limit: number): number {
  let low = 0;
  let high = ascending.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ascending[middle] ?? 0) <= limit) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

function bestOf(values: Float64Array, { first, max, equalsMax }: Bounds): readonly Ranked[] {
  const best: Ranked[] = [];
  let least = 0;
  for (let place = values.length - 1; place >= 0; place -= 1) {
    const value = values[place] ?? 0;
    if (value <= least) continue;
    let at = best.length;
    while (at > 0 && (best[at - 1]?.value ?? 0) < value) at -= 1;
    if (best[at - equalsMax]?.value === value) continue;
    best.splice(at, 0, { id: first + place, value });
    if (best.length > max) best.pop();
    if (best.length === max) least = best.at(-1)?.value ?? 0;
  }
  return best;
}

/** Stored vectors: of any length, since only their directions count. */
type Numbers = ArrayLike<number>;

/** The similarity of two vectors relative to the mean of many. */
type SimilarityFromMean = (vector: Numbers) => number;

/** The mean of fewer vectors would depend on single ones. */
const MEAN_VECTORS_MIN = 64;

/** The mean of vectors, each taken at length 1; undefined for too few. */
export function meanOf(vectors: Iterable<Numbers>): Float64Array | undefined {
  let [mean, count] = [new Float64Array(), 0];
  for (const vector of vectors) {
    if (count === 0) mean = new Float64Array(vector.length);
    addUnit(mean, vector);
    count += 1;
  }
  return count < MEAN_VECTORS_MIN ? undefined : mean.map((value) => value / count);
}

/**
 * The cosine between a question and vectors relative to their mean: most of what the texts of one scope share with a
 * question they share with each other, which would hide their differences.
 */
export function similarityFromMean(question: Numbers, mean: Float64Array): SimilarityFromMean {
  const asked = mean.map((value) => -value);
  addUnit(asked, question);
  const [askedLength, questionDotMean, meanSquares] = [lengthOf(asked), dot(asked, mean), dot(mean, mean)];
  return (vector) => {
    const numbers = new Float64Array(vector);
    const length = lengthOf(numbers);
    const squares = 1 - (2 * dot(numbers, mean)) / length + meanSquares;
    const away = askedLength * Math.sqrt(Math.max(0, squares));
    return away === 0 ? 0 : (dot(asked, numbers) / length - questionDotMean) / away;
  };
}

function addUnit(sum: Float64Array, vector: Numbers): void {
  const numbers = new Float64Array(vector);
  const share = 1 / lengthOf(numbers);
  for (let index = 0; index < sum.length; index += 1) sum[index] = (sum[index] ?? 0) + (numbers[index] ?? 0) * share;
}

/** Of one kind of array: loops over several kinds take ten times as long. */
function dot(a: Float64Array, b: Float64Array): number {
  let sum = 0;
  for (let index = 0; index < a.length; index += 1) sum += (a[index] ?? 0) * (b[index] ?? 0);
  return sum;
}

/** 1 for a zero vector, since it is a divisor. */
function lengthOf(vector: Float64Array): number {
  return Math.sqrt(dot(vector, vector)) || 1;
}
