import type { JsonObject } from "../session.ts";

/** The id of the element of a page that holds a simulation. */
export type SimulationElement = "kept-simulation";

/** Who writes the summaries of a replay: the offline model, the log where it has one, or a model that is asked. */
export type SummariesBy = "offline" | "recorded" | "model";

/** A way to compact, under a name. */
export interface Policy {
  readonly name: string;
  /** By the keys of `[compaction]`. */
  readonly settings: JsonObject;
}

/** Something that changed the context, before the call of this number; the first is 0. */
export interface ReplayMark {
  readonly call: number;
  readonly kind: "compaction" | "eviction" | "failed";
}

/** What a policy costs and keeps, over one log or over all. */
export interface Figures {
  readonly calls: number;
  readonly input_tokens: number;
  /** Of the input, what was read from the provider's cache. */
  readonly cached_tokens: number;
  readonly output_tokens: number;
  /** Calls for summaries and what belongs to them; their tokens are not in those above. */
  readonly summary_calls: number;
  readonly summary_input_tokens: number;
  readonly summary_output_tokens: number;
  /** Absent where the price of the model is not known. */
  readonly cost?: { readonly turns: number; readonly summaries: number; readonly total: number };
  readonly compactions: number;
  readonly evictions: number;
  readonly failed: number;
  /** Compactions that needed a summary. */
  readonly summaries: number;
  /** Calls that a turn made later than it could, since a summary had to be written first. */
  readonly waited: number;
  readonly waited_share: number;
  readonly largest_context: number;
  /** Of all receipts together. */
  readonly specifics: Specifics;
  readonly probes: {
    readonly total: number;
    /** Those whose answer the context still shows. */
    readonly in_context: number;
    readonly asked: number;
    /** Of those asked, the ones that a search of memory answered. */
    readonly found: number;
  };
  /** Calls that were shown exactly what the recorded ones were. */
  readonly as_recorded: number;
}

export interface Specifics {
  readonly total: number;
  readonly in_summary: number;
  readonly in_tail: number;
  readonly pinned: number;
  readonly recoverable: number;
  readonly lost: number;
}

/** One log under one policy. */
export interface SimulatedRun extends Figures {
  readonly log: string;
  readonly policy: string;
  /** The input of each call, in tokens. */
  readonly context: readonly number[];
  readonly marks: readonly ReplayMark[];
}

export interface Simulation {
  readonly summaries: SummariesBy;
  readonly policies: readonly Policy[];
  readonly logs: readonly {
    readonly name: string;
    readonly model: string;
    readonly calls: number;
    readonly turns: number;
    readonly is_priced: boolean;
    /** What of it was not replayed as it was. */
    readonly notes: readonly string[];
  }[];
  readonly runs: readonly SimulatedRun[];
  /** Over all logs, one a policy. */
  readonly sums: readonly (Figures & { readonly policy: string })[];
}
