import { CreateConversation } from "../../contract/openai-responses.ts";
import { parseParams } from "../../contract/requests.ts";
import { fieldsOf } from "../wire/body.ts";
import { type Answer, jsonAnswer } from "../wire/http-answer.ts";
import type { RestRequest, Route } from "../wire/router.ts";
import { SESSION_HEADER } from "./failure.ts";
import { conversationId, notThere, parseConversationId } from "./ids.ts";
import { pageIn } from "./item-page.ts";
import { historyOf, itemsOf } from "./response-input.ts";
import { messagesUpTo, readOpen } from "./response-log.ts";
import type { Place } from "./turn-route.ts";

/** `/v1/conversations`: a conversation is a session, under another name. */
export function createConversationRoutes({ settings, clock }: Place): readonly Route[] {
  const path = "/v1/conversations/{conversation_id}";
  return [
    {
      method: "POST",
      path: "/v1/conversations",
      scope: "run",
      operation: "createSession",
      serve: async (request) => {
        const { items, metadata } = parseParams(CreateConversation, fieldsOf(request.body));
        const history = historyOf(items ?? []);
        const { session_id } = await request.runtime.dispatch("createSession", {
          initial_turn: "deferred",
          tool_preset: "none",
          memory_scope: settings.memory,
          labels: { surface: "openai" },
          ...(history.length === 0 ? {} : { history }),
        });
        return conversation(session_id, Math.floor(clock.now() / 1_000), metadata ?? {});
      },
    },
    {
      method: "GET",
      path,
      scope: "read",
      operation: "readSession",
      serve: async (request) => {
        const { session_id, created_at } = await requireConversation(request);
        return conversation(session_id, created_at, {});
      },
    },
    {
      method: "DELETE",
      path,
      scope: "run",
      operation: "archiveSession",
      serve: async (request) => {
        const { session_id } = await requireConversation(request);
        await request.runtime.dispatch("archiveSession", { session_id });
        return jsonAnswer({ id: conversationId(session_id), object: "conversation.deleted", deleted: true });
      },
    },
    {
      method: "GET",
      path: `${path}/items`,
      scope: "read",
      operation: "readHistory",
      serve: async (request) => {
        const { session_id } = await requireConversation(request);
        const messages = await messagesUpTo(request.runtime, session_id, Number.MAX_SAFE_INTEGER);
        return jsonAnswer(pageIn(itemsOf(messages), request.query));
      },
    },
  ];
}

function requireConversation({ params, runtime }: RestRequest) {
  const id = params.conversation_id ?? "";
  return readOpen(runtime, parseConversationId(id), notThere("conversation", id));
}

function conversation(session_id: string, created_at: number, metadata: unknown): Answer {
  const body = { id: conversationId(session_id), object: "conversation", created_at, metadata };
  return { ...jsonAnswer(body), headers: { [SESSION_HEADER]: session_id } };
}
