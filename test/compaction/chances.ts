import type { Random } from "../support/random-history.ts";

/** What is drawn from a stream of numbers, so that a seed decides it. */
export function chance(random: Random, share: number): boolean {
  return random() < share;
}

export function below(random: Random, bound: number): number {
  return Math.floor(random() * bound);
}

/** One of a list, undefined when it is empty. */
export function pick<T>(random: Random, from: readonly T[]): T | undefined {
  return from[below(random, from.length)];
}
