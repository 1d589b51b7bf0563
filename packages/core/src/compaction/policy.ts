import { COMPACTION_FALLBACKS, type Compaction } from "../contract/compaction.ts";
import { withVerdict } from "../contract/describe-event.ts";
import { RuntimeError } from "../contract/error.ts";
import type { Message } from "../contract/message.ts";
import type { CompactionConfig, CompactionContext, CompactionResult, Compactor } from "../ports/compactor.ts";
import type { CompactionRecord } from "../state/context.ts";
import { nativeFacts } from "../state/entry-events.ts";
import { COMPACTION_PROMPT, isSummary, summaryMessage, turnsOf } from "./shown-messages.ts";
import { prepareForSummary } from "./summary-input.ts";

/** Facts at a boundary, besides those that a compactor receives. */
export interface BoundaryFacts extends CompactionContext {
  readonly contextWindow: number | undefined;
  /** Tokens of the tool descriptions, sent with every request. */
  readonly toolTokens: number;
  readonly outputTokens: number;
  /** Bytes of the whole request; media cost few tokens and many bytes. */
  readonly requestBytes: number;
  readonly minTurnsBetweenCompactions: number;
}

/**
 * `due`: compact before this call. `full`: the same, and its answer or its bytes may not fit. `overflow`: the call
 * would not fit, so no guard holds it back.
 */
export type Verdict = "not_due" | "due" | "full" | "overflow";

/** The strictest request limit of all providers, in bytes. */
const REQUEST_BYTES_MAX = 20 * 1_024 * 1_024;
const BYTES_SHARE = 0.8;
/** The answer's reserve counts up to this share, so that a generous limit on a small model changes little. */
const OUTPUT_SHARE_MAX = 0.2;

/** Decides at a boundary from numbers alone, so it costs the same at every length. */
export function judgeBoundary(facts: BoundaryFacts, compactor: Pick<Compactor, "shouldCompact">): Verdict {
  const { contextWindow: window, sessionBoundaryIndex: index } = facts;
  if (index === 0) return "not_due";
  // The last call's count is no evidence: that call succeeded.
  if (window !== undefined && facts.estimatedHistoryTokens + facts.toolTokens >= window) return "overflow";
  const isDue = compactor.shouldCompact(facts);
  if (!isHeldBack(facts) && (filling(facts) >= 1 || facts.requestBytes >= REQUEST_BYTES_MAX * BYTES_SHARE))
    return "full";
  return isDue ? "due" : "not_due";
}

/** Whether the last compaction or attempt was only a few boundaries ago. */
export function isHeldBack(facts: CompactionContext & Pick<BoundaryFacts, "minTurnsBetweenCompactions">): boolean {
  const { sessionBoundaryIndex: index, lastCompactionBoundaryIndex: last } = facts;
  return last !== undefined && index - last < facts.minTurnsBetweenCompactions;
}

/** The share of the window that a call takes with its answer; 0 if the window is unknown. */
export function filling(facts: BoundaryFacts): number {
  const { contextWindow: window } = facts;
  if (window === undefined) return 0;
  const reserve = Math.min(facts.outputTokens, window * OUTPUT_SHARE_MAX);
  return (facts.estimatedHistoryTokens + facts.toolTokens + reserve) / window;
}

const WINDOW_SHARE = 0.8;
const UNPRICED_THRESHOLD = 100_000;

/**
 * The size at which a context is compacted at the latest: as configured, else most of the model's window. Without a
 * price no one knows what a large context costs, so it is limited.
 */
export function thresholdFor(
  explicit: number | undefined,
  contextWindow: number | undefined,
  isUnlimited: boolean,
): number {
  if (explicit !== undefined) return explicit;
  if (contextWindow === undefined) return UNPRICED_THRESHOLD;
  const most = Math.floor(contextWindow * WINDOW_SHARE);
  return isUnlimited ? most : Math.min(most, UNPRICED_THRESHOLD);
}

export const COMPACTION_DEFAULTS: CompactionConfig = {
  autoCompactThreshold: 100_000,
  recentTurnBudget: COMPACTION_FALLBACKS.recent_turn_budget,
  maxSummaryTokens: COMPACTION_FALLBACKS.max_summary_tokens,
  minTurnsBetweenCompactions: COMPACTION_FALLBACKS.min_turns_between_compactions,
};

/** The id until the compaction is logged. */
const NOT_SAVED = "";

/** Compacts by size into a summary and the last turns, at least a few boundaries after the previous time. */
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
    // An earlier summary is no turn: the new one includes and replaces it.
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

export function describeCompaction({ seq, body, undone, expanded, nativeRefused }: CompactionRecord): Compaction {
  const { kind: _kind, shows, pruned: _pruned, native, ...facts } = body;
  const kept = shows.filter((part) => "from_seq" in part);
  const own = native === undefined ? {} : { native: { ...nativeFacts(native), refused: nativeRefused === true } };
  const receipt = withVerdict(facts.receipt);
  return { ...facts, ...own, receipt, seq, kept, undone, expanded: [...expanded] };
}

/** Tokens that no compaction can remove. */
export interface Floor {
  readonly system: number;
  readonly tools: number;
  readonly pins: number;
  readonly summary: number;
  /** As configured; the default gives way. */
  readonly workState: number;
}

/** Refuses a threshold that a compacted context would still exceed; unknown kept turns are not counted. */
export function requireReachable(threshold: number, { system, tools, pins, summary, workState }: Floor): void {
  const sum = system + tools + pins + summary + workState;
  if (sum < threshold) return;
  const work = workState === 0 ? "" : ` + work state ${workState}`;
  const arithmetic = `system ${system} + tools ${tools} + pins ${pins} + summary ${summary}${work} = ${sum} tokens`;
  throw new RuntimeError(
    "COMPACTION_THRESHOLD_UNREACHABLE",
    `auto_compact_threshold: ${threshold} can never be met, because ${arithmetic} always stay, besides the recent ` +
      `turns; write more than ${sum}, or lower max_summary_tokens (${summary})`,
    {
      details: {
        threshold,
        system,
        tools,
        pins,
        tail: 0,
        summary,
        ...(workState === 0 ? {} : { work_state: workState }),
        floor: sum,
      },
    },
  );
}
