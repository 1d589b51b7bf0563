import { type CompactionTrigger, RECALL_OUTPUT } from "../contract/compaction.ts";
import { messageOf } from "../contract/error.ts";
import type { ModelClient, ToolSpec } from "../ports/model.ts";
import type { Approvals } from "./approval.ts";
import { judgeBoundary, type Verdict } from "./compaction/policy.ts";
import type { Compacting } from "./compaction/prepare.ts";
import type { CompactionJob } from "./compaction/run-compaction.ts";
import type { Asking } from "./model-call.ts";
import type { Ahead, SessionState } from "./session-state.ts";
import { toolTokens } from "./tokens.ts";

/** What a boundary knows of its turn. */
interface AtBoundary {
  readonly state: SessionState;
  readonly model: ModelClient;
  readonly tools: ReadonlyMap<string, ToolSpec>;
  readonly skill?: string | undefined;
  readonly compacting: Compacting | undefined;
  append: CompactionJob["append"];
}

const BYTES_PER_TOKEN = 4;

/** Whether the context is to be compacted before the next call; `ahead` is the state that call would be made in. */
export function judgeTurnBoundary(turn: AtBoundary, ahead: Ahead): Verdict | { readonly error: string } {
  const { state, compacting, model, tools } = turn;
  if (compacting === undefined) return "not_due";
  const { cadence, lastInputTokens, added, shownTokens, shownMediaBytes, settings } = ahead;
  const last = Math.max(
    cadence.last_compaction_boundary_index ?? -1,
    cadence.last_compaction_attempt_boundary_index ?? -1,
  );
  const facts = {
    lastInputTokens,
    messageCount: state.shown.length + added.length,
    estimatedHistoryTokens: shownTokens,
    lastCompactionBoundaryIndex: last < 0 ? undefined : last,
    sessionBoundaryIndex: cadence.session_boundary_index,
    contextWindow: model.contextWindow,
    toolTokens: toolTokens(tools.values()),
    outputTokens: settings.max_tokens ?? 0,
    requestBytes: shownMediaBytes + shownTokens * BYTES_PER_TOKEN,
    minTurnsBetweenCompactions: compacting.minTurnsBetweenCompactions,
  };
  try {
    return judgeBoundary(facts, compacting.compactor);
  } catch (thrown) {
    return { error: `the compactor failed: ${messageOf(thrown)}` };
  }
}

/**
 * Lets tool output leave the context before the next call, where that is due; true where it did. `ahead` is the state
 * that call would be made in, once `save` has saved it; `isDue`: a compaction is, which this may make needless.
 */
export async function evictIfDue(
  turn: AtBoundary & { readonly approvals: Approvals },
  at: { readonly ahead: Ahead; readonly isNewTurn: boolean; readonly isDue: boolean },
  asking: Asking,
  save: () => Promise<void>,
): Promise<boolean> {
  const { state, compacting, append, approvals } = turn;
  const { ahead, isNewTurn, isDue } = at;
  const { evictFrom = Number.POSITIVE_INFINITY } = compacting ?? {};
  const size = Math.max(ahead.lastInputTokens, ahead.shownTokens);
  if (compacting === undefined || ahead.cadence.session_boundary_index === 0 || size < evictFrom) return false;
  const { chooseEvictions, isTaskDone } = await import("./compaction/evict.ts");
  const shown = [...state.shown, ...ahead.added];
  if (!isDue && !isNewTurn && !isTaskDone({ ...ahead, shown })) return false;
  if (chooseEvictions({ ...ahead, shown }).length === 0) return false;
  // What the model may not read again must not be taken from it.
  const { verdict } = await approvals.permit({ id: "", name: RECALL_OUTPUT, args: { seq: 1 } });
  if (verdict === "deny" || (verdict === "ask" && approvals.unattended !== undefined)) return false;
  await save();
  const { runEviction } = await import("./compaction/run-eviction.ts");
  return runEviction({ state, compacting, asking, append });
}

/** Compacts now; false when there was nothing to take out or it failed, which the events tell. */
export async function runDueCompaction(turn: AtBoundary, asking: Asking, trigger: CompactionTrigger): Promise<boolean> {
  const { state, compacting, skill, append } = turn;
  if (compacting === undefined) return false;
  // Most sessions end before they are compacted, so what only a compaction needs is loaded by the first.
  const { runCompaction } = await import("./compaction/run-compaction.ts");
  const outcome = await runCompaction({
    state,
    compacting,
    asking,
    trigger,
    tools: [...turn.tools.values()],
    skill,
    append,
  });
  return outcome.compacted;
}
