import type { Clock } from "@rkat/core/ports/clock";
import { currentRequest } from "./calls.ts";
import type { HttpResponse } from "./exchange.ts";

interface StreamEvent {
  /** Absent for one that has no name. */
  readonly type?: string;
  readonly data: unknown;
  readonly id?: number;
}

/** Writes events to a reader, one after the other, no faster than it takes them. */
export interface EventWriter {
  /** Resolves when there is room for the next; what is written to a reader that left is dropped. */
  write(event: StreamEvent): Promise<void>;
  end(last: StreamEvent): void;
}

/** Below what proxies commonly take for a dead connection. */
const HEARTBEAT_MS = 15_000;
/** A reader that takes nothing for so long is not there. */
const STALL_MS_MAX = 60_000;

interface WriterParts {
  readonly response: HttpResponse;
  readonly clock: Clock;
  readonly headers?: Readonly<Record<string, string>>;
  readonly giveUp: (why: string) => void;
}

export function createEventWriter({ response, clock, headers, giveUp }: WriterParts): EventWriter {
  response.writeHead(200, {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    "x-accel-buffering": "no",
    "x-content-type-options": "nosniff",
    ...headers,
  });
  response.flushHeaders();
  currentRequest()?.streams();
  const ended = new AbortController();
  response.on("close", () => ended.abort("closed"));
  if (response.destroyed) ended.abort("closed");
  void beat(response, clock, ended.signal);

  const send = async (text: string): Promise<void> => {
    if (ended.signal.aborted || response.write(text)) return;
    const drained = new AbortController();
    const isDrained = new Promise<true>((resolve) => {
      // A reader is waited for thousands of times: what listens must not stay behind.
      const settle = (): void => {
        response.off("drain", settle).off("close", settle);
        resolve(true);
      };
      response.on("drain", settle).on("close", settle);
    });
    const isStalled = clock.sleep(STALL_MS_MAX, drained.signal).then(() => false as const);
    const inTime = await Promise.race([isDrained, isStalled]);
    drained.abort("drained");
    if (inTime) return;
    giveUp("the reader takes nothing");
    response.destroy();
  };
  return {
    write: (event) => send(frameOf(event)),
    end: (last) => {
      if (!ended.signal.aborted) response.end(frameOf(last));
      ended.abort("ended");
    },
  };
}

/** What OpenAI's streams end with, which is no JSON. */
const DONE = "[DONE]";

/** JSON has no line breaks of its own, so one line of data holds it. */
function frameOf({ type, data, id }: StreamEvent): string {
  const name = type === undefined ? "" : `event: ${type}\n`;
  return `${name}${id === undefined ? "" : `id: ${id}\n`}data: ${data === DONE ? DONE : JSON.stringify(data)}\n\n`;
}

/** Periodic comments, so that proxies do not close a quiet connection. */
async function beat(response: HttpResponse, clock: Clock, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await clock.sleep(HEARTBEAT_MS, signal);
    if (!signal.aborted && !response.writableNeedDrain) response.write(": heartbeat\n\n");
  }
}
