import type { Compaction, CompactionTrigger, SeqRange } from "../contract/compaction.ts";
import type { EntryBody } from "../contract/entry.ts";
import type { Message } from "../contract/message.ts";

/** What a compactor decides by: the session at a boundary, the moment before a model call. */
export interface CompactionContext {
  /** Input tokens the model counted for its last answer; 0 right after a compaction. */
  readonly lastInputTokens: number;
  readonly messageCount: number;
  /** JSON bytes by four; media counted as media. */
  readonly estimatedHistoryTokens: number;
  /** The boundary at which a compaction was last made or tried, if ever. */
  readonly lastCompactionBoundaryIndex: number | undefined;
  /** Boundaries the session has seen before this one. */
  readonly sessionBoundaryIndex: number;
}

/** A rebuilt history. What is neither in `messages` nor in `discarded` may only be an earlier summary. */
export interface CompactionResult {
  readonly messages: readonly Message[];
  readonly discarded: readonly Message[];
}

export interface CompactionConfig {
  /** Compaction is due when either token count reaches it. */
  readonly autoCompactThreshold: number;
  /** How many of the last complete turns stay in the context. */
  readonly recentTurnBudget: number;
  /** The most a summary may take. */
  readonly maxSummaryTokens: number;
  /** How many boundaries lie at least between two compactions. */
  readonly minTurnsBetweenCompactions: number;
}

/** When a context is compacted, and into what. All of it is pure: the call of the model is made for it. */
export interface Compactor {
  shouldCompact(context: CompactionContext): boolean;
  /** The last user message of the request for a summary. */
  compactionPrompt(): string;
  maxSummaryTokens(): number;
  /** What of the context the summariser is shown. */
  prepareForSummarization(messages: readonly Message[]): readonly Message[];
  /** Kept messages must be the very objects that were given, in their order. */
  rebuildHistory(messages: readonly Message[], summary: string): CompactionResult;
}

/** Writes the summary instead of the model; an empty text or an error fails the compaction. */
export type Curator = (source: {
  readonly messages: readonly Message[];
  readonly discarded: readonly Message[];
  readonly previousSummary: string | undefined;
  readonly maxSummaryTokens: number;
  readonly instructions: string | undefined;
  readonly signal: AbortSignal;
}) => Promise<string> | string;

/** What is about to be compacted. */
export interface CompactionPlan {
  readonly sessionId: string;
  readonly trigger: CompactionTrigger;
  readonly kept: readonly SeqRange[];
  readonly discarded: readonly SeqRange[];
  readonly messagesBefore: number;
  readonly tokensBefore: number;
}

/** Called around a compaction. The signal aborts when they are not waited for any more. */
export interface CompactionHooks {
  /** A text returned is the reason not to compact. */
  readonly before?: (plan: CompactionPlan, signal: AbortSignal) => Promise<string | undefined> | string | undefined;
  /** What it throws is told as `hook_failed`; the compaction stands. */
  readonly after?: (compaction: Compaction, signal: AbortSignal) => Promise<void> | void;
  /** State to store, returned once: the next append stores it. */
  readonly reported?: () => readonly EntryBody[];
}
