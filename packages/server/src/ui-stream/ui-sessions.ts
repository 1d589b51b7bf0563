import type { Caller } from "@rkat/core/contract/caller";
import { RuntimeError } from "@rkat/core/contract/error";
import type { SessionSummary } from "@rkat/core/contract/session-info";
import type { UiChatRequest } from "@rkat/core/contract/wire/ui-chat";
import type { CallContext } from "@rkat/core/runtime/dispatch";
import type { CallerRuntime } from "../http/calls.ts";
import { furtherTurn } from "../http/calls.ts";
import { historyOf } from "../openai/chat-messages.ts";
import { textOf } from "../openai/content.ts";
import { type News, saidBefore } from "./ui-messages.ts";

/** What the configuration says of pages. */
export interface UiSettings {
  readonly memory: "session" | "project";
  /** The tools of a chat whose page names none; undefined: those that the runtime gives a session. */
  readonly tools: "none" | "memory" | "safe" | "workspace" | "full" | undefined;
  /** How long a turn runs without a reader; undefined: to its end. */
  readonly grace_ms?: number | undefined;
}

/** A conversation as its page names it; of a caller's own. */
export interface UiChat {
  readonly caller: Caller;
  readonly id: string;
}

/** Forks of one chat: an edit makes another. */
const FORKS_MAX = 256;

/** The session of a chat: of those that were forked from it, the newest. */
export async function findSession({ dispatch }: CallerRuntime, chat: UiChat): Promise<SessionSummary | undefined> {
  const { sessions } = await dispatch("listSessions", { labels: labelsOf(chat), limit: FORKS_MAX });
  // Made in the same second, it is the one that changed last.
  return sessions.toSorted((one, other) => other.created_at - one.created_at)[0];
}

function labelsOf({ caller, id }: UiChat): Readonly<Record<string, string>> {
  return { surface: "ui", "ui.chat": id, "ui.caller": caller.name };
}

interface UiTurnRequest {
  readonly chat: UiChat;
  readonly asked: UiChatRequest;
  readonly news: News;
  readonly settings: UiSettings;
}

/** Runs the turn that a request asks for: in the chat's session, in a fork where something is replaced, or in a new one. */
export async function runUiTurn(runtime: CallerRuntime, request: UiTurnRequest, call: CallContext): Promise<unknown> {
  const { dispatch } = runtime;
  const { asked, news, chat, settings } = request;
  const { model, system_prompt, client_tools = [] } = asked;
  const own = ownTools(asked.tool_preset ?? settings.tools);
  const every = { client_tools, ...(model === undefined ? {} : { model }) };
  const system = system_prompt === undefined ? {} : { system_prompt };
  const session = await findSession(runtime, chat);
  if (session === undefined) {
    if (news.prompt === undefined) throw noChat(chat);
    const said = saidBefore(asked.messages);
    const history = said.length === 0 ? {} : { history: historyOf(said) };
    const made = { ...every, ...system, ...own, ...history, memory_scope: settings.memory, labels: labelsOf(chat) };
    return dispatch("createSession", { ...made, prompt: news.prompt }, call);
  }
  const session_id = await placeOf(runtime, session.session_id, news);
  const brought = news.results.length === 0 ? {} : { tool_results: news.results };
  const changes = { change_settings: { ...own, ...system } };
  return furtherTurn(dispatch, { ...every, ...changes, ...brought, session_id, prompt: news.prompt ?? "" }, call);
}

function ownTools(preset: UiSettings["tools"]) {
  if (preset === undefined) return {};
  return preset === "memory" ? { tool_preset: "none", enable_memory: true } : { tool_preset: preset };
}

/** The session in which the newest message is said: its own, or a fork from before what it replaces. */
async function placeOf({ dispatch }: CallerRuntime, session_id: string, news: News): Promise<string> {
  if (news.prompt === undefined || (news.replaces === undefined && news.before.length === 0)) return session_id;
  const { messages } = await dispatch("readHistory", { session_id });
  const said = messages.flatMap((message, index) =>
    message.role === "user" && message.compaction_id === undefined ? [{ index, text: textOf(message.content) }] : [],
  );
  const place = replacedAt(
    said.map(({ text }) => text),
    news,
  );
  const message_index = place === undefined ? undefined : said[place]?.index;
  if (message_index === undefined) return session_id;
  const fork = await dispatch("forkSession", { session_id, message_index, asks_again: news.replaces === "same" });
  return fork.session_id;
}

/**
 * Which of the user's words in a session are replaced by the newest ones; undefined where these are said after all of
 * them. A page sends what it shows: where that is the beginning of the session alone, the rest was cut.
 */
function replacedAt(said: readonly string[], news: Pick<News, "before" | "prompt" | "replaces">): number | undefined {
  const { before, replaces } = news;
  const prompt = textOf(news.prompt ?? "");
  // What was refused is on the page and not in the session.
  let next = 0;
  let known = 0;
  for (const text of before) {
    const found = said.indexOf(text, next);
    if (found < 0) continue;
    known += 1;
    next = found + 1;
  }
  if (replaces === "edited") return next < said.length ? next : undefined;
  if (replaces === "same") {
    if (said[next] === prompt) return next;
    const newest = said.lastIndexOf(prompt);
    return newest < 0 ? undefined : newest;
  }
  const isBeginning = known === before.length && next === before.length && next < said.length;
  const isEnd = said.slice(-before.length).every((text, index) => text === before[index]);
  return isBeginning && !isEnd ? next : undefined;
}

export function noChat({ id }: UiChat): RuntimeError {
  return new RuntimeError("SESSION_NOT_FOUND", `there is no chat ${JSON.stringify(id.slice(0, 100))}`);
}
