import type {
  AssistantBlock,
  AssistantMessage,
  BlockMeta,
  Content,
  Message,
  ToolResult,
  ToolResultsMessage,
} from "../contract/message.ts";

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

/** The grammar of a known provider; configured providers may speak any. */
function grammarOf(provider: string): Grammar | undefined {
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

/** The first fault that a provider's grammar finds, or if it is unknown, one that is a fault in every grammar. */
export function faultFor(provider: string, messages: readonly Message[]): GrammarFault | undefined {
  const own = grammarOf(provider);
  let first: GrammarFault | undefined;
  for (const [grammar, rule] of GRAMMARS) {
    if (own !== undefined && grammar !== own) continue;
    const found = rule(messages);
    if (found === undefined) return undefined;
    first ??= { grammar, ...found };
  }
  return first;
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
  for (const [at, message] of messages.entries()) {
    if (!isSentToAnthropic(message)) continue;
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
  for (const [at, message] of messages.entries()) {
    if (!isSentToGemini(message)) continue;
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
  for (const [at, message] of messages.entries()) {
    if (message.role !== "block_assistant" || message.stop_reason === "cancelled") continue;
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

/** Why a provider would reject a context, and at which message. */
interface Fault {
  readonly at: number;
  readonly fault: string;
}

/** The first fault that a rule finds in a context. */
type Rule = (messages: readonly Message[]) => Fault | undefined;

/** How a wire format pairs calls with results. */
interface PairRules {
  isSent(message: Message): boolean;
  /** An id as sent; two ids that become equal collide. */
  wireId(id: string): string;
  /** Whether results of one batch may be split over messages. */
  readonly takesSplitResults: boolean;
  /** Whether an id must be unique in the whole conversation. */
  readonly wantsUniqueIds: boolean;
}

/**
 * Every call is answered once, right after it, and no result stands alone. This is the most frequent fault of
 * compactions: a cut between a call and its results, or through a parallel batch, is rejected from then on. The AI SDK
 * adapter drops a result without its call, which loses the result: that is a fault, too.
 */
function pairFault(messages: readonly Message[], rules: PairRules): Fault | undefined {
  const pairing: Pairing = { rules, askedAt: 0, open: new Set(), answered: new Set(), asked: new Set() };
  for (const [at, message] of messages.entries()) {
    const fault = readPairs(pairing, message, at);
    if (fault !== undefined) return fault;
  }
  return pairing.open.size === 0 ? undefined : unanswered(pairing, "at the end of the context");
}

interface Pairing {
  readonly rules: PairRules;
  /** Index of the newest calls. */
  askedAt: number;
  /** Calls of the newest answer, without and with a result. */
  readonly open: Set<string>;
  readonly answered: Set<string>;
  /** All calls so far, where ids must be unique. */
  readonly asked: Set<string>;
}

function readPairs(pairing: Pairing, message: Message, at: number): Fault | undefined {
  switch (message.role) {
    case "block_assistant":
      return readCalls(pairing, message, at);
    case "tool_results":
      return readResults(pairing, message, at);
    case "system":
    case "system_notice":
    case "user":
      if (!pairing.rules.isSent(message)) return undefined;
      if (pairing.open.size > 0) return unanswered(pairing, `before the ${message.role} message ${at}`);
      pairing.answered.clear();
      return undefined;
  }
}

function readCalls(pairing: Pairing, message: AssistantMessage, at: number): Fault | undefined {
  const { open, answered, asked, rules } = pairing;
  // Also for an empty answer: adapters look for the calls of a result in the newest answer only.
  if (open.size > 0) return unanswered(pairing, `before the answer ${at}`);
  answered.clear();
  pairing.askedAt = at;
  // Calls of a cancelled answer never ran and are not sent.
  if (message.stop_reason === "cancelled") return undefined;
  for (const block of message.blocks) {
    if (block.block_type !== "tool_use") continue;
    const id = rules.wireId(block.data.id);
    if (open.has(id) || asked.has(id)) return { at, fault: `the call id ${id} is used twice` };
    open.add(id);
    if (rules.wantsUniqueIds) asked.add(id);
  }
  return undefined;
}

function readResults(pairing: Pairing, message: ToolResultsMessage, at: number): Fault | undefined {
  const { open, answered, rules } = pairing;
  for (const { tool_use_id } of message.results) {
    const id = rules.wireId(tool_use_id);
    if (answered.has(id)) return { at, fault: `the call ${id} has two results` };
    if (!open.delete(id)) return { at, fault: `the result of ${id} has no call in the answer before it` };
    answered.add(id);
  }
  if (open.size === 0 || rules.takesSplitResults || message.results.length === 0) return undefined;
  return unanswered(pairing, `in the results ${at} of its batch`);
}

function unanswered({ open, askedAt }: Pairing, where: string): Fault {
  const [id] = open;
  return { at: askedAt, fault: `the call ${id} has no result ${where}` };
}

/**
 * The system prompt comes first. Templates of Qwen and Mistral reject a later one, Gemini has no place for it, and the
 * AI SDK adapter would send it as a user message.
 */
function systemFault(messages: readonly Message[]): Fault | undefined {
  let hasBegun = false;
  for (const [at, { role }] of messages.entries()) {
    const isSystem = role === "system";
    if (isSystem && hasBegun) return { at, fault: "a system message is in the middle of the conversation" };
    hasBegun ||= !isSystem;
  }
  return undefined;
}

/** The conversation starts with a user message or notice: several providers reject an answer first. */
function openingFault(messages: readonly Message[], isSent: (message: Message) => boolean): Fault | undefined {
  for (const [at, message] of messages.entries()) {
    if (message.role === "system" || !isSent(message)) continue;
    if (message.role !== "block_assistant") return undefined;
    return { at, fault: "the conversation begins with an answer instead of a user message" };
  }
  return undefined;
}

/** Inline media without data, left when bytes are dropped and the block is kept: providers reject it. */
function mediaFault(messages: readonly Message[], wire: MediaWire): Fault | undefined {
  for (const [at, message] of messages.entries()) {
    if (message.role === "user" && hasEmptyMedia(message.content, wire)) return emptyMedia(at);
    if (message.role !== "tool_results" || !wire.takesToolMedia) continue;
    for (const { content, is_error } of message.results) {
      // Of a failed call only the text is sent.
      if (!is_error && hasEmptyMedia(content, { takesVideo: false })) return emptyMedia(at);
    }
  }
  return undefined;
}

/** The media a wire format carries; others are sent as a text that names them. */
interface MediaWire {
  readonly takesVideo: boolean;
  readonly takesToolMedia: boolean;
}

function hasEmptyMedia(content: Content, { takesVideo }: Pick<MediaWire, "takesVideo">): boolean {
  if (typeof content === "string") return false;
  return content.some(
    (block) =>
      block.type !== "text" && block.source === "inline" && block.data === "" && (block.type === "image" || takesVideo),
  );
}

function emptyMedia(at: number): Fault {
  return { at, fault: "an inline image or video has no data" };
}

/** Whose signatures a provider can read; adapters omit all others. */
export type Reader = "anthropic" | "openai" | "google";

/** Whether a message is sent: the AI SDK adapter omits messages that would be empty. */
export function isSent(message: Message, reader: Reader): boolean {
  switch (message.role) {
    case "system":
      return isSaying(message.content);
    case "system_notice":
      return true;
    case "user":
      return isSayingContent(message.content);
    case "block_assistant":
      return answerLength(message, reader) > 0;
    case "tool_results":
      return message.results.length > 0;
  }
}

/** How many blocks of an answer count: the adapter cuts off reasoning at its end. */
function answerLength(message: AssistantMessage, reader: Reader): number {
  let length = message.blocks.length;
  for (; length > 0; length -= 1) {
    const block = message.blocks[length - 1];
    if (block !== undefined && isSaidIn(message, block, reader)) return length;
  }
  return 0;
}

/** Whether a block other than reasoning is sent; of a cancelled answer only text is. */
function isSaidIn(message: AssistantMessage, block: AssistantBlock, reader: Reader): boolean {
  const isCutOff = message.stop_reason === "cancelled";
  switch (block.block_type) {
    case "text":
      // Gemini signs empty text and requires it back.
      return isSaying(block.data.text) || (!isCutOff && reader === "google" && isReadable(block.data.meta, reader));
    case "tool_use":
    case "image":
      return !isCutOff;
    case "reasoning":
    case "server_tool_content":
      return false;
  }
}

/** Whether the reader's own models made a block's signature. */
function isReadable(meta: BlockMeta | undefined, reader: Reader): boolean {
  if (meta === undefined) return false;
  switch (meta.provider) {
    case "anthropic":
    case "anthropic_redacted":
      return reader === "anthropic";
    case "gemini":
      return reader === "google";
    case "open_ai":
      return reader === "openai";
    case "unknown":
      return NAMESPACES[reader].some((namespace) => meta.metadata?.[namespace] !== undefined);
  }
}

const NAMESPACES: Readonly<Record<Reader, readonly string[]>> = {
  anthropic: ["anthropic"],
  openai: ["openai", "azure"],
  google: ["google", "googleVertex", "vertex"],
};

function isSayingContent(content: Content): boolean {
  if (typeof content === "string") return isSaying(content);
  return content.some((block) => block.type !== "text" || isSaying(block.text));
}

function isSaying(text: string): boolean {
  return SOMETHING.test(text);
}

const SOMETHING = /\S/;
