import { JSONRPCMessageSchema } from "@modelcontextprotocol/core";
import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/server";
import { serveStdio as serveTransport } from "@modelcontextprotocol/server/stdio";
import { invalid } from "@rkat/core/contract/error";
import { realmOfFolder } from "@rkat/node/config/realm";
import { serveCalls } from "../http/calls.ts";
import { createConnection, createUnanswered, type Streams, type TakeMessage } from "../http/connection.ts";
import { httpFlags, portOf, readFlags, type ServerFlags, serverFlags } from "../http/flags.ts";
import { faultFrame } from "../http/frames.ts";
import { MCP_ADDRESS, MCP_FLAGS, MCP_HTTP_FLAGS, mcpHelp, SERVER_FLAGS, usageText } from "../http/server-help.ts";
import {
  type HttpPlace,
  type ServerIo,
  type ServerParts,
  type Serving,
  serveUntil,
  startServer,
} from "../http/start.ts";
import { checkRequests } from "./checked-requests.ts";
import { type CreateServer, createServers } from "./server.ts";

/** How long turns may take to end and a runtime to close; less than clients wait before they kill. */
const CLOSE_MS_MAX = 2_000;

/** Serves MCP until the client or a signal ends it, and returns the exit code. It does not throw. */
export function startMcp(io: ServerIo, parts: ServerParts): Promise<number> {
  return startServer(io, parts, {
    command: "rkat-mcp",
    usage: usageText("rkat-mcp", mcpHelp("rkat-mcp")),
    parseFlags: parseMcpFlags,
    realmFor: (flags) => realmOfFolder(io.cwd, flags),
    mayKeepInProject: true,
    showsPaths: () => false,
    http: ({ http }) => http,
    closeMsMax: CLOSE_MS_MAX,
    serve: (serving) => serve(io, serving),
  });
}

async function serve(io: ServerIo, serving: Serving<McpFlags>): Promise<void> {
  const { runtime, about, flags, http, clock, log } = serving;
  const { memoryOnly, allTools } = flags;
  const parts = { realm: about.realm, version: io.version, memoryOnly, allTools, clock };
  if (http === undefined) {
    const streams = { input: io.stdin, output: io.stdout, clock, signal: io.interrupt };
    return serveStdio({ ...streams, createServer: createServers({ ...parts, runtime }) });
  }
  const { listenHttp } = await import("./serve-http.ts");
  const served = serveCalls(runtime, { clock, log, ...http });
  const createServer = createServers({ ...parts, runtime: served });
  const listener = await listenHttp({ ...http, createServer, clock, log });
  const drain = async (graceMs: number): Promise<void> => {
    listener.drain();
    await served.drain(graceMs);
    listener.refuse();
  };
  const greet = (url: string): void => log(`listening on ${url}`);
  await serveUntil(io.interrupt, { ...serving, http }, { server: { ...listener, drain }, greet });
}

interface McpFlags extends ServerFlags {
  readonly memoryOnly: boolean;
  readonly allTools: boolean;
  /** Where to listen and to whom; undefined when stdin and stdout are spoken over. */
  readonly http: HttpPlace | undefined;
}

/** Reads the flags; throws INVALID_PARAMS for one that is unknown or wrong. */
export function parseMcpFlags(args: readonly string[]): McpFlags {
  const values = readFlags(args, { ...MCP_FLAGS, ...SERVER_FLAGS });
  const isHttp = values.http === true;
  const stray = isHttp ? undefined : Object.keys(MCP_HTTP_FLAGS).find((name) => name in values);
  if (stray !== undefined) throw invalid(`--${stray} is for a server over HTTP; add --http`);
  if (values["memory-only"] && values["all-tools"]) {
    throw invalid("--all-tools lists what --memory-only leaves out; leave one of them out");
  }
  const port = values.port === undefined ? MCP_ADDRESS.port : portOf(values.port);
  return {
    ...serverFlags(values),
    memoryOnly: values["memory-only"] === true,
    allTools: values["all-tools"] === true,
    http: isHttp ? { host: values.host ?? MCP_ADDRESS.host, port, ...httpFlags(values) } : undefined,
  };
}

/** One connection: its server, of the specification that the client speaks, and the two streams it speaks over. */
interface StdioConnection extends Streams {
  readonly createServer: CreateServer;
}

/** Messages that may wait for the client to read them; with more, nothing is read of it until it has. */
const UNREAD_MAX = 1_024;

/**
 * Serves MCP, a message a line, until the input ends, the output breaks or the signal aborts; then it interrupts what
 * still runs. A line that is no message is answered as JSON-RPC says and the next one is read, which is why this is
 * not the transport of the SDK: that one closes when a line is too long.
 */
export async function serveStdio({ createServer, ...streams }: StdioConnection): Promise<void> {
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
  const served = serveTransport(({ era }) => createServer(undefined, { era }), { transport });
  checkRequests(transport);
  await serve(take, unanswered.none);
  await served.close();
}
