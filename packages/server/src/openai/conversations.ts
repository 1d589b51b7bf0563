import { createHash } from "node:crypto";
import type { CallerRuntime } from "../http/calls.ts";
import { beginView, type ClientView, endsWith, saidIn, viewEvent, viewSaid } from "./client-view.ts";
import { type ChainHash, chainHash, type Said } from "./said.ts";

/** What a conversation must share with a session besides its messages, so that no caller continues another's session. */
export interface Party {
  readonly caller: string;
  readonly system: string | undefined;
  /** The client's own marks of a conversation: `user`, `prompt_cache_key` and the like. */
  readonly marks: readonly (string | undefined)[];
}

type Place =
  /** At the end of a session, which has nothing more. */
  | { readonly kind: "end"; readonly session_id: string; readonly seq: number }
  /** After an answer of a session that continued differently; `messages` are those up to it. */
  | { readonly kind: "middle"; readonly session_id: string; readonly messages: number }
  /** No session is known to be this conversation, or more than one could be. */
  | { readonly kind: "none" };

export interface Conversations {
  /** Finds where a conversation continues; the cost does not grow with the conversation. */
  find(runtime: CallerRuntime, talk: HashedTalk): Promise<Place>;
}

/** A conversation up to its newest answer, as it is looked for. */
export interface HashedTalk {
  readonly beginning: ChainHash;
  readonly hash: ChainHash;
}

/** `said` ends with the answer. */
export function hashTalk(party: Party, said: readonly Said[]): HashedTalk {
  const beginning = beginningOf(party, said);
  return { beginning, hash: said.reduce(chainHash, beginning) };
}

/** The label by which sessions that could be a conversation are found: what all of it begins with. */
export const BEGINNING_LABEL = "openai.beginning";
/** Sessions that begin alike; of more of them only these are looked at. */
const CANDIDATES_MAX = 64;
/** Answers that are remembered of all sessions together, about 150 bytes each. */
const ENDS_MAX = 200_000;
const EVENTS_MAX = 1_000;

export function beginningOf({ caller, system, marks }: Party, said: readonly Said[]): ChainHash {
  const party = JSON.stringify([caller, system ?? "", marks.map((mark) => mark ?? null)]);
  const seed = createHash("sha256").update(party).digest("base64url");
  const first = said.find(({ role }) => role === "user");
  return first === undefined ? seed : chainHash(seed, first);
}

/** Remembers what clients know of sessions, so that a conversation is found without reading logs again. */
export function createConversations(): Conversations {
  /** The one looked at last is the last. */
  const views = new Map<string, Known>();

  const keep = (sessionId: string, known: Known): void => {
    views.delete(sessionId);
    views.set(sessionId, known);
    let held = 0;
    for (const { view } of views.values()) held += view.ends.size;
    for (const [oldest, { view }] of views) {
      if (held <= ENDS_MAX || views.size === 1) return;
      held -= view.ends.size;
      views.delete(oldest);
    }
  };
  const look = async (runtime: CallerRuntime, session: Candidate, beginning: ChainHash): Promise<ClientView> => {
    const { session_id, message_count } = session;
    const view = views.get(session_id)?.view ?? beginView(beginning);
    await refresh(runtime, session_id, view);
    keep(session_id, { view, message_count });
    return view;
  };

  return {
    find: async (runtime, { beginning, hash }) => {
      const labels = { [BEGINNING_LABEL]: beginning };
      const { sessions } = await runtime.dispatch("listSessions", { labels, limit: CANDIDATES_MAX });
      const held: { readonly session_id: string; readonly view: ClientView }[] = [];
      for (const session of sessions) {
        const known = views.get(session.session_id);
        // What has not grown since has not come to hold it.
        if (known?.message_count === session.message_count && !known.view.isOpen && !known.view.ends.has(hash))
          continue;
        const view = await look(runtime, session, beginning);
        if (view.ends.has(hash)) held.push({ session_id: session.session_id, view });
      }
      const [only, another] = held;
      // Two with the same messages may have done different things on the server: neither is certain to be the one.
      if (only === undefined || another !== undefined) return { kind: "none" };
      const { session_id, view } = only;
      if (endsWith(view, hash)) return { kind: "end", session_id, seq: view.seq };
      return {
        kind: "middle",
        session_id,
        messages: await messagesUpTo(runtime, session_id, view.ends.get(hash) ?? 0),
      };
    },
  };
}

interface Known {
  readonly view: ClientView;
  /** How many messages the session had then. */
  readonly message_count: number;
}

interface Candidate {
  readonly session_id: string;
  readonly message_count: number;
}

/** Advances a view to the end of its session. */
async function refresh({ dispatch }: CallerRuntime, session_id: string, view: ClientView): Promise<void> {
  const scope = { type: "session" as const, session_id };
  // A log grows while it is read, but not without end.
  for (;;) {
    const cursor = { scope, sequence: view.seq };
    const page = await dispatch("listEvents", { scope, cursor, limit: EVENTS_MAX });
    const [first] = page.events;
    if (view.seq === 0) {
      const until = first?.cursor.sequence ?? page.latest_cursor.sequence + 1;
      await viewBeginning(dispatch, session_id, view, until);
    }
    for (const { cursor: at, payload } of page.events) viewEvent(view, at.sequence, payload);
    if (page.has_more) continue;
    view.seq = Math.max(view.seq, page.latest_cursor.sequence);
    return;
  }
}

/** Of the messages a session began with there are no events. */
async function viewBeginning(
  dispatch: CallerRuntime["dispatch"],
  session_id: string,
  view: ClientView,
  until: number,
): Promise<void> {
  // The first entry is no message.
  if (until <= 2) return;
  const { messages } = await dispatch("readHistory", { session_id, limit: until });
  for (const message of messages) {
    if (message.seq < until) viewSaid(view, message.seq, saidIn([message]));
  }
}

/** How many messages of a transcript come before, or with, an event. */
async function messagesUpTo({ dispatch }: CallerRuntime, session_id: string, seq: number): Promise<number> {
  const { messages } = await dispatch("readHistory", { session_id });
  return messages.filter((message) => message.seq <= seq).length;
}
