import type { Readable, Writable } from "node:stream";
import { expect } from "vitest";

export type Frame = Record<string, unknown>;

/** What a client throws for an error of the server: the code it shows its user is that of `error.data`. */
class RpcFailure extends Error {
  readonly number: number;
  readonly data: Frame;

  constructor(error: Frame) {
    super(String(error.message));
    this.number = Number(error.code);
    this.data = asFrame(error.data);
  }
}

/** An error as a client sees it, for comparing: the table's number, and the whole error under `data`. */
export function failure(number: number, code: string, message = /./): unknown {
  const data = { code, category: expect.any(String), message: expect.stringMatching(message) };
  return expect.objectContaining({ number, data: expect.objectContaining(data) });
}

export interface RpcClient {
  /** Every frame so far, in the order it came. */
  readonly frames: readonly Frame[];
  request(method: string, params?: unknown): Promise<Frame>;
  /** Starts a request whose id is needed, to cancel it. */
  start(method: string, params?: unknown): { readonly id: number; readonly result: Promise<Frame> };
  notify(method: string, params?: unknown): void;
  raw(text: string | Uint8Array): void;
  /** The first frame, past or future, that fits. */
  frame(fits: (frame: Frame) => boolean): Promise<Frame>;
  /** Answers `tool/execute`. */
  serveTools(run: (call: Frame) => Frame | undefined): void;
  /** Ends stdin, as the clients' `close` does. */
  end(): void;
}

/**
 * A client as those of the wire's 0.6 line are: integer ids that count up, frames told apart by `method`, errors read
 * from `data`. It knows nothing of the server's code.
 */
export function createRpcClient(stdin: Writable, stdout: Readable): RpcClient {
  const frames: Frame[] = [];
  const pending = new Map<unknown, { resolve(result: Frame): void; reject(error: Error): void }>();
  const watching = new Set<() => void>();
  let runTool: ((call: Frame) => Frame | undefined) | undefined;
  let lastId = 0;

  const send = (message: Frame): void => {
    stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  };
  const take = (line: string): void => {
    const frame = asFrame(JSON.parse(line)); // Nothing but JSON may arrive, or every test fails here.
    frames.push(frame);
    const waiting = frame.method === undefined ? pending.get(frame.id) : undefined;
    pending.delete(frame.id);
    if ("error" in frame) waiting?.reject(new RpcFailure(asFrame(frame.error)));
    else waiting?.resolve(asFrame(frame.result));
    if (frame.method === "tool/execute") {
      const answer = runTool?.(asFrame(frame.params));
      if (answer !== undefined) send({ id: frame.id, ...answer });
    }
    for (const look of [...watching]) look();
  };
  let rest = "";
  stdout.setEncoding("utf8");
  stdout.on("data", (text: string) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) take(line);
  });

  const start = (method: string, params: unknown = {}) => {
    lastId += 1;
    const id = lastId;
    const result = new Promise<Frame>((resolve, reject) => pending.set(id, { resolve, reject }));
    result.catch(() => {}); // Whoever waits for it hears of it.
    send({ id, method, params });
    return { id, result };
  };
  return {
    frames,
    start,
    request: (method, params) => start(method, params).result,
    notify: (method, params) => send({ method, ...(params === undefined ? {} : { params }) }),
    raw: (text) => {
      stdin.write(text);
    },
    frame: (fits) =>
      new Promise((resolve) => {
        const look = (): void => {
          const found = frames.find(fits);
          if (found === undefined) return;
          watching.delete(look);
          resolve(found);
        };
        watching.add(look);
        look();
      }),
    serveTools: (run) => {
      runTool = run;
    },
    end: () => {
      stdin.end();
    },
  };
}

export function asFrame(value: unknown): Frame {
  return typeof value === "object" && value !== null ? (value as Frame) : {}; // An object's fields are unknown, no more.
}

/** The fields without which a client of the 0.6 line reports an event as malformed. */
const REQUIRED: Readonly<Record<string, readonly string[]>> = {
  run_started: ["session_id", "prompt"],
  run_completed: ["session_id", "result", "usage"],
  extraction_succeeded: ["session_id", "structured_output"],
  extraction_failed: ["session_id", "last_output", "attempts", "reason"],
  run_failed: ["session_id", "error_class", "error"],
  turn_started: ["turn_number"],
  text_delta: ["delta"],
  text_complete: ["content"],
  tool_call_requested: ["id", "name", "args"],
  tool_result_received: ["id", "name", "is_error"],
  turn_completed: ["stop_reason", "usage"],
  tool_execution_started: ["id", "name"],
  tool_execution_completed: ["id", "name", "result"],
  tool_execution_timed_out: ["id", "name", "timeout_ms"],
  budget_warning: ["budget_type", "used", "limit", "percent"],
  retrying: ["attempt", "max_attempts", "error", "delay_ms"],
  stream_truncated: ["reason"],
};

/** What a client of the 0.6 line makes of an event: its type, if it knows it and nothing is missing. */
export function readAsClient(event: Frame): string {
  const type = String(event.type ?? "");
  const required = REQUIRED[type];
  if (required === undefined) return `unknown:${type}`;
  return required.every((field) => event[field] !== undefined) ? type : `malformed_event:${type}`;
}

/**
 * The turn stream of a session as the Python client reads it: every notification that carries the session's id and
 * is no stream frame counts, and one without an event would end the stream.
 */
export function turnEvents(frames: readonly Frame[], sessionId: string): Frame[] {
  const own = frames.filter((frame) => {
    const isStream = String(frame.method ?? "").startsWith("session/stream_");
    return frame.method !== undefined && !isStream && asFrame(frame.params).session_id === sessionId;
  });
  const cut = own.findIndex((frame) => asFrame(frame.params).event === undefined);
  return (cut < 0 ? own : own.slice(0, cut)).map((frame) => asFrame(asFrame(frame.params).event));
}

/** The events of a stream that was opened, as plain envelopes. */
export function streamEvents(frames: readonly Frame[], streamId: unknown): Frame[] {
  const own = frames.filter((frame) => frame.method === "session/stream_event");
  return own.map((frame) => asFrame(frame.params)).filter((params) => params.stream_id === streamId);
}
