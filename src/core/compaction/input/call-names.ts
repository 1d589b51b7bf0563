import type { Message } from "../../../contract/message.ts";

/** The names of an answer's tools by the ids of its calls. */
export type CallNames = ReadonlyMap<string, string>;

/**
 * For each message of results, the calls it answers: those of the answer before it. Not one map for all, because a
 * provider may count its ids from one in every answer.
 */
export function namesOfCalls(messages: readonly Message[]): ReadonlyMap<Message, CallNames> {
  const answered = new Map<Message, CallNames>();
  let names: CallNames = new Map();
  for (const message of messages) {
    if (message.role === "tool_results") answered.set(message, names);
    if (message.role !== "block_assistant") continue;
    const calls = message.blocks.filter((block) => block.block_type === "tool_use");
    names = new Map(calls.map((call) => [call.data.id, call.data.name]));
  }
  return answered;
}

/** What a result is called whose call is not among the messages. */
export const UNKNOWN_TOOL = "an unknown tool";
