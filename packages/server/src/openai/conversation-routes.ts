import { RuntimeError } from "@rkat/core/contract/error";
import type { MessageInput } from "@rkat/core/contract/rewrite";
import { CompactRequest, CreateConversation, CreateItems } from "@rkat/core/contract/wire/openai";
import { parseParams } from "@rkat/core/contract/wire/requests";
import { fieldsOf } from "../http/body.ts";
import { type Answer, jsonAnswer } from "../http/http-answer.ts";
import type { RestRequest, Route } from "../http/router.ts";
import { SESSION_HEADER } from "./failure.ts";
import { compactedId, conversationId, notThere, parseConversationId, parseResponseId } from "./ids.ts";
import { listOf, pageIn } from "./item-page.ts";
import { labelsOf, metadataIn } from "./metadata.ts";
import { withReferenced } from "./references.ts";
import { usageOf } from "./response-encoder.ts";
import { answerItem, historyOf, itemsOf, type ListedItem } from "./response-input.ts";
import { messagesUpTo, readOpen, type SeqMessage } from "./response-log.ts";
import type { Place } from "./turn-route.ts";

/** `/v1/conversations`: a conversation is a session, under another name; and what is compacted without a response. */
export function createConversationRoutes(place: Place): readonly Route[] {
  const { clock } = place;
  const path = "/v1/conversations/{conversation_id}";
  return [
    {
      method: "POST",
      path: "/v1/conversations",
      scope: "run",
      operation: "createSession",
      serve: async (request) => {
        const { items, metadata } = parseParams(CreateConversation, fieldsOf(request.body));
        const history = historyOf(items ?? [], "items");
        const session_id = await begin(place, request, { history, labels: labelsOf(metadata) });
        return conversation(session_id, Math.floor(clock.now() / 1_000), metadata ?? {});
      },
    },
    {
      method: "POST",
      path: "/v1/responses/compact",
      scope: "run",
      operation: "compactSession",
      serve: (request) => compact(place, request),
    },
    {
      method: "GET",
      path,
      scope: "read",
      operation: "readSession",
      serve: async (request) => {
        const { session_id, created_at, labels } = await requireConversation(request);
        return conversation(session_id, created_at, metadataIn(labels));
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
    {
      method: "POST",
      path: `${path}/items`,
      scope: "run",
      operation: "rewriteTranscript",
      serve: async (request) => {
        const { items } = parseParams(CreateItems, fieldsOf(request.body));
        const { session_id } = await requireConversation(request);
        const { length } = await allMessages(request, session_id);
        await change(request, session_id, { start: length, end: length }, historyOf(items, "items"));
        const added = (await allMessages(request, session_id)).slice(length);
        return jsonAnswer(listOf(itemsOf(added)));
      },
    },
    {
      method: "GET",
      path: `${path}/items/{item_id}`,
      scope: "read",
      operation: "readHistory",
      serve: async (request) => {
        const { session_id } = await requireConversation(request);
        return jsonAnswer((await requireItem(request, session_id)).item);
      },
    },
    {
      method: "DELETE",
      path: `${path}/items/{item_id}`,
      scope: "run",
      operation: "rewriteTranscript",
      serve: async (request) => {
        const { session_id, created_at, labels } = await requireConversation(request);
        const { at, message, item } = await requireItem(request, session_id);
        await change(request, session_id, { start: at, end: at + 1 }, without(message, item));
        return conversation(session_id, created_at, metadataIn(labels));
      },
    },
    {
      method: "POST",
      path,
      scope: "run",
      operation: "readSession",
      serve: async (request) => {
        await requireConversation(request);
        const why = "a conversation keeps the metadata it was made with; make another, or keep them yourself";
        throw new RuntimeError("CAPABILITY_UNAVAILABLE", `metadata: ${why}`);
      },
    },
  ];
}

interface Beginning {
  readonly history: readonly MessageInput[];
  readonly labels?: Readonly<Record<string, string>>;
  readonly model?: string | undefined;
  readonly system_prompt?: string | undefined;
}

/** Creates an empty session and returns its id. */
async function begin({ settings }: Place, { runtime }: RestRequest, beginning: Beginning): Promise<string> {
  const { history, labels, ...rest } = beginning;
  const { session_id } = await runtime.dispatch("createSession", {
    initial_turn: "deferred",
    tool_preset: "none",
    memory_scope: settings.memory,
    labels: { surface: "openai", ...labels },
    ...(history.length === 0 ? {} : { history }),
    ...rest,
  });
  return session_id;
}

/** Compacts the context of a response, or the items of an input; an input may begin with the item it answers with. */
async function compact(place: Place, request: RestRequest): Promise<Answer> {
  const asked = parseParams(CompactRequest, fieldsOf(request.body));
  const { id, session_id } = await compacted(place, request, asked);
  const { compaction, ...reported } = await request.runtime.dispatch("compactSession", { session_id });
  const body = {
    id,
    object: "response.compaction",
    created_at: Math.floor(place.clock.now() / 1_000),
    output: [{ id: id.replace(/^resp_/, "cmp_"), type: "compaction", encrypted_content: id }],
    usage: usageOf(compaction?.usage ?? { input_tokens: 0, output_tokens: 0 }),
    ...reported,
    ...(compaction === undefined ? {} : { compaction }),
  };
  return { ...jsonAnswer(body), headers: { [SESSION_HEADER]: session_id } };
}

/** The session to compact, and what an input that goes on from it is to name: a response's, or one made of the input. */
async function compacted(place: Place, request: RestRequest, asked: CompactRequest) {
  const { model, instructions, input, previous_response_id: previous } = asked;
  const { runtime } = request;
  const refuse = (why: string) => new RuntimeError("INVALID_PARAMS", why);
  if (typeof previous === "string") {
    const { session_id } = parseResponseId(previous);
    if (Array.isArray(input)) throw refuse("input: give it or previous_response_id, not both");
    await readOpen(runtime, session_id, notThere("response", previous));
    return { session_id, id: previous };
  }
  const history = historyOf((await withReferenced(runtime, { input: input ?? undefined })) ?? []);
  const wanted = "previous_response_id: name the response whose context is to be compacted, or give an input";
  if (history.length === 0) throw refuse(wanted);
  const session_id = await begin(place, request, { history, model, system_prompt: instructions ?? undefined });
  const seq = (await allMessages(request, session_id)).at(-1)?.seq ?? 0;
  return { session_id, id: compactedId({ session_id, seq }) };
}

async function allMessages({ runtime }: RestRequest, session_id: string): Promise<readonly SeqMessage[]> {
  return messagesUpTo(runtime, session_id, Number.MAX_SAFE_INTEGER);
}

async function change(
  { runtime }: RestRequest,
  session_id: string,
  range: { readonly start: number; readonly end: number },
  replacement: readonly MessageInput[],
): Promise<void> {
  const selection = { type: "message_range", ...range };
  await runtime.dispatch("rewriteTranscript", { session_id, selection, replacement, reason: { kind: "items" } });
}

/** The item of a path: the message it is of, where that stands, and itself. */
async function requireItem(request: RestRequest, session_id: string) {
  const id = request.params.item_id ?? "";
  const messages = await allMessages(request, session_id);
  for (const [at, message] of messages.entries()) {
    const item = itemsOf([message]).find((one) => one.id === id);
    if (item !== undefined) return { at, message, item };
  }
  throw notThere("item", id);
}

/** A message without one of the items it is told as: nothing where it was the only one. */
function without({ seq, ...message }: SeqMessage, { id }: ListedItem): readonly MessageInput[] {
  const keeps = (part: ListedItem | undefined): boolean => part?.id !== id;
  if (message.role === "block_assistant") {
    const blocks = message.blocks.filter((block, index) => keeps(answerItem(block, `${seq}_${index}`)[0]));
    return blocks.length === 0 ? [] : [{ ...message, blocks }];
  }
  if (message.role !== "tool_results") return [];
  const items = itemsOf([{ ...message, seq }]);
  const results = message.results.filter((_, index) => keeps(items[index]));
  return results.length === 0 ? [] : [{ ...message, results }];
}

function requireConversation({ params, runtime }: RestRequest) {
  const id = params.conversation_id ?? "";
  return readOpen(runtime, parseConversationId(id), notThere("conversation", id));
}

function conversation(session_id: string, created_at: number, metadata: unknown): Answer {
  const body = { id: conversationId(session_id), object: "conversation", created_at, metadata };
  return { ...jsonAnswer(body), headers: { [SESSION_HEADER]: session_id } };
}
