/**
 * A count for the effort of this run. `npm test` takes `quick`, or `usual` where that is cheap enough;
 * `npm run test:slow` sets RKAT_TEST_EFFORT=usual; RKAT_TEST_EFFORT=full takes hours.
 */
export function byEffort<T>(counts: { readonly quick?: T; readonly usual: T; readonly full: T }): T {
  const effort = process.env.RKAT_TEST_EFFORT;
  if (effort === "full") return counts.full;
  return effort === "usual" ? counts.usual : (counts.quick ?? counts.usual);
}
