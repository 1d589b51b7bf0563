import type { Compaction, CompactResult } from "../contract/compaction.ts";
import type { Clock } from "../ports/clock.ts";
import type { ModelClient } from "../ports/model.ts";
import { messagesOf } from "../state/context.ts";
import type { WholeState } from "../state/whole-state.ts";
import { estimateTokens } from "../turn/tokens.ts";
import { economyOf, usualSummaryTokens } from "./economy.ts";
import { foldCandidate } from "./gates.ts";
import { judgeRequest } from "./ground.ts";
import { keptOf } from "./plan.ts";
import { type Compacting, prepare, rangesIn } from "./prepare.ts";
import { inheritedFrom, originalsOf, recoverByExpanding, workerFor, writeReceipt } from "./receipt.ts";
import { CASCADE, isSummary, summaryWithRules } from "./shown-messages.ts";
import { cascadeRequests, requestOf } from "./summarise.ts";
import { carryRules, inheritedRules } from "./user-rules.ts";

const PREVIEW = "preview";

/**
 * What compacting now would keep, drop and cost. No model is called, so there is no summary: the receipt lists what one
 * would have to contain, `tokens_after` assumes one of the usual length, and the cost the longest one.
 */
export async function previewCompaction(
  state: WholeState,
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
    gone: originalsOf(transcript, { discarded: plan.discarded, pruned: [] }),
    inherited: hasSummary ? inheritedRules(state, earlier) : [],
    summary: "",
    summaryTokensMax: compactor.maxSummaryTokens(),
    yieldToEventLoop: clock.yieldToEventLoop,
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
  const summaryTokens = usualSummaryTokens(compacting, leavingTokens);
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
    yieldToEventLoop: clock.yieldToEventLoop,
    recover: (compacting.recovering ?? recoverByExpanding)(transcript, clock.yieldToEventLoop),
    ...workerFor(compacting, transcript, new AbortController().signal),
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
  // A native compaction reads the discarded messages, and may write as much as a summary.
  const native = compacting.native && model.compaction !== undefined ? [estimateTokens(prepared.leaving)] : [];
  const nativeTokens = native.reduce((sum, tokens) => sum + tokens, 0);
  const longest = summaryTokensMax * (1 + native.length);
  const cost = {
    input_tokens: hasSummary ? readTokens + judging.length * summaryTokensMax + nativeTokens : 0,
    max_output_tokens: hasSummary ? judging.reduce((sum, one) => sum + one.maxOutputTokens, longest) : 0,
  };
  const usage = { input_tokens: cost.input_tokens, output_tokens: summaryTokens };
  const economy = economyOf(state, compacting, { model, clock, made: { ...compaction, usage } });
  return { compacted: false, compaction: { ...compaction, cost, ...(economy === undefined ? {} : { economy }) } };
}
