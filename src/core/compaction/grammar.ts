import type { AssistantMessage, Message, ToolResult } from "../../contract/message.ts";
import {
  answerLength,
  type Fault,
  isReadable,
  isSaidIn,
  isSaying,
  isSent,
  mediaFault,
  openingFault,
  type PairRules,
  pairFault,
  type Rule,
  systemFault,
} from "./grammar-rules.ts";

export type Grammar = "anthropic" | "openai-chat" | "openai-responses" | "gemini";

export interface GrammarFault extends Fault {
  readonly grammar: Grammar;
}

const GRAMMARS: readonly (readonly [Grammar, Rule])[] = [
  ["anthropic", anthropicFault],
  ["openai-chat", openAiChatFault],
  ["openai-responses", openAiResponsesFault],
  ["gemini", geminiFault],
];

export const GRAMMAR_COUNT = GRAMMARS.length;

/** How a provider judges, where its name says so: one of the configuration's may speak anything. */
export function grammarOf(provider: string): Grammar | undefined {
  if (provider === "anthropic" || provider === "gemini") return provider;
  return provider === "openai" ? "openai-responses" : undefined;
}

/**
 * The first fault each provider would find in a context, as our adapters send it; none when all take it. What a context
 * cannot show is not judged: whether signatures are genuine, and what the next request will be sent with.
 */
export function grammarFaults(messages: readonly Message[]): readonly GrammarFault[] {
  const faults: GrammarFault[] = [];
  for (const [grammar, rule] of GRAMMARS) {
    const found = rule(messages);
    if (found !== undefined) faults.push({ grammar, ...found });
  }
  return faults;
}

/**
 * What the Messages API refuses. Consecutive messages of one side are joined by the package, so they are fine, and so
 * are results of one batch in two messages. Empty text and an answer of nothing but thinking are left out by the adapter.
 */
function anthropicFault(messages: readonly Message[]): Fault | undefined {
  return (
    systemFault(messages) ??
    openingFault(messages, isSentToAnthropic) ??
    pairFault(messages, ANTHROPIC_PAIRS) ??
    mediaFault(messages, { takesVideo: false, takesToolMedia: true }) ??
    contentFault(messages)
  );
}

const isSentToAnthropic = (message: Message): boolean => isSent(message, "anthropic");

const ANTHROPIC_PAIRS: PairRules = {
  isSent: isSentToAnthropic,
  wireId: (id) => (FOREIGN.test(id) ? id.replace(FOREIGN_ALL, "_") : id),
  takesSplitResults: true,
  // "`tool_use` ids must be unique"
  wantsUniqueIds: true,
};

/** Characters the adapter replaces in ids: the API's pattern is ^[a-zA-Z0-9_-]+$. */
const FOREIGN = /[^a-zA-Z0-9_-]/;
const FOREIGN_ALL = /[^a-zA-Z0-9_-]/g;

function contentFault(messages: readonly Message[]): Fault | undefined {
  const walk: Walk = { answer: newAnswer(), hasSigned: false, strippedAt: undefined, endsWithResults: false };
  for (let at = 0; at < messages.length; at += 1) {
    const message = messages[at];
    if (message === undefined || !isSentToAnthropic(message)) continue;
    const fault = readMessage(walk, message, at);
    if (fault !== undefined) return fault;
  }
  const { hasSigned, strippedAt: at } = walk;
  if (!walk.endsWithResults || !hasSigned || at === undefined) return undefined;
  return { at, fault: "the thinking before a tool call lost its signature while the same cycle keeps others" };
}

interface Walk {
  /** The assistant message that is being put together on the wire, maybe of several of ours. */
  answer: Answer;
  /** Whether the tool cycle at hand has signed thinking, and where it has thinking whose signature is gone. */
  hasSigned: boolean;
  strippedAt: number | undefined;
  endsWithResults: boolean;
}

function readMessage(walk: Walk, message: Message, at: number): Fault | undefined {
  walk.endsWithResults = message.role === "tool_results";
  if (message.role === "block_assistant") {
    readSignatures(walk, message, at);
    return thinkingFault(walk.answer, message, at);
  }
  walk.answer = newAnswer();
  if (message.role === "tool_results") return resultFault(message.results, at);
  // With words of the user a new cycle begins; thinking of the ones before is not looked at any more.
  walk.hasSigned = false;
  walk.strippedAt = undefined;
  return undefined;
}

/**
 * In a tool cycle that goes on, thinking comes back as it was or the request is refused ("cannot be modified").
 * Thinking that is gone without a trace is no fault: with adaptive thinking a step may have none.
 */
function readSignatures(walk: Walk, message: AssistantMessage, at: number): void {
  for (const block of message.blocks) {
    if (block.block_type !== "reasoning") continue;
    if (isReadable(block.data.meta, "anthropic")) walk.hasSigned = true;
    else if (block.data.meta === undefined && isSaying(block.data.text)) walk.strippedAt ??= at;
  }
}

interface Answer {
  beginsWith: "nothing" | "thinking" | "words";
  hasCall: boolean;
  hasServerTool: boolean;
}

function newAnswer(): Answer {
  return { beginsWith: "nothing", hasCall: false, hasServerTool: false };
}

/**
 * Where thinking may stand. After a call it keeps the package from moving the call to the end, and a call that is not
 * at the end counts as unanswered. An answer with thinking begins with it ("expected `thinking`, but found `text`");
 * only after a tool of the server, which we leave behind, may thinking come up later.
 */
function thinkingFault(answer: Answer, message: AssistantMessage, at: number): Fault | undefined {
  const isCutOff = message.stop_reason === "cancelled";
  // Thinking counts once something follows it: the adapter cuts it off at the end of an answer.
  let isThinking = false;
  for (const block of message.blocks) {
    if (block.block_type === "server_tool_content") answer.hasServerTool = true;
    if (block.block_type === "reasoning") isThinking ||= !isCutOff && isReadable(block.data.meta, "anthropic");
    if (!isSaidIn(message, block, "anthropic")) continue;
    if (isThinking && answer.hasCall) return { at, fault: "thinking stands after a tool call of its answer" };
    if (isThinking && answer.beginsWith === "words" && !answer.hasServerTool) {
      return { at, fault: "thinking stands after other content of its answer" };
    }
    if (answer.beginsWith === "nothing") answer.beginsWith = isThinking ? "thinking" : "words";
    answer.hasCall ||= block.block_type === "tool_use";
    isThinking = false;
  }
  return undefined;
}

function resultFault(results: readonly ToolResult[], at: number): Fault | undefined {
  for (const { tool_use_id: id, content, is_error } of results) {
    if (id === "") return { at, fault: "a call has an empty id" };
    // "content cannot be empty if `is_error` is true": what pruning a failed call's output leaves.
    if (is_error && isEmptyText(content)) return { at, fault: `the failed call ${id} has an empty result` };
    if (!is_error && hasBlankBesideImage(content)) {
      return { at, fault: `the result of ${id} has a text block without text beside an image` };
    }
  }
  return undefined;
}

function isEmptyText(content: ToolResult["content"]): boolean {
  if (typeof content === "string") return content === "";
  const [first] = content;
  return first === undefined || (content.length === 1 && first.type === "text" && first.text === "");
}

/** With an image a result is sent block by block, and "text content blocks must be non-empty". */
function hasBlankBesideImage(content: ToolResult["content"]): boolean {
  if (typeof content === "string") return false;
  const hasImage = content.some((block) => block.type === "image" && block.source === "inline");
  return hasImage && content.some((block) => block.type === "text" && !isSaying(block.text));
}

/**
 * What Gemini refuses. Nothing is joined on the way there: a message is a content, so the number of function responses
 * is counted message by message. Empty parts are left out by the adapter. That a request may not end with the model's
 * words is not judged: a context is also kept while nobody asks, and the next turn opens with a user message.
 */
function geminiFault(messages: readonly Message[]): Fault | undefined {
  return (
    systemFault(messages) ??
    openingFault(messages, isSentToGemini) ??
    pairFault(messages, GEMINI_PAIRS) ??
    mediaFault(messages, { takesVideo: true, takesToolMedia: true }) ??
    answerFault(messages)
  );
}

const isSentToGemini = (message: Message): boolean => isSent(message, "google");

const GEMINI_PAIRS: PairRules = {
  isSent: isSentToGemini,
  wireId: (id) => id,
  // "the number of function response parts is equal to the number of function call parts"
  takesSplitResults: false,
  // Responses answer by place and name.
  wantsUniqueIds: false,
};

function answerFault(messages: readonly Message[]): Fault | undefined {
  let isAfterAnswer = false;
  for (let at = 0; at < messages.length; at += 1) {
    const message = messages[at];
    if (message === undefined || !isSentToGemini(message)) continue;
    if (message.role === "block_assistant") {
      const fault = callFault(message, isAfterAnswer);
      if (fault !== undefined) return { at, fault };
    }
    isAfterAnswer = message.role === "block_assistant";
  }
  return undefined;
}

/**
 * "Function call turn comes immediately after a user turn or after a function response turn": words of the model before
 * it, even its own, are refused when they are a turn of their own.
 *
 * Signatures: the package sends a documented placeholder for a call without one, and models before Gemini 3 sign some
 * steps and not others, so a missing signature is no fault. But of a parallel batch the first call is the signed one: a
 * later signature behind a first call without says that the batch was put together of parts that never belonged.
 */
function callFault(message: AssistantMessage, isAfterAnswer: boolean): string | undefined {
  if (message.stop_reason === "cancelled") return undefined;
  let isFirstSigned: boolean | undefined;
  for (const block of message.blocks) {
    if (block.block_type !== "tool_use") continue;
    if (isAfterAnswer) return `the call ${block.data.id} comes right after another answer`;
    const isSigned = isReadable(block.data.meta, "google");
    if (isFirstSigned === false && isSigned) return `the call ${block.data.id} has the signature its batch begins with`;
    isFirstSigned ??= isSigned;
  }
  return undefined;
}

/**
 * What Chat Completions refuses, at OpenAI or at one of the many servers that speak it: a message with role `tool` that
 * does not follow its `tool_calls`, calls whose tool messages are missing, two tool messages of one id, an order of
 * roles that the templates of open models cannot write. Reasoning is never sent, so it cannot be out of place.
 */
function openAiChatFault(messages: readonly Message[]): Fault | undefined {
  return (
    systemFault(messages) ??
    openingFault(messages, isSentInChat) ??
    pairFault(messages, CHAT_PAIRS) ??
    mediaFault(messages, { takesVideo: false, takesToolMedia: false })
  );
}

const CHAT_PAIRS: PairRules = {
  isSent: isSentInChat,
  wireId: (id) => id,
  // Each result is a message of its own on this wire.
  takesSplitResults: true,
  // Servers that count calls from zero in each answer take their own ids back.
  wantsUniqueIds: false,
};

/** This wire's own adapter sends what a user said also when it is blank. */
function isSentInChat(message: Message): boolean {
  return message.role !== "block_assistant" || isAnswerSent(message);
}

function isAnswerSent({ blocks, stop_reason }: AssistantMessage): boolean {
  return blocks.some(
    (block) =>
      (block.block_type === "text" && isSaying(block.data.text)) ||
      (block.block_type === "tool_use" && stop_reason !== "cancelled"),
  );
}

/**
 * What the Responses API refuses of a request that keeps nothing on the server, as ours do. Then answers and calls go
 * without their item ids, so none can miss the reasoning it was made with; and reasoning that is not followed by what
 * it led to ("provided without its required following item") is cut off by the adapter. A conversation may begin with
 * an answer here.
 */
function openAiResponsesFault(messages: readonly Message[]): Fault | undefined {
  return (
    systemFault(messages) ??
    pairFault(messages, RESPONSES_PAIRS) ??
    mediaFault(messages, { takesVideo: false, takesToolMedia: true }) ??
    reasoningFault(messages)
  );
}

const RESPONSES_PAIRS: PairRules = {
  // OpenAI itself finds results by id wherever they stand; other servers of this API want them next to their call.
  isSent: (message) => isSent(message, "openai"),
  wireId: (id) => id,
  takesSplitResults: true,
  // "Duplicate function_call_output for call_id"
  wantsUniqueIds: true,
};

/**
 * Reasoning goes back whole, with its id, and once: "duplicate item found with id rs_…" is what a batch gets that was
 * split into two answers which both kept the reasoning.
 */
function reasoningFault(messages: readonly Message[]): Fault | undefined {
  const sentAt = new Map<string, number>();
  for (let at = 0; at < messages.length; at += 1) {
    const message = messages[at];
    if (message?.role !== "block_assistant" || message.stop_reason === "cancelled") continue;
    const id = repeatedItem(sentAt, message, at);
    if (id !== undefined) return { at, fault: `the reasoning item ${id} stands in two answers` };
  }
  return undefined;
}

function repeatedItem(sentAt: Map<string, number>, message: AssistantMessage, at: number): string | undefined {
  const length = answerLength(message, "openai");
  for (let index = 0; index < length; index += 1) {
    const block = message.blocks[index];
    if (block?.block_type !== "reasoning" || block.data.meta?.provider !== "open_ai") continue;
    const { meta } = block.data;
    // Without its encrypted content the package leaves reasoning out.
    if (meta.encrypted_content === undefined) continue;
    // Blocks of one answer with one id are parts of one item.
    if ((sentAt.get(meta.id) ?? at) !== at) return meta.id;
    sentAt.set(meta.id, at);
  }
  return undefined;
}
