import type { Capabilities, Capability } from "../contract/capability.ts";
import type { ModelsCatalog } from "../contract/catalog.ts";
import { RuntimeError } from "../contract/error.ts";
import type { Content, ContentBlock } from "../contract/message.ts";
import type {
  CreateSession,
  RunResult,
  SessionHistory,
  SessionInfo,
  SessionSettings,
  SessionSummary,
  StartTurn,
} from "../contract/session.ts";
import { compileSchema } from "../core/json-schema.ts";
import { foldSession, type SessionState, totalTokens } from "../core/session-state.ts";
import type { ModelClient, ModelResolver } from "../ports/model.ts";
import { type CallContext, requireCapability, type Service } from "./dispatch.ts";
import { appendEntries, beginSession, holdSession, type LiveSession, liveSession } from "./live-session.ts";
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
  const live = new Map<string, LiveSession>();
  const { store, clock, defaults } = parts;

  const find = async (sessionId: string): Promise<LiveSession> => {
    const known = live.get(sessionId);
    if (known !== undefined) return known;
    const entries = parts.capabilities.has("session-store") ? await store.log.read(sessionId, 1, ENTRIES_MAX) : [];
    if (entries.length === 0) throw new RuntimeError("SESSION_NOT_FOUND", `Session not found: ${sessionId}`);
    makeRoom();
    return live.get(sessionId) ?? admit(liveSession(foldSession(sessionId, entries), []));
  };
  const makeRoom = (): void => {
    if (live.size < parts.sessionsMax) return;
    const message = `this runtime holds ${live.size} sessions, its limit; raise limits.max_sessions or use fewer`;
    throw new RuntimeError("AGENT_ERROR", message);
  };
  const admit = (session: LiveSession): LiveSession => {
    live.set(session.state.sessionId, session);
    return session;
  };

  const createSession = async (input: CreateSession, call: CallContext) => {
    if (input.enable_memory === true) requireCapability(parts.capabilities, "memory-store");
    if (input.output_schema !== undefined) await compileSchema(input.output_schema, "output_schema");
    const model = await parts.models.resolve(input.model, input.provider);
    const settings = settleSettings(input, model, defaults);
    makeRoom();
    const isDeferred = input.initial_turn === "deferred";
    const pending = isDeferred ? { pending_prompt: input.prompt } : {};
    const session_id = clock.newId();
    const body = { kind: "session_created" as const, settings, ...pending };
    const session = admit(await beginSession(store.log, session_id, { body, tools: call.tools ?? [] }));
    if (isDeferred) return { session_id };
    return runHeld(session, call, (signal) =>
      runSessionTurn(parts, session, { prompt: input.prompt, model, instructions: [], overlay: undefined, signal }),
    );
  };

  const startTurn = async (input: StartTurn, call: CallContext): Promise<RunResult> => {
    const session = await find(input.session_id);
    if (call.tools !== undefined) session.tools = call.tools;
    return runHeld(session, call, async (signal) => {
      const { state } = session;
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

  return {
    createSession,
    startTurn,
    resumeSession: startTurn,
    interruptTurn: async ({ session_id }) => {
      (await find(session_id)).running?.abort();
      return { interrupted: true };
    },
    readSession: async ({ session_id }) => describeSession(await find(session_id)),
    listSessions: async ({ labels = {}, limit, offset }) => {
      const ids = await store.log.list();
      const sessions = await Promise.all(ids.map(find));
      const rows = sessions
        .filter(({ state }) => !state.archived && hasLabels(state.settings, labels))
        .sort((a, b) => b.state.updatedAtMs - a.state.updatedAtMs)
        .slice(offset, limit === undefined ? undefined : offset + limit)
        .map(summarise);
      return { sessions: rows };
    },
    readHistory: async ({ session_id, offset, limit }) => pageOf((await find(session_id)).state, offset, limit),
    archiveSession: async ({ session_id }) => {
      const session = await find(session_id);
      if (session.state.archived) return { archived: true };
      await holdSession(session, () => appendEntries(store.log, session, [{ kind: "archived" }]));
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

/** A log is read whole when its session is first touched. */
const ENTRIES_MAX = Number.MAX_SAFE_INTEGER;

/** Runs work as the session's turn, with the caller listening and able to stop it. */
async function runHeld<T>(
  session: LiveSession,
  call: CallContext,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  return holdSession(session, async (signal) => {
    const stop = (): void => session.running?.abort();
    if (call.signal?.aborted === true) stop();
    call.signal?.addEventListener("abort", stop, { once: true });
    if (call.listener !== undefined) session.listeners.add(call.listener);
    try {
      return await work(signal);
    } finally {
      if (call.listener !== undefined) session.listeners.delete(call.listener);
      call.signal?.removeEventListener("abort", stop);
    }
  });
}

function join(first: Content, second: Content): Content {
  if (typeof first === "string" && typeof second === "string") return `${first}\n\n${second}`;
  return [...asBlocks(first), ...asBlocks(second)];
}

function asBlocks(content: Content): ContentBlock[] {
  return typeof content === "string" ? [{ type: "text", text: content }] : content;
}

function hasLabels(settings: SessionSettings, wanted: Readonly<Record<string, string>>): boolean {
  return Object.entries(wanted).every(([key, value]) => settings.labels?.[key] === value);
}

function timesOf(state: SessionState): { created_at: number; updated_at: number } {
  return {
    created_at: Math.floor(state.createdAtMs / 1_000),
    updated_at: Math.floor(state.updatedAtMs / 1_000),
  };
}

function labelsOf(state: SessionState): { labels?: Record<string, string> } {
  return state.settings.labels === undefined ? {} : { labels: state.settings.labels };
}

function summarise({ state, running }: LiveSession): SessionSummary {
  return {
    session_id: state.sessionId,
    ...timesOf(state),
    message_count: state.transcript.length,
    total_tokens: totalTokens(state.usage),
    is_active: running !== undefined,
    ...labelsOf(state),
  };
}

function describeSession({ state, running }: LiveSession): SessionInfo {
  return {
    session_id: state.sessionId,
    ...timesOf(state),
    message_count: state.transcript.length,
    is_active: running !== undefined,
    model: state.settings.model,
    provider: state.settings.provider,
    ...(state.lastText === undefined ? {} : { last_assistant_text: state.lastText.text }),
    ...labelsOf(state),
  };
}

function pageOf(state: SessionState, offset: number, limit: number | undefined): SessionHistory {
  const end = limit === undefined ? state.transcript.length : Math.min(offset + limit, state.transcript.length);
  return {
    session_id: state.sessionId,
    message_count: state.transcript.length,
    offset,
    ...(limit === undefined ? {} : { limit }),
    has_more: end < state.transcript.length,
    messages: state.transcript.slice(offset, end).map(({ seq, message }) => ({ ...message, seq })),
  };
}
