import { hasPrice } from "../compaction/economy.ts";
import { COMPACTION_DEFAULTS, DefaultCompactor, requireReachable, thresholdFor } from "../compaction/policy.ts";
import { type Compacting, CUSTOM } from "../compaction/prepare.ts";
import type { Reading } from "../compaction/reading.ts";
import type { ExtractSummary } from "../compaction/summarise.ts";
import type { CompactionDefaults, CompactionSettings } from "../contract/compaction.ts";
import type { SessionSettings } from "../contract/session.ts";
import type { CompactionHooks, Compactor, Curator, Judge } from "../ports/compactor.ts";
import type { ModelClient, ToolSpec } from "../ports/model.ts";
import { estimateTokens, toolTokens } from "../turn/tokens.ts";

/** The capability `session-compaction`, for all sessions of a runtime. */
export interface CompactionPart {
  /** The configured values; absent ones follow from the model or the defaults. */
  readonly settings: CompactionDefaults;
  readonly judge: "model" | Judge | undefined;
  readonly compactor: Compactor | undefined;
  readonly curator: Curator | undefined;
  readonly hooks: CompactionHooks;
  readonly extract: ExtractSummary;
  readonly reading?: Reading;
  /** Whether the process ends with its turn, so that no summary is prepared in the background. */
  readonly isShortLived?: boolean;
}

/** The share of the threshold from which tool output leaves the context. */
const EVICT_AT = 0.6;
/** The share of the threshold at which a summary is prepared, if enabled. */
const PREPARE_AT = 0.8;

/** The share of a derived threshold at which the price is considered: of less, a summary saves cents and costs detail. */
const PRICED_AT = 0.1;

/** A summary takes at most this share of a threshold derived from the model's window. */
const SUMMARY_SHARE_MAX = 0.25;

/** How a session compacts with a model of this window and price. */
export function compactingFor(
  part: CompactionPart,
  session: Pick<SessionSettings, "compaction">,
  model: Pick<ModelClient, "contextWindow" | "prices">,
): Compacting {
  const settings = { ...part.settings, ...session.compaction };
  const { auto_compact_threshold: explicit, policy = explicit === undefined ? "economy" : "threshold" } = settings;
  const threshold = thresholdFor(explicit, model.contextWindow, policy === "threshold" || hasPrice(model));
  const minTurnsBetweenCompactions =
    settings.min_turns_between_compactions ?? COMPACTION_DEFAULTS.minTurnsBetweenCompactions;
  const compactor = new DefaultCompactor({
    autoCompactThreshold: threshold,
    recentTurnBudget: settings.recent_turn_budget ?? COMPACTION_DEFAULTS.recentTurnBudget,
    maxSummaryTokens: summaryTokens(settings, threshold),
    minTurnsBetweenCompactions,
  });
  const { prepare = settings.policy === "economy", prepare_at = PREPARE_AT } = settings;
  const { strategy = "summary", prune_tool_results = true, cut_invented = true, native = false } = settings;
  return {
    isByPrice: policy === "economy" && part.compactor === undefined && hasPrice(model),
    pricedFrom: Math.floor(threshold * (explicit === undefined ? PRICED_AT : prepare_at)),
    mayExceed: explicit !== undefined,
    prepares: prepare && part.isShortLived !== true,
    prepareAt: Math.floor(threshold * prepare_at),
    compactor: part.compactor ?? compactor,
    strategy: part.compactor === undefined ? strategy : CUSTOM,
    threshold,
    minTurnsBetweenCompactions,
    evictFrom: evicts(part, session) ? threshold * (settings.evict_at ?? EVICT_AT) : undefined,
    prune: prune_tool_results,
    workStateTokens: workStateTokens(settings, threshold),
    cutInvented: cut_invented,
    judge: part.judge,
    native,
    curator: part.curator,
    hooks: part.hooks,
    extract: part.extract,
    recovering: undefined,
    reading: part.reading,
  };
}

/** Whether tool output may leave a session's context; not by default if the user switched references off. */
export function evicts({ settings }: CompactionPart, { compaction }: Pick<SessionSettings, "compaction">): boolean {
  return compaction?.evict ?? settings.evict ?? settings.prune_tool_results ?? true;
}

const WORK_STATE_TOKENS = 600;
const WORK_STATE_SHARE_MAX = 0.1;

export function workStateTokens({ work_state_tokens }: CompactionSettings, threshold: number): number {
  return work_state_tokens ?? Math.min(WORK_STATE_TOKENS, Math.floor(threshold * WORK_STATE_SHARE_MAX));
}

/** A small model's summary must leave room for its input; an explicit size is used unchanged. */
function summaryTokens(settings: CompactionSettings, threshold: number): number {
  const { max_summary_tokens, auto_compact_threshold } = settings;
  if (max_summary_tokens !== undefined) return max_summary_tokens;
  const { maxSummaryTokens } = COMPACTION_DEFAULTS;
  if (auto_compact_threshold !== undefined) return maxSummaryTokens;
  return Math.max(1, Math.min(maxSummaryTokens, Math.floor(threshold * SUMMARY_SHARE_MAX)));
}

/** Rejects an explicit threshold that such a session can never meet. */
export function requireReachableFor(
  part: CompactionPart,
  session: Pick<SessionSettings, "compaction" | "system_prompt">,
  keeps: {
    tools: Iterable<ToolSpec>;
    pinTokens: number;
    contextWindow?: number | undefined;
    /** Also for a derived threshold. */
    isAlways?: true;
  },
): void {
  const settings = { ...part.settings, ...session.compaction };
  const { auto_compact_threshold, max_summary_tokens } = settings;
  const isAskedFor = (keeps.isAlways ?? auto_compact_threshold ?? max_summary_tokens) !== undefined;
  if (!isAskedFor || part.compactor !== undefined) return;
  const threshold = thresholdFor(auto_compact_threshold, keeps.contextWindow, true);
  const content = session.system_prompt ?? "";
  requireReachable(threshold, {
    system: content === "" ? 0 : estimateTokens([{ role: "system", content, created_at: "" }]),
    tools: toolTokens(keeps.tools),
    pins: keeps.pinTokens,
    summary: summaryTokens(settings, threshold),
    workState: settings.work_state_tokens ?? 0,
  });
}
