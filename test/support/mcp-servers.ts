import { randomUUID } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { getRequestListener } from "@hono/node-server";
import { SSEServerTransport } from "@modelcontextprotocol/sdk/server/sse.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import { createMcpHandler } from "@modelcontextprotocol/server";
import { createInMemoryStore, createRuntime, type RuntimeOptions } from "@rkat/core/create-runtime";
import type { ToolSpec } from "@rkat/core/ports/model";
import type { McpProgram } from "@rkat/core/ports/tool";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { createModernServer, type Shown } from "../mcp/modern-server.ts";
import { createToolServer } from "../mcp/tool-server.ts";

const PROCESS = join(import.meta.dirname, "../mcp/tool-server-process.ts");
const MODERN_PROCESS = join(import.meta.dirname, "../mcp/modern-server-process.ts");

/** `strict` ends at a first message other than that of its version, `mute` does not answer it. */
type Mode = "serve" | "crash" | "hang" | "stubborn" | "strict" | "mute";

/** A server as a program that tells its notes what happens in it. */
export function program(notes: string, mode: Mode = "serve"): Pick<McpProgram, "command" | "args"> {
  return { command: process.execPath, args: [PROCESS, mode, notes] };
}

/** A server of 2026-07-28 that knows no other version, as a program. */
export const modernProgram = { command: process.execPath, args: [MODERN_PROCESS] };

/** The same over HTTP; `answers` may answer a request before it does. */
export async function openModernServer(
  answers: (request: Request) => Promise<Response | undefined> = async () => undefined,
) {
  const shown: Shown = { description: "says it again", learned: [] };
  const handler = createMcpHandler(() => createModernServer(shown, () => handler.notify.toolsChanged()), {
    legacy: "reject",
  });
  const listener = getRequestListener(async (request) => (await answers(request)) ?? handler.fetch(request), {
    overrideGlobalObjects: false,
  });
  const server = createServer((request, response) => void listener(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo; // A server that listens on a port has one.
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    /** Another description of its `echo`, of which it tells. */
    redescribe: (description: string) => {
      shown.description = description;
      handler.notify.toolsChanged();
    },
    close: async () => {
      await handler.close();
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

/** What the programs with these notes have told, a word a line. */
export function reported(notes: string): readonly string[] {
  return existsSync(notes) ? readFileSync(notes, "utf8").trim().split("\n") : [];
}

export function pidsOf(notes: string): readonly number[] {
  return reported(notes).flatMap((line) => (line.startsWith("pid ") ? [Number(line.slice(4))] : []));
}

/** Whether a process runs; one that has ended and whose parent has not looked does not. */
export function isRunning(pid: number): boolean {
  const state = `/proc/${pid}/stat`;
  try {
    if (existsSync(state)) return !/^\d+ \(.*\) Z/.test(readFileSync(state, "utf8"));
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** A runtime on a scripted model and the machine's clock, for servers live by that one. */
export function runtimeWith(script: Parameters<typeof createScriptedModel>[0], options: RuntimeOptions) {
  const model = createScriptedModel(script);
  const warnings: string[] = [];
  const env = { PATH: process.env.PATH ?? "" };
  const store = createInMemoryStore();
  const runtime = createRuntime({ model, store, env, warn: (sentence) => warnings.push(sentence), ...options });
  return {
    runtime,
    warnings,
    /** The results the model was shown last. */
    results: () => {
      const message = model.requests.at(-1)?.messages.findLast(({ role }) => role === "tool_results");
      return message?.role === "tool_results"
        ? message.results.map(({ content, is_error }) => ({ content, is_error }))
        : [];
    },
    /** The names of the tools a request offered; the last without a number. */
    offered: (request = -1): readonly string[] =>
      (model.requests.at(request)?.tools ?? []).map(({ name }: ToolSpec) => name),
  };
}

/** The same server over HTTP; it wants a token, and can forget its clients as one that was started again has. */
export async function openHttpServer(token: string, note: (word: string) => void = () => {}) {
  let spoil: ((response: ServerResponse) => void) | undefined;
  const clients = new Map<string, Transport & { handleRequest: StreamableHTTPServerTransport["handleRequest"] }>();
  const streams = new Map<string, SSEServerTransport>();
  const world = { env: {}, pid: 0, exit: () => {}, note };
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { pathname, searchParams } = new URL(request.url ?? "", "http://a.test");
    if (request.headers.authorization !== `Bearer ${token}`) return void response.writeHead(401).end("not you");
    if (pathname === "/sse") {
      const transport = new SSEServerTransport("/messages", response);
      streams.set(transport.sessionId, transport);
      return createToolServer(world).connect(transport);
    }
    if (pathname === "/messages")
      return streams.get(searchParams.get("sessionId") ?? "")?.handlePostMessage(request, response);
    const id = request.headers["mcp-session-id"];
    const known = typeof id === "string" ? clients.get(id) : undefined;
    if (known !== undefined && request.method === "POST" && spoil !== undefined) {
      request.resume();
      spoil(response);
      spoil = undefined;
      return;
    }
    if (known !== undefined) return known.handleRequest(request, response);
    if (id !== undefined) return void response.writeHead(404).end("no such session");
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      onsessioninitialized: (session) => void clients.set(session, transport),
    });
    // The SDK's own class, whose optional fields are written in another way than its interface's.
    await createToolServer(world).connect(transport as Transport);
    return transport.handleRequest(request, response);
  };
  const server = createServer((request, response) => void answer(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo; // A server that listens on a port has one.
  return {
    url: `http://127.0.0.1:${port}`,
    forget: () => clients.clear(),
    /** The next request of a client that is known gets this for an answer. */
    spoilNext: (by: (response: ServerResponse) => void) => {
      spoil = by;
    },
    /** Every connection breaks, as it does when the process behind it dies; another is there at once. */
    die: () => {
      clients.clear();
      streams.clear();
      server.closeAllConnections();
    },
    close: () => {
      server.closeAllConnections();
      return new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}
