import { asRuntimeError, hasCode, invalid, RuntimeError } from "@rkat/core/contract/error";
import { isRecord } from "@rkat/core/contract/json";
import { CloseStream, OpenStream, parseParams } from "@rkat/core/contract/wire/requests";
import type { Runtime } from "@rkat/core/runtime/runtime-calls";
import type { Delivery } from "@rkat/core/sessions/event-queue";
import { CANCELLED_BY_CLIENT, within } from "../http/calls.ts";
import { createConnection, type Streams, type TakeMessage } from "../http/connection.ts";
import { listenTo, type Params, toEnvelope, withPlainIds, withSessionRefs } from "../http/events.ts";
import {
  errorFrame,
  type Frame,
  notificationFrame,
  type Outbox,
  resultFrame,
  streamEventFrame,
} from "../http/frames.ts";
import { describeHost, type Host, VERSION } from "../http/host.ts";
import { type Incoming, NO_ID, type RequestId } from "../http/incoming.ts";
import { createCallbackTools } from "./callback-tools.ts";
import { createOperationMethods, type Method } from "./operation-methods.ts";

/** One connection: a runtime, and the two streams a client speaks over. */
export interface RpcConnection extends Streams {
  /** Logs a sentence about what the client got wrong and cannot be answered. */
  readonly log: (sentence: string) => void;
  readonly runtime: Pick<Runtime, "dispatch" | "subscribe">;
  readonly host: Host;
}

/** How long turns may take to end once they are interrupted. */
const DRAIN_MS_MAX = 1_500;
/** What a client may send without waiting for an answer. */
const NOTIFICATIONS: readonly string[] = ["initialized", "cancel"];
// Clients written for this wire know the server by this name.
const SERVER = { name: "meerkat-rpc", version: VERSION };

/**
 * Serves JSON-RPC until the input ends, the output breaks or the signal aborts. Then it interrupts the turns it
 * runs, at the end of the input only those that do not end by themselves in a moment, and resolves when they have ended
 * or their time is up. The runtime stays open.
 */
export async function serveRpc(connection: RpcConnection): Promise<void> {
  const { runtime, host, clock, log } = connection;
  const { outbox, serve } = createConnection(connection);
  const tools = createCallbackTools(outbox);
  const streams = createStreams({ runtime, outbox, newId: clock.newId });
  const methods: Readonly<Record<string, Method>> = {
    ...createHostMethods(runtime, host, () => [...NOTIFICATIONS, ...Object.keys(methods)]),
    ...createOperationMethods({ runtime, realm: host.realm, outbox, tools, newId: clock.newId }),
    "session/stream_open": streams.open,
    "session/stream_close": streams.close,
    "tools/register": tools.register,
  };
  const requests = createRequests({ methods, realm: host.realm, outbox });

  const take: TakeMessage = (message) => {
    switch (message.kind) {
      case "request":
        return requests.begin(message);
      case "response":
        return tools.answer(message.id, message.answer);
      case "notification":
        return onNotification(message.method, message.params);
    }
  };
  const onNotification = (method: string, params: unknown): undefined => {
    if (method === "cancel" && isRecord(params)) requests.cancel(JSON.stringify(params.request_id) ?? NO_ID);
    else if (!NOTIFICATIONS.includes(method)) log(`the notification ${method} is not known and was ignored`);
  };

  await serve(take, requests.settled);
  await within(clock, DRAIN_MS_MAX, Promise.all([requests.end("the connection ended"), streams.closeAll()]));
}

/** The methods that describe the server rather than work on a session. `methods` lists everything that is served. */
function createHostMethods(
  runtime: RpcConnection["runtime"],
  host: Host,
  methods: () => readonly string[],
): Readonly<Record<string, Method>> {
  const endpoints = () => ({ rpc_transport: "stdio", rpc_methods: methods() });
  return {
    initialize: () => ({ server_info: SERVER, contract_version: VERSION, methods: methods() }),
    ...describeHost(runtime, host, { process_name: SERVER.name, endpoints }),
    "events/snapshot": async (params) => {
      const { contract_version, cursor } = await runtime.dispatch("readEventCursor", params);
      const { scope } = cursor;
      const session = await runtime.dispatch("readSession", { session_id: scope.session_id });
      const snapshot = { type: "session", session: withSessionRefs(session, host.realm) };
      return { contract_version, scope, cursor, snapshot };
    },
  };
}

type Request = Extract<Incoming, { kind: "request" }>;

/** The requests of a connection that are being served, side by side. */
interface Requests {
  /** Begins to serve a request; what it resolves with is only waited for when the request is refused. */
  begin(request: Request): Promise<void> | undefined;
  /** Interrupts what a request runs; one that is done or unknown is left alone. */
  cancel(id: RequestId): void;
  settled(): Promise<unknown>;
  /** Interrupts all of them and resolves when each has been answered. */
  end(reason: string): Promise<void>;
}

/** One beyond is refused rather than left unread: it may be the interrupt of another. */
const REQUESTS_MAX = 1_024;

function createRequests(parts: {
  readonly methods: Readonly<Record<string, Method>>;
  readonly realm: string;
  readonly outbox: Outbox;
}): Requests {
  const { methods, realm, outbox } = parts;
  const running = new Map<RequestId, AbortController>();
  const answering = new Set<Promise<void>>();

  const serve = ({ id, method, params }: Request, signal: AbortSignal): unknown => {
    const run = Object.hasOwn(methods, method) ? methods[method] : undefined;
    if (run === undefined) throw new RuntimeError("METHOD_NOT_FOUND", `there is no method ${method}`);
    if (Array.isArray(params)) throw invalid("params: expected an object, not a list");
    return run(withPlainIds(isRecord(params) ? params : {}, realm), { requestId: id, signal });
  };
  const answer = async (request: Request, signal: AbortSignal): Promise<Frame> => {
    try {
      return resultFrame(request.id, await serve(request, signal));
    } catch (thrown) {
      return errorFrame(request.id, asRuntimeError(thrown));
    }
  };
  const run = async (request: Request): Promise<void> => {
    const aborting = new AbortController();
    running.set(request.id, aborting);
    const frame = await answer(request, aborting.signal);
    // A client that gives two requests one id can cancel only the later one.
    if (running.get(request.id) === aborting) running.delete(request.id);
    await outbox.send(frame);
  };
  return {
    begin: (request) => {
      if (answering.size >= REQUESTS_MAX) {
        const message = `this connection serves ${REQUESTS_MAX} requests, its limit; wait for one to be answered`;
        return outbox.send(errorFrame(request.id, new RuntimeError("AGENT_ERROR", message)));
      }
      const answered = run(request);
      answering.add(answered);
      void answered.then(() => answering.delete(answered));
      return undefined;
    },
    cancel: (id) => running.get(id)?.abort(CANCELLED_BY_CLIENT),
    settled: () => Promise.all(answering),
    end: async (reason) => {
      for (const aborting of running.values()) aborting.abort(reason);
      await Promise.all(answering);
    },
  };
}

interface OpenStreams {
  /** `session/stream_open`: events from now on, of turns in any process. */
  open(params: Params): Promise<{ stream_id: string; session_id: string; opened: true }>;
  /** `session/stream_close`: the stream's end has been sent when this resolves. */
  close(params: Params): Promise<{ stream_id: string; closed: true; already_closed: boolean }>;
  closeAll(): Promise<void>;
}

interface StreamParts {
  readonly runtime: Pick<Runtime, "dispatch" | "subscribe">;
  readonly outbox: Outbox;
  readonly newId: () => string;
}

type Outcome = "explicit_close" | "remote_end" | "terminal_error";

interface OpenedStream {
  readonly sent: Promise<void>;
  end(outcome: Outcome): void;
}

const STREAMS_MAX = 256;

function createStreams(parts: StreamParts): OpenStreams {
  const { runtime, outbox, newId } = parts;
  const streams = new Map<string, OpenedStream>();

  const open = async (params: Params) => {
    const { session_id } = parseParams(OpenStream, params);
    if (streams.size >= STREAMS_MAX) {
      throw new RuntimeError("AGENT_ERROR", `this connection has ${STREAMS_MAX} streams open, its limit; close one`);
    }
    const stopping = new AbortController();
    const after = await lastSeq(runtime, session_id);
    const deliveries = await listenTo(runtime.subscribe, session_id, { ...after, signal: stopping.signal });
    const stream_id = newId();
    let outcome: Outcome = "remote_end";
    const sent = send({ stream_id, session_id, deliveries }, () => outcome);
    const end = (why: Outcome): void => {
      outcome = why;
      stopping.abort(why);
    };
    streams.set(stream_id, { sent, end });
    return { stream_id, session_id, opened: true as const };
  };

  const send = async (
    source: { stream_id: string; session_id: string; deliveries: AsyncIterable<Delivery> },
    outcome: () => Outcome,
  ): Promise<void> => {
    const { stream_id, session_id } = source;
    const ended = { stream_id, session_id, ended: true };
    try {
      let sequence = 0;
      for await (const delivery of source.deliveries) {
        sequence += 1;
        await outbox.send(streamEventFrame(stream_id, sequence, toEnvelope(session_id, delivery, newId)));
      }
      await outbox.send(notificationFrame("session/stream_end", { ...ended, outcome: outcome() }));
    } catch (thrown) {
      const { code, message } = asRuntimeError(thrown);
      const failed = { ...ended, outcome: "terminal_error", error: { code, message } };
      await outbox.send(notificationFrame("session/stream_end", failed));
    } finally {
      streams.delete(stream_id);
    }
  };

  return {
    open,
    close: async (params) => {
      const { stream_id } = parseParams(CloseStream, params);
      const stream = streams.get(stream_id);
      stream?.end("explicit_close");
      await stream?.sent;
      return { stream_id, closed: true, already_closed: stream === undefined };
    },
    closeAll: async () => {
      const all = [...streams.values()];
      for (const stream of all) stream.end("remote_end");
      await Promise.all(all.map((stream) => stream.sent));
    },
  };
}

/** Where a session's events end now, so that none can slip by before they are listened to. */
async function lastSeq(runtime: StreamParts["runtime"], session_id: string): Promise<{ after?: number }> {
  try {
    const { cursor } = await runtime.dispatch("readEventCursor", { scope: { type: "session", session_id } });
    return { after: cursor.sequence };
  } catch (thrown) {
    // Without a store nothing has to be read before listening, so nothing can slip by.
    if (hasCode(thrown, "SESSION_PERSISTENCE_DISABLED")) return {};
    throw thrown;
  }
}
