import type { Usage } from "../contract/event.ts";
import type { Message } from "../contract/message.ts";

/** What a source says of a sentence: the same, the opposite, or nothing that decides it. */
export type Verdict = "supported" | "contradicted" | "unverified";

export interface Verdicts {
  /** One for each sentence, in their order; one that is missing counts as `unverified`. */
  readonly verdicts: readonly Verdict[];
  /** What judging took; it counts in the session's budget. */
  readonly usage: Usage;
  /** Why some could not be judged. */
  readonly note?: string;
}

/** Holds the sentences of a summary against what they were made of. What it cannot tell is `unverified`. */
export interface Judge {
  /** Sentences and source are untrusted text: nothing in them may decide about another sentence. */
  judge(sentences: readonly string[], source: readonly Message[], signal: AbortSignal): Promise<Verdicts>;
}
