import { jsonIn } from "../../contract/json.ts";
import { blockText, type Content, type Message, type ToolResult } from "../../contract/message.ts";
import { clipStart, quotableSentences } from "../../text/sentences.ts";
import { isAsking } from "./asks.ts";

/** How much of a conversation is searched, the newest first; memory finds what is older. */
export const SEARCHED_CHARS_MAX = 256_000;
/** One tool's output must not crowd out what the user said. */
const TOOL_CHARS_MAX = 40_000;
const JSON_DEPTH_MAX = 16;
/** Tools whose results hold for one call only: they are called again instead of being quoted. */
const FLEETING_TOOLS = new Set(["datetime", "task_create", "task_list", "memory_search", "search_project_history"]);

const SUMMARY_START = "[Context compacted]";
const COMPACTION_START = "You are performing a CONTEXT COMPACTION";
const MEMORIES_START = "Summarize these memories in 2-3 sentences:";
/** How this model's own answers begin, of earlier versions too: they are no evidence. */
const OWN_WORDS =
  /^(?:I find nothing about|(?:Hello\. )?I am rkat's|You told me:|Before, you told me:|Nice to meet you|Noted|Corrected:|I found in memory|The summary of our|What I have from you|I have no |I cannot |I keep it as asked|Task added:|The tool `|It is \d|`[^`]+` (?:ended with exit code|ran out of time|answered|runs in))/u;

/** A sentence that may be quoted, and who said it; a higher order is newer. */
export interface Passage {
  readonly text: string;
  readonly source:
    | { readonly kind: "user" | "summary" }
    | { readonly kind: "tool"; readonly name: string }
    | { readonly kind: "memory"; readonly place: string };
  readonly order: number;
}

/** A tool call of the current turn with its result, when there is one. */
export interface Exchange {
  readonly name: string;
  readonly args: Readonly<Record<string, unknown>>;
  readonly result: { readonly text: string; readonly isError: boolean } | undefined;
}

/** The last user message, and the tool calls made since. */
export interface CurrentTurn {
  readonly text: string;
  readonly hasMedia: boolean;
  readonly exchanges: readonly Exchange[];
}

/** The text of a content, media named by their type. */
export function contentText(content: Content): string {
  if (typeof content === "string") return content;
  return content.map(blockText).join("\n");
}

export function isSummary(message: Message): boolean {
  return message.role === "user" && contentText(message.content).startsWith(SUMMARY_START);
}

/** The summary's own lines, without the sentence that introduces them. */
export function summaryBody(message: Message): string {
  const text = message.role === "user" ? contentText(message.content) : "";
  const body = text.replace(/^\[Context compacted\][^\n]*?without duplicating work:/u, "");
  return body === text ? text.slice(SUMMARY_START.length) : body;
}

export function isCompactionPrompt(message: Message): boolean {
  return message.role === "user" && contentText(message.content).startsWith(COMPACTION_START);
}

/** The memories of a base-model prompt, or undefined when the text is no such prompt. */
export function memoriesOf(text: string): string | undefined {
  const start = text.indexOf(MEMORIES_START);
  if (start < 0) return undefined;
  const body = text.slice(start + MEMORIES_START.length);
  const end = body.lastIndexOf("SUMMARY:");
  return (end < 0 ? body : body.slice(0, end)).trim();
}

export function isOwnWords(text: string): boolean {
  return OWN_WORDS.test(text);
}

/** Finds the current turn; its text is empty before the first user message. */
export function currentTurn(messages: readonly Message[]): CurrentTurn {
  const start = messages.findLastIndex((message) => message.role === "user" && !isSummary(message));
  const user = messages[start];
  if (user === undefined || user.role !== "user") return { text: "", hasMedia: false, exchanges: [] };
  const hasMedia = typeof user.content !== "string" && user.content.some((block) => block.type !== "text");
  const text =
    typeof user.content === "string"
      ? user.content
      : user.content.map((b) => (b.type === "text" ? b.text : "")).join("\n");
  return { text, hasMedia, exchanges: readExchanges(messages.slice(start + 1)) };
}

function readExchanges(messages: readonly Message[]): Exchange[] {
  const results = new Map<string, ToolResult>();
  for (const message of messages) {
    if (message.role !== "tool_results") continue;
    for (const result of message.results) results.set(result.tool_use_id, result);
  }
  const blocks = messages.flatMap((message) => (message.role === "block_assistant" ? message.blocks : []));
  return blocks.flatMap((block) => {
    if (block.block_type !== "tool_use") return [];
    const result = results.get(block.data.id);
    const answer = result && { text: contentText(result.content), isError: result.is_error };
    return [{ name: block.data.name, args: block.data.args, result: answer }];
  });
}

/** All quotable sentences, oldest first, without questions and without this model's own answers. */
export function readPassages(messages: readonly Message[]): Passage[] {
  const toolNames = nameTools(messages);
  const batches: Omit<Passage, "order">[][] = [];
  let left = SEARCHED_CHARS_MAX;
  const summary = messages.findLast(isSummary);
  if (summary !== undefined) left -= summaryBody(summary).length;
  for (const message of messages.toReversed()) {
    if (left <= 0) break;
    const batch = isSummary(message) ? [] : quotable(message, { toolNames, charsMax: left });
    for (const passage of batch) left -= passage.text.length;
    batches.push(batch);
  }
  const old =
    summary === undefined ? [] : passagesOf(clipStart(summaryBody(summary), SEARCHED_CHARS_MAX), { kind: "summary" });
  return [...old, ...batches.reverse().flat()].map((passage, order) => ({ ...passage, order }));
}

interface ReadOptions {
  readonly toolNames: ReadonlyMap<string, string>;
  readonly charsMax: number;
}

function quotable(message: Message, { toolNames, charsMax }: ReadOptions): Omit<Passage, "order">[] {
  if (message.role === "user" && !isCompactionPrompt(message)) {
    return passagesOf(clipStart(contentText(message.content), charsMax), { kind: "user" });
  }
  if (message.role !== "tool_results") return [];
  return message.results.flatMap((result) => {
    const name = toolNames.get(result.tool_use_id);
    if (result.is_error || name === undefined || FLEETING_TOOLS.has(name)) return [];
    return passagesOf(flattenJson(contentText(result.content).slice(0, TOOL_CHARS_MAX), "keyed"), {
      kind: "tool",
      name,
    });
  });
}

function passagesOf(text: string, source: Passage["source"]): Omit<Passage, "order">[] {
  return quotableSentences(text)
    .filter((sentence) => sentence.length > 1 && !isHeading(sentence) && !isOwnWords(sentence) && !isAsking(sentence))
    .map((sentence) => ({ text: sentence, source }));
}

function isHeading(sentence: string): boolean {
  return sentence.startsWith("#") || sentence.startsWith("```");
}

function nameTools(messages: readonly Message[]): Map<string, string> {
  const names = new Map<string, string>();
  for (const message of messages) {
    if (message.role !== "block_assistant") continue;
    for (const block of message.blocks) if (block.block_type === "tool_use") names.set(block.data.id, block.data.name);
  }
  return names;
}

/** JSON is read as lines, "key: value" or the bare texts, so that one field can be quoted; other text as it is. */
export function flattenJson(text: string, style: "keyed" | "bare"): string {
  const parsed = /^\s*[[{]/u.test(text) ? jsonIn(text) : undefined;
  if (parsed === undefined) return text;
  const leaves: Leaf[] = [];
  collectLeaves({ key: "", value: parsed, depth: 0 }, leaves);
  if (style === "keyed")
    return leaves.map(({ key, value }) => (key === "" ? `${value}` : `${key}: ${value}`)).join("\n");
  return leaves.flatMap(({ value }) => (typeof value === "string" ? [value] : [])).join("\n");
}

interface Leaf {
  readonly key: string;
  readonly value: string | number | boolean;
}

function collectLeaves({ key, value, depth }: { key: string; value: unknown; depth: number }, into: Leaf[]): void {
  if (typeof value === "string" || typeof value === "number" || typeof value === "boolean") {
    into.push({ key, value });
    return;
  }
  if (typeof value !== "object" || value === null || depth >= JSON_DEPTH_MAX) return;
  for (const [name, inner] of Object.entries(value)) {
    collectLeaves({ key: Array.isArray(value) ? key : name, value: inner, depth: depth + 1 }, into);
  }
}

/** The value as an object's fields; none when it is not an object. */
export function asFields(value: unknown): Readonly<Record<string, unknown>> {
  // `as`: an object that is not null can be read by any key, each giving unknown.
  return typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>) : {};
}
