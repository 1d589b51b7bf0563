import { expect } from "vitest";
import { byEffort } from "../support/effort.ts";
import { testSeed } from "../support/seed.ts";
import { type Attack, type AttackOptions, GROWN_BYTES_MAX } from "./attack.ts";

// A failure is replayed with RKAT_SEED; `bench/hostile.ts` sends 20,000 to each surface.
export const seed = testSeed();
export const INPUTS = Number(process.env.RKAT_HOSTILE_INPUTS ?? byEffort({ quick: 300, usual: 3_000, full: 20_000 }));
export const TIMEOUT_MS = 600_000;

/** Attacks a surface, and expects that nothing came of it. */
export async function expectHarmless(
  attack: (options: AttackOptions) => Promise<Attack>,
  inputs = INPUTS,
): Promise<void> {
  const { faults, leaked, grownBytes, outcomes } = await attack({ seed, inputs });
  const replay = `RKAT_SEED=${seed} RKAT_HOSTILE_INPUTS=${INPUTS} npx vitest run test/hostile`;
  expect(faults, replay).toEqual([]);
  expect(leaked, replay).toEqual({});
  expect(grownBytes, replay).toBeLessThan(GROWN_BYTES_MAX);
  // An attack in which nothing gets through would prove little. On some surfaces one input in twenty is answered; a fifth
  // of that is so far below the mean that no seed falls under it by chance.
  expect(outcomes.answered, replay).toBeGreaterThan(inputs / 100);
  // An object's fields are unknown, no more.
  expect(({} as Record<string, unknown>).polluted, replay).toBeUndefined();
}
