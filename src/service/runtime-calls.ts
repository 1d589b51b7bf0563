import type { MemoryResults } from "../contract/memory.ts";
import type { Content } from "../contract/message.ts";
import type { RunResult, SessionInfo, SessionSummary } from "../contract/session.ts";
import { type Agent, createAgentHandle } from "./agent/agent-handle.ts";
import type { Dispatch } from "./dispatch.ts";
import type { Delivery } from "./event-queue.ts";
import {
  createCall,
  createFields,
  createHandle,
  type EventStream,
  type Session,
  type SessionOptions,
  streamOf,
} from "./session-handle.ts";

/** A place where sessions run. */
export interface Runtime {
  /** Creates a session and runs its first turn. */
  createSession(prompt: Content, options?: SessionOptions): Promise<Session>;
  /** The same, with the events of the first turn to iterate. */
  createSessionStreaming(
    prompt: Content,
    options?: SessionOptions,
  ): EventStream & { readonly session: Promise<Session> };
  /** Creates a session whose prompt is delivered together with that of its first turn. */
  createDeferredSession(prompt: Content, options?: SessionOptions): Promise<Session>;
  /** A handle on a session by its id; nothing is read until it is used. */
  session(sessionId: string): Session;
  listSessions(query?: {
    labels?: Record<string, string>;
    limit?: number;
    offset?: number;
  }): Promise<readonly SessionSummary[]>;
  readSession(sessionId: string): Promise<SessionInfo>;
  /** Searches what compactions took out of contexts; with `everything`, all that was said in the project. */
  searchMemory(
    query: string,
    options?: { limit?: number; sessionId?: string; everything?: boolean },
  ): Promise<MemoryResults>;
  /** A handle on an agent by its name; one is there as soon as it remembers something. */
  agent(name: string): Agent;
  /** Content kept by reference, such as the full text of a tool output that was cut. */
  readBlob(blobId: string): Promise<{ readonly mediaType: string; readonly data: Uint8Array }>;
  /**
   * A session's events: those after `after` from its log, then live ones, without a gap and without a repeat. Without
   * `after`, live ones only.
   */
  subscribe(sessionId: string, options?: { after?: number; signal?: AbortSignal }): AsyncIterable<Delivery>;
  /** Every operation by its name, with an unchecked input: what surfaces are made of. */
  readonly dispatch: Dispatch;
  /** Interrupts running turns, waits for their end, and stops background work. Calling it twice does no harm. */
  close(): Promise<void>;
}

/** The ways into a runtime everything else is made of: here or on the other side of a wire. */
export type RuntimeWays = Pick<Runtime, "dispatch" | "subscribe" | "close">;

/** A runtime's calls, the same wherever it runs. */
export function createRuntimeCalls({ dispatch, subscribe, close }: RuntimeWays): Runtime {
  const create = async (prompt: Content, session: SessionOptions, more: Parameters<Dispatch>[2] = {}) => {
    const fields = { ...createFields(session), prompt };
    // Not deferred, so the first turn has run and its result is here.
    return (await dispatch("createSession", fields, { ...createCall(session), ...more })) as RunResult;
  };
  return {
    createSession: async (prompt, session = {}) => {
      const result = await create(prompt, session);
      return createHandle(dispatch, result.session_id, result);
    },
    createSessionStreaming: (prompt, session = {}) => {
      const stream = streamOf((listener) => create(prompt, session, { listener }));
      const handle = stream.result.then((result) => createHandle(dispatch, result.session_id, result));
      handle.catch(() => {}); // The same failure as `result`'s, for whoever asks for it.
      return { ...stream, session: handle };
    },
    createDeferredSession: async (prompt, session = {}) => {
      const fields = { ...createFields(session), prompt, initial_turn: "deferred" };
      const { session_id } = await dispatch("createSession", fields, createCall(session));
      return createHandle(dispatch, session_id);
    },
    session: (sessionId) => createHandle(dispatch, sessionId),
    listSessions: async (query = {}) => (await dispatch("listSessions", query)).sessions,
    readSession: (session_id) => dispatch("readSession", { session_id }),
    searchMemory: (query, { limit, sessionId, everything = false } = {}) => {
      const where = sessionId === undefined ? {} : { session_id: sessionId, scope: "session" };
      return dispatch(everything ? "searchHistory" : "searchMemory", { query, limit, ...where });
    },
    agent: (name) => createAgentHandle(dispatch, name),
    readBlob: async (blob_id) => {
      const { media_type, data } = await dispatch("readBlob", { blob_id });
      return { mediaType: media_type, data: Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0)) };
    },
    subscribe,
    dispatch,
    close,
  };
}
