import {
  type AgentApp,
  type AgentContext,
  type AnyMessage,
  agent,
  type ClientCapabilities,
  type InitializeResponse,
  PROTOCOL_VERSION,
  RequestError,
  type SessionUpdate,
  type Stream,
} from "@agentclientprotocol/sdk";
import { asRuntimeError, type ErrorCode } from "@rkat/core/contract/error";
import { isRecord } from "@rkat/core/contract/json";
import type { Clock } from "@rkat/core/ports/clock";
import { within } from "../http/calls.ts";
import { createConnection, createUnanswered, type Streams, type TakeMessage } from "../http/connection.ts";
import { runPrompt } from "./prompt.ts";
import { createSessions, type SessionsParts } from "./sessions.ts";
import { availableCommands } from "./slash-commands.ts";
import { wishesOf } from "./updates.ts";

/** One connection: what an agent needs, and the two streams a client speaks over. */
interface AcpConnection extends Streams, Pick<AgentParts, "version" | "folderOf" | "knownFolders"> {}

/** Messages that may wait for the client to read them; with more, nothing is read of it until it has. */
const UNREAD_MAX = 1_024;
/** How long turns may take to end once they are interrupted. */
const DRAIN_MS_MAX = 1_500;

/**
 * Serves the Agent Client Protocol, a message a line, until the input ends, the output breaks or the signal aborts; then
 * it interrupts what still runs. A line that is no message is answered as JSON-RPC says and the next one is read, which
 * is why this is not the stream of the SDK: that one ends when a line is too long.
 */
export async function serveStdio({ version, folderOf, knownFolders, ...streams }: AcpConnection): Promise<void> {
  const { clock } = streams;
  const { outbox, serve } = createConnection(streams);
  const unanswered = createUnanswered();
  const waiting = new Map<unknown, () => Promise<void>>();
  let unread = 0;
  let newest: Promise<void> = Promise.resolve();
  let greeted = Promise.withResolvers<void>();

  const send = (message: AnyMessage): Promise<void> => {
    unread += 1;
    newest = outbox.send(`${JSON.stringify(withSentence(message))}\n`).then(() => {
      unread -= 1;
    });
    if (!("id" in message) || "method" in message) return newest;
    const { id } = message;
    unanswered.forget(id);
    void newest.then(greeted.resolve);
    const act = waiting.get(id);
    waiting.delete(id);
    // Not waited for: what it sends waits for this message to be written. A client that has gone needs none of it.
    act?.().catch(() => {});
    return newest;
  };
  const incoming = Promise.withResolvers<ReadableStreamDefaultController<AnyMessage>>();
  const stream: Stream = {
    readable: new ReadableStream({ start: (controller) => incoming.resolve(controller) }),
    writable: new WritableStream({ write: send }),
  };
  const agent = createAgent({ version, folderOf, knownFolders, clock, afterAnswer: (id, act) => waiting.set(id, act) });
  const connection = agent.app.connect(stream);
  const controller = await incoming.promise;

  const take: TakeMessage = (message, bytes) => {
    // It was JSON a moment ago, and an object.
    const parsed = JSON.parse(Buffer.from(bytes).toString("utf8")) as AnyMessage;
    if (message.kind === "request" && "id" in parsed) unanswered.add(parsed.id);
    controller.enqueue(parsed);
    // Piped requests do not wait for the answer to `initialize`; requests before it are refused.
    if (message.kind === "request" && message.method === "initialize") {
      greeted = Promise.withResolvers<void>();
      return greeted.promise;
    }
    return unread < UNREAD_MAX ? undefined : newest;
  };
  await serve(take, unanswered.none);
  await within(clock, DRAIN_MS_MAX, Promise.all([agent.close(), unanswered.none()]));
  connection.close();
}

const INVALID_PARAMS = -32_602;

/** What the SDK refuses by its schemas comes with a tree of faults: the first of them as a sentence. */
function withSentence(message: AnyMessage): AnyMessage {
  if (!("error" in message) || message.error.code !== INVALID_PARAMS) return message;
  const fault = firstFault(message.error.data, "");
  if (fault === undefined) return message;
  return { ...message, error: { code: INVALID_PARAMS, message: fault, data: { code: "INVALID_PARAMS" } } };
}

const DEPTH_MAX = 16;

function firstFault(tree: unknown, path: string, depth = 0): string | undefined {
  if (!isRecord(tree) || depth > DEPTH_MAX) return undefined;
  const { _errors: own, ...fields } = tree;
  if (!Array.isArray(own)) return undefined;
  if (own.length > 0) return `${path === "" ? "params" : path}: ${String(own[0])}`;
  for (const [field, inner] of Object.entries(fields)) {
    const found = firstFault(inner, path === "" ? field : `${path}.${field}`, depth + 1);
    if (found !== undefined) return found;
  }
  return undefined;
}

interface AgentParts extends Pick<SessionsParts, "folderOf" | "knownFolders"> {
  readonly version: string;
  readonly clock: Clock;
  afterAnswer(requestId: unknown, act: () => Promise<void>): void;
}

interface Agent {
  readonly app: AgentApp;
  close(): Promise<void>;
}

function createAgent(parts: AgentParts): Agent {
  let capabilities: ClientCapabilities | undefined;
  const send: SessionsParts["send"] = async (client, sessionId, updates) => {
    for (const update of updates) await client.notify("session/update", { sessionId, update });
  };
  const reported = { send, client: () => capabilities, wishes: () => wishesOf(capabilities) };
  const sessions = createSessions({ ...reported, folderOf: parts.folderOf, knownFolders: parts.knownFolders });
  const prompting = { ...reported, sessions, clock: parts.clock };
  /** Sent after the answer: some clients hang when they get an update of an unknown session. */
  const announceLater = (client: AgentContext, requestId: unknown, sessionId: string): void => {
    const update: SessionUpdate = {
      sessionUpdate: "available_commands_update",
      availableCommands: availableCommands(),
    };
    parts.afterAnswer(requestId, () => send(client, sessionId, [update]));
  };

  const app = agent({ name: "rkat" })
    .onRequest("initialize", ({ params }) => {
      capabilities = params.clientCapabilities;
      return describeAgent(parts.version);
    })
    .onRequest("session/new", ({ params, signal, client, requestId }) =>
      answered(async () => {
        const created = await sessions.create({ ...params, signal });
        announceLater(client, requestId, created.sessionId);
        return created;
      }),
    )
    .onRequest("session/load", ({ params, signal, client, requestId }) =>
      answered(async () => {
        const loaded = await sessions.open({ ...params, signal }, { client, replay: true });
        announceLater(client, requestId, params.sessionId);
        return loaded;
      }),
    )
    .onRequest("session/resume", ({ params, signal, client, requestId }) =>
      answered(async () => {
        const resumed = await sessions.open({ ...params, signal }, { client, replay: false });
        announceLater(client, requestId, params.sessionId);
        return resumed;
      }),
    )
    .onRequest("session/list", ({ params }) => answered(() => sessions.list(params)))
    .onRequest("session/close", ({ params }) =>
      answered(async () => {
        await sessions.close(params.sessionId);
        return {};
      }),
    )
    .onRequest("session/delete", ({ params }) =>
      answered(async () => {
        await sessions.remove(params.sessionId);
        return {};
      }),
    )
    .onRequest("session/set_mode", ({ params, client, requestId }) =>
      answered(async () => {
        const { sessionId, modeId } = params;
        sessions.setMode(sessionId, modeId);
        const { configOptions } = await sessions.options(sessions.find(sessionId));
        const update: SessionUpdate = { sessionUpdate: "config_option_update", configOptions: configOptions ?? [] };
        parts.afterAnswer(requestId, () => send(client, sessionId, [update]));
        return {};
      }),
    )
    .onRequest("session/set_config_option", ({ params, client, requestId }) =>
      answered(async () => {
        const { sessionId, configId, value } = params;
        const configOptions = (await sessions.setOption(sessionId, configId, value)) ?? [];
        const { mode } = sessions.find(sessionId);
        const update: SessionUpdate = { sessionUpdate: "current_mode_update", currentModeId: mode };
        if (configId === "tools") parts.afterAnswer(requestId, () => send(client, sessionId, [update]));
        return { configOptions };
      }),
    )
    .onRequest("session/prompt", ({ params, signal, client }) =>
      answered(async () => {
        const session = sessions.find(params.sessionId);
        return { stopReason: await runPrompt(prompting, { session, client, blocks: params.prompt, signal }) };
      }),
    )
    .onNotification("session/cancel", ({ params }) => {
      // A session that is not open runs nothing here.
      try {
        const session = sessions.find(params.sessionId);
        const { id, running, folder } = session;
        for (const turn of running) turn.abort("cancelled");
        // A killed process may have left a pending approval, which only this can withdraw.
        if (running.size > 0) return;
        session.interrupted = folder.runtime.dispatch("interruptTurn", { session_id: id }).catch(() => {});
      } catch (thrown) {
        if (asRuntimeError(thrown).code !== "SESSION_NOT_FOUND") throw thrown;
      }
    });
  return { app, close: sessions.closeAll };
}

function describeAgent(version: string): InitializeResponse {
  return {
    protocolVersion: PROTOCOL_VERSION,
    agentInfo: { name: "rkat", title: "rkat", version },
    authMethods: [],
    agentCapabilities: {
      loadSession: true,
      promptCapabilities: { image: true, audio: false, embeddedContext: true },
      mcpCapabilities: { http: true, sse: true },
      sessionCapabilities: { list: {}, delete: {}, resume: {}, close: {} },
    },
  };
}

/** The codes with their own numbers in this protocol. */
const NUMBERS: Partial<Readonly<Record<ErrorCode, number>>> = {
  INVALID_PARAMS: -32_602,
  SESSION_NOT_FOUND: -32_002,
  REQUEST_CANCELLED: -32_800,
};
const INTERNAL = -32_603;

/** The result of a request; an error has our message, and our code in its data. */
async function answered<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (thrown) {
    const error = asRuntimeError(thrown);
    throw new RequestError(NUMBERS[error.code] ?? INTERNAL, error.message, error.toWire());
  }
}
