/** What tests draw from unless told otherwise: the same commit gives the same result. */
const FIXED_SEED = 20_261_117;

/**
 * The seed of this run. `RKAT_SEED=123` replays a run; `RKAT_SEED=fresh` draws one, which `vitest.config.ts` replaces by a
 * number that every worker shares and prints.
 */
export function testSeed(): number {
  return Number(process.env.RKAT_SEED ?? FIXED_SEED);
}
