import type { EntryBody } from "../contract/entry.ts";
import type { RuntimeError } from "../contract/error.ts";
import type { MemoryResults } from "../contract/memory.ts";
import type { Content } from "../contract/message.ts";
import type { RunResult } from "../contract/session.ts";
import type { ModelClient } from "./model.ts";
import type { Tool } from "./tool.ts";

/** Work on a session that is to be watched. */
export interface WatchedWork {
  /** A turn, or a compaction that is part of none: one by hand, of an agent's memories, or one that is made ready. */
  readonly kind: "turn" | "compaction" | "preparation";
  /** Absent for what is about no session. */
  readonly sessionId?: string | undefined;
  readonly model: ModelClient;
  readonly tools: ReadonlyMap<string, Tool>;
  /** What was said to begin a turn; absent for a compaction. */
  readonly prompt?: Content | undefined;
  /** Whether the turn is to end with JSON of a schema. */
  readonly wantsJson: boolean;
  /** Aborts when the work is interrupted from outside. */
  readonly signal: AbortSignal;
  /** The trace a caller over a wire is in, as W3C writes it; otherwise it is the one active here. */
  readonly traceparent: string | undefined;
  /** Whether the context is now a compacted view of what was said. */
  isCompacted(): boolean;
}

/** What the work is done with instead, so that it is seen. It behaves as what it stands for. */
export interface Watch {
  readonly model: ModelClient;
  readonly tools: ReadonlyMap<string, Tool>;
  /** Told what is durable now, in its order. */
  appended(bodies: readonly EntryBody[]): void;
  /** Called once, when the work is over; whatever still runs of it is over as well. */
  end(how: { readonly result?: RunResult; readonly error?: RuntimeError }): void;
}

export interface AskedRecall {
  readonly query: string;
  readonly limit: number;
  readonly reach: "discarded" | "everything";
  readonly traceparent: string | undefined;
}

/** Tells an outside observer what happens, as it happens. It never throws, and nothing waits for it. */
export interface Telemetry {
  watch(work: WatchedWork): Watch;
  /** Runs a search; it resolves and rejects as the search does. */
  watchRecall(asked: AskedRecall, search: () => Promise<MemoryResults>): Promise<MemoryResults>;
}

/** Loads what tells, when the first thing happens. */
export type OpenTelemetry = () => Promise<Telemetry>;
