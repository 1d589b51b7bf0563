import { addAbortSignal, type Readable, type Writable } from "node:stream";
import { RuntimeError } from "@rkat/core/contract/error";
import type { Clock } from "@rkat/core/ports/clock";
import { createOutbox, errorFrame, faultFrame, LINE_BYTES_MAX, type Line, type Outbox, readLines } from "./frames.ts";
import { type Incoming, NO_ID, parseIncoming } from "./incoming.ts";

export interface Streams {
  readonly input: Readable;
  readonly output: Writable;
  readonly clock: Clock;
  /** Aborting it ends the connection as the end of the input does. */
  readonly signal: AbortSignal;
}

/** What a line says that is no fault, and its bytes. */
export type TakeMessage = (
  message: Exclude<Incoming, { kind: "fault" }>,
  bytes: Uint8Array,
) => Promise<void> | undefined;

/** A client that speaks JSON-RPC, a message a line. */
export interface Connection {
  readonly outbox: Outbox;
  /**
   * Hands on every message until the input ends, the output breaks or the signal aborts; what `take` returns is waited
   * for before the next line is read. At the end of the input what was asked has a moment to be answered.
   */
  serve(take: TakeMessage, settled: () => Promise<unknown>): Promise<void>;
}

/** How long requests may run after the end of the input: a script pipes its requests in and reads the answers. */
const FINISH_MS_MAX = 2_000;

export function createConnection({ input, output, clock, signal }: Streams): Connection {
  const ending = new AbortController();
  const ended = new Promise<void>((resolve) => ending.signal.addEventListener("abort", () => resolve()));
  const end = (): void => ending.abort("the connection ended");
  const outbox = createOutbox(output, end);
  signal.addEventListener("abort", end, { once: true });
  if (signal.aborted) end();

  return {
    outbox,
    serve: async (take, settled) => {
      const onLine = (line: Line): Promise<void> | undefined => {
        if (line.kind === "too_long") {
          const message = `a line is longer than ${LINE_BYTES_MAX} bytes and was skipped`;
          return outbox.send(errorFrame(NO_ID, new RuntimeError("PAYLOAD_TOO_LARGE", message)));
        }
        const incoming = parseIncoming(line.bytes);
        if (incoming === undefined) return undefined;
        if (incoming.kind === "fault") return outbox.send(faultFrame(incoming.id, incoming.fault));
        return take(incoming, line.bytes);
      };
      await Promise.race([readLines(addAbortSignal(ending.signal, input), onLine), ended]);
      const finished = new AbortController();
      await Promise.race([settled(), ended, clock.sleep(FINISH_MS_MAX, finished.signal)]);
      finished.abort("finished");
      end();
    },
  };
}

interface Unanswered {
  add(id: unknown): void;
  /** It was answered, or taken back. */
  forget(id: unknown): void;
  /** Resolves once every request that was heard has been answered or taken back. */
  none(): Promise<void>;
}

export function createUnanswered(): Unanswered {
  const ids = new Set<unknown>();
  let onNone: (() => void) | undefined;
  return {
    add: (id) => void ids.add(id),
    forget: (id) => {
      ids.delete(id);
      if (ids.size === 0) onNone?.();
    },
    none: () =>
      new Promise((resolve) => {
        if (ids.size === 0) resolve();
        else onNone = resolve;
      }),
  };
}
