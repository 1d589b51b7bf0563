import type { AssistantMessage, Message } from "../../../contract/message.ts";
import { answerLength, isSent } from "./as-sent.ts";
import { mediaFault, systemFault } from "./conversation-order.ts";
import type { Fault } from "./fault.ts";
import { type PairRules, pairFault } from "./tool-pairs.ts";

/**
 * What the Responses API refuses of a request that keeps nothing on the server, as ours do. Then answers and calls go
 * without their item ids, so none can miss the reasoning it was made with; and reasoning that is not followed by what
 * it led to ("provided without its required following item") is cut off by the adapter. A conversation may begin with
 * an answer here.
 */
export function openAiResponsesFault(messages: readonly Message[]): Fault | undefined {
  return (
    systemFault(messages) ??
    pairFault(messages, PAIRS) ??
    mediaFault(messages, { takesVideo: false, takesToolMedia: true }) ??
    reasoningFault(messages)
  );
}

const PAIRS: PairRules = {
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
