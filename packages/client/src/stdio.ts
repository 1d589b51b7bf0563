import { spawn } from "node:child_process";
import { basename } from "node:path";
import type { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { RuntimeError } from "@rkat/core/contract/error";
import { WIRE_TABLE } from "@rkat/core/contract/wire/wire-table";
import type { Dispatch } from "@rkat/core/runtime/dispatch";
import { createRuntimeCalls, type Runtime } from "@rkat/core/runtime/runtime-calls";
import { cancelledError, closedError, isRecord, requireSameContract, sleep } from "./answers.ts";
import type { CommandOptions } from "./connect.ts";
import { createCallbackTools, openLink } from "./stdio-link.ts";
import { createStreams } from "./stdio-streams.ts";

/** The facts of the process, which the entry point passes in. */
export interface Machine {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The Node that runs this. */
  readonly node: string;
  /** The package's own server, where the package can be found. */
  readonly server: URL | undefined;
}

/** How long a server may take to say what it is; a command that is none says nothing at all. */
const HANDSHAKE_MS_MAX = 60_000;

/** Starts a server and connects to it; throws when it cannot be started, or is nothing this client can speak with. */
export async function openStdio(options: CommandOptions, machine: Machine): Promise<Runtime> {
  const { cwd, env = machine.env, log = () => {} } = options;
  const command = commandOf(options, machine);
  const server = await openCommandServer(command, { cwd, env, log });
  const tools = createCallbackTools();
  const link = openLink({
    input: server.input,
    output: server.output,
    ended: server.ended.then((how) => (isClosed ? closedError() : new RuntimeError("AGENT_ERROR", how))),
    name: command.name,
    onNotification: (method, params) => streams.take(method, params),
    onRequest: (method, params) => {
      if (method === "tool/execute") return tools.execute(params);
      throw new RuntimeError("METHOD_NOT_FOUND", `this client has no method ${method}`);
    },
    onEnd: (error) => {
      tools.stop();
      streams.endAll(isClosed ? undefined : error);
    },
  });
  let isClosed = false;

  const dispatch: Dispatch = async (name, input, call = {}) => {
    if (isClosed) throw closedError();
    if (call.signal?.aborted) throw cancelledError();
    const params = tools.paramsWith(name, input, call.tools);
    const sessionId = sessionIdIn(input);
    let begun: string | undefined;
    const onBegin = (id: string): void => {
      begun = id;
      tools.keep(id, call.tools ?? []);
    };
    try {
      const result = await link.request(WIRE_TABLE[name].rpc, params, { ...call, sessionId, onBegin });
      if (name === "createSession") tools.keep(sessionIdIn(result) ?? "", call.tools ?? []);
      if (name === "forkSession" || name === "forkReplacing") tools.share(sessionId ?? "", sessionIdIn(result) ?? "");
      if (name === "archiveSession") tools.forget(sessionId ?? "");
      // The server answers a row's method with the row's output.
      return result as Awaited<ReturnType<typeof dispatch<typeof name>>>;
    } finally {
      // Not for what was refused: another turn of the session may be running one.
      if (begun !== undefined) tools.stop(begun);
    }
  };
  const streams = createStreams({
    name: command.name,
    request: link.request,
    dispatch,
    isClosed: () => isClosed,
  });
  const close = async (): Promise<void> => {
    isClosed = true;
    await server.stop();
    link.end(closedError());
  };
  try {
    await greet(link.request, command.name);
  } catch (thrown) {
    await close();
    throw thrown;
  }
  return createRuntimeCalls({ dispatch, subscribe: streams.subscribe, close });
}

function sessionIdIn(value: unknown): string | undefined {
  return isRecord(value) && typeof value.session_id === "string" ? value.session_id : undefined;
}

async function greet(request: (method: string, params: unknown) => Promise<unknown>, name: string): Promise<void> {
  const answered = new AbortController();
  const late = sleep(HANDSHAKE_MS_MAX, answered.signal).then(() => {
    throw new RuntimeError(
      "AGENT_ERROR",
      `${name} has not answered for ${HANDSHAKE_MS_MAX / 1_000} s; is it rkat-rpc?`,
    );
  });
  const greeting = async (): Promise<void> => {
    const hello = await request("initialize", {});
    requireSameContract(isRecord(hello) ? hello.contract_version : undefined, name);
    await request("capabilities/get", {});
  };
  late.catch(() => {}); // It is not awaited after the answer.
  try {
    await Promise.race([greeting(), late]);
  } finally {
    answered.abort("answered");
  }
}

/** What is started: what the environment says, else what was asked for, else the package's own server, else what the path has. */
function commandOf({ command, args = [], env }: CommandOptions, { env: own, node, server }: Machine): Command {
  const named = env?.MEERKAT_BIN_PATH || own.MEERKAT_BIN_PATH || command;
  // The command line speaks JSON-RPC when it is told to.
  if (named !== undefined) {
    const own = named !== command && basename(named) === "rkat" ? ["rpc", ...args] : args;
    return { file: named, args: own, name: [basename(named), ...own].join(" ") };
  }
  const name = ["rkat-rpc", ...args].join(" ");
  if (server === undefined) return { file: "rkat-rpc", args, name };
  return { file: node, args: [fileURLToPath(server), ...args], name };
}

/** The command to start. */
interface Command {
  readonly file: string;
  readonly args: readonly string[];
  /** Its name in messages. */
  readonly name: string;
}

interface Surroundings {
  readonly cwd?: string | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Receives its stderr, line by line. */
  readonly log: (line: string) => void;
}

interface CommandServer {
  readonly input: Writable;
  readonly output: Readable;
  /** Resolves, once it has ended, with how: a sentence with its exit code and what it said last. */
  readonly ended: Promise<string>;
  /** Ends its input, asks it to end, and kills it when it does not. Calling it twice does no harm. */
  stop(): Promise<void>;
}

/** How long it may take to end; its turns are interrupted and kept meanwhile. */
const KILL_AFTER_MS = 5_000;

/** Starts a server; throws INVALID_PARAMS for what cannot be started. */
async function openCommandServer(command: Command, around: Surroundings): Promise<CommandServer> {
  const { cwd, env, log } = around;
  const child = spawn(command.file, command.args, { stdio: "pipe", env, ...(cwd === undefined ? {} : { cwd }) });
  const said = lastLines(child.stderr, log);
  const ended = new Promise<string>((resolve) => {
    child.once("close", (code, signal) => {
      const how = signal === null ? `ended with exit code ${code}` : `was killed by ${signal}`;
      const words = said();
      resolve(words === "" ? `${command.name} ${how}` : `${command.name} ${how}; its output: ${words}`);
    });
  });
  child.stdin.on("error", () => {}); // The process has closed its input; `ended` reports how it ended.
  await new Promise<void>((resolve, reject) => {
    child.once("spawn", resolve);
    child.once("error", (cause: NodeJS.ErrnoException) => reject(notStarted(command, cwd, cause)));
  });
  child.on("error", () => {}); // Such as a signal that comes too late.
  let stopping: Promise<void> | undefined;
  const stop = async (): Promise<void> => {
    child.stdin.end();
    child.kill("SIGTERM");
    const killing = setTimeout(() => child.kill("SIGKILL"), KILL_AFTER_MS);
    await ended;
    clearTimeout(killing);
  };
  return {
    input: child.stdin,
    output: child.stdout,
    ended,
    stop: () => {
      stopping ??= stop();
      return stopping;
    },
  };
}

const FAULTS: Readonly<Record<string, string>> = {
  ENOENT: "there is no such command",
  EACCES: "it may not be run",
  ENOTDIR: "there is no such command",
};

function notStarted({ file }: Command, cwd: string | undefined, cause: NodeJS.ErrnoException): RuntimeError {
  const where = cwd === undefined ? "" : ` in ${cwd}`;
  const why = FAULTS[cause.code ?? ""] ?? cause.message;
  return new RuntimeError("INVALID_PARAMS", `command: cannot start ${file}${where}: ${why}`, { cause });
}

const LINES_KEPT = 5;
const LINE_CHARS_MAX = 1_000;

/** Hands on each line, and keeps the last few: they are what explains a server that ends. */
function lastLines(stderr: Readable, log: (line: string) => void): () => string {
  let kept: string[] = [];
  let rest = "";
  const take = (line: string): void => {
    if (line.trim() === "") return;
    kept = [...kept, line.slice(0, LINE_CHARS_MAX)].slice(-LINES_KEPT);
    log(line);
  };
  stderr.setEncoding("utf8");
  stderr.on("data", (text: string) => {
    const lines = (rest + text).split("\n");
    rest = (lines.pop() ?? "").slice(0, LINE_CHARS_MAX);
    for (const line of lines) take(line);
  });
  stderr.on("end", () => take(rest));
  return () => kept.join(" / ");
}
