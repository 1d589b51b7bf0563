import type { CompactionSettings } from "../../contract/compaction.ts";
import type { SessionSettings } from "../../contract/session.ts";
import { COMPACTION_DEFAULTS, DefaultCompactor } from "../../core/compaction/default-compactor.ts";
import { thresholdFor } from "../../core/compaction/policy.ts";
import { type Compacting, CUSTOM } from "../../core/compaction/prepare.ts";
import { requireReachable } from "../../core/compaction/reachability.ts";
import type { ExtractSummary } from "../../core/compaction/summarise.ts";
import { estimateTokens, toolTokens } from "../../core/tokens.ts";
import type { CompactionHooks, Compactor, Curator } from "../../ports/compactor.ts";
import type { Judge } from "../../ports/judge.ts";
import type { ToolSpec } from "../../ports/model.ts";

/** The capability `session-compaction`, for every session of a runtime. */
export interface CompactionPart {
  /** What was configured; what is absent follows from the model or the defaults. */
  readonly settings: CompactionSettings;
  readonly strategy: string;
  readonly pruneToolResults: boolean;
  readonly cutInvented: boolean;
  readonly judge: "model" | Judge | undefined;
  readonly compactor: Compactor | undefined;
  readonly curator: Curator | undefined;
  readonly hooks: CompactionHooks;
  readonly extract: ExtractSummary;
}

/** A summary takes no more than this share of a threshold that follows from the model's window. */
const SUMMARY_SHARE_MAX = 0.25;

/** How a session compacts with a model of this window. */
export function compactingFor(
  part: CompactionPart,
  session: Pick<SessionSettings, "compaction">,
  contextWindow: number | undefined,
): Compacting {
  const settings = { ...part.settings, ...session.compaction };
  const threshold = thresholdFor(settings.auto_compact_threshold, contextWindow);
  const minTurnsBetweenCompactions =
    settings.min_turns_between_compactions ?? COMPACTION_DEFAULTS.minTurnsBetweenCompactions;
  const compactor = new DefaultCompactor({
    autoCompactThreshold: threshold,
    recentTurnBudget: settings.recent_turn_budget ?? COMPACTION_DEFAULTS.recentTurnBudget,
    maxSummaryTokens: summaryTokens(settings, threshold),
    minTurnsBetweenCompactions,
  });
  return {
    compactor: part.compactor ?? compactor,
    strategy: part.compactor === undefined ? part.strategy : CUSTOM,
    threshold,
    minTurnsBetweenCompactions,
    prune: part.pruneToolResults,
    cutInvented: part.cutInvented,
    judge: part.judge,
    curator: part.curator,
    hooks: part.hooks,
    extract: part.extract,
    recovering: undefined,
  };
}

/** A small model's summary must leave room for what it summarises; what was asked for is taken at its word. */
function summaryTokens(settings: CompactionSettings, threshold: number): number {
  const { max_summary_tokens, auto_compact_threshold } = settings;
  if (max_summary_tokens !== undefined) return max_summary_tokens;
  const { maxSummaryTokens } = COMPACTION_DEFAULTS;
  if (auto_compact_threshold !== undefined) return maxSummaryTokens;
  return Math.max(1, Math.min(maxSummaryTokens, Math.floor(threshold * SUMMARY_SHARE_MAX)));
}

/** Refuses a threshold somebody wrote that can never be met by a session of this kind. */
export function requireReachableFor(
  part: CompactionPart,
  session: Pick<SessionSettings, "compaction" | "system_prompt">,
  keeps: { tools: Iterable<ToolSpec>; pinTokens: number; contextWindow?: number | undefined },
): void {
  const settings = { ...part.settings, ...session.compaction };
  const { auto_compact_threshold, max_summary_tokens } = settings;
  const isAskedFor = auto_compact_threshold !== undefined || max_summary_tokens !== undefined;
  if (!isAskedFor || part.compactor !== undefined) return;
  const threshold = thresholdFor(auto_compact_threshold, keeps.contextWindow);
  const { system_prompt } = session;
  const content = system_prompt ?? "";
  requireReachable(threshold, {
    system: content === "" ? 0 : estimateTokens([{ role: "system", content, created_at: "" }]),
    tools: toolTokens(keeps.tools),
    pins: keeps.pinTokens,
    summary: summaryTokens(settings, threshold),
  });
}
