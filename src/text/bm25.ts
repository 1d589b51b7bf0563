/** How much it tells that a chunk holds a term, by how many of the chunks looked at do. */
export function rarity(holders: number, chunks: number): number {
  return Math.log(1 + (chunks - holders + 0.5) / (holders + 0.5));
}

/**
 * k1 and b of BM25, lower than the usual 1.2 and 0.75: those suit articles, where a long one repeats itself. A message
 * that says a thing once has said it, and a longer one says more.
 */
export const SATURATION = 0.9;
export const LENGTH_SHARE = 0.4;
