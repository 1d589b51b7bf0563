import type { Entry, EntryBodyOf, TurnSetup } from "../contract/entry.ts";
import { defined } from "../contract/json.ts";
import type { GoalPhase, GoalRecord, GoalState } from "../contract/wire/goal.ts";
import { spentIn } from "../turn/budget.ts";
import { nanosOf } from "../turn/cost.ts";

/** The newest goal of a session, as its log says. */
export interface GoalRun {
  readonly record: GoalRecord;
  /** The inputs of the turn that began it, which are those of its further turns. */
  readonly setup: TurnSetup;
  /** Seqs of the turn that began it, and of the newest turn before it ended. */
  readonly seq: number;
  readonly turnSeq: number;
  readonly startedAtMs: number;
  /** What the session had cost before it, in billionths of a US dollar. */
  readonly nanosBefore: number;
  readonly turns: number;
  /** Whether the newest turn was judged. */
  readonly isJudged: boolean;
  /** Seq of the end of the newest turn if that failed, else 0; whether it ended because a budget was spent. */
  readonly failedSeq: number;
  readonly isSpent: boolean;
  readonly judged: Recorded<"goal_judged"> | undefined;
  readonly ended: Recorded<"goal_ended"> | undefined;
}

interface Recorded<K extends "goal_judged" | "goal_ended"> {
  readonly seq: number;
  readonly body: EntryBodyOf<K>;
}

type GoalPart = Parameters<typeof spentIn>[0] & { readonly goal: GoalRun | undefined };

/** The goal after an entry, before the rest of the state knows that entry. */
export function advanceGoal(state: GoalPart, { body, seq, timestamp_ms }: Entry): GoalRun | undefined {
  const { goal } = state;
  if (body.kind === "turn_opened" || body.kind === "turn_continued") {
    const { setup = {} } = body;
    const opened = { turnSeq: seq, isJudged: false, failedSeq: 0, isSpent: false };
    if (setup.goal === undefined)
      return isActive(goal) ? { ...goal, ...opened, turns: goal.turns + (isTurnOf(goal, setup) ? 1 : 0) } : goal;
    const { cost } = spentIn(state).usage;
    const begun = { startedAtMs: timestamp_ms, nanosBefore: cost === undefined ? 0 : nanosOf(cost) };
    return { record: setup.goal, setup, seq, ...opened, ...begun, turns: 1, judged: undefined, ended: undefined };
  }
  if (!isActive(goal)) return goal;
  switch (body.kind) {
    case "turn_closed":
      if (body.end.status === "failed") return { ...goal, failedSeq: seq };
      return { ...goal, isSpent: body.end.cause === "budget_exhausted" };
    case "goal_judged":
      return { ...goal, isJudged: true, judged: { seq, body } };
    case "goal_ended":
      return { ...goal, ended: { seq, body } };
    default:
      return goal;
  }
}

export function isActive(goal: GoalRun | undefined): goal is GoalRun {
  return goal !== undefined && goal.ended === undefined;
}

/** The id of the message that begins a further turn of a goal. */
export function turnIdOf({ record, turns }: GoalRun): string {
  return `${record.goal_id}.${turns + 1}`;
}

export function isTurnOf({ record }: GoalRun, { inbox_id = "" }: TurnSetup): boolean {
  return inbox_id.startsWith(`${record.goal_id}.`);
}

export function describeGoal({ record, turns, judged, ended }: GoalRun): GoalState {
  const phase: GoalPhase = ended?.body.phase ?? "active";
  return { ...record, phase, turns, ...defined({ reason: ended?.body.reason ?? judged?.body.reason }) };
}
