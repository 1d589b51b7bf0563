import type { Readable, Writable } from "node:stream";
import { asRuntimeError, ERRORS, messageOf, RuntimeError } from "@rkat/core/contract/error";
import { readToolOutput } from "@rkat/core/contract/message";
import type { OperationName } from "@rkat/core/contract/operations";
import type { CallContext } from "@rkat/core/runtime/dispatch";
import { deliveryOf, type Fields, isRecord, jsonOf, reportedError } from "./answers.ts";

/** The two streams a server speaks over, and how it ended. */
interface LinkParts {
  readonly name: string;
  readonly input: Writable;
  readonly output: Readable;
  /** Resolves with what to say of its end. */
  readonly ended: Promise<RuntimeError>;
  /** Receives notifications other than a turn's events. */
  readonly onNotification: (method: string, params: Fields) => void;
  readonly onRequest: (method: string, params: Fields) => Promise<unknown>;
  /** Called once when the connection ends; pending calls are rejected with the same error. */
  readonly onEnd: (error: RuntimeError) => void;
}

/** Requests, side by side, over one connection. */
export interface Link {
  /** Sends a request and resolves with the answer, after its turn's events. */
  request(method: string, params: unknown, listeners?: CallListeners): Promise<unknown>;
  end(error: RuntimeError): void;
}

interface CallListeners extends Pick<CallContext, "listener" | "signal"> {
  /** The session of the request, when it is about one that is there already. */
  readonly sessionId?: string | undefined;
  /** Called with the session of a request once it has begun. */
  readonly onBegin?: (sessionId: string) => void;
}

interface Pending extends CallListeners {
  readonly method: string;
  sessionId?: string | undefined;
  hasBegun: boolean;
  resolve(result: unknown): void;
  reject(error: RuntimeError): void;
}

export function openLink(parts: LinkParts): Link {
  const pending = new Map<number, Pending>();
  let lastId = 0;
  let end: RuntimeError | undefined;

  const finish = (error: RuntimeError): void => {
    if (end !== undefined) return;
    end = error;
    for (const { reject } of pending.values()) reject(error);
    pending.clear();
    parts.onEnd(error);
  };
  const write = (frame: Fields): void => {
    parts.input.write(`${JSON.stringify({ jsonrpc: "2.0", ...frame })}\n`);
  };
  const answer = async (id: unknown, method: string, params: Fields): Promise<void> => {
    try {
      write({ id, result: await parts.onRequest(method, params) });
    } catch (thrown) {
      const error = asRuntimeError(thrown);
      write({ id, error: { code: ERRORS[error.code].rpc, message: error.message, data: error.toWire() } });
    }
  };
  const settle = ({ id, result, error }: Fields): void => {
    const asked = pending.get(Number(id));
    pending.delete(Number(id));
    if (error === undefined) asked?.resolve(result);
    else asked?.reject(reportedError(isRecord(error) && isRecord(error.data) ? error.data : error, parts.name));
  };
  const onSessionEvent = (params: Fields): void => {
    const asked = askerOf(pending, params);
    if (asked === undefined) return;
    if (!asked.hasBegun) {
      asked.hasBegun = true;
      asked.sessionId = String(params.session_id);
      asked.onBegin?.(asked.sessionId);
    }
    const delivery = deliveryOf(params.event);
    if (delivery !== undefined) asked.listener?.(delivery);
  };
  const take = (line: string): void => {
    if (line.trim() === "") return;
    const { method, params, ...frame } = parseLine(line, parts.name);
    const fields = isRecord(params) ? params : {};
    if (typeof method !== "string") settle(frame);
    else if ("id" in frame) void answer(frame.id, method, fields);
    else if (method === "session/event") onSessionEvent(fields);
    else parts.onNotification(method, fields);
  };
  void readLines(parts.output, take).then(
    async () => finish(await parts.ended),
    (thrown: unknown) => finish(asRuntimeError(thrown)),
  );

  return {
    request: async (method, params, listeners = {}) => {
      if (end !== undefined) throw end;
      lastId += 1;
      const id = lastId;
      const frame = jsonOf({ jsonrpc: "2.0", id, method, params });
      const cancel = (): void => write({ method: "cancel", params: { request_id: id } });
      try {
        return await new Promise<unknown>((resolve, reject) => {
          pending.set(id, { ...listeners, method, hasBegun: false, resolve, reject });
          listeners.signal?.addEventListener("abort", cancel, { once: true });
          parts.input.write(`${frame}\n`);
        });
      } finally {
        listeners.signal?.removeEventListener("abort", cancel);
      }
    },
    end: finish,
  };
}

/**
 * The request whose turn an event is of. Ours says which; of a server that does not, events are heard only where there is no
 * doubt: by the session, or when just one request makes a new one.
 */
function askerOf(pending: ReadonlyMap<number, Pending>, { request_id, session_id }: Fields): Pending | undefined {
  if (request_id !== undefined) return pending.get(Number(request_id));
  const asked = [...pending.values()];
  const known = asked.find(({ sessionId }) => sessionId === session_id);
  if (known !== undefined) return known;
  const [creating, ...others] = asked.filter((one) => one.method === "session/create" && one.sessionId === undefined);
  return others.length === 0 ? creating : undefined;
}

const SHOWN_CHARS_MAX = 100;

function parseLine(line: string, name: string): Fields {
  try {
    const frame: unknown = JSON.parse(line);
    if (isRecord(frame)) return frame;
  } catch {
    // Said below.
  }
  const shown = JSON.stringify(line.slice(0, SHOWN_CHARS_MAX));
  throw new RuntimeError("AGENT_ERROR", `${name} wrote a line that is not JSON-RPC: ${shown}; is it rkat-rpc?`);
}

/** The longest line that is read; the server's bound is the same. */
const LINE_BYTES_MAX = 64 * 1_024 * 1_024;
const NEWLINE = 0x0a;

/** Hands on every line of a server until there are no more; throws for one that is longer than any it may write. */
async function readLines(output: Readable, take: (line: string) => void): Promise<void> {
  let pieces: Buffer[] = [];
  let heldBytes = 0;
  for await (const chunk of output) {
    // A pipe without an encoding gives buffers.
    const bytes = chunk as Buffer;
    let start = 0;
    for (let end = bytes.indexOf(NEWLINE); end >= 0; end = bytes.indexOf(NEWLINE, start)) {
      const line = bytes.subarray(start, end);
      take(pieces.length === 0 ? line.toString("utf8") : Buffer.concat([...pieces, line]).toString("utf8"));
      pieces = [];
      heldBytes = 0;
      start = end + 1;
    }
    pieces.push(bytes.subarray(start));
    heldBytes += bytes.length - start;
    if (heldBytes > LINE_BYTES_MAX) {
      throw new RuntimeError("PAYLOAD_TOO_LARGE", `the server wrote a line longer than ${LINE_BYTES_MAX} bytes`);
    }
  }
}

type Tools = NonNullable<CallContext["tools"]>;
type Tool = Tools[number];

/** The tools of this client's sessions: the server asks for them, and they run here. */
export interface CallbackTools {
  /** An operation's params, with the tools a new session is given. */
  paramsWith(name: OperationName, input: unknown, tools: Tools | undefined): unknown;
  keep(sessionId: string, tools: Tools): void;
  /** A fork has the tools of what it was made of. */
  share(sourceId: string, forkId: string): void;
  forget(sessionId: string): void;
  /** Answers `tool/execute`; what a tool throws is a failure the model sees. */
  execute(params: Fields): Promise<Fields>;
  /** Aborts what runs for a session, whose turn has ended; without one, everything. */
  stop(sessionId?: string): void;
}

const refuseStep = async (name: string): Promise<never> => {
  const message = `step ${name}: only a tool in the process of the runtime can record steps; use effectId instead`;
  throw new RuntimeError("CAPABILITY_UNAVAILABLE", message);
};

export function createCallbackTools(): CallbackTools {
  const bySession = new Map<string, Tools>();
  const running = new Map<AbortController, string>();

  const find = (sessionId: string, name: string): Tool | undefined => {
    const own = bySession.get(sessionId) ?? [...bySession.values()].flat();
    return own.findLast((tool) => tool.name === name);
  };
  return {
    paramsWith: (name, input, tools = []) => {
      if (tools.length === 0) return input;
      if (name !== "createSession") {
        throw new RuntimeError("INVALID_PARAMS", "tools: a server is given them with createSession, for all turns");
      }
      const asking = tools.find(({ needsApproval = false }) => needsApproval !== false);
      if (asking !== undefined) {
        const message = `tools: needsApproval of ${asking.name} cannot be sent to a server; ask by permissions: { ask: ["${asking.name}"] }`;
        throw new RuntimeError("INVALID_PARAMS", message);
      }
      const external_tools = tools.map(({ name: toolName, description, inputSchema }) => ({
        name: toolName,
        description,
        input_schema: inputSchema,
      }));
      return { ...(isRecord(input) ? input : {}), external_tools };
    },
    keep: (sessionId, tools) => {
      if (tools.length > 0) bySession.set(sessionId, tools);
    },
    share: (sourceId, forkId) => {
      const tools = bySession.get(sourceId);
      if (tools !== undefined) bySession.set(forkId, tools);
    },
    forget: (sessionId) => {
      bySession.delete(sessionId);
    },
    execute: async ({ source, tool_use_id, name, arguments: args }) => {
      const sessionId = isRecord(source) ? String(source.session_id) : "";
      const tool = find(sessionId, String(name));
      if (tool === undefined) throw new RuntimeError("METHOD_NOT_FOUND", `there is no tool ${name} here`);
      const stopping = new AbortController();
      running.set(stopping, sessionId);
      const toolUseId = String(tool_use_id);
      const effectId = `${sessionId}:${toolUseId}`;
      const context = { sessionId, toolUseId, signal: stopping.signal, shellEnv: {}, effectId, step: refuseStep };
      try {
        // The server has held the arguments against the tool's schema, which is that of an object.
        const returned = await tool.execute(args as Parameters<Tool["execute"]>[0], context);
        const { content, isError: is_error } = readToolOutput(tool.name, returned);
        return { content, is_error };
      } catch (thrown) {
        return { content: messageOf(thrown), is_error: true };
      } finally {
        running.delete(stopping);
      }
    },
    stop: (sessionId) => {
      for (const [stopping, of] of running) if (sessionId === undefined || of === sessionId) stopping.abort("stopped");
    },
  };
}
