import type { AssistantMessage, Message, ToolResult } from "../contract/message.ts";
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

/** The grammar of a known provider; configured providers may speak any. */
export function grammarOf(provider: string): Grammar | undefined {
  if (provider === "anthropic" || provider === "gemini") return provider;
  return provider === "openai" ? "openai-responses" : undefined;
}

/**
 * The first fault each provider would find in a context as the adapters send it. Not judged: whether signatures are
 * genuine, and what the next request adds.
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
 * What the Messages API rejects. The package joins consecutive messages of one role, so those and split results are
 * fine. The adapter omits empty text and answers of thinking only.
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

/** Characters that the adapter replaces in ids: the API's pattern is ^[a-zA-Z0-9_-]+$. */
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
  /** The assistant message being assembled, maybe from several of ours. */
  answer: Answer;
  /** Whether the current tool cycle has signed thinking, and where it has thinking without a signature. */
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
  // A user message starts a new cycle; earlier thinking is ignored.
  walk.hasSigned = false;
  walk.strippedAt = undefined;
  return undefined;
}

/**
 * In a tool cycle thinking must come back unchanged or the request is rejected ("cannot be modified"). Missing thinking
 * is no fault: with adaptive thinking a step may have none.
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
 * Where thinking may stand. After a call it prevents the package from moving the call to the end, and a call that is
 * not at the end counts as unanswered. An answer with thinking must start with it ("expected `thinking`, but found
 * `text`"); only after a server tool, which we omit, may it come later.
 */
function thinkingFault(answer: Answer, message: AssistantMessage, at: number): Fault | undefined {
  const isCutOff = message.stop_reason === "cancelled";
  // Thinking counts only if something follows it: the adapter cuts it off at the end.
  let isThinking = false;
  for (const block of message.blocks) {
    if (block.block_type === "server_tool_content") answer.hasServerTool = true;
    if (block.block_type === "reasoning") isThinking ||= !isCutOff && isReadable(block.data.meta, "anthropic");
    if (!isSaidIn(message, block, "anthropic")) continue;
    if (isThinking && answer.hasCall) return { at, fault: "thinking comes after a tool call of its answer" };
    if (isThinking && answer.beginsWith === "words" && !answer.hasServerTool) {
      return { at, fault: "thinking comes after other content of its answer" };
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
    // "content cannot be empty if `is_error` is true": left by pruning a failed call's output.
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

/** With an image a result is sent in blocks, and "text content blocks must be non-empty". */
function hasBlankBesideImage(content: ToolResult["content"]): boolean {
  if (typeof content === "string") return false;
  const hasImage = content.some((block) => block.type === "image" && block.source === "inline");
  return hasImage && content.some((block) => block.type === "text" && !isSaying(block.text));
}

/**
 * What Gemini rejects. Nothing is joined: a message is a content, so function responses are counted per message. The
 * adapter omits empty parts. Not judged: that a request must not end with the model's message, since the next turn adds
 * a user message.
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
  // Responses are matched by position and name.
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
 * "Function call turn comes immediately after a user turn or after a function response turn": a separate model message
 * before it is rejected. Signatures: the package sends a placeholder for a call without one, and models before Gemini 3
 * sign some steps only, so a missing signature is no fault. In a parallel batch the first call is signed: a later
 * signature without one on the first shows a batch assembled from unrelated parts.
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
 * What Chat Completions rejects, at OpenAI or compatible servers: a `tool` message that does not follow its
 * `tool_calls`, missing or duplicate tool messages, and role orders that templates of open models cannot write.
 * Reasoning is never sent.
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
  // Each result is a message of its own in this format.
  takesSplitResults: true,
  // Servers that count calls from zero in each answer accept their own ids.
  wantsUniqueIds: false,
};

/** This adapter sends user messages even if they are blank. */
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
 * What the Responses API rejects of a stateless request, as ours are. Answers and calls have no item ids then, so none
 * can miss its reasoning; the adapter cuts off reasoning without its following item. A conversation may start with an
 * answer.
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
  // OpenAI finds results by id anywhere; other servers of this API require them next to their call.
  isSent: (message) => isSent(message, "openai"),
  wireId: (id) => id,
  takesSplitResults: true,
  // "Duplicate function_call_output for call_id"
  wantsUniqueIds: true,
};

/**
 * Reasoning goes back whole, with its id, and once: a batch split into two answers that both kept the reasoning is
 * rejected with "duplicate item found with id rs_…".
 */
function reasoningFault(messages: readonly Message[]): Fault | undefined {
  const sentAt = new Map<string, number>();
  for (let at = 0; at < messages.length; at += 1) {
    const message = messages[at];
    if (message?.role !== "block_assistant" || message.stop_reason === "cancelled") continue;
    const id = repeatedItem(sentAt, message, at);
    if (id !== undefined) return { at, fault: `the reasoning item ${id} is in two answers` };
  }
  return undefined;
}

function repeatedItem(sentAt: Map<string, number>, message: AssistantMessage, at: number): string | undefined {
  const length = answerLength(message, "openai");
  for (let index = 0; index < length; index += 1) {
    const block = message.blocks[index];
    if (block?.block_type !== "reasoning" || block.data.meta?.provider !== "open_ai") continue;
    const { meta } = block.data;
    // The package omits reasoning without its encrypted content.
    if (meta.encrypted_content === undefined) continue;
    // Blocks of one answer with the same id are parts of one item.
    if ((sentAt.get(meta.id) ?? at) !== at) return meta.id;
    sentAt.set(meta.id, at);
  }
  return undefined;
}
