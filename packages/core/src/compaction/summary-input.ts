import type { AssistantBlock, AssistantMessage, Content, Message, ToolResultsMessage } from "../contract/message.ts";
import { bytesOf, cutText, excerptOf, SEPARATOR } from "../state/transcript-text.ts";
import { contentText, estimateTokens } from "../turn/tokens.ts";

/** The summariser's view of a context: media by name, no reasoning, no provider metadata. */
export function prepareForSummary(messages: readonly Message[]): Message[] {
  return messages.map(prepare).filter((message) => message.role !== "block_assistant" || message.blocks.length > 0);
}

function prepare(message: Message): Message {
  switch (message.role) {
    case "system":
    case "system_notice":
      return message;
    case "user": {
      const content = nameMedia(message.content);
      return content === message.content ? message : { ...message, content };
    }
    case "block_assistant":
      return prepareAnswer(message);
    case "tool_results":
      return prepareResults(message);
  }
}

function nameMedia(content: Content): Content {
  if (typeof content === "string" || content.every((block) => block.type === "text")) return content;
  return content.map((block) => (block.type === "text" ? block : { type: "text", text: contentText([block]) }));
}

function prepareResults(message: ToolResultsMessage): ToolResultsMessage {
  const results = message.results.map((result) => {
    const content = nameMedia(result.content);
    return content === result.content ? result : { ...result, content };
  });
  return isSame(results, message.results) ? message : { ...message, results };
}

function prepareAnswer(message: AssistantMessage): AssistantMessage {
  const blocks = message.blocks.flatMap(prepareBlock);
  return isSame(blocks, message.blocks) ? message : { ...message, blocks };
}

function prepareBlock(block: AssistantBlock): AssistantBlock[] {
  switch (block.block_type) {
    case "reasoning":
      return [];
    case "image":
      return [{ block_type: "text", data: { text: `[image: ${block.data.media_type}]` } }];
    case "text":
      // Gemini signs empty texts; without their signature they are rejected.
      return block.data.text.trim() === "" ? [] : [withoutMeta(block)];
    case "tool_use":
    case "server_tool_content":
      return [withoutMeta(block)];
  }
}

/**
 * A provider sends `meta` back with its block: signatures of Anthropic and Gemini, item ids of OpenAI. Each is valid
 * only in its own exchange, with its reasoning and model: OpenAI rejects an item without its reasoning, Gemini another
 * model's signature. Gemini requires one only for calls since the last user message, and a summary request ends with a
 * user message.
 */
function withoutMeta(block: AssistantBlock): AssistantBlock {
  if (block.data.meta === undefined) return block;
  const { meta: _dropped, ...data } = block.data;
  // `as`: the same block without the optional meta.
  return { ...block, data } as AssistantBlock;
}

function isSame<T>(some: readonly T[], others: readonly T[]): boolean {
  return some.length === others.length && some.every((one, index) => one === others[index]);
}

const BYTES_PER_TOKEN = 4;
const SYSTEM_SHARE = 1 / 4;
const SUMMARY_SHARE = 1 / 3;

/**
 * The messages if they fit, else the system message and one user message with an excerpt: plain text has no tool pairs
 * that a cut could break. The estimate never exceeds `tokensMax`.
 */
export function boundInput(messages: readonly Message[], tokensMax: number): Message[] {
  if (estimateTokens(messages) <= tokensMax) return [...messages];
  const [first] = messages;
  if (first?.role !== "system") return excerptMessage(messages, { tokens: tokensMax, tokensMax });
  const system = boundSystem(first, Math.floor(tokensMax * SYSTEM_SHARE));
  const tokens = tokensMax - estimateTokens(system);
  return [...system, ...excerptMessage(messages.slice(1), { tokens, tokensMax })];
}

type SystemMessage = Extract<Message, { role: "system" }>;

const SHRINK = 0.9;

/** None if not even the envelope fits. */
function boundSystem(system: SystemMessage, tokensMax: number): SystemMessage[] {
  if (estimateTokens([system]) <= tokensMax) return [system];
  // By trial: a system message is estimated as JSON, and the cost of escapes depends on the cut.
  for (let bytes = tokensMax * BYTES_PER_TOKEN; bytes > 0; bytes = Math.floor(bytes * SHRINK)) {
    const cut = { ...system, content: cutText(system.content, bytes) };
    if (estimateTokens([cut]) <= tokensMax) return cut.content === "" ? [] : [cut];
  }
  return [];
}

interface Bound {
  readonly tokens: number;
  readonly tokensMax: number;
}

function excerptMessage(messages: readonly Message[], { tokens, tokensMax }: Bound): Message[] {
  const [first] = messages;
  const last = messages.at(-1);
  if (last === undefined) return [];
  const bytesMax = Math.max(0, Math.floor(tokens) * BYTES_PER_TOKEN);
  const summary = cutText(earlierSummary(first), Math.floor(tokensMax * BYTES_PER_TOKEN * SUMMARY_SHARE));
  const excerpt =
    summary === ""
      ? excerptOf(messages, bytesMax)
      : excerptOf(messages.slice(1), bytesMax - bytesOf(summary) - SEPARATOR.length);
  const parts = [summary, excerpt].filter((part) => part !== "");
  // Cut again for bounds so small that the notes alone exceed them.
  const content = cutText(parts.join(SEPARATOR), bytesMax);
  return content === "" ? [] : [{ role: "user", content, created_at: last.created_at }];
}

const SUMMARY_START = "[Context compacted]";

/** The earlier summary, which stands for everything before it; empty if there is none. */
function earlierSummary(first: Message | undefined): string {
  if (first?.role !== "user") return "";
  const text = contentText(first.content);
  return text.startsWith(SUMMARY_START) ? text : "";
}
