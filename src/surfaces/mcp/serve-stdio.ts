import { addAbortSignal, type Readable, type Writable } from "node:stream";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import { type JSONRPCMessage, JSONRPCMessageSchema } from "@modelcontextprotocol/sdk/types.js";
import { RuntimeError } from "../../contract/error.ts";
import type { Clock } from "../../ports/clock.ts";
import { errorFrame, faultFrame } from "../wire/frames.ts";
import { NO_ID, parseIncoming } from "../wire/incoming.ts";
import { LINE_BYTES_MAX, type Line } from "../wire/lines.ts";
import { createOutbox } from "../wire/outbox.ts";
import { readLines } from "../wire/read-lines.ts";
import { checkRequests } from "./checked-requests.ts";
import type { McpServer } from "./server.ts";

/** One connection: a server, and the two streams a client speaks over. */
export interface StdioConnection {
  readonly server: McpServer;
  readonly input: Readable;
  readonly output: Writable;
  readonly clock: Clock;
  /** Aborting it ends the connection as the end of the input does. */
  readonly signal: AbortSignal;
}

/** How long what was asked may go on after the end of the input: a script pipes its requests in and reads on. */
const FINISH_MS_MAX = 2_000;
/** Messages that may wait for the client to read them; with more, nothing is read of it until it has. */
const UNREAD_MAX = 1_024;

/**
 * Serves MCP, a message a line, until the input ends, the output breaks or the signal aborts; then it interrupts what
 * still runs. A line that is no message is answered as JSON-RPC says and the next one is read, which is why this is
 * not the transport of the SDK: that one closes when a line is too long.
 */
export async function serveStdio({ server, input, output, clock, signal }: StdioConnection): Promise<void> {
  const ending = new AbortController();
  const ended = new Promise<void>((resolve) => ending.signal.addEventListener("abort", () => resolve()));
  const end = (): void => ending.abort("the connection ended");
  const outbox = createOutbox(output, end);
  const unanswered = createUnanswered();
  let unread = 0;
  let newest: Promise<void> = Promise.resolve();
  const transport: Transport = {
    start: async () => {},
    send: (message) => {
      unread += 1;
      newest = outbox.send(`${JSON.stringify(message)}\n`).then(() => {
        unread -= 1;
      });
      if ("id" in message && !("method" in message)) unanswered.delete(message.id);
      return newest;
    },
    close: async () => transport.onclose?.(),
  };
  const take = (line: Line): Promise<void> | undefined => {
    if (line.kind === "too_long") {
      const message = `a line is longer than ${LINE_BYTES_MAX} bytes and was skipped`;
      return outbox.send(errorFrame(NO_ID, new RuntimeError("PAYLOAD_TOO_LARGE", message)));
    }
    const incoming = parseIncoming(line.bytes);
    if (incoming === undefined) return undefined;
    if (incoming.kind === "fault") return outbox.send(faultFrame(incoming.id, incoming.fault));
    // It was JSON a moment ago.
    const parsed = JSONRPCMessageSchema.safeParse(JSON.parse(Buffer.from(line.bytes).toString("utf8")));
    if (parsed.success) {
      unanswered.hear(parsed.data);
      transport.onmessage?.(parsed.data);
      return unread < UNREAD_MAX ? undefined : newest;
    }
    // A wrong answer or notification has nobody waiting for a reply.
    if (incoming.kind !== "request") return undefined;
    return outbox.send(faultFrame(incoming.id, { code: "INVALID_REQUEST", message: "this is no message of MCP" }));
  };

  signal.addEventListener("abort", end, { once: true });
  if (signal.aborted) end();
  await server.connect(transport);
  checkRequests(transport);
  await Promise.race([readLines(addAbortSignal(ending.signal, input), take), ended]);
  const finished = new AbortController();
  await Promise.race([unanswered.none(), ended, clock.sleep(FINISH_MS_MAX, finished.signal)]);
  finished.abort("finished");
  end();
  await server.close();
}

interface Unanswered {
  hear(message: JSONRPCMessage): void;
  delete(id: unknown): void;
  /** Resolves once every request that was heard has been answered or taken back. */
  none(): Promise<void>;
}

function createUnanswered(): Unanswered {
  const ids = new Set<unknown>();
  let onNone: (() => void) | undefined;
  const forget = (id: unknown): void => {
    ids.delete(id);
    if (ids.size === 0) onNone?.();
  };
  return {
    hear: (message) => {
      if (!("method" in message)) return;
      if ("id" in message) ids.add(message.id);
      else if (message.method === "notifications/cancelled") forget(message.params?.requestId);
    },
    delete: forget,
    none: () =>
      new Promise((resolve) => {
        if (ids.size === 0) resolve();
        else onNone = resolve;
      }),
  };
}
