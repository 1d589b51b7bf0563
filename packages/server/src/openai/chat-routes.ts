import type { ServerResponse } from "node:http";
import type { Usage } from "@rkat/core/contract/event";
import { invalidInput } from "@rkat/core/contract/input";
import { ChatRequest } from "@rkat/core/contract/wire/openai";
import { fieldsOf } from "../http/body.ts";
import type { RestRequest, StreamedRoute } from "../http/router.ts";
import { createChatEncoder } from "./chat-encoder.ts";
import { readTalk } from "./chat-messages.ts";
import { type ChatTurn, runChat } from "./chat-turn.ts";
import { schemaOf } from "./content.ts";
import { createConversations } from "./conversations.ts";
import { SESSION_HEADER } from "./failure.ts";
import { type Asks, continuation, creation, firstChoice } from "./settings.ts";
import { answerTurn, type Place } from "./turn-route.ts";

/** `POST /v1/chat/completions`: conversations of clients that send all of it each time. */
export function createChatRoutes(place: Place): readonly StreamedRoute[] {
  const conversations = createConversations();
  const stream = async (request: RestRequest, response: ServerResponse) => {
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
  readonly first: ReturnType<typeof firstChoice>;
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
  // A session that is found has this system prompt; one that is named keeps its own unless it is told another.
  const isReported = named !== undefined && talk.system !== undefined;
  const change = isReported ? { ...changes, system_prompt: talk.system } : changes;
  const turn = {
    talk,
    party,
    named,
    creation: creation(asks, request, place),
    continuation: { ...further, change_settings: change },
  };
  return { asked, turn, first: firstChoice(asks), isStructured: asks.schema !== undefined };
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
