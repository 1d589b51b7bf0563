import { type ChildProcess, spawn } from "node:child_process";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { ReadBuffer, serializeMessage } from "@modelcontextprotocol/sdk/shared/stdio.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import {
  ErrorCode,
  McpError,
  ResultSchema,
  ToolListChangedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { messageOf } from "../../contract/error.ts";
import type { JsonObject } from "../../contract/session.ts";
import { CONTRACT_VERSION } from "../../contract/wire/version.ts";
import type { Clock } from "../../ports/clock.ts";
import type { McpServerConfig } from "../../ports/tool.ts";
import { createOutputTail, signalGroup } from "../command.ts";
import type { Env } from "../shell.ts";
import { createUrlTransport, type Line, LOST } from "./url-transport.ts";
import { fillHeaders, serverEnv } from "./variables.ts";

export interface Connection {
  /** False once the server has gone; then another connection must be opened. */
  readonly isOpen: boolean;
  /** Whether the server has reported changed tools since they were listed. */
  readonly isStale: boolean;
  list(signal: AbortSignal): Promise<readonly unknown[]>;
  /** Throws errors for the model; an abort is forwarded to the server. */
  call(tool: string, args: JsonObject, signal: AbortSignal): Promise<Readonly<Record<string, unknown>>>;
  /** Ends the server or the connection in bounded time. */
  close(): Promise<void>;
}

export interface ConnectionPlace {
  readonly env: Env;
  readonly root: string;
  readonly clock: Clock;
}

const PAGES_MAX = 64;
/** The SDK's default is a minute; the caller's signal decides instead. */
const NO_TIMEOUT_MS = 2 ** 31 - 1;

/** Opens a connection; rejects with a reason and leaves nothing running then. */
export async function openConnection(
  server: McpServerConfig,
  place: ConnectionPlace,
  signal: AbortSignal,
): Promise<Connection> {
  const { transport, ending, farewell } = await createTransport(server, place);
  const { major, minor, patch } = CONTRACT_VERSION;
  const client = new Client({ name: "rkat", version: `${major}.${minor}.${patch}` });
  let isOpen = true;
  let isStale = false;
  let calls = 0;
  client.onclose = () => {
    isOpen = false;
  };
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => {
    isStale = true;
  });
  const ask = (method: string, params: JsonObject, until: AbortSignal) =>
    client.request({ method, params }, ResultSchema, { signal: until, timeout: NO_TIMEOUT_MS });
  try {
    // Some steps ignore the signal, and a server may be silent in any of them.
    await Promise.race([client.connect(transport, { signal, timeout: NO_TIMEOUT_MS }), abortOf(signal)]);
  } catch (thrown) {
    await transport.close();
    throw new Error(ending() ?? reasonOf(thrown), { cause: thrown });
  }
  return {
    get isOpen() {
      return isOpen;
    },
    get isStale() {
      return isStale;
    },
    list: async (until) => {
      isStale = false; // Before the question: a change while it is answered is another one.
      if (client.getServerCapabilities()?.tools === undefined) return [];
      try {
        return await readPages((page) => ask("tools/list", page, until));
      } catch (thrown) {
        isStale = true;
        throw new Error(ending() ?? reasonOf(thrown), { cause: thrown });
      }
    },
    call: async (tool, args, until) => {
      calls += 1;
      try {
        return await ask("tools/call", { name: tool, arguments: args }, until);
      } catch (thrown) {
        // A server may answer with the code that the SDK uses for a closed connection.
        const isLost = thrown instanceof McpError && thrown.data === LOST;
        const isAnswer =
          thrown instanceof McpError && (isOpen || thrown.code !== ErrorCode.ConnectionClosed) && !isLost;
        if (until.aborted || isAnswer) throw new Error(reasonOf(thrown), { cause: thrown });
        isOpen = false; // An address that does not answer may have forgotten us; the next use says hello again.
        const how = ending() ?? (isLost ? reasonOf(thrown) : `it could not be reached: ${reasonOf(thrown)}`);
        const advice = "the call may or may not have taken effect, and the next one reconnects";
        throw new Error(`MCP server ${server.name} failed during the call: ${how}; ${advice}`, { cause: thrown });
      } finally {
        calls -= 1;
        // Only after the last call: one failed request does not affect those of other sessions.
        if (!isOpen && calls === 0) await transport.close();
      }
    },
    close: async () => {
      if (isOpen) await farewell();
      await transport.close();
    },
  };
}

async function readPages(ask: (page: JsonObject) => Promise<Readonly<JsonObject>>): Promise<readonly unknown[]> {
  const tools: unknown[] = [];
  let page: JsonObject = {};
  for (let count = 0; count < PAGES_MAX; count += 1) {
    const { tools: more, nextCursor: cursor } = await ask(page);
    if (Array.isArray(more)) tools.push(...more);
    if (cursor === undefined || cursor === "") break;
    page = { cursor };
  }
  return tools;
}

function abortOf(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const stop = (): void => reject(new Error("it was not waited for"));
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop, { once: true });
  });
}

async function createTransport(server: McpServerConfig, { env, root, clock }: ConnectionPlace): Promise<Line> {
  if ("url" in server) return createUrlTransport(server, fillHeaders(server.headers ?? {}, env), clock);
  const { command, args = [] } = server;
  const program = { command, args, env: serverEnv(server.env ?? {}, env), folder: root };
  const transport = createChildTransport(program, clock);
  return { transport, ending: transport.ending, farewell: async () => {} };
}

const REASON_CHARS_MAX = 300;

/** The network's or server's reason without the SDK's codes: `fetch failed` alone is useless. */
function reasonOf(thrown: unknown): string {
  const inner = thrown instanceof Error && thrown.cause instanceof Error ? `: ${messageOf(thrown.cause)}` : "";
  const said = `${messageOf(thrown)}${inner}`.replace(/^(?:MCP error -?\d+: )+/, "");
  return said.replaceAll(/\p{Cc}+/gu, " ").slice(0, REASON_CHARS_MAX);
}

interface ServerProgram {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly folder: string;
}

interface ChildTransport extends Transport {
  /** How the program ended with its last output; undefined while it runs. */
  ending(): string | undefined;
}

const MESSAGE_BYTES_MAX = 16 * 1024 * 1024;
const STDERR_CHARS_MAX = 2_000;
/** Grace period after closing stdin, then SIGTERM, then SIGKILL; in total less than a server waits for a close. */
const INPUT_GRACE_MS = 400;
const TERMINATION_GRACE_MS = 300;
/** Time for remaining output after the program has exited. */
const DRAIN_MS = 200;

/**
 * A program with JSON-RPC on stdin and stdout. In its own process group: what a launcher such as `npx` started ends
 * with it, and a Ctrl-C that interrupts a turn does not reach it.
 */
function createChildTransport(program: ServerProgram, clock: Clock): ChildTransport {
  const stderr = createOutputTail(STDERR_CHARS_MAX);
  const { promise: ended, resolve: end } = Promise.withResolvers<void>();
  let child: ChildProcess | undefined;
  let ending: string | undefined;

  const finish = (how: string): void => {
    if (ending !== undefined) return;
    const said = errorLine(stderr.read().text);
    ending = said === "" ? how : `${how} and said "${said}"`;
    end();
    transport.onclose?.();
  };
  const endedWithin = async (ms: number): Promise<void> => {
    const done = new AbortController();
    await Promise.race([ended, clock.sleep(ms, done.signal)]);
    done.abort("done");
  };
  const listen = (running: ChildProcess): void => {
    const buffer = new ReadBuffer({ maxBufferSize: MESSAGE_BYTES_MAX });
    running.stdout?.on("data", (bytes: Buffer) => {
      try {
        buffer.append(bytes);
      } catch {
        finish(`it sent more than ${MESSAGE_BYTES_MAX} bytes in one message`);
        signalGroup(running, "SIGKILL");
        return;
      }
      readMessages(buffer, transport);
    });
    running.stderr?.on("data", (bytes: Buffer) => stderr.push(bytes));
    // Without a listener a broken pipe would crash the runtime; only the program's end matters.
    for (const stream of running.stdio) stream?.on("error", () => {});
    running.once("exit", (code, signal) => {
      signalGroup(running, "SIGKILL"); // What it started must not outlive it, nor hold its pipes.
      const how = code === null ? `it was ended by ${signal}` : `it ended with exit code ${code}`;
      running.once("close", () => finish(how));
      void endedWithin(DRAIN_MS).then(() => finish(how));
    });
  };

  const transport: ChildTransport = {
    ending: () => ending,
    start: () =>
      new Promise((resolve, reject) => {
        const { command, args, env, folder } = program;
        child = spawn(command, [...args], { cwd: folder, env, stdio: ["pipe", "pipe", "pipe"], detached: true });
        listen(child);
        child.once("spawn", resolve);
        child.once("error", (error: NodeJS.ErrnoException) => {
          const how = error.code === "ENOENT" ? `its command ${command} was not found` : error.message;
          finish(how);
          reject(new Error(how));
        });
      }),
    send: (message) =>
      new Promise((resolve, reject) => {
        if (ending !== undefined || child?.stdin?.writable !== true) return reject(new Error(ending ?? "it has ended"));
        child.stdin.write(serializeMessage(message), (error) => (error ? reject(error) : resolve()));
      }),
    close: async () => {
      if (child === undefined || ending !== undefined) return;
      child.stdin?.end();
      await endedWithin(INPUT_GRACE_MS);
      if (ending === undefined) signalGroup(child, "SIGTERM");
      await endedWithin(TERMINATION_GRACE_MS);
      if (ending === undefined) signalGroup(child, "SIGKILL");
      await endedWithin(DRAIN_MS);
    },
  };
  return transport;
}

function readMessages(buffer: ReadBuffer, transport: Transport): void {
  // Each pass takes a line out of the bounded buffer.
  for (;;) {
    try {
      const message = buffer.readMessage();
      if (message === null) return;
      transport.onmessage?.(message);
    } catch {
      // Not a message: many programs print a greeting on stdout.
    }
  }
}

const LINE_CHARS_MAX = 200;

/** The last line that mentions an error, else the last: stack traces and npm end with useless lines. */
function errorLine(said: string): string {
  const lines = said.split("\n").map((line) => line.replaceAll(/\p{Cc}+/gu, " ").trim());
  const reported =
    lines.findLast((line) => /error(?!.*complete log)/i.test(line)) ?? lines.findLast((line) => line !== "");
  return reported?.slice(0, LINE_CHARS_MAX) ?? "";
}
