import type { Capabilities, Capability } from "../contract/capability.ts";
import type { ModelsCatalog } from "../contract/catalog.ts";
import { RuntimeError } from "../contract/error.ts";
import type { Content, ContentBlock } from "../contract/message.ts";
import type { CreateSession, RunResult, StartTurn } from "../contract/session.ts";
import { compileSchema } from "../core/json-schema.ts";
import type { ModelClient, ModelResolver } from "../ports/model.ts";
import { type CallContext, requireCapability, type Service } from "./dispatch.ts";
import { appendEntries, beginSession, type LiveSession } from "./live-session.ts";
import { createLiveSessions } from "./live-sessions.ts";
import { createSessionReader } from "./session-reader.ts";
import { overrideSettings, type SessionDefaults, settleSettings } from "./session-settings.ts";
import { runSessionTurn, type TurnParts } from "./turn-runner.ts";

export interface ServiceParts extends TurnParts {
  readonly capabilities: ReadonlySet<Capability>;
  readonly models: ModelResolver;
  readonly defaults: SessionDefaults;
  readonly sessionsMax: number;
  /** What `readCapabilities` and `readModels` answer. */
  readonly describe: { capabilities(): Capabilities; models(): ModelsCatalog };
}

/** Sessions and their turns: the one behaviour behind every surface. */
export function createSessionService(parts: ServiceParts): Service {
  const { store, clock, defaults } = parts;
  const live = createLiveSessions(store, {
    sessionsMax: parts.sessionsMax,
    isStored: parts.capabilities.has("session-store"),
  });

  const createSession = async (input: CreateSession, call: CallContext) => {
    if (input.enable_memory === true) requireCapability(parts.capabilities, "memory-store");
    if (input.output_schema !== undefined) await compileSchema(input.output_schema, "output_schema");
    const model = await parts.models.resolve(input.model, input.provider);
    const settings = settleSettings(input, model, defaults);
    live.makeRoom();
    const isDeferred = input.initial_turn === "deferred";
    const pending = isDeferred ? { pending_prompt: input.prompt } : {};
    const session_id = clock.newId();
    const body = { kind: "session_created" as const, settings, ...pending };
    const session = live.add(await beginSession(store.log, session_id, { body, tools: call.tools ?? [] }));
    if (isDeferred) return { session_id };
    return runHeld(session, call, (signal) =>
      runSessionTurn(parts, session, { prompt: input.prompt, model, instructions: [], overlay: undefined, signal }),
    );
  };

  const startTurn = async (input: StartTurn, call: CallContext): Promise<RunResult> => {
    const session = await live.find(input.session_id);
    return runHeld(session, call, async (signal) => {
      const { state } = session;
      if (call.tools !== undefined) session.tools = call.tools;
      if (input.output_schema !== undefined) await compileSchema(input.output_schema, "output_schema");
      const model = await modelFor(session, input);
      const isFirstTurn = state.turnsOpened === 0;
      const settings = overrideSettings(state.settings, input, { model, isFirstTurn });
      const prompt = state.pendingPrompt === undefined ? input.prompt : join(state.pendingPrompt, input.prompt);
      if (settings !== state.settings) {
        await appendEntries(store.log, session, [{ kind: "settings_changed", settings }]);
      }
      const instructions = input.additional_instructions ?? [];
      return runSessionTurn(parts, session, { prompt, model, instructions, overlay: input.flow_tool_overlay, signal });
    });
  };

  const modelFor = ({ state }: LiveSession, input: StartTurn): Promise<ModelClient> => {
    const { model, provider } = state.settings;
    const isOther = input.model !== undefined && input.model !== model;
    // Another model may be another provider's: the session's own must not be assumed of it.
    return parts.models.resolve(input.model ?? model, input.provider ?? (isOther ? undefined : provider));
  };

  /** Runs work as the session's turn, with the caller listening and able to stop it. */
  const runHeld = async <T>(
    session: LiveSession,
    call: CallContext,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> => {
    const hold = await store.locks.hold(session.state.sessionId);
    if (call.listener !== undefined) session.listeners.add(call.listener);
    try {
      await live.refresh(session);
      const { archived, sessionId } = session.state;
      if (archived)
        throw new RuntimeError("SESSION_NOT_FOUND", `session ${sessionId} is archived and runs no more turns`);
      const { signal } = call;
      return await work(signal === undefined ? hold.interrupted : AbortSignal.any([hold.interrupted, signal]));
    } finally {
      if (call.listener !== undefined) session.listeners.delete(call.listener);
      await hold.release();
    }
  };

  return {
    createSession,
    startTurn,
    resumeSession: startTurn,
    interruptTurn: async ({ session_id }) => {
      await live.find(session_id);
      await store.locks.interrupt(session_id);
      return { interrupted: true };
    },
    ...createSessionReader(store, live),
    archiveSession: async ({ session_id }) => {
      const session = await live.find(session_id);
      if (session.state.archived) return { archived: true };
      await runHeld(session, {}, () => appendEntries(store.log, session, [{ kind: "archived" }]));
      return { archived: true };
    },
    readBlob: async ({ blob_id }) => {
      const blob = await store.blobs.get(blob_id);
      if (blob === undefined) throw new RuntimeError("INVALID_PARAMS", `blob_id: there is no blob ${blob_id}`);
      return { blob_id, media_type: blob.mediaType, data: Buffer.from(blob.data).toString("base64") };
    },
    readCapabilities: async () => parts.describe.capabilities(),
    readModels: async () => parts.describe.models(),
  };
}

function join(first: Content, second: Content): Content {
  if (typeof first === "string" && typeof second === "string") return `${first}\n\n${second}`;
  return [...asBlocks(first), ...asBlocks(second)];
}

function asBlocks(content: Content): ContentBlock[] {
  return typeof content === "string" ? [{ type: "text", text: content }] : content;
}
