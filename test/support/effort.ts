/** `RKAT_TEST_EFFORT=full` runs the large counts, which takes hours; without it a share of them is run. */
export function byEffort<T>(counts: { readonly usual: T; readonly full: T }): T {
  return process.env.RKAT_TEST_EFFORT === "full" ? counts.full : counts.usual;
}
