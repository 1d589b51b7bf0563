import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import { type JSONRPCMessage, JSONRPCMessageSchema } from "@modelcontextprotocol/sdk/types.js";
import { createConnection, type Streams, type TakeMessage } from "../http/connection.ts";
import { faultFrame } from "../http/frames.ts";
import { createUnanswered } from "../http/unanswered.ts";
import { checkRequests } from "./checked-requests.ts";
import type { McpServer } from "./server.ts";

/** One connection: a server, and the two streams a client speaks over. */
interface StdioConnection extends Streams {
  readonly server: McpServer;
}

/** Messages that may wait for the client to read them; with more, nothing is read of it until it has. */
const UNREAD_MAX = 1_024;

/**
 * Serves MCP, a message a line, until the input ends, the output breaks or the signal aborts; then it interrupts what
 * still runs. A line that is no message is answered as JSON-RPC says and the next one is read, which is why this is
 * not the transport of the SDK: that one closes when a line is too long.
 */
export async function serveStdio({ server, ...streams }: StdioConnection): Promise<void> {
  const { outbox, serve } = createConnection(streams);
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
      if ("id" in message && !("method" in message)) unanswered.forget(message.id);
      return newest;
    },
    close: async () => transport.onclose?.(),
  };
  const onMessage = (message: JSONRPCMessage): void => {
    if (!("method" in message)) return;
    if ("id" in message) unanswered.add(message.id);
    else if (message.method === "notifications/cancelled") unanswered.forget(message.params?.requestId);
  };
  const take: TakeMessage = (message, bytes) => {
    // It was JSON a moment ago.
    const parsed = JSONRPCMessageSchema.safeParse(JSON.parse(Buffer.from(bytes).toString("utf8")));
    if (parsed.success) {
      onMessage(parsed.data);
      transport.onmessage?.(parsed.data);
      return unread < UNREAD_MAX ? undefined : newest;
    }
    // Invalid responses and notifications get no reply.
    if (message.kind !== "request") return undefined;
    return outbox.send(faultFrame(message.id, { code: "INVALID_REQUEST", message: "this is not an MCP message" }));
  };
  await server.connect(transport);
  checkRequests(transport);
  await serve(take, unanswered.none);
  await server.close();
}
