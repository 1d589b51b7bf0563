import type { Telemetry } from "./telemetry.ts";

/** The operator's view of a server: it receives events and can read the state. */
export interface Observer {
  readonly telemetry: Telemetry;
  /** Handed once, when the runtime is composed: how it can be asked. */
  attach(vitals: Vitals): void;
}

/** How a runtime is. Asking is cheap enough for a probe every second. */
export interface Vitals {
  /** Reads and writes a little where sessions are kept; rejects when that fails. */
  probeStore(): Promise<void>;
  /** Resolves when the configured model could be asked; rejects with a sentence that names no key. It asks nothing. */
  probeModel(): Promise<void>;
  /** Undefined without a memory. */
  memory(): MemoryVitals | undefined;
  /** Masks keys and tokens in what is about to be shown. */
  redact(text: string): string;
}

interface MemoryVitals {
  /** Logs of this process that have grown since they were taken in. */
  readonly waiting: number;
  /** What last failed and has not worked since; undefined when nothing did. */
  readonly problem: string | undefined;
}
