import type {
  AgentContext,
  ClientCapabilities,
  ListSessionsResponse,
  McpServer,
  NewSessionResponse,
  SessionUpdate,
} from "@agentclientprotocol/sdk";
import type { ModelsCatalog } from "@rkat/core/contract/capability";
import { asRuntimeError, hasCode, invalid, RuntimeError } from "@rkat/core/contract/error";
import type { Content } from "@rkat/core/contract/message";
import type { SessionHistory } from "@rkat/core/contract/session-info";
import type { McpServerConfig } from "@rkat/core/ports/tool";
import type { Runtime } from "@rkat/core/runtime/runtime-calls";
import { fillContent } from "@rkat/core/sessions/media";
import { type SessionServers, serversOf } from "./servers.ts";
import {
  describeModes,
  describeOptions,
  type Mode,
  modeOf,
  mostFor,
  requireModel,
  windowOf,
} from "./session-options.ts";
import { notice, replayOf, type Tasks, type UpdateContext, type Wishes } from "./updates.ts";

/** A folder that sessions work in, and the runtime that has them. */
export interface Folder {
  readonly root: string;
  readonly runtime: Pick<Runtime, "dispatch">;
  readonly most: Mode;
  readonly keyless: readonly string[];
  /** The real path of a file of the folder; rejects, for the model to read, where that is outside of it. */
  placeOf(path: string): Promise<string>;
  openServers(servers: readonly McpServerConfig[]): Promise<SessionServers>;
}

export interface OpenSession {
  readonly id: string;
  readonly folder: Folder;
  readonly servers: SessionServers | undefined;
  readonly tasks: Tasks;
  readonly tools: readonly string[];
  /** The most that those may do. */
  readonly most: Mode;
  mode: Mode;
  model: string;
  isModelNew: boolean;
  /** Settles when the newest cancel without a running turn is done. */
  interrupted: Promise<unknown>;
  readonly running: Set<AbortController>;
}

export interface SessionsParts {
  /** The folder of a session; without a name, that of the process. */
  folderOf(cwd: string | undefined): Promise<Folder>;
  knownFolders(): Promise<readonly Folder[]>;
  send(client: AgentContext, sessionId: string, updates: readonly SessionUpdate[]): Promise<void>;
  readonly client: () => ClientCapabilities | undefined;
  readonly wishes: () => Wishes;
}

export interface Sessions {
  create(asked: Asked): Promise<NewSessionResponse>;
  /** Opens a stored session; with `replay`, its transcript is sent before this resolves. */
  open(
    asked: Asked & { readonly sessionId: string },
    how: { readonly client: AgentContext; readonly replay: boolean },
  ): Promise<Omit<NewSessionResponse, "sessionId">>;
  list(asked: { readonly cwd?: string | null; readonly cursor?: string | null }): Promise<ListSessionsResponse>;
  /** A session that is open; throws SESSION_NOT_FOUND for any other. */
  find(sessionId: string): OpenSession;
  setMode(sessionId: string, modeId: string): void;
  setOption(sessionId: string, configId: string, value: unknown): Promise<NewSessionResponse["configOptions"]>;
  options(session: OpenSession): Promise<Omit<NewSessionResponse, "sessionId">>;
  updateContext(session: OpenSession): Promise<UpdateContext>;
  /** Interrupts and closes a session; does nothing if it is not open. */
  close(sessionId: string): Promise<void>;
  remove(sessionId: string): Promise<void>;
  closeAll(): Promise<void>;
}

/** Where a session works, and with whose servers. */
interface Asked {
  readonly cwd: string;
  readonly mcpServers?: readonly McpServer[] | null;
  readonly additionalDirectories?: readonly string[] | null;
  readonly signal: AbortSignal;
}

const SESSIONS_MAX = 256;
const PAGE_SESSIONS = 50;
const PAGE_MESSAGES = 500;

export function createSessions(parts: SessionsParts): Sessions {
  const open = new Map<string, OpenSession>();

  const requireRoom = (): void => {
    if (open.size < SESSIONS_MAX) return;
    const message = `this client has ${SESSIONS_MAX} sessions open, its limit; session/close closes one`;
    throw new RuntimeError("AGENT_ERROR", message);
  };
  /** A session as it is kept, with the servers that the client brings for it. */
  const opened = async (folder: Folder, id: string, asked: Asked): Promise<OpenSession> => {
    const { model } = await folder.runtime.dispatch("readSession", { session_id: id });
    const { tools } = await folder.runtime.dispatch("readContext", { session_id: id });
    const most = mostFor(tools, folder.most);
    const servers = await serversFor(folder, asked);
    const state = { mode: most, model, isModelNew: false, tasks: new Map(), interrupted: Promise.resolve() };
    return { id, folder, servers, tools, most, ...state, running: new Set() };
  };
  const serversFor = async (folder: Folder, asked: Asked): Promise<SessionServers | undefined> => {
    const servers = serverConfigs(asked);
    if (servers.length === 0 || folder.most === "none") return undefined;
    return folder.openServers(servers);
  };
  const add = async (session: OpenSession): Promise<void> => {
    await open.get(session.id)?.servers?.close();
    open.set(session.id, session);
  };
  const options: Sessions["options"] = async ({ mode, most, tools, model, folder }) => {
    const catalogue = await askable(folder);
    const chosen = { mode, most, tools, model, catalogue };
    return { modes: describeModes(chosen), configOptions: describeOptions(chosen) };
  };
  const find: Sessions["find"] = (sessionId) => {
    const session = open.get(sessionId);
    if (session !== undefined) return session;
    const message = `session ${sessionId} is not open on this connection; session/load or session/resume opens it`;
    throw new RuntimeError("SESSION_NOT_FOUND", message);
  };
  const updateContext: Sessions["updateContext"] = async ({ folder, tasks, model }) => {
    const catalogue = await folder.runtime.dispatch("readModels", {});
    const fill = (content: Content) => fillContent(content, { get: (blobId) => readBlob(folder.runtime, blobId) });
    return { root: folder.root, wishes: parts.wishes(), tasks, fill, window: windowOf(catalogue, model) };
  };
  /** The request names no folder: it is one that this client has worked in or listed. */
  const folderWith = async (session_id: string): Promise<Folder> => {
    const own = await parts.folderOf(undefined);
    for (const folder of await parts.knownFolders()) {
      try {
        await folder.runtime.dispatch("readSession", { session_id });
        return folder;
      } catch (thrown) {
        if (asRuntimeError(thrown).code !== "SESSION_NOT_FOUND") throw thrown;
      }
    }
    return own;
  };
  const close = async (sessionId: string): Promise<void> => {
    const session = open.get(sessionId);
    open.delete(sessionId);
    for (const turn of session?.running ?? []) turn.abort("the session was closed");
    await session?.servers?.close();
  };

  return {
    create: async (asked) => {
      requireRoom();
      const folder = await parts.folderOf(asked.cwd);
      serverConfigs(asked);
      const { dispatch } = folder.runtime;
      const input = { initial_turn: "deferred", tool_preset: folder.most, permissions: { otherwise: "ask" } };
      const { session_id: id } = await dispatch("createSession", input, { signal: asked.signal });
      const session = await opened(folder, id, asked);
      await add(session);
      return { sessionId: id, ...(await options(session)) };
    },
    open: async (asked, { client, replay }) => {
      requireRoom();
      const folder = await parts.folderOf(asked.cwd);
      const session = await opened(folder, asked.sessionId, asked);
      if (replay) {
        for (const updates of await readReplay(session, await updateContext(session))) {
          await parts.send(client, session.id, await updates());
        }
      }
      await add(session);
      return options(session);
    },
    list: async ({ cwd, cursor }) => {
      const { root, runtime } = await parts.folderOf(cwd ?? undefined);
      const page = { limit: PAGE_SESSIONS, ...(cursor === undefined || cursor === null ? {} : { cursor }) };
      const { sessions, next_cursor } = await runtime.dispatch("listSessions", page);
      return {
        // A deleted session is archived: it stays readable, but is not listed.
        sessions: sessions
          .filter(({ state }) => state !== "archived")
          .map(({ session_id, title, updated_at }) => ({
            sessionId: session_id,
            cwd: root,
            ...(title === "" ? {} : { title }),
            updatedAt: new Date(updated_at * 1_000).toISOString(),
          })),
        ...(next_cursor === undefined ? {} : { nextCursor: next_cursor }),
      };
    },
    find,
    setMode: (sessionId, modeId) => {
      const session = find(sessionId);
      session.mode = modeOf(modeId, session.most, "modeId");
    },
    setOption: async (sessionId, configId, value) => {
      const session = find(sessionId);
      if (typeof value !== "string") throw invalid("value: write one of the options");
      if (configId === "tools") session.mode = modeOf(value, session.most, "value");
      else if (configId === "model") {
        const catalogue = await askable(session.folder);
        session.isModelNew ||= value !== session.model;
        session.model = requireModel(catalogue, value, session.model);
      } else throw invalid(`configId: there is no ${configId}; write model or tools`);
      return (await options(session)).configOptions;
    },
    options,
    updateContext,
    close,
    remove: async (sessionId) => {
      const { runtime } = open.get(sessionId)?.folder ?? (await folderWith(sessionId));
      await close(sessionId);
      await runtime.dispatch("archiveSession", { session_id: sessionId });
    },
    closeAll: async () => {
      await Promise.all([...open.keys()].map(close));
    },
  };
}

/** The servers that a client brings; throws INVALID_PARAMS, naming the field, for what cannot be had. */
function serverConfigs({ additionalDirectories, mcpServers }: Asked): readonly McpServerConfig[] {
  if ((additionalDirectories ?? []).length > 0) {
    const why = "a session works in one folder; leave the list out, or open a session there";
    throw invalid(`additionalDirectories: ${why}`);
  }
  return serversOf(mcpServers);
}

async function readReplay(session: OpenSession, updateContext: UpdateContext): Promise<ReturnType<typeof replayOf>> {
  const { dispatch } = session.folder.runtime;
  const session_id = session.id;
  const messages: SessionHistory["messages"] = [];
  for (let hasMore = true; hasMore; ) {
    const page = await dispatch("readHistory", { session_id, offset: messages.length, limit: PAGE_MESSAGES });
    messages.push(...page.messages);
    hasMore = page.has_more;
  }
  return replayOf(messages, await readCompactions(session), updateContext);
}

async function askable({ runtime, keyless }: Folder): Promise<ModelsCatalog> {
  const catalogue = await runtime.dispatch("readModels", {});
  return { ...catalogue, providers: catalogue.providers.filter(({ provider }) => !keyless.includes(provider)) };
}

async function readBlob({ dispatch }: Folder["runtime"], blob_id: string) {
  try {
    const { media_type: mediaType, data } = await dispatch("readBlob", { blob_id });
    return { mediaType, data: Buffer.from(data, "base64") };
  } catch (thrown) {
    // One that is no longer kept is named instead.
    if (hasCode(thrown, "INVALID_PARAMS")) return undefined;
    throw thrown;
  }
}

/** None where the runtime does not compact. */
async function readCompactions({ id, folder }: OpenSession) {
  try {
    const { compactions } = await folder.runtime.dispatch("listCompactions", { session_id: id });
    return compactions.filter(({ undone }) => !undone);
  } catch (thrown) {
    if (hasCode(thrown, "SESSION_COMPACTION_DISABLED")) return [];
    throw thrown;
  }
}

/** The note on the client's MCP servers that do not answer. */
export function serverNotices(session: OpenSession, wishes: Wishes): readonly SessionUpdate[] {
  const failed = session.servers?.report().filter(({ error }) => error !== undefined) ?? [];
  return failed.flatMap(({ name, error }) => notice(wishes, "warning", `MCP server ${name} is left out: ${error}`));
}
