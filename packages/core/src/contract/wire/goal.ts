import { cliFlag, limits, positive } from "../input.ts";
import { z } from "../schema.ts";

const wanted = { error: "write a text of 1 to 10000 characters" };
const Words = z.string(wanted).trim().min(1, wanted).max(10_000, wanted);

const Until = z
  .union(
    [
      z.strictObject({
        command: cliFlag("--until <command>", Words.describe("reached when this command of the shell exits with 0")),
      }),
      z.strictObject({
        sentence: cliFlag("--until-true <sentence>", Words.describe("reached when a model judges that this holds")),
      }),
    ],
    { error: 'write {"command": "npm test"} or {"sentence": "the report names every customer"}' },
  )
  .describe("the condition: {command} or {sentence}");

/** What a turn may ask for beside its prompt: further turns until a condition holds. */
export const Goal = z.strictObject({
  until: Until,
  max_turns: cliFlag("--goal-turns <n>", positive.default(20).describe("turns, the first one included")),
  max_cost: cliFlag(
    "--goal-cost <usd>",
    limits.max_cost.describe("US dollars for its turns and judgements, such as 0.5"),
  ),
  max_duration: cliFlag(
    "--goal-time <time>",
    limits.max_duration.describe("time from its beginning on, such as 30m, 2h"),
  ),
});
export type Goal = z.infer<typeof Goal>;

const recorded = {
  goal_id: z.string().describe("its id"),
  until: Until,
  max_turns: z.number().int().describe("the limit of turns"),
  max_cost: z.number().optional().describe("the limit in US dollars"),
  max_duration_ms: z.number().optional().describe("the limit of time, in milliseconds"),
};
/** A goal in the log. */
export const GoalRecord = z.object(recorded);
export type GoalRecord = z.infer<typeof GoalRecord>;

export const GOAL_PHASES = [
  "active",
  "reached",
  "budget",
  "no_progress",
  "paused",
  "failed",
  "interrupted",
  "cancelled",
] as const;
export const GoalPhase = z
  .enum(GOAL_PHASES)
  .describe(
    "active, or how it ended: reached · budget, a limit was met · no_progress, the same judgement three times and nothing new done · paused, its caller may not run turns now · failed · interrupted · cancelled",
  );
export type GoalPhase = z.infer<typeof GoalPhase>;
export const EndPhase = GoalPhase.exclude(["active"]).describe("how it ended");

/** A goal as callers read it. */
export const GoalState = z.object({
  ...recorded,
  phase: GoalPhase,
  turns: z.number().int().nonnegative().describe("its turns so far"),
  reason: z.string().optional().describe("why it ended, or the newest judgement; absent before the first"),
});
export type GoalState = z.infer<typeof GoalState>;
