import type {
  AssistantBlock,
  AssistantMessage,
  BlockMeta,
  Content,
  Message,
  ToolResultsMessage,
} from "../contract/message.ts";

/** Why a provider would reject a context, and at which message. */
export interface Fault {
  readonly at: number;
  readonly fault: string;
}

/** The first fault that a rule finds in a context. */
export type Rule = (messages: readonly Message[]) => Fault | undefined;

/** How a wire format pairs calls with results. */
export interface PairRules {
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
export function pairFault(messages: readonly Message[], rules: PairRules): Fault | undefined {
  const pairing: Pairing = { rules, askedAt: 0, open: new Set(), answered: new Set(), asked: new Set() };
  for (let at = 0; at < messages.length; at += 1) {
    const message = messages[at];
    if (message === undefined) continue;
    const fault = readMessage(pairing, message, at);
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

function readMessage(pairing: Pairing, message: Message, at: number): Fault | undefined {
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
export function systemFault(messages: readonly Message[]): Fault | undefined {
  let hasBegun = false;
  for (let at = 0; at < messages.length; at += 1) {
    const isSystem = messages[at]?.role === "system";
    if (isSystem && hasBegun) return { at, fault: "a system message is in the middle of the conversation" };
    hasBegun ||= !isSystem;
  }
  return undefined;
}

/** The conversation starts with a user message or notice: several providers reject an answer first. */
export function openingFault(messages: readonly Message[], isSent: (message: Message) => boolean): Fault | undefined {
  for (let at = 0; at < messages.length; at += 1) {
    const message = messages[at];
    if (message === undefined || message.role === "system" || !isSent(message)) continue;
    if (message.role !== "block_assistant") return undefined;
    return { at, fault: "the conversation begins with an answer instead of a user message" };
  }
  return undefined;
}

/** Inline media without data, left when bytes are dropped and the block is kept: providers reject it. */
export function mediaFault(messages: readonly Message[], wire: MediaWire): Fault | undefined {
  for (let at = 0; at < messages.length; at += 1) {
    const message = messages[at];
    if (message?.role === "user" && hasEmptyMedia(message.content, wire)) return emptyMedia(at);
    if (message?.role !== "tool_results" || !wire.takesToolMedia) continue;
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
export function answerLength(message: AssistantMessage, reader: Reader): number {
  let length = message.blocks.length;
  for (; length > 0; length -= 1) {
    const block = message.blocks[length - 1];
    if (block !== undefined && isSaidIn(message, block, reader)) return length;
  }
  return 0;
}

/** Whether a block other than reasoning is sent; of a cancelled answer only text is. */
export function isSaidIn(message: AssistantMessage, block: AssistantBlock, reader: Reader): boolean {
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
export function isReadable(meta: BlockMeta | undefined, reader: Reader): boolean {
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

export function isSaying(text: string): boolean {
  return SOMETHING.test(text);
}

const SOMETHING = /\S/;
