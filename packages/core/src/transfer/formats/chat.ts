import { isRecord } from "../../contract/json.ts";
import type { ContentBlock } from "../../contract/message.ts";
import { ChatMessage } from "../../contract/wire/openai.ts";
import { refused } from "../portable-log.ts";
import {
  type Conversation,
  callBlock,
  contentFrom,
  createLeftOut,
  joinTurns,
  type LeftOut,
  sourceIdFrom,
  type Turn,
  textBlock,
  textOf,
} from "./conversation.ts";
import { partOf } from "./responses.ts";

/** Messages of chat completions: a list, or an object with `messages`. */
export function readChat(value: unknown, place: string): Conversation {
  const list = isRecord(value) ? value.messages : value;
  if (!Array.isArray(list)) throw refused(place, "messages: write a list of messages");
  const leftOut = createLeftOut();
  const turns = list.map((given, at) => chatTurn(given, { place: `${place}: messages[${at}]`, leftOut }));
  return conversationOf(turns, isRecord(value) ? value.id : undefined, leftOut);
}

function conversationOf(turns: readonly Turn[], id: unknown, leftOut: LeftOut): Conversation {
  const source_id = sourceIdFrom(id, () => turns);
  return { source_id, labels: {}, ...joinTurns(turns, leftOut), leftOut: leftOut.sentences() };
}

function chatTurn(given: unknown, { place, leftOut }: { place: string; leftOut: LeftOut }): Turn {
  const read = ChatMessage.safeParse(given);
  if (!read.success) throw refused(place, read.error.issues[0]?.message ?? "it is no message");
  const message = read.data;
  const content = contentOf(message.content ?? "", place, leftOut);
  switch (message.role) {
    case "system":
    case "developer":
      return { by: "system", text: textOf(content) };
    case "user":
      return { by: "user", content };
    case "assistant": {
      const calls = (message.tool_calls ?? []).map(({ id, function: { name, arguments: args } }) =>
        callBlock(id, name, args),
      );
      return { by: "assistant", blocks: [...textBlock(textOf(content) || message.refusal), ...calls] };
    }
    case "tool":
      return { by: "tool", result: { tool_use_id: message.tool_call_id, content, is_error: false } };
  }
}

function contentOf(content: unknown, place: string, leftOut: LeftOut): string | ContentBlock[] {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) throw refused(place, "content: write a text or a list of parts");
  return contentFrom(
    content.map((part: unknown, at) => {
      if (!isRecord(part)) throw refused(`${place}.content[${at}]`, "it is no part of a message");
      return partOf(part, leftOut);
    }),
  );
}

const SPEAKERS: Readonly<Record<string, "system" | "user" | "assistant" | "call" | "result">> = {
  system: "system",
  human: "user",
  user: "user",
  gpt: "assistant",
  assistant: "assistant",
  chatgpt: "assistant",
  model: "assistant",
  function_call: "call",
  observation: "result",
  tool: "result",
  function_response: "result",
};

/** A conversation in ShareGPT form: `conversations` with `from` and `value`. */
export function readShared(value: unknown, place: string): Conversation {
  const list = isRecord(value) ? value.conversations : value;
  if (!Array.isArray(list)) throw refused(place, "conversations: write a list of turns");
  const own: Turn[] = isRecord(value) && typeof value.system === "string" ? [{ by: "system", text: value.system }] : [];
  const waiting: string[] = [];
  let calls = 0;
  const turnOf = (turn: unknown, at: number): Turn => {
    const where = `${place}: conversations[${at}]`;
    if (!isRecord(turn) || typeof turn.from !== "string" || typeof turn.value !== "string") {
      throw refused(where, "write a turn with the texts from and value");
    }
    const { from, value: text } = turn;
    switch (Object.hasOwn(SPEAKERS, from) ? SPEAKERS[from] : undefined) {
      case undefined:
        throw refused(where, `from: unknown role ${JSON.stringify(from.slice(0, 40))}`);
      case "system":
        return { by: "system", text };
      case "user":
        return { by: "user", content: text };
      case "assistant":
        return { by: "assistant", blocks: textBlock(text) };
      case "call": {
        const blocks = callsIn(text, where).map(({ name, args }) => {
          calls += 1;
          waiting.push(`call_${calls}`);
          return callBlock(`call_${calls}`, name, args);
        });
        return { by: "assistant", blocks };
      }
      case "result":
        return { by: "tool", result: { tool_use_id: waiting.shift() ?? "", content: text, is_error: false } };
    }
  };
  return conversationOf([...own, ...list.map(turnOf)], isRecord(value) ? value.id : undefined, createLeftOut());
}

function callsIn(text: string, place: string): readonly { readonly name: string; readonly args: unknown }[] {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw refused(place, "value: write a call as JSON with name and arguments");
  }
  return (Array.isArray(value) ? value : [value]).map((call: unknown) => {
    if (!isRecord(call) || typeof call.name !== "string") {
      throw refused(place, "value: write a call as JSON with name and arguments");
    }
    return { name: call.name, args: call.arguments };
  });
}
