import type { Content, Message, ToolResult, ToolResultsMessage } from "../../../contract/message.ts";
import { textOfContent } from "../../message-text.ts";
import { estimateTokens } from "../../tokens.ts";
import { namesOfCalls, UNKNOWN_TOOL } from "./call-names.ts";
import { headOf, tailOf } from "./cut-text.ts";

/** A tool result that is shown as a reference; `content` is what is shown, `tokens` the estimate of the whole. */
export interface Pruned {
  readonly seq: number;
  readonly tool_use_id: string;
  readonly tokens: number;
  readonly content: string;
}

interface Placed {
  readonly seq: number;
  readonly message: Message;
}

interface PruneOptions {
  /** Smaller results stay. */
  readonly tokensMin: number;
  /** How many of the newest turns stay whole. */
  readonly keepTurns: number;
}

/** The large results outside the newest turns, each with the text that takes its place. */
export function findPrunable(placed: readonly Placed[], options: PruneOptions): readonly Pruned[] {
  const names = namesOfCalls(placed.map(({ message }) => message));
  const found: Pruned[] = [];
  for (const { seq, message } of placed.slice(0, startOfKept(placed, options.keepTurns))) {
    // The estimate of a message is remembered, that of a result is not: most messages are passed without counting.
    if (message.role !== "tool_results" || estimateTokens([message]) <= options.tokensMin) continue;
    for (const result of message.results) {
      const tokens = resultTokens(result.content);
      if (tokens <= options.tokensMin || isReference(result.content)) continue;
      const name = names.get(message)?.get(result.tool_use_id) ?? UNKNOWN_TOOL;
      const content = asReference(result.content, referenceTo({ name, tokens, seq }));
      if (resultTokens(content) < tokens) found.push({ seq, tool_use_id: result.tool_use_id, tokens, content });
    }
  }
  return found;
}

/** The results of one message with those that are named shown as references; `pruned` is of that message only. */
export function applyPruned(message: ToolResultsMessage, pruned: readonly Pruned[]): ToolResultsMessage {
  const contents = new Map(pruned.map(({ tool_use_id, content }) => [tool_use_id, content]));
  if (!message.results.some((result) => contents.has(result.tool_use_id))) return message;
  const results = message.results.map((result): ToolResult => {
    const content = contents.get(result.tool_use_id);
    return content === undefined ? result : { ...result, content };
  });
  return { ...message, results };
}

function startOfKept(placed: readonly Placed[], keepTurns: number): number {
  let start = placed.length;
  for (let turns = 0; turns < keepTurns && start > 0; ) {
    start -= 1;
    if (isTurnStart(placed[start]?.message)) turns += 1;
  }
  return start;
}

/** A summary is a user message too, but speaks for earlier turns and is none itself. */
function isTurnStart(message: Message | undefined): boolean {
  return message?.role === "user" && message.compaction_id === undefined;
}

function resultTokens(content: Content): number {
  const result: ToolResult = { tool_use_id: "", content, is_error: false };
  return estimateTokens([{ role: "tool_results", results: [result], created_at: "" }]);
}

/** Bytes, so at most as many characters. */
const EDGE_BYTES_MAX = 200;
const NAME_BYTES_MAX = 100;

function asReference(content: Content, reference: string): string {
  const text = textOfContent(typeof content === "string" ? content : content.filter(({ type }) => type === "text"));
  const head = headOf(text, EDGE_BYTES_MAX);
  const tail = tailOf(text.slice(head.length), EDGE_BYTES_MAX);
  return [head, headOf(mediaNames(content), EDGE_BYTES_MAX), reference, tail].filter((part) => part !== "").join("\n");
}

/** Each kind once: a hundred screenshots need no hundred names. */
function mediaNames(content: Content): string {
  if (typeof content === "string") return "";
  const media = content.filter(({ type }) => type !== "text");
  return [...new Set(media.map((block) => textOfContent([block])))].join(" ");
}

const NUMBER = new Intl.NumberFormat("en-US");

function referenceTo({ name, tokens, seq }: { name: string; tokens: number; seq: number }): string {
  const what = `the whole result of ${headOf(name, NAME_BYTES_MAX)} (about ${NUMBER.format(tokens)} tokens)`;
  return `[… ${what} is in the log at seq ${seq}, left out of the context …]`;
}

const REFERENCE =
  /\[… the whole result of .{0,100} \(about [\d,]+ tokens\) is in the log at seq \d+, left out of the context …\]/s;
/** Head, tail, media and the reference with its longest name; longer is a result that only quotes a reference. */
const REFERENCE_CHARS_MAX = 3 * EDGE_BYTES_MAX + 300;

function isReference(content: Content): boolean {
  return typeof content === "string" && content.length <= REFERENCE_CHARS_MAX && REFERENCE.test(content);
}
