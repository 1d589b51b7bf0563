import { type ChildProcess, spawn } from "node:child_process";
import {
  type CallToolRequest,
  Client,
  ProtocolError,
  ProtocolErrorCode,
  ReadBuffer,
  SdkError,
  SdkErrorCode,
  serializeMessage,
  type Transport,
} from "@modelcontextprotocol/client";
import { messageOf } from "../../contract/error.ts";
import { z } from "../../contract/schema.ts";
import type { JsonObject } from "../../contract/session.ts";
import { CONTRACT_VERSION } from "../../contract/wire/version.ts";
import type { Clock } from "../../ports/clock.ts";
import type { AskUser, McpLogins, McpServerConfig } from "../../ports/tool.ts";
import { createOutputTail, signalGroup } from "../command.ts";
import type { Env } from "../shell.ts";
import { hasOwnAuthorization, isLoginNeeded } from "./login.ts";
import { type AskingCall, callWithInputs, createRunningCalls, type RunningCalls } from "./questions.ts";
import { createUrlTransport, type Line, LOST } from "./url-transport.ts";
import { serverEnv } from "./variables.ts";

export interface Connection {
  /** False once the server has gone; then another connection must be opened. */
  readonly isOpen: boolean;
  /** Whether the server has reported changed tools since they were listed. */
  readonly isStale: boolean;
  list(signal: AbortSignal): Promise<readonly unknown[]>;
  /** Throws errors for the model; an abort is forwarded to the server. */
  call(tool: string, args: JsonObject, by: AskingCall): Promise<Readonly<Record<string, unknown>> | AskUser>;
  /** Ends it once no call uses it. */
  retire(): Promise<void>;
  /** Ends the server or the connection in bounded time. */
  close(): Promise<void>;
}

export interface ConnectionPlace {
  readonly env: Env;
  readonly root: string;
  readonly clock: Clock;
  readonly logins?: McpLogins | undefined;
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
  const opened = await connect(server, place, signal);
  const { client, transport, running, ending, farewell } = opened;
  const isModern = client.getProtocolEra() === "modern";
  let isOpen = true;
  let calls = 0;
  client.onclose = () => {
    isOpen = false;
  };
  // Changes are no longer reported: another connection lists the tools again.
  void client.autoOpenedSubscription?.closed.then((by) => {
    if (by === "local") return;
    isOpen = false;
    if (calls === 0) void transport.close();
  });
  const ask = (method: string, params: JsonObject, until: AbortSignal) =>
    client.request({ method, params }, AnyResult, { signal: until, timeout: NO_TIMEOUT_MS });
  const callOnce = async (params: CallToolRequest["params"], until: AbortSignal) => {
    calls += 1;
    try {
      if (!isModern) return await ask("tools/call", params, until);
      return await client.callTool(params, { signal: until, timeout: NO_TIMEOUT_MS, allowInputRequired: true });
    } catch (thrown) {
      const isLost = thrown instanceof ProtocolError && thrown.data === LOST;
      if (until.aborted || (isAnswer(thrown) && !isLost)) throw new Error(reasonOf(thrown), { cause: thrown });
      isOpen = false; // An address that does not answer may have forgotten us; the next use says hello again.
      if (isRefused(server, thrown))
        throw new Error(`MCP server ${server.name} cannot be used: ${loginText(server)}`, { cause: thrown });
      const how = ending() ?? (isLost ? reasonOf(thrown) : `it could not be reached: ${reasonOf(thrown)}`);
      const advice = "the call may or may not have taken effect, and the next one reconnects";
      throw new Error(`MCP server ${server.name} failed during the call: ${how}; ${advice}`, { cause: thrown });
    } finally {
      calls -= 1;
      // Only after the last call: one failed request does not affect those of other sessions.
      if (!isOpen && calls === 0) await transport.close();
    }
  };
  return {
    get isOpen() {
      return isOpen;
    },
    get isStale() {
      return opened.isStale;
    },
    list: async (until) => {
      opened.isStale = false; // Before the question: a change while it is answered is another one.
      if (client.getServerCapabilities()?.tools === undefined) return [];
      try {
        if (!isModern) return await readPages((page) => ask("tools/list", page, until));
        return (await client.listTools({}, { signal: until, timeout: NO_TIMEOUT_MS, cacheMode: "refresh" })).tools;
      } catch (thrown) {
        opened.isStale = true;
        throw new Error(isRefused(server, thrown) ? loginText(server) : (ending() ?? reasonOf(thrown)), {
          cause: thrown,
        });
      }
    },
    call: (name, args, by) => {
      const params = { name, arguments: args };
      if (isModern) return callWithInputs(server.name, by, (inputs) => callOnce({ ...params, ...inputs }, by.signal));
      return running.run(by, (signal) => callOnce(params, signal));
    },
    retire: async () => {
      isOpen = false;
      if (calls > 0) return;
      await farewell();
      await transport.close();
    },
    close: async () => {
      running.close();
      if (isOpen) await farewell();
      await transport.close();
    },
  };
}

interface Opened extends Line {
  readonly client: Client;
  readonly running: RunningCalls;
  isStale: boolean;
}

/** Servers of the 2025 versions and of 2026-07-28, by asking `server/discover` first. */
async function connect(
  server: McpServerConfig,
  place: ConnectionPlace,
  signal: AbortSignal,
  known?: "legacy",
): Promise<Opened> {
  const line = createTransport(server, place);
  const { major, minor, patch } = CONTRACT_VERSION;
  const onChanged = (): void => {
    opened.isStale = true;
  };
  const client = new Client(
    { name: "rkat", version: `${major}.${minor}.${patch}` },
    {
      versionNegotiation: {
        // The older protocol of events at an address is of 2024.
        mode: "url" in server && server.transport === "sse" ? "legacy" : "auto",
        probe: { timeoutMs: "url" in server ? NO_TIMEOUT_MS : SILENCE_MS },
      },
      listChanged: { tools: { autoRefresh: false, debounceMs: 0, onChanged } },
      listMaxPages: PAGES_MAX,
      capabilities: { elicitation: { form: {} } },
    },
  );
  const running = createRunningCalls(server.name, place.clock);
  // A handler of this method would get it after the SDK has read it, however long it is.
  client.fallbackRequestHandler = async (request) => {
    if (request.method === "elicitation/create") return { ...(await running.ask(request)) };
    throw new ProtocolError(ProtocolErrorCode.MethodNotFound, "Method not found");
  };
  const opened: Opened = { ...line, client, running, isStale: false };
  try {
    const prior = known === undefined ? {} : { prior: { kind: known } };
    // Some steps ignore the signal, and a server may be silent in any of them.
    await Promise.race([client.connect(line.transport, { signal, timeout: NO_TIMEOUT_MS, ...prior }), abortOf(signal)]);
    return opened;
  } catch (thrown) {
    await line.transport.close();
    // Some servers of the 2025 versions end, or fail, at a first message that is not theirs.
    const isUnclear = isCode(thrown, SdkErrorCode.EraNegotiationFailed) && known === undefined && !signal.aborted;
    if (isUnclear) return connect(server, place, signal, "legacy");
    throw new Error(isRefused(server, thrown) ? loginText(server) : (line.ending() ?? reasonOf(thrown)), {
      cause: thrown,
    });
  }
}

function isRefused(server: McpServerConfig, thrown: unknown): boolean {
  return "url" in server && !hasOwnAuthorization(server) && isLoginNeeded(thrown);
}

function loginText({ name }: McpServerConfig): string {
  return `it requires a login; run rkat mcp login ${name}, or set its headers`;
}

/** Programs that ignore unknown messages are of the 2025 versions; half of the default `connect_timeout`. */
const SILENCE_MS = 5_000;

/** Servers of the 2025 versions often break rules of results that do not matter here. */
const AnyResult = z.record(z.string(), z.unknown());

function isCode(thrown: unknown, ...codes: readonly SdkErrorCode[]): boolean {
  return thrown instanceof SdkError && codes.includes(thrown.code);
}

/** Whether the server has answered: with an error, or with something that cannot be used. */
function isAnswer(thrown: unknown): boolean {
  const { InvalidResult, UnsupportedResultType } = SdkErrorCode;
  return thrown instanceof ProtocolError || isCode(thrown, InvalidResult, UnsupportedResultType);
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

function createTransport(server: McpServerConfig, { env, root, clock, logins }: ConnectionPlace): Line {
  if ("url" in server) return createUrlTransport(server, { env, clock, logins });
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
  /** By these two the SDK knows that silence is an older server, not an outage. */
  readonly pid: number | undefined;
  readonly stderr: null;
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
    get pid() {
      return child?.pid;
    },
    stderr: null,
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
