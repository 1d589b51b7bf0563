import type { Telemetry } from "./telemetry.ts";

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
