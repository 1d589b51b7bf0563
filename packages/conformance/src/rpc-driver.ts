import { createInterface } from "node:readline";
import { isRecord } from "@rkat/core/contract/json";
import { OPERATIONS, type OperationName } from "@rkat/core/contract/operations";
import { type Child, endedEarly, type Start, startChild, withinTime } from "./child.ts";
import { type Driver, eventIn, type Fields, failure, type Outcome, type ReportedEvent } from "./driver.ts";

/** Tells scenarios through a server of JSON-RPC on stdin and stdout. */
export async function openRpcDriver(start: Start): Promise<Driver> {
  const calls = createCallsBySession();
  const listener = ({ method, params }: Fields): void => {
    if (method === "session/event" && isRecord(params)) calls.emit(params.session_id, hybridEvent(params.event));
  };
  const open = (): Promise<Peer> => openPeer(start, { listener, hello: {} });
  let peer = await open();
  return {
    surface: "rpc",
    lacks: () => undefined,
    hasEvents: () => true,
    call: async (operation, input, onEvent) => {
      const end = calls.begin(operation, input.session_id, onEvent);
      try {
        return outcomeOf(await peer.request(OPERATIONS[operation].rpc, input));
      } finally {
        end();
      }
    },
    restart: async () => {
      await peer.close();
      peer = await open();
    },
    close: () => peer.close(),
  };
}

function outcomeOf({ result, error }: Fields): Outcome {
  if (!isRecord(error)) return { ok: true, result };
  const { code, message, details } = isRecord(error.data) ? error.data : { code: "no code", message: error.message };
  return failure({ code, message, details }, { kind: "rpc", value: Number(error.code) });
}

/** Envelope and event in one object (contract §2, C1): both spellings must say the same. */
function hybridEvent(hybrid: unknown): ReportedEvent {
  const event = eventIn(hybrid);
  const flat = isRecord(hybrid) ? hybrid : {};
  const astray = Object.keys(event).find((field) => JSON.stringify(flat[field]) !== JSON.stringify(event[field]));
  return astray === undefined ? event : { type: `an event whose ${astray} differs from its payload's`, hybrid };
}

/** A JSON-RPC peer behind a process, an object a line. */
export interface Peer {
  /** Resolves with the frame that answers. */
  request(method: string, params: unknown): Promise<Fields>;
  notify(method: string, params: unknown): void;
  close(): Promise<void>;
}

/** Starts a peer and greets it; `listener` is told every frame that answers no request. */
export async function openPeer(
  start: Start,
  { listener, hello }: { readonly listener: (frame: Fields) => void; readonly hello: object },
): Promise<Peer> {
  const child = await startChild(start);
  const waiting = new Map<number, ReturnType<typeof Promise.withResolvers<Fields>>>();
  let id = 0;
  createInterface({ input: child.spawned.stdout }).on("line", (line) => {
    const frame = parse(line);
    const answered = typeof frame.id === "number" && !("method" in frame) ? waiting.get(frame.id) : undefined;
    if (answered === undefined) listener(frame);
    else answered.resolve(frame);
  });
  void child.ended.then((code) => {
    for (const { reject } of waiting.values()) reject(endedEarly(child, code));
  });
  const peer: Peer = {
    request: async (method, params) => {
      id += 1;
      const own = id;
      const answer = Promise.withResolvers<Fields>();
      waiting.set(own, answer);
      write(child, { jsonrpc: "2.0", id: own, method, params });
      try {
        return await answer.promise;
      } finally {
        waiting.delete(own);
      }
    },
    notify: (method, params) => write(child, { jsonrpc: "2.0", method, params }),
    close: () => child.stop(),
  };
  try {
    await withinTime(peer.request("initialize", hello), start.command);
    return peer;
  } catch (thrown) {
    await peer.close();
    throw thrown;
  }
}

function write(child: Child, frame: object): void {
  child.spawned.stdin.write(`${JSON.stringify(frame)}\n`);
}

/** A line that is no JSON object is a frame that nothing waits for. */
function parse(line: string): Fields {
  try {
    const frame: unknown = JSON.parse(line);
    return isRecord(frame) ? frame : { line };
  } catch {
    return { line };
  }
}

type EventListener = (event: ReportedEvent) => void;

interface Running {
  session: unknown;
  readonly mayBeNew: boolean;
  readonly listener: EventListener;
}

/** Which running call an event belongs to, where one connection carries the events of all. */
export interface CallsBySession {
  /** A call begins; the result ends it. */
  begin(operation: OperationName, session: unknown, listener: EventListener | undefined): () => void;
  /** Hands an event of a session to the call that runs it. */
  emit(session: unknown, event: ReportedEvent): void;
}

export function createCallsBySession(): CallsBySession {
  const running = new Set<Running>();
  return {
    begin: (operation, session, listener = () => {}) => {
      const call: Running = { session, mayBeNew: operation === "createSession", listener };
      running.add(call);
      return () => running.delete(call);
    },
    emit: (session, event) => {
      const calls = [...running];
      // A call that was refused at once hears nothing: the first of a session is the one that runs.
      const known = calls.find((call) => call.session === session);
      const call = known ?? calls.find(({ session: none, mayBeNew }) => none === undefined && mayBeNew);
      if (call === undefined) return;
      call.session = session;
      call.listener(event);
    },
  };
}
