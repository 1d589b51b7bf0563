import { RuntimeError } from "@rkat/core/contract/error";
import type { Usage } from "@rkat/core/contract/event";
import { type RunResult, SessionId } from "@rkat/core/contract/session";
import type { CallContext } from "@rkat/core/runtime/dispatch";
import type { CallerRuntime } from "../http/caller-runtime.ts";
import { historyOf, resultOf, type Talk } from "./chat-messages.ts";
import { BEGINNING_LABEL, beginningOf, type Conversations, hashTalk, type Party } from "./conversations.ts";
import { parseConversationId } from "./ids.ts";
import { retried } from "./retries.ts";
import { partsOf } from "./said.ts";

/** A request of a client that knows nothing of sessions. */
export interface ChatTurn {
  readonly talk: Talk;
  readonly party: Party;
  /** The session, where the client names it outright. */
  readonly named: string | undefined;
  /** What a new session is made with, and what a further turn is run with. */
  readonly creation: Readonly<Record<string, unknown>> & { readonly labels: Readonly<Record<string, string>> };
  readonly continuation: Readonly<Record<string, unknown>>;
}

/** How often the session is searched again, if it grew after it was found. */
const LOOKS_MAX = 3;

/** Runs a turn in the session of the conversation, or in a new one; never in another. */
export async function runChat(
  { dispatch, subscribe }: CallerRuntime,
  conversations: Conversations,
  chat: ChatTurn,
  call: CallContext & { found(before: Usage | undefined): void; readonly failedIn?: string | undefined },
): Promise<RunResult> {
  const { talk, party, named } = chat;
  const { found, failedIn, ...context } = call;
  const further = async (session_id: string, after: object, more: CallContext = {}): Promise<RunResult> => {
    const { usage } = await dispatch("readSession", { session_id });
    found(usage);
    const { results, prompt } = talk;
    const brought = results.length === 0 ? {} : { tool_results: results.map(resultOf) };
    const turn = { ...chat.continuation, session_id, prompt, ...brought, ...after };
    return dispatch("startTurn", turn, { ...context, ...more });
  };
  const anew = async (): Promise<RunResult> => {
    found(undefined);
    const first = talk.said.find(({ role }) => role === "user") ?? {
      role: "user" as const,
      parts: partsOf(talk.prompt),
    };
    const labels = { ...chat.creation.labels, [BEGINNING_LABEL]: beginningOf(party, [first]) };
    const history = talk.said.length === 0 ? {} : { history: historyOf(talk.said) };
    const made = { ...chat.creation, ...history, labels };
    if (talk.results.length === 0) {
      const result = await dispatch("createSession", { ...made, prompt: talk.prompt }, context);
      if (!("text" in result)) throw new Error("a session that is not deferred has run its first turn");
      return result;
    }
    const { session_id } = await dispatch("createSession", { ...made, initial_turn: "deferred" });
    return dispatch(
      "startTurn",
      { session_id, prompt: talk.prompt, tool_results: talk.results.map(resultOf) },
      context,
    );
  };

  const again = failedIn === undefined ? undefined : await retried(further(failedIn, {}, { isRetry: true }));
  if (again !== undefined) return again;
  if (named !== undefined) return further(sessionIdOf(named), {});
  if (talk.said.length === 0) return anew();
  const hashed = hashTalk(party, talk.said);
  for (let look = 1; look <= LOOKS_MAX; look += 1) {
    const place = await conversations.find({ dispatch, subscribe }, hashed);
    if (place.kind === "none") return anew();
    try {
      if (place.kind === "end") return await further(place.session_id, { after_seq: place.seq });
      const { session_id, messages: message_index } = place;
      const fork = await dispatch("forkSession", { session_id, message_index });
      return await further(fork.session_id, {});
    } catch (thrown) {
      if (!isOvertaken(thrown)) throw thrown;
      // Another turn runs there: it can be neither awaited nor forked.
      if (place.kind === "middle") return anew();
    }
  }
  return anew();
}

/** Whether the session grew or is busy, so that no turn began. */
function isOvertaken(thrown: unknown): boolean {
  if (!(thrown instanceof RuntimeError)) return false;
  return thrown.code === "SESSION_BUSY" || (thrown.code === "INVALID_PARAMS" && thrown.message.startsWith("after_seq"));
}

function sessionIdOf(named: string): string {
  // As the other endpoint writes the conversation of a session.
  if (named.startsWith("conv_")) return parseConversationId(named);
  const id = SessionId.safeParse(named);
  if (id.success) return id.data;
  throw new RuntimeError("INVALID_PARAMS", "x-rkat-session: write a session's id, as the header of an answer names it");
}
