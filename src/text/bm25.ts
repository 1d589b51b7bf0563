/** The weight of a term by how many of the chunks contain it. */
export function rarity(holders: number, chunks: number): number {
  return Math.log(1 + (chunks - holders + 0.5) / (holders + 0.5));
}

/**
 * k1 and b of BM25, lower than the usual 1.2 and 0.75: those suit articles, where long ones repeat themselves. In a
 * message one mention is enough, and a longer message says more.
 */
export const SATURATION = 0.9;
export const LENGTH_SHARE = 0.4;
