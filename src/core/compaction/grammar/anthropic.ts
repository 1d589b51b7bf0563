import type { AssistantMessage, Message, ToolResult } from "../../../contract/message.ts";
import { isReadable, isSaidIn, isSaying, isSent } from "./as-sent.ts";
import { mediaFault, openingFault, systemFault } from "./conversation-order.ts";
import type { Fault } from "./fault.ts";
import { type PairRules, pairFault } from "./tool-pairs.ts";

/**
 * What the Messages API refuses. Consecutive messages of one side are joined by the package, so they are fine, and so
 * are results of one batch in two messages. Empty text and an answer of nothing but thinking are left out by the adapter.
 */
export function anthropicFault(messages: readonly Message[]): Fault | undefined {
  return (
    systemFault(messages) ??
    openingFault(messages, isSentHere) ??
    pairFault(messages, PAIRS) ??
    mediaFault(messages, { takesVideo: false, takesToolMedia: true }) ??
    contentFault(messages)
  );
}

const isSentHere = (message: Message): boolean => isSent(message, "anthropic");

const PAIRS: PairRules = {
  isSent: isSentHere,
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
    if (message === undefined || !isSentHere(message)) continue;
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
