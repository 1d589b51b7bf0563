import { invalid } from "@rkat/core/contract/error";
import type { Content } from "@rkat/core/contract/message";
import type { MessageInput } from "@rkat/core/contract/rewrite";
import type { JsonObject } from "@rkat/core/contract/session";
import type { ChatMessage } from "@rkat/core/contract/wire/openai";
import { contentOf, joined, textOf } from "./content.ts";
import { inOrder, partsOf, plainOf, type Said, type SaidResult } from "./said.ts";

/** The request of a stateless client: the conversation up to the newest answer, and the new input. */
export interface Talk {
  readonly system: string | undefined;
  /** Ends with an answer; empty where there was none yet. */
  readonly said: readonly Said[];
  /** Results of the calls that answer made. */
  readonly results: readonly SaidResult[];
  /** Empty where only results came. */
  readonly prompt: Content;
}

/** Reads the messages of a request; throws INVALID_PARAMS for what no provider would take. */
export function readTalk(messages: readonly ChatMessage[]): Talk {
  const first = messages.findIndex(({ role }) => !isSystem(role));
  if (first < 0) throw invalid("messages: add what the user says; instructions alone are not answered");
  const system = messages.slice(0, first).map((message, at) => contentText(message, at));
  const said: Said[] = [];
  let users: Content[] = [];
  let results: SaidResult[] = [];
  let calls: readonly string[] = [];
  /** Calls of the newest answer without a result yet. */
  let open = new Set<string>();
  const requireResults = (at: number): void => {
    const [missing] = open;
    if (missing !== undefined) throw invalid(`messages[${at}]: the result of the call ${missing} must come before it`);
  };
  for (const [index, message] of messages.slice(first).entries()) {
    const at = first + index;
    if (message.role === "tool") {
      const { tool_call_id: id } = message;
      if (!open.delete(id)) throw invalid(`messages[${at}].tool_call_id: no call ${id} waits for a result there`);
      results.push({ id, content: contentOf(message.content, `messages[${at}].content`) });
      continue;
    }
    requireResults(at);
    if (message.role === "user") users.push(contentOf(message.content, `messages[${at}].content`));
    else if (message.role !== "assistant") users.push(note("system", contentText(message, at)));
    else if (said.length === 0 && users.length === 0) users.push(note("assistant", contentText(message, at)));
    else {
      said.push(...asked({ results: inOrder(results, calls), users }), answerOf(message, at));
      [users, results] = [[], []];
      calls = message.tool_calls?.map(({ id }) => id) ?? [];
      open = new Set(calls);
    }
  }
  requireResults(messages.length);
  const prompt = joined(users.filter((content) => content.length > 0));
  if (results.length === 0 && partsOf(prompt).length === 0) {
    throw invalid("messages: end with what the user says or what a tool gave");
  }
  return {
    system: system.length === 0 ? undefined : system.join("\n\n"),
    said: merged(said),
    results: inOrder(results, calls),
    prompt,
  };
}

function isSystem(role: ChatMessage["role"]): boolean {
  return role === "system" || role === "developer";
}

function contentText(message: ChatMessage, at: number): string {
  return textOf(contentOf(message.content ?? "", `messages[${at}].content`));
}

/** What stands where a session can hold only words of the user: providers want a conversation to begin with them. */
function note(by: "system" | "assistant", text: string): string {
  return `<${by}>\n${text}\n</${by}>`;
}

function asked({ results, users }: { results: readonly SaidResult[]; users: readonly Content[] }): readonly Said[] {
  const parts = partsOf(joined(users.filter((content) => content.length > 0)));
  return [
    ...(results.length === 0 ? [] : [{ role: "tools" as const, results }]),
    ...(parts.length === 0 ? [] : [{ role: "user" as const, parts }]),
  ];
}

function answerOf(message: Extract<ChatMessage, { role: "assistant" }>, at: number): Said {
  const text = contentText(message, at) || (message.refusal ?? "");
  const calls = (message.tool_calls ?? []).map(({ id, function: { name, arguments: args } }) => ({
    id,
    name,
    args: argumentsOf(args),
  }));
  return { role: "assistant", text, calls };
}

/** As a session keeps arguments that are none. */
function argumentsOf(text: string): JsonObject {
  try {
    const value: unknown = JSON.parse(text === "" ? "{}" : text);
    // An object of JSON has texts as keys.
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as JsonObject;
  } catch {
    // Kept as it is, below.
  }
  return { raw_arguments: text };
}

/** Answers one after the other are one: providers take no two. */
function merged(said: readonly Said[]): readonly Said[] {
  const whole: Said[] = [];
  for (const one of said) {
    const last = whole.at(-1);
    if (one.role !== "assistant" || last?.role !== "assistant") whole.push(one);
    else {
      const text = [last.text, one.text].filter((words) => words !== "").join("\n\n");
      whole[whole.length - 1] = { role: "assistant", text, calls: [...last.calls, ...one.calls] };
    }
  }
  return whole;
}

/** The conversation as the history of a new session. */
export function historyOf(said: readonly Said[]): readonly MessageInput[] {
  return said.map((one): MessageInput => {
    if (one.role === "user") return { role: "user", content: plainOf(one.parts) };
    if (one.role === "assistant") return { role: "assistant", content: one.text, tool_calls: [...one.calls] };
    return { role: "tool_results", results: one.results.map(resultOf) };
  });
}

export function resultOf({ id, content }: SaidResult) {
  return { tool_use_id: id, content, is_error: false };
}
