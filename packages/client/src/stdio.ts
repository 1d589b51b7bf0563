import { spawn } from "node:child_process";
import { basename } from "node:path";
import type { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { RuntimeError } from "@rkat/core/contract/error";
import { WIRE_TABLE } from "@rkat/core/contract/wire/wire-table";
import type { Dispatch } from "@rkat/core/runtime/dispatch";
import { createRuntimeCalls, type Runtime } from "@rkat/core/runtime/runtime-calls";
import type { Delivery } from "@rkat/core/sessions/event-queue";
import {
  cancelledError,
  closedError,
  deliveryOf,
  type Fields,
  isRecord,
  lastSeq,
  reportedError,
  requireSameContract,
  sleep,
} from "./answers.ts";
import type { CommandOptions } from "./connect.ts";
import { createCallbackTools, type Link, openLink } from "./stdio-link.ts";

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
  // `rkat rpc` makes the command line speak JSON-RPC.
  if (named !== undefined) {
    const own = named !== command && basename(named) === "rkat" ? ["rpc", ...args] : args;
    return { file: named, args: own, name: [basename(named), ...own].join(" ") };
  }
  const name = ["rkat-rpc", ...args].join(" ");
  if (server === undefined) return { file: "rkat-rpc", args, name };
  return { file: node, args: [fileURLToPath(server), ...args], name };
}

interface Command {
  readonly file: string;
  readonly args: readonly string[];
  readonly name: string;
}

interface Surroundings {
  readonly cwd?: string | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
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

interface StreamParts {
  readonly name: string;
  readonly request: Link["request"];
  readonly dispatch: Dispatch;
  /** Whether the client was closed, and not its server: what is read then ends. */
  readonly isClosed: () => boolean;
}

interface Streams {
  readonly subscribe: Runtime["subscribe"];
  /** Takes `session/stream_event` and `session/stream_end`. */
  take(method: string, params: Fields): void;
  /** Ends every stream: with a failure, or as if its reader had left. */
  endAll(error?: RuntimeError): void;
}

const QUEUE_EVENTS_MAX = 4_096;

/** What has arrived of one stream and was not read yet. */
interface Arrived {
  queue: Delivery[];
  hasOverflown: boolean;
  end: { readonly error?: RuntimeError | undefined } | undefined;
  wake: (() => void) | undefined;
}

function createStreams({ name, request, dispatch, isClosed }: StreamParts): Streams {
  const streams = new Map<string, Arrived>();
  // The first events of a stream may come before the answer that names it.
  let opening = 0;

  const streamOf = (streamId: string): Arrived | undefined => {
    const known = streams.get(streamId);
    if (known !== undefined || opening === 0) return known;
    const early = arrival();
    streams.set(streamId, early);
    return early;
  };
  const open = async (session_id: string) => {
    opening += 1;
    try {
      const answer = await request("session/stream_open", { session_id });
      const streamId = String(isRecord(answer) ? answer.stream_id : "");
      // There is one from here on: a stream is being opened.
      return { streamId, stream: streamOf(streamId) ?? arrival() };
    } finally {
      opening -= 1;
    }
  };
  /** Opens a stream and says from where on its reader is to be caught up; undefined when the client was closed meanwhile. */
  const begin = async (sessionId: string, after: number | undefined) => {
    try {
      const seen = after ?? (await lastSeq(dispatch, sessionId));
      return { seen, ...(await open(sessionId)) };
    } catch (thrown) {
      if (isClosed()) return undefined;
      throw thrown;
    }
  };
  async function* subscribe(sessionId: string, options: { after?: number; signal?: AbortSignal } = {}) {
    const { after, signal = new AbortController().signal } = options;
    if (signal.aborted || isClosed()) return;
    const begun = await begin(sessionId, after);
    if (begun === undefined) return;
    const { streamId, stream } = begun;
    const onAbort = (): void => stream.wake?.();
    signal.addEventListener("abort", onAbort);
    let { seen } = begun;
    const catchUp = async function* (): AsyncGenerator<Delivery> {
      // Where nothing is kept, what was missed is lost.
      if (seen === undefined) return;
      for await (const delivery of replay(dispatch, sessionId, seen)) {
        if (signal.aborted) return;
        seen = delivery.seq;
        yield delivery;
      }
    };
    try {
      yield* catchUp();
      while (!signal.aborted && !isClosed()) {
        const { queue, hasOverflown, end } = stream;
        stream.queue = [];
        stream.hasOverflown = false;
        for (const delivery of queue) {
          // What the log already gave is not given again.
          if (delivery.seq !== 0 && delivery.seq <= (seen ?? 0)) continue;
          if (delivery.seq !== 0 && seen !== undefined) seen = delivery.seq;
          yield delivery;
        }
        if (hasOverflown) {
          yield lagged(queue.at(-1)?.timestamp_ms ?? 0);
          yield* catchUp();
        }
        if (queue.length > 0 || hasOverflown) continue;
        if (end?.error !== undefined) throw end.error;
        if (end !== undefined) return;
        await new Promise<void>((resolve) => {
          stream.wake = resolve;
        });
        stream.wake = undefined;
      }
    } catch (thrown) {
      if (!isClosed()) throw thrown;
    } finally {
      signal.removeEventListener("abort", onAbort);
      await request("session/stream_close", { stream_id: streamId }).catch(() => {}); // It may have ended before.
      streams.delete(streamId);
    }
  }
  return {
    subscribe,
    take: (method, params) => {
      const stream = streamOf(String(params.stream_id));
      if (stream === undefined) return;
      const delivery = method === "session/stream_event" ? deliveryOf(params.event) : undefined;
      if (method === "session/stream_end") stream.end = { error: failureIn(params, name) };
      else if (delivery === undefined) return;
      else if (stream.queue.length < QUEUE_EVENTS_MAX && !stream.hasOverflown) stream.queue.push(delivery);
      else stream.hasOverflown = true;
      stream.wake?.();
    },
    endAll: (error) => {
      for (const stream of streams.values()) {
        stream.end ??= { error };
        stream.wake?.();
      }
    },
  };
}

function arrival(): Arrived {
  return { queue: [], hasOverflown: false, end: undefined, wake: undefined };
}

function lagged(timestamp_ms: number): Delivery {
  const reason = "the reader lagged behind: live events were dropped";
  return { seq: 0, timestamp_ms, event: { type: "stream_truncated", reason } };
}

function failureIn({ outcome, error }: Fields, name: string): RuntimeError | undefined {
  return outcome === "terminal_error" ? reportedError(error, name) : undefined;
}

/** The durable events of a session after a seq, a page at a time. */
async function* replay(dispatch: Dispatch, session_id: string, after: number): AsyncGenerator<Delivery> {
  const scope = { type: "session", session_id };
  for (let sequence = after, hasMore = true; hasMore; ) {
    const { events, has_more } = await dispatch("listEvents", { scope, cursor: { scope, sequence } });
    for (const { cursor, timestamp_ms, payload } of events) {
      sequence = cursor.sequence;
      yield { seq: cursor.sequence, timestamp_ms, event: payload };
    }
    hasMore = has_more && events.length > 0;
  }
}
