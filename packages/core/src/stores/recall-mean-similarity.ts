/** Vectors as they are kept: of any length, since only their directions count. */
type Numbers = ArrayLike<number>;

/** How alike two vectors are as seen from the middle of many. */
export type SimilarityFromMean = (vector: Numbers) => number;

/** Fewer have no middle: it would lie where one of them happens to be. */
export const MEAN_VECTORS_MIN = 64;

/**
 * The cosine between a question and vectors as seen from the middle of `all`: most of what the texts of one scope have in
 * common with a question they have in common with each other, and it would hide what tells them apart. Undefined where
 * they are too few.
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

/** Of a vector of nothing but zeros, 1: it is divided by. */
function lengthOf(vector: Numbers): number {
  return Math.sqrt(dot(vector, vector)) || 1;
}
