import { invalid } from "@rkat/core/contract/error";
import type { AgentEvent } from "@rkat/core/contract/event";
import {
  type AssistantBlock,
  blockText,
  type Content,
  type ContentBlock,
  type Message,
  type ToolResult,
} from "@rkat/core/contract/message";
import type { SessionHistory } from "@rkat/core/contract/session-info";
import { parseParams } from "@rkat/core/contract/wire/requests";
import { UiChatId, UiChatRequest } from "@rkat/core/contract/wire/ui-chat";
import { fieldsOf } from "../http/body.ts";
import { ownerOf } from "../http/callers.ts";
import { createEventWriter } from "../http/event-writer.ts";
import type { HttpResponse } from "../http/exchange.ts";
import { type Answer, errorAnswer, jsonAnswer } from "../http/http-answer.ts";
import type { MountParts, RestRequest, Route } from "../http/router.ts";
import { textOf } from "../openai/content.ts";
import { SESSION_HEADER } from "../openai/failure.ts";
import { failureOf } from "../openai/turn-route.ts";
import { createUiEncoder } from "./ui-encoder.ts";
import { type News, readNews } from "./ui-messages.ts";
import { findSession, noChat, runUiTurn, type UiChat, type UiSettings } from "./ui-sessions.ts";
import { chunksFrom, createUiTurn, createUiTurns, type UiTurn, type UiTurns } from "./ui-turns.ts";

interface UiPlace extends MountParts {
  readonly settings: UiSettings;
  readonly chats: UiTurns;
}

/** `/ui/chat`: the UI message stream of the AI SDK, which `useChat` reads without an adapter. */
export function createUiRoutes(settings: UiSettings, parts: MountParts): readonly Route[] {
  const place: UiPlace = { ...parts, settings, chats: createUiTurns() };
  return [
    {
      method: "POST",
      path: "/ui/chat",
      scope: "run",
      operation: "startTurn",
      stream: (request, response) => say(place, request, response),
    },
    {
      method: "GET",
      path: "/ui/chat/{id}/stream",
      scope: "read",
      operation: "listEvents",
      stream: (request, response) => resume(place, request, response),
    },
    {
      method: "DELETE",
      path: "/ui/chat/{id}/stream",
      scope: "run",
      operation: "interruptTurn",
      serve: (request) => stop(place, request),
    },
    {
      method: "GET",
      path: "/ui/chat/{id}",
      scope: "read",
      operation: "readHistory",
      serve: (request) => show(request),
    },
  ];
}

async function say(place: UiPlace, request: RestRequest, response: HttpResponse): Promise<Answer | undefined> {
  const asked = parseParams(UiChatRequest, fieldsOf(request.body));
  const news = readNews(asked);
  const chat: UiChat = { caller: request.caller, id: asked.id };
  if (news.words.length > 0) return answerApprovals(place, request, response, { chat, news });
  const { chats, clock, settings } = place;
  const key = keyOf(chat);
  const before = chats.running(key);
  // A new message ends a turn without a reader, or a pending approval.
  if (before !== undefined && !before.isRead()) await stopTurn(request, before);
  const names = new Set(asked.client_tools?.map(({ name }) => name));
  const turn = createUiTurn({
    encoder: createUiEncoder({ isClientTool: (name) => names.has(name), sendsDeltas: true }),
    clock,
    graceMs: settings.grace_ms,
    carried: news.goesOn === undefined ? [] : chats.carried(key),
    messageId: news.goesOn,
  });
  chats.keep(key, turn);
  const from = turn.length();
  const traceparent = request.headers.traceparent?.toString();
  const work = async (aborted: AbortSignal): Promise<Answer> => {
    const signal = AbortSignal.any([aborted, turn.signal]);
    const call = { signal, listener: turn.onDelivery, traceparent };
    const failure = await failureOf(runUiTurn(request.runtime, { chat, asked, news, settings }, call));
    turn.end(failure);
    return failure === undefined ? jsonAnswer({}) : errorAnswer(failure);
  };
  const answered = place.turns
    .run(request.headers["x-meerkat-request-id"]?.toString(), request.caller, work)
    .finally(() => turn.end(undefined));
  answered.catch(() => {}); // The caller gets the failure.
  return streamTurn(place, response, { turn, from, refused: answered });
}

/** Answers approvals, and streams what follows. */
async function answerApprovals(
  place: UiPlace,
  request: RestRequest,
  response: HttpResponse,
  { chat, news }: { readonly chat: UiChat; readonly news: News },
): Promise<Answer | undefined> {
  const session = await findSession(request.runtime, chat);
  if (session === undefined) throw noChat(chat);
  const { session_id } = session;
  const turn = place.chats.running(keyOf(chat)) ?? (await follow(place, request, chat, session_id));
  if (turn === undefined) throw invalid("messages: no tool call of this chat waits for approval");
  const from = turn.length();
  // Before the word is given: what comes of it must not be taken for more of waiting.
  turn.setWaiting(false);
  let waiting = 1;
  try {
    for (const { call, ...word } of news.words) {
      const answer = await request.runtime.dispatch("answerApproval", { session_id, ...word, calls: [call] });
      waiting = answer.waiting_calls;
    }
  } finally {
    if (waiting > 0) turn.setWaiting(true);
  }
  return streamTurn(place, response, { turn, from });
}

async function resume(place: UiPlace, request: RestRequest, response: HttpResponse): Promise<Answer | undefined> {
  const chat = chatIn(request);
  const running = place.chats.running(keyOf(chat));
  if (running !== undefined) return streamTurn(place, response, { turn: running, from: 0 });
  const session = await findSession(request.runtime, chat);
  if (session?.state !== "running" && session?.state !== "waiting") return NOTHING_RUNS;
  const turn = await follow(place, request, chat, session.session_id);
  if (turn === undefined) return NOTHING_RUNS;
  return streamTurn(place, response, { turn, from: 0 });
}

const NOTHING_RUNS: Answer = { status: 204, type: "text/plain", text: "" };

/** Stops the turn of a chat now; closing the connection may only mean that its page is loaded again. */
async function stop(place: UiPlace, request: RestRequest): Promise<Answer> {
  const chat = chatIn(request);
  const running = place.chats.running(keyOf(chat));
  if (running !== undefined) {
    await stopTurn(request, running);
    return jsonAnswer({ stopped: true });
  }
  const session = await findSession(request.runtime, chat);
  if (session === undefined) throw noChat(chat);
  const stopped = session.state === "running" || session.state === "waiting";
  if (stopped) await request.runtime.dispatch("interruptTurn", { session_id: session.session_id });
  return jsonAnswer({ stopped });
}

async function stopTurn({ runtime }: RestRequest, turn: UiTurn): Promise<void> {
  const begun = await turn.begun;
  turn.stop("stopped by its page");
  // A turn that waits for approval, or runs in another process, cannot be aborted here.
  if (begun !== undefined) await runtime.dispatch("interruptTurn", { session_id: begun.sessionId });
  await turn.over;
}

/** What a page shows of a chat it does not have; the answer that is being made comes with its stream. */
async function show(request: RestRequest): Promise<Answer> {
  const chat = chatIn(request);
  const session = await findSession(request.runtime, chat);
  if (session === undefined) return jsonAnswer({ id: chat.id, messages: [] });
  const { session_id, state } = session;
  const { messages } = await request.runtime.dispatch("readHistory", { session_id });
  const reported = messagesOf(session_id, messages, { isOpen: state === "running" || state === "waiting" });
  return { ...jsonAnswer({ id: chat.id, session_id, messages: reported }), headers: { [SESSION_HEADER]: session_id } };
}

interface StreamedTurn {
  readonly turn: UiTurn;
  readonly from: number;
  /** The answer where the turn never begins. */
  readonly refused?: Promise<Answer>;
}

async function streamTurn(
  { clock }: UiPlace,
  response: HttpResponse,
  { turn, from, refused }: StreamedTurn,
): Promise<Answer | undefined> {
  const left = new AbortController();
  response.once("close", () => left.abort("the reader left"));
  if (response.destroyed) left.abort("the reader left");
  const detach = turn.attach();
  try {
    const begun = await turn.begun;
    if (begun === undefined) return refused ?? NOTHING_RUNS;
    const headers = { "x-vercel-ai-ui-message-stream": "v1", [SESSION_HEADER]: begun.sessionId };
    const writer = createEventWriter({ response, clock, headers, giveUp: (why) => left.abort(why) });
    for await (const data of chunksFrom(turn, from, left.signal)) await writer.write({ data });
    writer.end({ data: "[DONE]" });
    return undefined;
  } finally {
    detach();
  }
}

const PAGE_EVENTS = 1_000;

/**
 * A turn that was not begun here, or before this process: it is sent from its log, message by message. Undefined where none
 * is open there: a session also looks as if it ran while a turn is refused.
 */
async function follow(
  place: UiPlace,
  request: RestRequest,
  chat: UiChat,
  session_id: string,
): Promise<UiTurn | undefined> {
  const { dispatch, subscribe } = request.runtime;
  const turn = createUiTurn({
    encoder: createUiEncoder({ isClientTool: () => false, sendsDeltas: false }),
    clock: place.clock,
    graceMs: undefined,
    carried: [],
    messageId: undefined,
  });
  const { messages } = await dispatch("readHistory", { session_id });
  const asked = messages.findLast(({ role }) => role === "user");
  const scope = { type: "session", session_id };
  let after = (asked?.seq ?? 1) - 1;
  let isOpen = false;
  for (let hasMore = true; hasMore; ) {
    const page = await dispatch("listEvents", { scope, cursor: { scope, sequence: after }, limit: PAGE_EVENTS });
    for (const { payload: event, cursor, timestamp_ms } of page.events) {
      turn.onDelivery({ seq: cursor.sequence, timestamp_ms, event });
      after = cursor.sequence;
      if (event.type === "run_started") isOpen = true;
      if (isEnd(event)) isOpen = false;
    }
    hasMore = page.has_more;
  }
  // Another page may have come meanwhile.
  const key = keyOf(chat);
  const running = place.chats.running(key);
  if (running !== undefined || !isOpen) return running;
  place.chats.keep(key, turn);
  const listen = async (): Promise<void> => {
    for await (const delivery of subscribe(session_id, { after, signal: turn.signal })) {
      turn.onDelivery(delivery);
      if (isEnd(delivery.event)) return;
    }
  };
  void failureOf(listen()).then(turn.end);
  return turn;
}

function isEnd({ type }: AgentEvent): boolean {
  return type === "run_completed" || type === "run_failed";
}

function chatIn({ caller, params }: RestRequest): UiChat {
  return { caller, id: parseParams(UiChatId, params.id) };
}

function keyOf({ caller, id }: UiChat): string {
  return `${ownerOf(caller)} ${id}`;
}

type SeqMessage = SessionHistory["messages"][number];

interface ShownMessage {
  readonly id: string;
  readonly role: "user" | "assistant";
  readonly parts: unknown[];
}

/** What was said in a session, as messages of the AI SDK; of an open turn the question alone. */
function messagesOf(
  session_id: string,
  messages: readonly SeqMessage[],
  { isOpen }: { readonly isOpen: boolean },
): readonly ShownMessage[] {
  const asked = messages.findLastIndex(isQuestion);
  const known = isOpen ? messages.slice(0, asked + 1) : messages;
  const results = new Map(
    messages.flatMap((message) =>
      message.role === "tool_results" ? message.results.map((result) => [result.tool_use_id, result] as const) : [],
    ),
  );
  const shown: ShownMessage[] = [];
  let askedSeq = 0;
  for (const message of known) {
    if (isQuestion(message)) {
      askedSeq = message.seq;
      shown.push({
        id: `user_${message.seq}`,
        role: "user",
        parts: message.content.length === 0 ? [] : partsOf(message.content),
      });
    }
    if (message.role !== "block_assistant") continue;
    const parts = [{ type: "step-start" }, ...message.blocks.flatMap((block) => blockPart(block, results))];
    const last = shown.at(-1);
    // The steps of a turn are one message, and it has the name its stream gave it.
    if (last?.role === "assistant") last.parts.push(...parts);
    else shown.push({ id: `msg_${session_id.replaceAll("-", "")}_${askedSeq}`, role: "assistant", parts });
  }
  return shown.filter(({ parts }) => parts.length > 0);
}

function isQuestion(message: SeqMessage): message is SeqMessage & Extract<Message, { role: "user" }> {
  return message.role === "user" && message.compaction_id === undefined;
}

function partsOf(content: Content): unknown[] {
  if (typeof content === "string") return [{ type: "text", text: content }];
  return content.map(partOf);
}

function partOf(block: ContentBlock): unknown {
  if (block.type === "text") return block;
  const filename = block.type === "file" && block.name !== undefined ? { filename: block.name } : {};
  const file = { type: "file", mediaType: block.media_type, ...filename };
  switch (block.source) {
    case "inline":
      return { ...file, url: `data:${block.media_type};base64,${block.data}` };
    case "url":
      return { ...file, url: block.url };
    case "blob":
      // Its bytes are not read for a page that may not show them.
      return { type: "text", text: blockText(block) };
  }
}

function blockPart(block: AssistantBlock, results: ReadonlyMap<string, ToolResult>): readonly unknown[] {
  switch (block.block_type) {
    case "text":
      return [{ type: "text", text: block.data.text, state: "done" }];
    case "reasoning":
      return block.data.text === "" ? [] : [{ type: "reasoning", text: block.data.text, state: "done" }];
    case "tool_use": {
      const { id: toolCallId, name: toolName, args: input } = block.data;
      const result = results.get(toolCallId);
      const call = { type: "dynamic-tool", toolName, toolCallId, input };
      if (result === undefined) return [{ ...call, state: "input-available" }];
      const output = typeof result.content === "string" ? result.content : textOf(result.content);
      const run = { ...call, providerExecuted: true };
      return [
        result.is_error
          ? { ...run, state: "output-error", errorText: output }
          : { ...run, state: "output-available", output },
      ];
    }
    case "image":
      return [
        {
          type: "file",
          mediaType: block.data.media_type,
          url: `data:${block.data.media_type};base64,${block.data.data}`,
        },
      ];
    case "server_tool_content":
      return [];
  }
}
