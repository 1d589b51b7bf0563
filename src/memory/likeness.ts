import type { Embedder } from "../ports/embedder.ts";

/** Turns the cosines of a question into likeness: 0 for as near as anything is, 1 for the same. */
export type Likeness = (cosine: number) => number;

/**
 * Measures what a model's cosine means by texts that have nothing to do with any question: models differ, and for some
 * two strangers are at 0.7.
 */
export function createLikeness(embedder: Embedder): (question: Float32Array, signal: AbortSignal) => Promise<Likeness> {
  let strangers: Promise<readonly Float32Array[]> | undefined;
  return async (question, signal) => {
    strangers ??= embedder.embed(STRANGERS, "passage", signal);
    try {
      const cosines = (await strangers).map((vector) => dot(question, vector));
      const mean = cosines.reduce((sum, cosine) => sum + cosine, 0) / cosines.length;
      return (cosine) => curve((cosine - mean) / Math.max(1e-6, 1 - mean));
    } catch (error) {
      strangers = undefined;
      throw error;
    }
  };
}

const STRANGERS = [
  "The glacier has lost eleven metres of ice since last summer.",
  "Whisk the egg whites until they hold soft peaks.",
  "The court adjourned the hearing until the witness arrives.",
  "Our goalkeeper saved two penalties in the second half.",
  "The function returns a list sorted by the second column.",
  "She tuned the violin and waited for the conductor.",
  "Inflation fell for the third month in a row.",
  "The bus to the harbour leaves from platform nine.",
  "Prune the roses before the first warm days.",
  "I can't believe how quickly the weekend went by!",
  "The vaccine is stored between two and eight degrees.",
  "He painted the fence blue and the gate white.",
];

/** Halfway between strangers and the same text is a clear match. */
function curve(nearness: number): number {
  return Math.min(1, Math.max(0, (nearness - NEARNESS_MIN) / (NEARNESS_FULL - NEARNESS_MIN)));
}

const NEARNESS_MIN = 0.2;
const NEARNESS_FULL = 0.8;

function dot(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (const [index, value] of a.entries()) sum += value * (b[index] ?? 0);
  return sum;
}
