import { invalid, RuntimeError } from "@rkat/core/contract/error";
import type { Usage } from "@rkat/core/contract/event";
import { invalidInput } from "@rkat/core/contract/input";
import { type RunResult, SessionId } from "@rkat/core/contract/session";
import { ChatRequest } from "@rkat/core/contract/wire/openai";
import type { CallContext } from "@rkat/core/runtime/dispatch";
import { fieldsOf } from "../http/body.ts";
import type { CallerRuntime } from "../http/calls.ts";
import type { HttpResponse } from "../http/exchange.ts";
import type { RestRequest, StreamedRoute } from "../http/router.ts";
import { createChatEncoder } from "./chat-encoder.ts";
import { historyOf, readTalk, resultOf, type Talk } from "./chat-messages.ts";
import { schemaOf } from "./content.ts";
import {
  BEGINNING_LABEL,
  beginningOf,
  type Conversations,
  createConversations,
  hashTalk,
  type Party,
} from "./conversations.ts";
import { SESSION_HEADER } from "./failure.ts";
import { parseConversationId } from "./ids.ts";
import { retried } from "./retries.ts";
import { partsOf } from "./said.ts";
import { type Asks, callOf, continuation, creation, type TurnCall } from "./settings.ts";
import { answerTurn, type Place } from "./turn-route.ts";

/** `POST /v1/chat/completions`: conversations of clients that send all of it each time. */
export function createChatRoutes(place: Place): readonly StreamedRoute[] {
  const conversations = createConversations();
  const stream = async (request: RestRequest, response: HttpResponse) => {
    const chat = readChat(request, place);
    let before: Usage | undefined;
    const encoder = createChatEncoder({
      id: `chatcmpl-${place.clock.newId().replaceAll("-", "")}`,
      createdSecs: Math.floor(place.clock.now() / 1_000),
      model: chat.asked.model ?? "default",
      isStructured: chat.isStructured,
      sendsUsage: chat.asked.stream_options?.include_usage === true,
      usedBefore: () => before,
    });
    const found = (used: Usage | undefined): void => {
      before = used;
    };
    return answerTurn(place, request, response, {
      isStreamed: chat.asked.stream === true,
      goesOn: false,
      encoder,
      run: (context, failedIn) => {
        const traceparent = request.headers.traceparent?.toString();
        const call = { ...context, ...chat.first, traceparent, found, failedIn };
        return runChat(request.runtime, conversations, chat.turn, call);
      },
    });
  };
  return [{ method: "POST", path: "/v1/chat/completions", scope: "run", operation: "startTurn", stream }];
}

interface Chat {
  readonly asked: ChatRequest;
  readonly turn: ChatTurn;
  readonly first: TurnCall;
  readonly isStructured: boolean;
}

function readChat(request: RestRequest, place: Place): Chat {
  const parsed = ChatRequest.safeParse(fieldsOf(request.body));
  if (!parsed.success) throw invalidInput(parsed.error);
  const asked = parsed.data;
  const talk = readTalk(asked.messages);
  const named = request.headers[SESSION_HEADER]?.toString() ?? conversationIn(asked);
  const asks = asksOf(asked, talk.system);
  const party = {
    caller: request.caller.name,
    system: talk.system,
    marks: [asked.user, asked.prompt_cache_key, asked.safety_identifier].map((mark) => mark ?? undefined),
  };
  const { change_settings, ...further } = continuation(asks, request, place);
  const { system_prompt: _same, ...changes } = change_settings;
  // A session that is found has this system prompt; one that is named keeps its own unless the request has another.
  const isReported = named !== undefined && talk.system !== undefined;
  const change = isReported ? { ...changes, system_prompt: talk.system } : changes;
  const turn = {
    talk,
    party,
    named,
    creation: creation(asks, request, place),
    continuation: { ...further, change_settings: change },
  };
  return { asked, turn, first: callOf(asks, request, place), isStructured: asks.schema !== undefined };
}

function conversationIn({ conversation }: ChatRequest): string | undefined {
  return (typeof conversation === "object" ? conversation?.id : conversation) ?? undefined;
}

const SAMPLING = [
  "temperature",
  "top_p",
  "stop",
  "seed",
  "presence_penalty",
  "frequency_penalty",
  "reasoning_effort",
] as const satisfies readonly (keyof ChatRequest)[];

function asksOf(asked: ChatRequest, system: string | undefined): Asks {
  const params = SAMPLING.flatMap((name) => {
    const value = asked[name];
    return value === undefined || value === null ? [] : [[name, value] as const];
  });
  return {
    model: asked.model,
    instructions: system,
    maxTokens: asked.max_completion_tokens ?? asked.max_tokens ?? undefined,
    schema: schemaOf(asked.response_format),
    params: Object.fromEntries(params),
    tools: asked.tools,
    metadata: asked.metadata,
    toolChoice: asked.tool_choice,
    isParallel: asked.parallel_tool_calls,
  };
}

/** A request of a client that knows nothing of sessions. */
interface ChatTurn {
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
  throw invalid("x-rkat-session: write a session's id, as the header of an answer names it");
}
