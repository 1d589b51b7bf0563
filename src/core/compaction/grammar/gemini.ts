import type { AssistantMessage, Message } from "../../../contract/message.ts";
import { isReadable, isSent } from "./as-sent.ts";
import { mediaFault, openingFault, systemFault } from "./conversation-order.ts";
import type { Fault } from "./fault.ts";
import { type PairRules, pairFault } from "./tool-pairs.ts";

/**
 * What Gemini refuses. Nothing is joined on the way there: a message is a content, so the number of function responses
 * is counted message by message. Empty parts are left out by the adapter. That a request may not end with the model's
 * words is not judged: a context is also kept while nobody asks, and the next turn opens with a user message.
 */
export function geminiFault(messages: readonly Message[]): Fault | undefined {
  return (
    systemFault(messages) ??
    openingFault(messages, isSentHere) ??
    pairFault(messages, PAIRS) ??
    mediaFault(messages, { takesVideo: true, takesToolMedia: true }) ??
    answerFault(messages)
  );
}

const isSentHere = (message: Message): boolean => isSent(message, "google");

const PAIRS: PairRules = {
  isSent: isSentHere,
  wireId: (id) => id,
  // "the number of function response parts is equal to the number of function call parts"
  takesSplitResults: false,
  // Responses answer by place and name.
  wantsUniqueIds: false,
};

function answerFault(messages: readonly Message[]): Fault | undefined {
  let isAfterAnswer = false;
  for (let at = 0; at < messages.length; at += 1) {
    const message = messages[at];
    if (message === undefined || !isSentHere(message)) continue;
    if (message.role === "block_assistant") {
      const fault = callFault(message, isAfterAnswer);
      if (fault !== undefined) return { at, fault };
    }
    isAfterAnswer = message.role === "block_assistant";
  }
  return undefined;
}

/**
 * "Function call turn comes immediately after a user turn or after a function response turn": words of the model before
 * it, even its own, are refused when they are a turn of their own.
 *
 * Signatures: the package sends a documented placeholder for a call without one, and models before Gemini 3 sign some
 * steps and not others, so a missing signature is no fault. But of a parallel batch the first call is the signed one: a
 * later signature behind a first call without says that the batch was put together of parts that never belonged.
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
