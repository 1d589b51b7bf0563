import type { Message } from "../contract/message.ts";

/**
 * Messages in which no answer calls by the id of a later one: servers that count calls from zero in each answer are
 * refused by providers that want ids once. The newest keeps its id, since its result may be still to come.
 */
export function withUniqueCalls(messages: readonly Message[]): readonly Message[] {
  const lastAt = lastCalls(messages);
  const numbers = new Map<string, number>();
  const freshId = (id: string): string => {
    for (let number = (numbers.get(id) ?? 0) + 1; ; number += 1) {
      const fresh = `${id}_${number}`;
      if (lastAt.has(fresh)) continue;
      numbers.set(id, number);
      return fresh;
    }
  };
  /** The calls of the newest answer that go by another id now. */
  let renamed = new Map<string, string>();
  return messages.map((message, at): Message => {
    if (message.role === "block_assistant") {
      const repeated = callsIn(message).filter((id) => lastAt.get(id) !== at);
      renamed = new Map(repeated.map((id) => [id, freshId(id)]));
      if (renamed.size === 0) return message;
      const blocks = message.blocks.map((block) => {
        if (block.block_type !== "tool_use") return block;
        return { ...block, data: { ...block.data, id: renamed.get(block.data.id) ?? block.data.id } };
      });
      return { ...message, blocks };
    }
    if (message.role !== "tool_results" || renamed.size === 0) return message;
    const results = message.results.map((result) => {
      return { ...result, tool_use_id: renamed.get(result.tool_use_id) ?? result.tool_use_id };
    });
    return { ...message, results };
  });
}

/** The last answer that calls by each id. */
function lastCalls(messages: readonly Message[]): ReadonlyMap<string, number> {
  const lastAt = new Map<string, number>();
  for (const [at, message] of messages.entries()) {
    if (message.role === "block_assistant") for (const id of callsIn(message)) lastAt.set(id, at);
  }
  return lastAt;
}

function callsIn({ blocks }: Extract<Message, { role: "block_assistant" }>): readonly string[] {
  return blocks.flatMap((block) => (block.block_type === "tool_use" ? [block.data.id] : []));
}
