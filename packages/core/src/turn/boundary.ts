import { idleMsOf, paysNow } from "../compaction/economy.ts";
import { type BoundaryFacts, filling, isHeldBack, judgeBoundary, type Verdict } from "../compaction/policy.ts";
import type { Compacting } from "../compaction/prepare.ts";
import type { CompactionJob } from "../compaction/run-compaction.ts";
import { type CompactionTrigger, RECALL_OUTPUT } from "../contract/compaction.ts";
import { messageOf } from "../contract/error.ts";
import type { Clock } from "../ports/clock.ts";
import type { Compactor } from "../ports/compactor.ts";
import type { ModelClient, ToolSpec } from "../ports/model.ts";
import type { Hash, Placed } from "../state/context.ts";
import type { Ahead, SessionState } from "../state/session-state.ts";
import type { WholeState } from "../state/whole-state.ts";
import type { Approvals } from "./approval.ts";
import { readBudget, spentIn } from "./budget.ts";
import { addUsage, withCost } from "./cost.ts";
import type { Asking } from "./model-call.ts";
import type { BackgroundPreparation } from "./run.ts";
import { toolTokens } from "./tokens.ts";

interface AtBoundary {
  readonly state: SessionState;
  readonly model: ModelClient;
  readonly tools: ReadonlyMap<string, ToolSpec>;
  readonly skill?: string | undefined;
  readonly compacting: Compacting | undefined;
  readonly background?: BackgroundPreparation | undefined;
  readonly clock: Clock;
  readonly hash: Hash;
  /** The state with the whole transcript, which a compaction needs. */
  whole(): Promise<WholeState>;
  append: CompactionJob["append"];
}

const BYTES_PER_TOKEN = 4;

/** Decides whether to compact before the next call. `ahead` is the state that call would start from. */
export function judgeTurnBoundary(
  turn: Omit<AtBoundary, "append" | "hash" | "whole">,
  ahead: Ahead,
): Verdict | { readonly error: string } {
  const { state, compacting, model } = turn;
  if (compacting === undefined) return "not_due";
  const shown = () => [...state.shown, ...ahead.added];
  const facts = factsOf({ ...turn, compacting }, ahead, state.shown.length + ahead.added.length);
  const idleMs = idleMsOf(ahead, turn.clock.now());
  try {
    const verdict = judgeBoundary(facts, judgeFor(compacting, { state: ahead, model, idleMs, shown }));
    // While the context fits, the turn does not wait: the summary is made in the background and used once it is ready.
    return verdict === "due" && compacting.prepares && ahead.prepared === undefined ? "not_due" : verdict;
  } catch (thrown) {
    return { error: `the compactor failed: ${messageOf(thrown)}` };
  }
}

type Situated = Pick<AtBoundary, "model" | "tools"> & { readonly compacting: Compacting };

function factsOf(
  { compacting, model, tools }: Situated,
  state: Omit<SessionState, "shown">,
  messageCount: number,
): BoundaryFacts {
  const { cadence, lastInputTokens, shownTokens, shownMediaBytes, settings } = state;
  const last = Math.max(
    cadence.last_compaction_boundary_index ?? -1,
    cadence.last_compaction_attempt_boundary_index ?? -1,
  );
  return {
    lastInputTokens,
    messageCount,
    estimatedHistoryTokens: shownTokens,
    lastCompactionBoundaryIndex: last < 0 ? undefined : last,
    sessionBoundaryIndex: cadence.session_boundary_index,
    contextWindow: model.contextWindow,
    toolTokens: toolTokens(tools.values()),
    outputTokens: settings.max_tokens ?? 0,
    requestBytes: shownMediaBytes + shownTokens * BYTES_PER_TOKEN,
    minTurnsBetweenCompactions: compacting.minTurnsBetweenCompactions,
  };
}

/** Chooses who decides for a context that fits: the compactor, or the price. */
function judgeFor(
  compacting: Compacting,
  at: {
    readonly state: Omit<SessionState, "shown">;
    readonly model: ModelClient;
    readonly idleMs: number;
    shown(): readonly Placed[];
  },
): Pick<Compactor, "shouldCompact"> {
  const { compactor, minTurnsBetweenCompactions, pricedFrom } = compacting;
  if (!compacting.isByPrice) return compactor;
  return {
    shouldCompact: (context) => {
      const size = Math.max(context.lastInputTokens, context.estimatedHistoryTokens);
      if (size < pricedFrom || isHeldBack({ ...context, minTurnsBetweenCompactions })) return false;
      if (!compacting.mayExceed && size >= compacting.threshold) return true;
      return paysNow(at.state, compacting, { ...at, shown: at.shown() });
    },
  };
}

/** From this share of the window on, a summary is prepared whether or not it pays, because it will be needed soon. */
const NEARLY_FULL = 0.9;

/** Whether to prepare a compaction in the background, if the model will then have been idle for `idleMs`. */
export function isWorthPreparing(
  at: Pick<AtBoundary, "state" | "model" | "tools" | "compacting">,
  idleMs: number,
): boolean {
  const { state, compacting, model } = at;
  if (compacting?.prepares !== true || state.prepared !== undefined || state.isCompacting) return false;
  // An open call cannot end the covered range.
  if (state.openCalls.length > 0) return false;
  const facts = factsOf({ ...at, compacting }, state, state.shown.length);
  if (isHeldBack(facts) || !isWithinBudget(state, compacting, model)) return false;
  const size = Math.max(facts.lastInputTokens, facts.estimatedHistoryTokens);
  if (!compacting.isByPrice) return size >= compacting.prepareAt || isDue(compacting.compactor, facts);
  if (size < compacting.pricedFrom) return false;
  if (filling(facts) >= NEARLY_FULL) return true;
  return paysNow(state, compacting, { model, idleMs, shown: state.shown });
}

function isDue(compactor: Compactor, facts: BoundaryFacts): boolean {
  try {
    return compactor.shouldCompact(facts);
  } catch {
    // The boundary reports the compactor's failure.
    return false;
  }
}

/**
 * Evicts tool output before the next call where that is due; true if it did. `ahead` is the state of that call once
 * `save` has stored it. `isDue`: a compaction is due, which the eviction may make unnecessary.
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
  if (compacting?.evictFrom === undefined || ahead.cadence.session_boundary_index === 0) return false;
  if (size < evictFrom && !isDue) return false;
  // A summary that is ready or in progress describes the current context; evicting now would discard it.
  if (state.prepared !== undefined || turn.background?.isMaking() === true) return false;
  const { chooseEvictions, isTaskDone, runEviction } = await import("../compaction/evict.ts");
  const shown = [...state.shown, ...ahead.added];
  // Also before a summary is prepared: after the eviction it may not be needed.
  const isNeeded = isDue || (compacting.prepares && size >= compacting.prepareAt);
  if (!isNeeded && !isNewTurn && !isTaskDone({ ...ahead, shown })) return false;
  if (chooseEvictions({ ...ahead, shown }).length === 0) return false;
  // Output that the model may not read again must stay in the context.
  const { verdict } = await approvals.permit({ id: "", name: RECALL_OUTPUT, args: { seq: 1 } });
  if (verdict === "deny" || (verdict === "ask" && approvals.unattended !== undefined)) return false;
  await save();
  return runEviction({ state: await turn.whole(), compacting, asking, append });
}

/** Whether a summary fits into the session's remaining budgets. */
function isWithinBudget(
  {
    settings,
    shownTokens,
    ...used
  }: Pick<SessionState, "settings" | "usage" | "shownTokens" | "toolCallsUsed" | "delegated">,
  { compactor, curator }: Compacting,
  { prices }: ModelClient,
): boolean {
  if (curator !== undefined) return true;
  const { max_tokens, max_cost } = settings.budget_limits;
  const taken = { input_tokens: shownTokens, output_tokens: summaryTokensOf(compactor) };
  const spent = { usage: addUsage(spentIn(used).usage, withCost(taken, prices)), toolCalls: 0, elapsedMs: 0 };
  return readBudget({ max_tokens, max_cost }, spent, { at: 1, given: new Set() }).exhausted === undefined;
}

function summaryTokensOf(compactor: Compactor): number {
  try {
    return compactor.maxSummaryTokens();
  } catch {
    // The compaction that uses it fails and reports this; the turn goes on.
    return 0;
  }
}

type Why = Exclude<Verdict, "not_due"> | "refused";

/**
 * Compacts. Uses a prepared compaction; without one, waits only if the context does not fit. False if nothing could be
 * removed, it failed, or it was left to the background; events report which.
 */
export async function runDueCompaction(turn: AtBoundary, asking: Asking, why: Why): Promise<boolean> {
  const { compacting, skill, append } = turn;
  if (compacting === undefined) return false;
  const state = await turn.whole();
  const trigger: CompactionTrigger = why === "overflow" || why === "refused" ? "overflow" : "threshold";
  const begunMs = asking.clock.now();
  // A compaction that another process prepared is used even where preparing is off.
  if (compacting.prepares || state.prepared !== undefined) {
    const mustFit = why !== "due";
    if (mustFit && state.prepared === undefined) await turn.background?.settled(asking.signal);
    if (asking.signal.aborted) return false;
    if (state.prepared !== undefined) {
      const { publishPrepared } = await import("../compaction/published.ts");
      const { hash } = turn;
      const waiting = mustFit ? { waitingSinceMs: begunMs, tokensMax: roomFor(turn, why) } : {};
      const published = await publishPrepared({ state, compacting, asking, hash, trigger, append, ...waiting });
      if (published !== undefined) return true;
    }
    if (!mustFit && compacting.prepares) return false;
  }
  // Most sessions end before their first compaction, so its modules are loaded on demand.
  const { runCompaction } = await import("../compaction/run-compaction.ts");
  const tools = [...turn.tools.values()];
  const outcome = await runCompaction({ state, compacting, asking, trigger, begunMs, tools, skill, append });
  return outcome.compacted;
}

/** A provider refused a context that should fit by the estimate, so the estimate is wrong. */
const REFUSED_SHARE = 0.5;

/** The size limit of a context that did not fit. */
function roomFor({ state, model, tools }: AtBoundary, why: Why): number | undefined {
  if (why === "refused") return state.shownTokens * REFUSED_SHARE;
  const { contextWindow } = model;
  // The answer and the next results need room, too.
  return contextWindow === undefined ? undefined : contextWindow * NEARLY_FULL - toolTokens(tools.values());
}
