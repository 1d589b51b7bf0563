import type { Message } from "../contract/message.ts";
import type { Checked } from "../grounding/groundedness.ts";
import type { ReceiptItem } from "../grounding/occurrence.ts";
import type { Specific } from "../grounding/specifics.ts";
import type { SummarySource, SummaryToRead } from "../grounding/summary-sources.ts";
import type { Clock } from "../ports/clock.ts";
import type { Placed } from "../state/context.ts";

/** The inputs of a receipt. */
export interface Accounting {
  readonly summary: string;
  /** The messages that leave the context, or would without a pin, in order. */
  readonly from: readonly Placed[];
  readonly inherited: readonly Specific[];
  readonly tail: readonly Message[];
  readonly pinned: readonly Message[];
  /** The rest of the log that an expansion would bring back; undefined if that is not tried. */
  readonly log: readonly Placed[] | undefined;
}

/** Tasks that read the whole history, by name, with their input and output. */
export interface Readings {
  check: {
    readonly given: { readonly summary: string; readonly source: readonly Message[] };
    readonly answer: Checked;
  };
  account: { readonly given: Accounting; readonly answer: readonly ReceiptItem[] };
  sources: {
    readonly given: SummaryToRead;
    readonly answer: readonly SummarySource[];
  };
}

/** Runs a task in a worker; rejects if it is interrupted or takes too long. */
export type Reading = <Name extends keyof Readings>(
  name: Name,
  given: Readings[Name]["given"],
  signal: AbortSignal,
) => Promise<Readings[Name]["answer"]>;

export type Readers = {
  readonly [Name in keyof Readings]: (
    given: Readings[Name]["given"],
    yieldToEventLoop: Clock["yieldToEventLoop"],
  ) => Promise<Readings[Name]["answer"]>;
};
