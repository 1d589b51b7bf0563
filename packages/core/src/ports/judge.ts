import type { Usage } from "../contract/event.ts";
import type { Message } from "../contract/message.ts";

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
