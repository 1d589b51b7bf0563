import { type Agent, createAgentHandle } from "../agents/agent-handle.ts";
import type { Caller } from "../contract/caller.ts";
import type { Content } from "../contract/message.ts";
import type { Delivery } from "../sessions/event-queue.ts";
import {
  createHandle,
  type EventStream,
  type Session,
  type SessionOptions,
  streamOf,
  type TurnResult,
} from "../sessions/session-handle.ts";
import type { MemoryResults, SessionInfo, SessionSummary } from "./answers.ts";
import type { CallContext, Dispatch } from "./dispatch.ts";
import {
  type Advice,
  createAsk,
  createOtherMethods,
  type OptionsOf,
  type OtherMethods,
  type Standing,
} from "./operation-calls.ts";

/** Runs sessions. Operations that concern no session are methods with their own names; see `docs/operations.md`. */
export interface Runtime extends Omit<OtherMethods, "createSession" | "listSessions" | "searchMemory" | "readBlob"> {
  /** Creates a session without a turn. */
  createSession<T = unknown>(options?: SessionOptions<T>): Promise<Session<T>>;
  /** Creates a session and runs its first turn. */
  createSession<T = unknown>(prompt: Content, options?: SessionOptions<T>): Promise<Session<T>>;
  /** Likewise, with the events of the first turn as an iterator. */
  createSessionStreaming<T = unknown>(
    prompt: Content,
    options?: SessionOptions<T>,
  ): EventStream<T> & { readonly session: Promise<Session<T>> };
  /** Creates a session whose prompt is sent together with that of its first turn. */
  createDeferredSession<T = unknown>(prompt: Content, options?: SessionOptions<T>): Promise<Session<T>>;
  /** A handle on a session by its id; nothing is read until it is used. */
  session(sessionId: string): Session;
  /** If `limit` omits sessions, the list has the `cursor` to continue with. */
  listSessions(options?: OptionsOf<"listSessions">): Promise<SessionList>;
  readSession(sessionId: string): Promise<SessionInfo>;
  /** Searches content that compactions removed; with `everything`, the whole project. */
  searchMemory(
    query: string,
    options?: OptionsOf<"searchMemory", "query"> & { readonly everything?: boolean },
  ): Promise<MemoryResults>;
  /** A handle on an agent by name; its first memory creates it. */
  agent(name: string): Agent;
  /** Content stored by reference, such as the full text of a truncated tool output. */
  readBlob(blobId: string): Promise<{ readonly mediaType: string; readonly data: Uint8Array }>;
  /**
   * A session's events: those after `after` from its log, then live ones, without gaps or repeats. Without `after`,
   * live ones only.
   */
  subscribe(
    sessionId: string,
    options?: { readonly after?: number; readonly signal?: AbortSignal; readonly caller?: Caller },
  ): AsyncIterable<Delivery>;
  /** Every operation by name, with an unchecked input; surfaces use it. */
  readonly dispatch: Dispatch;
  /** Interrupts running turns, waits for their end, and stops background work. Calling it twice does no harm. */
  close(): Promise<void>;
}

/** Sessions, the last changed first. */
type SessionList = readonly SessionSummary[] & { readonly nextCursor?: string };

/** The entry points of a local or remote runtime; its other calls are built on them. */
export type RuntimeLink = Pick<Runtime, "dispatch" | "subscribe" | "close">;

/** The calls of a runtime, the same wherever it runs; `advice` is added to errors by code. */
export function createRuntimeCalls(link: RuntimeLink, advice?: Advice): Runtime {
  const { dispatch, subscribe } = link;
  const ask = createAsk(dispatch, advice);
  const methods = createOtherMethods(ask);
  const calls = { ask, subscribe };
  // They hold for later turns, too; what cannot be used was rejected before.
  const keeping = ({ onApproval, outputSchema }: Standing = {}) => ({ ...calls, onApproval, outputSchema });
  const create = async <T>(prompt: Content, options?: object, context?: CallContext) => {
    const given = { prompt, initial_turn: "run_immediately" };
    // Not deferred, so the first turn has run and its result is here.
    return (await ask("createSession", given, options, context)) as TurnResult<T>;
  };
  const defer = async <T>(prompt: Content | undefined, options?: object): Promise<Session<T>> => {
    const { sessionId } = await ask("createSession", { prompt, initial_turn: "deferred" }, options);
    return createHandle<T>(keeping(options), sessionId);
  };
  return {
    ...methods,
    createSession: async <T>(...given: [first?: Content | object, options?: object]) => {
      const [first, options] = given;
      const hasPrompt = given.length > 1 || typeof first === "string" || Array.isArray(first) || first === null;
      if (!hasPrompt) return defer<T>(undefined, first);
      const result = await create<T>(first as Content, options); // The schema rejects anything else.
      return createHandle(keeping(options), result.sessionId, result);
    },
    createSessionStreaming: <T>(prompt: Content, options?: object) => {
      const stream = streamOf((listener) => create<T>(prompt, options, { listener }));
      const session = stream.result.then((result) => createHandle(keeping(options), result.sessionId, result));
      session.catch(() => {}); // The same failure as that of `result`.
      return { ...stream, session };
    },
    createDeferredSession: defer,
    session: (sessionId) => createHandle(calls, sessionId),
    listSessions: async (options) => {
      const { sessions, nextCursor } = await methods.listSessions(options);
      return nextCursor === undefined ? sessions : Object.assign([...sessions], { nextCursor });
    },
    readSession: (session_id) => ask("readSession", { session_id }),
    searchMemory: (query, { everything = false, ...options } = {}) => {
      const where = options.sessionId === undefined ? {} : { scope: "session" as const };
      return ask(everything ? "searchHistory" : "searchMemory", { query }, { ...where, ...options });
    },
    agent: (name) => createAgentHandle(ask, name),
    readBlob: async (blobId) => {
      const { mediaType, data } = await methods.readBlob(blobId);
      return { mediaType, data: Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0)) };
    },
    ...link,
  };
}
