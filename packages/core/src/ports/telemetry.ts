import type { EntryBody } from "../contract/entry.ts";
import type { RuntimeError } from "../contract/error.ts";
import type { MemoryResults } from "../contract/memory.ts";
import type { Content } from "../contract/message.ts";
import type { RunResult } from "../contract/session.ts";
import type { ModelClient } from "./model.ts";
import type { Tool } from "./tool.ts";

/** Observed work on a session. */
export interface WatchedWork {
  /** A turn, or a compaction outside of turns: by hand, of an agent's memories, or prepared. */
  readonly kind: "turn" | "compaction" | "preparation";
  /** Absent for work without a session. */
  readonly sessionId?: string | undefined;
  readonly model: ModelClient;
  readonly tools: ReadonlyMap<string, Tool>;
  /** The prompt of a turn; absent for a compaction. */
  readonly prompt?: Content | undefined;
  /** Whether the turn must end with JSON of a schema. */
  readonly wantsJson: boolean;
  /** Aborts when the work is interrupted from outside. */
  readonly signal: AbortSignal;
  /** The caller's trace in W3C form; by default the active one. */
  readonly traceparent: string | undefined;
  /** Whether the context is a compacted view. */
  isCompacted(): boolean;
}

/** Instrumented replacements that behave like the originals. */
export interface Watch {
  readonly model: ModelClient;
  readonly tools: ReadonlyMap<string, Tool>;
  /** Called with durable entries, in order. */
  appended(bodies: readonly EntryBody[]): void;
  /** Called once at the end of the work, which ends all of its parts. */
  end(how: { readonly result?: RunResult; readonly error?: RuntimeError }): void;
}

export interface AskedRecall {
  readonly query: string;
  readonly limit: number;
  readonly reach: "discarded" | "everything";
  readonly traceparent: string | undefined;
}

/** Reports events to an external observer. It never throws, and the runtime never waits for it. */
export interface Telemetry {
  watch(work: WatchedWork): Watch;
  /** Runs a search; resolves and rejects like it. */
  watchRecall(asked: AskedRecall, search: () => Promise<MemoryResults>): Promise<MemoryResults>;
}

/** Loads telemetry with the first event. */
export type OpenTelemetry = () => Promise<Telemetry>;

/** For operators of a server: receives events and can query the runtime. */
export interface Observer {
  readonly telemetry: Telemetry;
  /** Called once, when the runtime is composed. */
  attach(vitals: Vitals): void;
}

/** The health of a runtime, cheap enough for a probe every second. */
export interface Vitals {
  /** A small read and write in the session store; rejects if it fails. */
  probeStore(): Promise<void>;
  /** Resolves if the configured model is usable; rejects with a sentence without keys. It makes no model call. */
  probeModel(): Promise<void>;
  /** Undefined without a memory. */
  memory(): MemoryVitals | undefined;
  /** Masks keys and tokens before display. */
  redact(text: string): string;
}

interface MemoryVitals {
  /** Logs of this process that are not indexed yet. */
  readonly waiting: number;
  /** The last failure since the last success; undefined if none. */
  readonly problem: string | undefined;
}
