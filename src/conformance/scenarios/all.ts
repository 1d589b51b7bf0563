import type { Scenario } from "../scenario.ts";
import { COMPACTIONS } from "./compactions.ts";
import { LIMITS, REFUSALS } from "./limits.ts";
import { MEMORIES } from "./memories.ts";
import { SESSIONS } from "./sessions.ts";
import { TURNS } from "./turns.ts";

/** Every scenario, in the order they are told. */
export const SCENARIOS: readonly Scenario[] = [
  ...TURNS,
  ...LIMITS,
  ...SESSIONS,
  ...COMPACTIONS,
  ...MEMORIES,
  ...REFUSALS,
];
