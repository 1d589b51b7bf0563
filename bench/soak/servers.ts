import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { commandsOf, createCliDriver } from "@rkat/conformance/cli-driver";
import { type Fields, failure, type Outcome } from "@rkat/conformance/driver";
import { connectHttp, openMcpDriver } from "@rkat/conformance/mcp-driver";
import { createRestDriver } from "@rkat/conformance/rest-driver";
import { isRecord } from "@rkat/core/contract/json";
import { OPERATIONS, type OperationName } from "@rkat/core/contract/operations";
import { Gone, linkTo } from "./lines.ts";

export type ServerName = "rest" | "mcp-http" | "rpc" | "mcp";
export const SERVER_NAMES: readonly ServerName[] = ["rest", "mcp-http", "rpc", "mcp"];

/** Where servers are started, and how they are told apart. */
export interface Place {
  readonly root: string;
  readonly folder: string;
  readonly stateRoot: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly preload: string;
  /** Told of what must not be. */
  fault(sentence: string): void;
}

/** A server that runs, dies and is started again. */
export interface Server {
  readonly name: ServerName;
  /** Where it listens; empty for one on stdin and stdout. */
  readonly url: string;
  readonly pid: number;
  /** Counts its ends, so that a call knows whether there was one in between. */
  readonly ends: number;
  /** Resolves when it listens: after a kill it does not for a while. */
  isUp(): Promise<void>;
  call(operation: OperationName, input: Fields): Promise<Outcome>;
  /** Sends a request as it is and resolves with what answers: a frame, or a status and a body. */
  raw(request: RawRequest): Promise<Fields>;
  /** Ends it at once and starts it again after a while. */
  kill(pauseMs: number): Promise<void>;
  /** Asks it to end; resolves with its exit code. */
  stop(): Promise<number | null>;
}

type RawRequest = { readonly method: string; readonly path: string; readonly body: string };

const HEAP_MB = 128;
const REALM = "soak";
/** What a server that was asked to end may take. */
const END_MS_MAX = 15_000;
const TRACE = /^\s+at .+:\d+:\d+\)?$|Unhandled|Uncaught|FATAL ERROR|heap out of memory|MaxListenersExceeded|AbortError/;
const STDERR_LINES_KEPT = 20;

interface Running {
  readonly child: ChildProcessWithoutNullStreams;
  readonly url: string;
  readonly call: Server["call"];
  readonly raw: Server["raw"];
  readonly said: readonly string[];
}

/** Starts a server, and starts it again whenever it ends without being asked to. */
export async function openServer(name: ServerName, place: Place): Promise<Server> {
  let ends = 0;
  let isWanted = true;
  let running = await start(name, place);
  let starting: Promise<void> = Promise.resolve();
  const watch = (): void => {
    const { child, said } = running;
    child.once("exit", (code, signal) => {
      ends += 1;
      if (!isWanted) return;
      place.fault(`${name} died with ${code ?? signal}: ${said.slice(-8).join(" | ")}`);
      starting = again(0);
    });
  };
  const again = async (pauseMs: number): Promise<void> => {
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
    running = await start(name, place);
    isWanted = true;
    watch();
  };
  watch();
  const onceUp = async <T>(ask: (up: Running) => Promise<T>): Promise<T> => {
    await starting;
    const before = ends;
    try {
      return await ask(running);
    } catch (thrown) {
      // A connection breaks a moment before the end of the process is heard of.
      if (ends === before && isWanted) await new Promise((resolve) => setTimeout(resolve, 1_000));
      if (ends !== before || !isWanted) throw new Gone(`${name} went away`);
      throw thrown;
    }
  };
  return {
    name,
    get url() {
      return running.url;
    },
    get pid() {
      return running.child.pid ?? 0;
    },
    get ends() {
      return ends;
    },
    isUp: () => starting,
    call: (operation, input) => onceUp((up) => up.call(operation, input)),
    raw: (request) => onceUp((up) => up.raw(request)),
    kill: async (pauseMs) => {
      await starting;
      isWanted = false;
      const { child } = running;
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      starting = ended.then(() => again(pauseMs));
      await starting;
    },
    stop: async () => {
      await starting;
      isWanted = false;
      const { child } = running;
      if (child.exitCode !== null || child.signalCode !== null) return child.exitCode;
      const ended = once(child, "exit");
      child.stdin.end();
      child.kill("SIGTERM");
      const late = setTimeout(() => child.kill("SIGKILL"), END_MS_MAX);
      const [code] = await ended;
      clearTimeout(late);
      return code;
    },
  };
}

const ARGS: Readonly<Record<ServerName, readonly string[]>> = {
  rest: ["cli.js", "serve", "--port", "0", "--json"],
  "mcp-http": ["mcp.js", "--http", "--port", "0"],
  rpc: ["rpc.js"],
  mcp: ["mcp.js"],
};

async function start(name: ServerName, place: Place): Promise<Running> {
  const [door = "", ...args] = ARGS[name];
  const flags = [`--max-old-space-size=${HEAP_MB}`, "--import", place.preload, `${place.root}/dist/${door}`];
  const where = ["--realm", REALM, "--state-root", place.stateRoot, "--context-root", place.folder];
  const child = spawn(process.execPath, [...flags, ...args, ...where], {
    cwd: place.folder,
    env: { ...place.env, RKAT_SOAK_NAME: name },
  });
  const said: string[] = [];
  const lines = createInterface({ input: child.stderr });
  lines.on("line", (line) => {
    said.push(line);
    if (said.length > STDERR_LINES_KEPT) said.shift();
    if (TRACE.test(line)) place.fault(`${name} wrote on stderr: ${said.slice(-3).join(" | ").slice(0, 600)}`);
  });
  const ended = once(child, "exit").then(([code]) => {
    throw new Error(`${name} ended with ${code} before it listened: ${said.join(" | ")}`);
  });
  ended.catch(() => {}); // Heard of below, or by whoever watches.
  return { child, said, ...(await Promise.race([connect(name, child), ended])) };
}

async function connect(
  name: ServerName,
  child: ChildProcessWithoutNullStreams,
): Promise<Pick<Running, "url" | "call" | "raw">> {
  switch (name) {
    case "rest": {
      const url = await lineWith(child.stdout, /"url":\s*"([^"]+)"/);
      const driver = createRestDriver({ url, close: async () => {} });
      return { url, call: driver.call, raw: (request) => rawHttp(url, request) };
    }
    case "mcp-http": {
      const url = await lineWith(child.stderr, /listening on (http\S+)/);
      const connection = await connectHttp(url, undefined);
      const driver = await mcpDriver("mcp-http", connection);
      return { url, call: driver.call, raw: (request) => rawHttp(url, { ...request, path: "" }) };
    }
    case "rpc": {
      const link = linkTo(child);
      await link.request("initialize", {});
      const call: Server["call"] = async (operation, input) =>
        rpcOutcome(await link.request(OPERATIONS[operation].rpc, input));
      return { url: "", call, raw: ({ body }) => link.raw(body) };
    }
    case "mcp": {
      const link = linkTo(child);
      const clientInfo = { name: "rkat-soak", version: "1" };
      await link.request("initialize", { protocolVersion: "2025-06-18", capabilities: {}, clientInfo });
      link.notify("notifications/initialized", {});
      const driver = await mcpDriver("mcp", {
        callTool: (_, call) => link.request("tools/call", call),
        close: async () => {},
      });
      return { url: "", call: driver.call, raw: ({ body }) => link.raw(body) };
    }
  }
}

function mcpDriver(surface: "mcp" | "mcp-http", connection: Awaited<ReturnType<typeof connectHttp>>) {
  const open = async () => connection;
  return openMcpDriver({ surface, lacks: () => undefined, open, restart: async () => {}, close: async () => {} });
}

function rpcOutcome({ result, error }: Fields): Outcome {
  if (!isRecord(error)) return { ok: true, result };
  const { code, message, details } = isRecord(error.data) ? error.data : { code: "no code", message: error.message };
  return failure({ code, message, details }, { kind: "rpc", value: Number(error.code) });
}

async function rawHttp(url: string, { method, path, body }: RawRequest): Promise<Fields> {
  const headers = { "content-type": "application/json", accept: "application/json, text/event-stream" };
  const response = await fetch(`${url}${path}`, { method, headers, ...(method === "GET" ? {} : { body }) });
  return { status: response.status, text: await response.text() };
}

function lineWith(stream: NodeJS.ReadableStream, pattern: RegExp): Promise<string> {
  return new Promise((resolve) => {
    let text = "";
    stream.on("data", (data) => {
      text = `${text}${data}`.slice(-4_096);
      const [, found] = pattern.exec(text) ?? [];
      if (found !== undefined) resolve(found);
    });
  });
}

/** The command line, a process a call, on the same folder as the servers. */
export function createCommandLine({ root, folder, stateRoot, env }: Place): Server["call"] {
  const args = [
    `--max-old-space-size=${HEAP_MB}`,
    `${root}/packages/rkat/dist/cli.js`,
    "--realm",
    REALM,
    "--state-root",
    stateRoot,
  ];
  return createCliDriver(commandsOf({ command: process.execPath, args, cwd: folder, env })).call;
}
