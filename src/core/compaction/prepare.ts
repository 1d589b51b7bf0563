import type { Compaction, CompactionTrigger, CompactResult, SeqRange } from "../../contract/compaction.ts";
import type { Message } from "../../contract/message.ts";
import type { Clock } from "../../ports/clock.ts";
import type { CompactionHooks, CompactionResult, Compactor, Curator } from "../../ports/compactor.ts";
import type { Judge } from "../../ports/judge.ts";
import type { ModelClient } from "../../ports/model.ts";
import { asKept, messagesOf, type Placed } from "../context.ts";
import type { SessionState } from "../session-state.ts";
import { estimateTokens } from "../tokens.ts";
import { findPrunable } from "../transcript-text.ts";
import { CASCADE, cascadeRequests } from "./cascade.ts";
import { foldCandidate } from "./gates.ts";
import { judgeRequest } from "./model-judge.ts";
import { keepAll, keptOf, rangesOf, type Source } from "./plan.ts";
import { inheritedFrom, originalsOf, type Recover, recoverByExpanding, writeReceipt } from "./receipt.ts";
import { type Retained, retain } from "./retain.ts";
import { isSummary, summaryMessage, summaryWithRules } from "./shown-messages.ts";
import { type ExtractSummary, requestOf } from "./summarise.ts";
import { carryRules, inheritedRules } from "./user-rules.ts";

/** The strategy of a compactor that is not ours. */
export const CUSTOM = "custom";

/** How a session compacts: the capability, for this session and its model. */
export interface Compacting {
  readonly compactor: Compactor;
  readonly strategy: string;
  /** The size at which a context is compacted. */
  readonly threshold: number;
  readonly minTurnsBetweenCompactions: number;
  /** Whether large old tool results become references. */
  readonly prune: boolean;
  /** Whether what a summary invents is cut from it. */
  readonly cutInvented: boolean;
  /** Who judges what a summary claims; `model`: the session's own. Absent: nobody. */
  readonly judge: "model" | Judge | undefined;
  readonly curator: Curator | undefined;
  readonly hooks: CompactionHooks;
  readonly extract: ExtractSummary;
  /** Proves that what leaves the context can be found again; absent, by expanding. */
  readonly recovering: ((log: readonly Placed[], breathe: Clock["breathe"]) => Recover) | undefined;
}

/** A context at one moment, with everything that is decided before a model is asked. */
export interface Prepared {
  readonly source: Source;
  readonly transcript: readonly Placed[];
  readonly retained: Retained;
  /** What the summariser is shown: large old results as references. */
  readonly summarised: readonly Message[];
  /** What of it is discarded. */
  readonly leaving: readonly Message[];
  readonly tokensTarget: number;
}

const DRAFT_SUMMARY = "(the summary stands here)";

/** Looks at the context and decides what would stay; undefined with a reason when nothing would change. */
export function prepare(
  state: SessionState,
  compacting: Compacting,
  how: { trigger: CompactionTrigger; contextWindow: number | undefined },
): Prepared | { readonly nothing: string } {
  const transcript = [...state.transcript];
  const logged = new Set(transcript);
  const seqs = new Set(transcript.map(({ seq }) => seq));
  const shown = [...state.shown];
  // A message that is shown pruned or simplified is another object with the seq of the one in the log.
  const source: Source = { shown, isLogged: (placed) => logged.has(placed) || seqs.has(placed.seq) };
  const tokensTarget = targetOf(state.shownTokens, how);
  const retained = retainFrom(
    { state, transcript, source, tokensTarget, trigger: how.trigger },
    compacting,
    DRAFT_SUMMARY,
  );
  if (retained.plan.discarded.length === 0 && !prunesMore(state, retained)) {
    return { nothing: "there is nothing to take out: every turn is among the recent ones that are kept" };
  }
  const gone = estimateTokens(retained.plan.discarded.map(({ message }) => message));
  if (retained.plan.discarded.length > 0 && gone <= INTRODUCTION_TOKENS) {
    return { nothing: "what could be taken out is shorter than the shortest summary" };
  }
  const isOurs = compacting.strategy !== CUSTOM && compacting.curator === undefined;
  const summarised = isOurs ? forSummary(shown, compacting) : structuredClone(forSummary(shown, compacting));
  const discarded = new Set(retained.plan.discarded);
  const leaving = shown.flatMap((placed, at) => (discarded.has(placed) ? summarised.slice(at, at + 1) : []));
  return { source, transcript, retained, summarised, leaving, tokensTarget };
}

/** What a summary takes before it says anything. */
const INTRODUCTION_TOKENS = estimateTokens([summaryMessage({ summary: "", created_at: "", compaction_id: "" })]);

interface Situation {
  readonly state: SessionState;
  readonly transcript: readonly Placed[];
  readonly source: Source;
  readonly trigger: CompactionTrigger;
  readonly tokensTarget: number;
}

/** What stays once the summary is known. A context that only shows results as references keeps everything else. */
export function retainFrom(situation: Situation, compacting: Compacting, summary: string): Retained {
  const { state, transcript, source, trigger, tokensTarget } = situation;
  const { compactor, prune } = compacting;
  const standing = state.compactions.findLast((record) => !record.undone);
  const retained = retain({
    source,
    draft: rebuild(
      compacting,
      source.shown.map(({ message }) => message),
      summary,
    ),
    draftSummary: summary,
    pins: state.pins,
    transcript,
    trigger,
    prunedBefore: standing?.body.pruned ?? [],
    prune,
    tokensTarget,
    summaryTokens: compactor.maxSummaryTokens(),
  });
  return retained.plan.discarded.length > 0 ? retained : { ...retained, plan: keepAll(source) };
}

/** Somebody else's compactor is given copies: what it does to them must not reach the session. */
function rebuild({ compactor, strategy }: Compacting, messages: readonly Message[], summary: string): CompactionResult {
  if (strategy !== CUSTOM) return compactor.rebuildHistory(messages, summary);
  const originals = new Map(messages.map((message) => [structuredClone(message), message]));
  const result = compactor.rebuildHistory([...originals.keys()], summary);
  const own = (message: Message): Message => originals.get(message) ?? message;
  return { messages: result.messages.map(own), discarded: result.discarded.map(own) };
}

const WINDOW_TARGET_SHARE = 0.7;
/** Where the provider says that a context is too long although the estimate fits, the estimate is wrong. */
const ESTIMATE_TARGET_SHARE = 0.5;

function targetOf(shownTokens: number, { contextWindow }: { contextWindow: number | undefined }): number {
  const byEstimate = shownTokens * ESTIMATE_TARGET_SHARE;
  return contextWindow === undefined
    ? byEstimate
    : Math.min(contextWindow * WINDOW_TARGET_SHARE, Math.max(byEstimate, 1));
}

function prunesMore({ compactions }: SessionState, { pruned }: Retained): boolean {
  const standing = compactions.findLast((record) => !record.undone);
  const before = new Set((standing?.body.pruned ?? []).map(({ seq, tool_use_id }) => `${seq} ${tool_use_id}`));
  return pruned.some(({ seq, tool_use_id }) => !before.has(`${seq} ${tool_use_id}`));
}

/** A result larger than this tells a summariser no more than its beginning and end do. */
const SUMMARISED_RESULT_TOKENS_MAX = 2_000;

function forSummary(shown: readonly Placed[], { prune }: Compacting): readonly Message[] {
  if (!prune) return shown.map(({ message }) => message);
  const pruned = [...findPrunable(shown, { tokensMin: SUMMARISED_RESULT_TOKENS_MAX, keepTurns: 1 })];
  return shown.map((placed) => asKept(placed, { pruned, reshape: "as_is" }));
}

/** What is kept and discarded, in seqs. */
export function rangesIn({ retained, transcript }: Prepared): { kept: SeqRange[]; discarded: SeqRange[] } {
  const kept = retained.plan.items.flatMap((item) => ("kept" in item ? [item.kept] : []));
  return { kept: rangesOf(kept, transcript), discarded: rangesOf(retained.plan.discarded, transcript) };
}

const PREVIEW = "preview";
/** What a summary usually takes of what it is of; the longest allowed is many times a short history. */
const SUMMARY_SHARE = 0.2;

/**
 * What compacting now would keep, drop and cost. No model is asked, so there is no summary: the receipt says what one
 * would have to carry, `tokens_after` counts one of the usual length, and the cost the longest one allowed.
 */
export async function previewCompaction(
  state: SessionState,
  compacting: Compacting,
  by: { model: ModelClient; clock: Clock; instructions: string | undefined },
): Promise<CompactResult> {
  const { model, clock, instructions } = by;
  const { compactor, strategy } = compacting;
  const prepared = prepare(state, compacting, {
    trigger: "manual",
    contextWindow: model.contextWindow,
  });
  if ("nothing" in prepared) return { compacted: false, reason: prepared.nothing };
  const { source, transcript, retained } = prepared;
  const { plan, pruned, pinned } = retained;
  const hasSummary = plan.discarded.length > 0;
  const earlier = source.shown.map(({ message }) => message).find(isSummary)?.compaction_id;
  const { rules } = await carryRules({
    gone: plan.discarded,
    inherited: hasSummary ? inheritedRules(state, earlier) : [],
    summary: "",
    summaryTokensMax: compactor.maxSummaryTokens(),
    breathe: clock.breathe,
  });
  const created_at = new Date(clock.now()).toISOString();
  const summary = { summary: "", rules, created_at, compaction_id: PREVIEW };
  const seq = state.lastSeq + 1;
  const shown = foldCandidate(
    { plan, pruned, reshape: "as_is" },
    { transcript, compactions: state.compactions, pins: state.pins, seq, summary },
  );
  const summaryTokensMax = hasSummary ? compactor.maxSummaryTokens() : 0;
  const leavingTokens = estimateTokens(messagesOf(plan.discarded));
  const summaryTokens = Math.min(summaryTokensMax, Math.ceil(leavingTokens * SUMMARY_SHARE));
  const receipt = await writeReceipt({
    gone: originalsOf(transcript, { discarded: plan.discarded, pruned }),
    inherited: inheritedFrom(state, earlier),
    saved: keptOf(plan).filter((placed) => retained.saved.has(placed)),
    summary: summaryWithRules(summary),
    tail: messagesOf(keptOf(plan).filter((placed) => !pinned.has(placed))),
    pinned: messagesOf(keptOf(plan).filter((placed) => pinned.has(placed))),
    pruned,
    invented: [],
    inventedCut: false,
    unverified: [],
    breathe: clock.breathe,
    recover: (compacting.recovering ?? recoverByExpanding)(transcript, clock.breathe),
  });
  const compaction: Compaction = {
    compaction_id: PREVIEW,
    seq: 0,
    created_at,
    strategy,
    trigger: "manual",
    summary_by: hasSummary ? "model" : "none",
    model: model.modelId,
    notes: [...retained.notes],
    summary: "",
    summary_tokens: 0,
    messages_before: source.shown.length,
    messages_after: shown.length,
    tokens_before: estimateTokens(messagesOf(source.shown)),
    tokens_after: estimateTokens(messagesOf(shown)) + summaryTokens,
    ...rangesIn(prepared),
    reshape: "as_is",
    receipt,
    ...(rules.length === 0 ? {} : { rules }),
    usage: { input_tokens: 0, output_tokens: 0 },
    cadence: state.cadence,
    undone: false,
    expanded: [],
  };
  const asked = { asking: { clock, model }, compactor, shown: prepared.summarised, instructions };
  const isCascade = strategy === CASCADE && compacting.curator === undefined;
  const writing = isCascade ? cascadeRequests({ ...asked, leaving: prepared.leaving }) : [requestOf(asked)];
  const judging = compacting.judge === "model" ? [judgeRequest([], messagesOf(source.shown), { clock, model })] : [];
  // A judge reads the summary, too.
  const readTokens = [...writing, ...judging].reduce((sum, { messages }) => sum + estimateTokens(messages), 0);
  const cost = {
    input_tokens: hasSummary ? readTokens + judging.length * summaryTokensMax : 0,
    max_output_tokens: hasSummary ? judging.reduce((sum, one) => sum + one.maxOutputTokens, summaryTokensMax) : 0,
  };
  return { compacted: false, compaction: { ...compaction, cost } };
}
