import type { EntryBody } from "@rkat/core/contract/entry";
import type { AssistantBlock, Content, ContentBlock, Message, ToolResult } from "@rkat/core/contract/message";
import { type Random, randomHistory } from "../support/random-history.ts";
import { below, chance, pick } from "./chances.ts";

export interface Wording {
  readonly turnsMax: number;
  /** The shapes without the words: most of a compaction is reading for its receipt, and shapes are many. */
  readonly isWordless: boolean;
  /** How its session compacts; absent, by a summary or as a compactor of somebody's own does. */
  readonly strategy?: "cascade";
}

/** Turns as models of every provider leave them, as a log has them; `part` tells the ids of one call from another's. */
export function randomEntries(random: Random, part: number, wording: Wording): EntryBody[] {
  const said = randomHistory(random, wording).filter((message) => message.role !== "system");
  const how = { prefix: `p${part}_`, isWordless: wording.isWordless };
  return bodiesOf(
    random,
    said.map((message) => rewrite(enlarge(random, message), how)),
  );
}

const SCREENSHOT: ContentBlock = { type: "image", source: "inline", media_type: "image/png", data: "iVBORw0KGgo=" };

/** Large without much to read, like most of what fills contexts. */
const LARGE: readonly Content[] = [
  "QUJD".repeat(600),
  "QUJD".repeat(2_500),
  [SCREENSHOT],
  [SCREENSHOT, SCREENSHOT],
  [SCREENSHOT, { type: "text", text: "and the log beside it" }, SCREENSHOT],
];

/** Some results are as large as those that are shown as references once they are old, or when a context must fit. */
function enlarge(random: Random, message: Message): Message {
  if (message.role !== "tool_results" || chance(random, 0.8)) return message;
  const large = below(random, message.results.length);
  return {
    ...message,
    results: message.results.map((result, at) =>
      at === large ? { ...result, content: pick(random, LARGE) ?? "" } : result,
    ),
  };
}

/** A notice may have come while the tools before it ran: the fold holds it back until their results are there. */
function bodiesOf(random: Random, messages: readonly Message[]): EntryBody[] {
  const bodies: EntryBody[] = [];
  for (const message of messages) {
    const isEarly = message.role === "system_notice" && bodies.at(-1)?.kind === "tool_results" && chance(random, 0.5);
    bodies.splice(isEarly ? -1 : bodies.length, 0, bodyOf(message));
  }
  return bodies;
}

function bodyOf(message: Message): EntryBody {
  switch (message.role) {
    case "system":
      return { kind: "imported", message };
    case "user":
      return { kind: "turn_opened", message };
    case "system_notice":
      return { kind: "notice", message };
    case "block_assistant":
      return { kind: "assistant", message, usage: { input_tokens: 10, output_tokens: 5 } };
    case "tool_results": {
      const calls = message.results.map(() => ({ name: "read", duration_ms: 1, counted: true }));
      return { kind: "tool_results", message, calls };
    }
  }
}

interface Rewriting {
  readonly prefix: string;
  readonly isWordless: boolean;
}

/** A receipt takes a run of this length for encoded data, and reads nothing in it. */
const UNREAD = "QUJD".repeat(100);

/** The message with ids of its own, and without words where none are wanted; what is blank stays blank. */
function rewrite(message: Message, how: Rewriting): Message {
  switch (message.role) {
    case "system":
      return message;
    case "system_notice":
      return how.isWordless && message.body !== undefined ? { ...message, body: "." } : message;
    case "user":
      return how.isWordless ? { ...message, content: wordless(message.content, UNREAD) } : message;
    case "tool_results":
      return { ...message, results: message.results.map((result) => rewriteResult(result, how)) };
    case "block_assistant":
      return { ...message, blocks: message.blocks.map((block) => rewriteBlock(block, how)) };
  }
}

function rewriteResult(result: ToolResult, { prefix, isWordless }: Rewriting): ToolResult {
  const content = isWordless ? wordless(result.content, ".") : result.content;
  return { ...result, tool_use_id: prefix + result.tool_use_id, content };
}

function rewriteBlock(block: AssistantBlock, { prefix, isWordless }: Rewriting): AssistantBlock {
  const { meta } = block.data;
  const item = meta?.provider === "open_ai" ? { meta: { ...meta, id: prefix + meta.id } } : {};
  const call = block.block_type === "tool_use" ? { id: prefix + block.data.id } : {};
  // The same block with other ids and words.
  return { ...block, data: { ...block.data, ...item, ...call, ...(isWordless ? mute(block) : {}) } } as AssistantBlock;
}

function mute(block: AssistantBlock): object {
  switch (block.block_type) {
    case "text":
      return { text: muted(block.data.text, ".") };
    case "tool_use":
      return { args: {} };
    case "server_tool_content":
      return { name: "search", content: {} };
    case "reasoning":
    case "image":
      return {};
  }
}

function wordless(content: Content, instead: string): Content {
  if (typeof content === "string") return muted(content, instead);
  return content.map((block) => (block.type === "text" ? { ...block, text: muted(block.text, instead) } : block));
}

function muted(text: string, instead: string): string {
  return text.trim() === "" || text.length >= UNREAD.length ? text : instead;
}
