import type { AssistantMessage, Message } from "../../../contract/message.ts";
import { isSaying } from "./as-sent.ts";
import { mediaFault, openingFault, systemFault } from "./conversation-order.ts";
import type { Fault } from "./fault.ts";
import { type PairRules, pairFault } from "./tool-pairs.ts";

/**
 * What Chat Completions refuses, at OpenAI or at one of the many servers that speak it: a message with role `tool` that
 * does not follow its `tool_calls`, calls whose tool messages are missing, two tool messages of one id, an order of
 * roles that the templates of open models cannot write. Reasoning is never sent, so it cannot be out of place.
 */
export function openAiChatFault(messages: readonly Message[]): Fault | undefined {
  return (
    systemFault(messages) ??
    openingFault(messages, isSentHere) ??
    pairFault(messages, PAIRS) ??
    mediaFault(messages, { takesVideo: false, takesToolMedia: false })
  );
}

const PAIRS: PairRules = {
  isSent: isSentHere,
  wireId: (id) => id,
  // Each result is a message of its own on this wire.
  takesSplitResults: true,
  // Servers that count calls from zero in each answer take their own ids back.
  wantsUniqueIds: false,
};

/** This wire's own adapter sends what a user said also when it is blank. */
function isSentHere(message: Message): boolean {
  return message.role !== "block_assistant" || isAnswerSent(message);
}

function isAnswerSent({ blocks, stop_reason }: AssistantMessage): boolean {
  return blocks.some(
    (block) =>
      (block.block_type === "text" && isSaying(block.data.text)) ||
      (block.block_type === "tool_use" && stop_reason !== "cancelled"),
  );
}
