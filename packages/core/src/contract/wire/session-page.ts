import type { Capabilities } from "../capability.ts";
import type { Compaction } from "../compaction.ts";
import type { OperationOutput } from "../operations.ts";
import type { ModelCalls, SessionContext, SessionHistory, SessionInfo } from "../session-info.ts";
import type { EventPage } from "../session-operations.ts";

/** The id of the element of a page that holds a session; a page of a server has none. */
export type KeptElement = "kept-session";

/**
 * A session as a page keeps it, with what the console would ask a server for. It is no schema: the page that reads it is
 * written together with it, by the same build.
 */
export interface SessionPage {
  /** When the page was written, in RFC 3339. */
  readonly kept_at: string;
  /** The rkat that wrote it. */
  readonly version: string;
  readonly capabilities: Capabilities;
  readonly session: SessionInfo;
  /** Every message of the history and the contexts once; elsewhere they are named by their place in here. */
  readonly messages: SessionHistory["messages"];
  readonly history: KeptPlaces;
  /** Those that say more than the messages do. */
  readonly events: EventPage["events"];
  readonly calls: ModelCalls;
  readonly compactions: readonly Compaction[];
  readonly sources: readonly (OperationOutput<"readSummarySources"> & { readonly compaction_id: string })[];
  readonly pins: readonly number[];
  /** The parts of all contexts, each once. */
  readonly parts: SessionContext["parts"];
  /** What the model is shown now, without an `at_seq`, and what it was shown at the newest calls. */
  readonly contexts: readonly KeptContext[];
  /** What its messages refer to, as far as there is room. */
  readonly blobs: readonly OperationOutput<"readBlob">[];
}

export interface KeptContext {
  readonly at_seq?: number;
  readonly context: Omit<SessionContext, "messages" | "parts">;
  readonly messages: KeptPlaces;
  readonly parts: KeptPlaces;
}

/** Places in a table in their order, neighbours as one: the first of them and the one after the last. */
export type KeptPlaces = readonly (readonly [from: number, end: number])[];
