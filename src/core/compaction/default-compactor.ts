import type { Message } from "../../contract/message.ts";
import type { CompactionConfig, CompactionContext, CompactionResult, Compactor } from "../../ports/compactor.ts";
import { prepareForSummary } from "./input/prepare-for-summary.ts";
import { turnsOf } from "./plan/turns.ts";
import { COMPACTION_PROMPT, isSummary, summaryMessage } from "./summary-message.ts";

export const COMPACTION_DEFAULTS: CompactionConfig = {
  autoCompactThreshold: 100_000,
  recentTurnBudget: 4,
  maxSummaryTokens: 4_096,
  minTurnsBetweenCompactions: 3,
};

/** Until its compaction is in a log. */
const NOT_SAVED = "";

/** Compacts by size, no sooner than a few boundaries after the last time, into a summary and the last turns. */
export class DefaultCompactor implements Compactor {
  readonly #config: CompactionConfig;

  constructor(config: Partial<CompactionConfig> = {}) {
    this.#config = { ...COMPACTION_DEFAULTS, ...config };
  }

  shouldCompact(context: CompactionContext): boolean {
    const { sessionBoundaryIndex, lastCompactionBoundaryIndex: last } = context;
    const { autoCompactThreshold, minTurnsBetweenCompactions } = this.#config;
    if (sessionBoundaryIndex === 0) return false;
    if (last !== undefined && sessionBoundaryIndex - last < minTurnsBetweenCompactions) return false;
    return context.lastInputTokens >= autoCompactThreshold || context.estimatedHistoryTokens >= autoCompactThreshold;
  }

  compactionPrompt(): string {
    return COMPACTION_PROMPT;
  }

  maxSummaryTokens(): number {
    return this.#config.maxSummaryTokens;
  }

  prepareForSummarization(messages: readonly Message[]): readonly Message[] {
    return prepareForSummary(messages);
  }

  rebuildHistory(messages: readonly Message[], summary: string): CompactionResult {
    const systems = messages[0]?.role === "system" ? 1 : 0;
    // An earlier summary is no turn: the new one was written with it in view and takes its place.
    const from = isSummary(messages[systems]) ? systems + 1 : systems;
    const turns = turnsOf(messages, from);
    const { recentTurnBudget } = this.#config;
    const cut = turns.length > recentTurnBudget ? (turns.at(-recentTurnBudget)?.start ?? messages.length) : from;
    const created_at = messages.at(-1)?.created_at ?? new Date(0).toISOString();
    return {
      messages: [
        ...messages.slice(0, systems),
        summaryMessage({ summary, created_at, compaction_id: NOT_SAVED }),
        ...messages.slice(cut),
      ],
      discarded: messages.slice(from, cut),
    };
  }
}
