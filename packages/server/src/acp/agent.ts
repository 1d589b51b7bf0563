import {
  type AgentApp,
  type AgentContext,
  agent,
  type ClientCapabilities,
  type InitializeResponse,
  PROTOCOL_VERSION,
  RequestError,
  type SessionUpdate,
} from "@agentclientprotocol/sdk";
import { asRuntimeError, type ErrorCode } from "@rkat/core/contract/error";
import type { Clock } from "@rkat/core/ports/clock";
import { runPrompt } from "./prompt.ts";
import { createSessions, type Folder, type SessionsParts } from "./sessions.ts";
import { availableCommands } from "./slash-commands.ts";
import { wishesOf } from "./updates.ts";

export interface AgentParts {
  readonly version: string;
  readonly clock: Clock;
  /** The folder of a session; without a name, that of the process. */
  folderOf(cwd: string | undefined): Promise<Folder>;
  /** The folders used so far. */
  knownFolders(): Promise<readonly Folder[]>;
  /** Does something once a request has been answered. */
  afterAnswer(requestId: unknown, act: () => Promise<void>): void;
}

/** An agent for one client, to be connected. */
export interface Agent {
  readonly app: AgentApp;
  close(): Promise<void>;
}

export function createAgent(parts: AgentParts): Agent {
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
