import type { Compaction, CompactionTrigger, SeqRange } from "../contract/compaction.ts";
import type { EntryBody } from "../contract/entry.ts";
import type { Usage } from "../contract/event.ts";
import type { Message } from "../contract/message.ts";

/** The input of a compactor's decision at a boundary, the moment before a model call. */
export interface CompactionContext {
  /** Input tokens counted for the last answer; 0 right after a compaction. */
  readonly lastInputTokens: number;
  readonly messageCount: number;
  /** JSON bytes divided by four; media counted as media. */
  readonly estimatedHistoryTokens: number;
  /** The boundary of the last compaction or attempt, if any. */
  readonly lastCompactionBoundaryIndex: number | undefined;
  /** The number of earlier boundaries. */
  readonly sessionBoundaryIndex: number;
}

/** A rebuilt history. A message that is neither in `messages` nor in `discarded` must be an earlier summary. */
export interface CompactionResult {
  readonly messages: readonly Message[];
  readonly discarded: readonly Message[];
}

export interface CompactionConfig {
  /** Compaction is due when either token count reaches it. */
  readonly autoCompactThreshold: number;
  /** How many of the last complete turns stay in the context. */
  readonly recentTurnBudget: number;
  /** The largest summary. */
  readonly maxSummaryTokens: number;
  /** The minimum of boundaries between two compactions. */
  readonly minTurnsBetweenCompactions: number;
}

/** Decides when a context is compacted and into what. It is pure: the runtime calls the model for it. */
export interface Compactor {
  shouldCompact(context: CompactionContext): boolean;
  /** The last user message of the summary request. */
  compactionPrompt(): string;
  maxSummaryTokens(): number;
  /** The messages that the summariser reads. */
  prepareForSummarization(messages: readonly Message[]): readonly Message[];
  /** Kept messages must be the same objects in the same order. */
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

/** The compaction that is about to run. */
export interface CompactionPlan {
  readonly sessionId: string;
  readonly trigger: CompactionTrigger;
  readonly kept: readonly SeqRange[];
  readonly discarded: readonly SeqRange[];
  readonly messagesBefore: number;
  readonly tokensBefore: number;
}

/** Called around a compaction. The signal aborts when the runtime stops waiting. */
export interface CompactionHooks {
  /** A returned text is the reason not to compact. */
  readonly before?: (plan: CompactionPlan, signal: AbortSignal) => Promise<string | undefined> | string | undefined;
  /** An error becomes `hook_failed`; the compaction stays. */
  readonly after?: (compaction: Compaction, signal: AbortSignal) => Promise<void> | void;
  /** Returns pending entries once, for the next append. */
  readonly reported?: () => readonly EntryBody[];
}

/** Whether a source supports a sentence, contradicts it, or neither. */
export type Verdict = "supported" | "contradicted" | "unverified";

export interface Verdicts {
  /** One per sentence, in order; a missing one counts as `unverified`. */
  readonly verdicts: readonly Verdict[];
  /** The usage, which counts in the session's budget. */
  readonly usage: Usage;
  /** Why some could not be judged. */
  readonly note?: string;
}

/** Checks the sentences of a summary against their sources. What it cannot decide is `unverified`. */
export interface Judge {
  /** Sentences and source are untrusted: no text in them may affect the verdict on another sentence. */
  judge(sentences: readonly string[], source: readonly Message[], signal: AbortSignal): Promise<Verdicts>;
}
