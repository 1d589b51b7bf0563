import type { Message } from "../../contract/message.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Placed } from "../context.ts";
import type { Checked } from "../grounding/groundedness.ts";
import type { ReceiptItem } from "../grounding/occurrence.ts";
import type { Specific } from "../grounding/specifics.ts";
import type { SummarySource } from "../grounding/summary-sources.ts";

/** What is held against each other when a receipt is written. */
export interface Accounting {
  readonly summary: string;
  /** What leaves the context, or would have without a pin, in its order. */
  readonly from: readonly Placed[];
  readonly inherited: readonly Specific[];
  readonly tail: readonly Message[];
  readonly pinned: readonly Message[];
  /** What else of the log an expansion would bring back; undefined where that is not to be tried. */
  readonly log: readonly Placed[] | undefined;
}

/** The work that reads all that was said, by name: what each is given and what it answers. */
export interface Readings {
  check: {
    readonly given: { readonly summary: string; readonly source: readonly Message[] };
    readonly answer: Checked;
  };
  account: { readonly given: Accounting; readonly answer: readonly ReceiptItem[] };
  sources: {
    readonly given: { readonly summary: string; readonly messages: readonly Placed[] };
    readonly answer: readonly SummarySource[];
  };
}

/** Does one of them where it keeps nobody waiting; rejects with a sentence when it is interrupted or takes too long. */
export type Reading = <Name extends keyof Readings>(
  name: Name,
  given: Readings[Name]["given"],
  signal: AbortSignal,
) => Promise<Readings[Name]["answer"]>;

/** How each is done, wherever that is. */
export type Readers = {
  readonly [Name in keyof Readings]: (
    given: Readings[Name]["given"],
    breathe: Clock["breathe"],
  ) => Promise<Readings[Name]["answer"]>;
};
