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
  const { postings, chunks, termsTotal, lengths } = matched;
  const first = postings.reduce((least, { ids }) => Math.min(least, ids[0] ?? least), Number.MAX_SAFE_INTEGER);
  const last = postings.reduce((most, { ids }) => Math.max(most, ids.at(-1) ?? 0), 0);
  const values = new Float64Array(Math.max(0, last - first + 1));
  const lengthMean = termsTotal / Math.max(1, chunks) || 1;
  for (const { term, ids, counts } of postings) {
    const worth = (weights.get(term) ?? 0) * rarity(ids.length, chunks) * (SATURATION + 1);
    for (let at = 0; at < ids.length; at += 1) {
      const id = ids[at] ?? 0;
      const count = counts[at] ?? 0;
      const stretch = 1 + LENGTH_SHARE * ((lengths[id] ?? 0) / lengthMean - 1);
      values[id - first] = (values[id - first] ?? 0) + (worth * count) / (count + SATURATION * stretch);
    }
  }
  return {
    best: bestOf(values, first, { max, equalsMax }),
    chunks,
    holders: new Map(postings.map(({ term, ids }) => [term, ids.length])),
  };
}

type Bounds = Pick<TermQuery, "max" | "equalsMax">;

function bestOf(values: Float64Array, first: number, { max, equalsMax }: Bounds): readonly Ranked[] {
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
export const MEAN_VECTORS_MIN = 64;

/**
 * The cosine between a question and vectors relative to the mean of `all`: most of what the texts of one scope share with
 * a question they share with each other, which would hide their differences. Undefined for too few vectors.
 */
export function similarityFromMean(question: Numbers, all: readonly Numbers[]): SimilarityFromMean | undefined {
  if (all.length < MEAN_VECTORS_MIN) return undefined;
  const mean = new Float64Array(question.length);
  for (const vector of all) addTo(mean, vector, 1 / (lengthOf(vector) * all.length));
  const asked = Float64Array.from(mean, (value) => -value);
  addTo(asked, question, 1 / lengthOf(question));
  const [askedLength, questionDotMean, meanSquares] = [lengthOf(asked), dot(asked, mean), dot(mean, mean)];
  return (vector) => {
    const length = lengthOf(vector);
    const squares = 1 - (2 * dot(vector, mean)) / length + meanSquares;
    const away = askedLength * Math.sqrt(Math.max(0, squares));
    return away === 0 ? 0 : (dot(asked, vector) / length - questionDotMean) / away;
  };
}

function addTo(sum: Float64Array, vector: Numbers, share: number): void {
  for (let index = 0; index < sum.length; index += 1) sum[index] = (sum[index] ?? 0) + (vector[index] ?? 0) * share;
}

function dot(a: Numbers, b: Numbers): number {
  let sum = 0;
  for (let index = 0; index < a.length; index += 1) sum += (a[index] ?? 0) * (b[index] ?? 0);
  return sum;
}

/** 1 for a zero vector, since it is a divisor. */
function lengthOf(vector: Numbers): number {
  return Math.sqrt(dot(vector, vector)) || 1;
}
