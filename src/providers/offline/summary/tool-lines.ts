import type { Message } from "../../../contract/message.ts";
import { quotableSentences } from "../../../text/sentences.ts";
import { textOf } from "../conversation.ts";

const LINES_MAX = 6;
const VALUE_CHARS_MAX = 120;

/** One line for each of the last tool calls: what was called, with what, and whether it worked. */
export function toolLines(messages: readonly Message[]): string[] {
  const results = new Map<string, { readonly text: string; readonly isError: boolean }>();
  const lines = new Map<string, string>();
  for (const message of messages.toReversed()) {
    if (message.role === "tool_results") {
      for (const result of message.results) {
        results.set(result.tool_use_id, { text: textOf(result.content), isError: result.is_error });
      }
    }
    if (message.role !== "block_assistant") continue;
    for (const block of message.blocks.toReversed()) {
      if (block.block_type !== "tool_use") continue;
      const { id, name, args } = block.data;
      const result = results.get(id);
      const call = [name, ...tellingValue(args)].join(": ");
      // The newest outcome of the same call is the one that counts.
      if (result !== undefined && !lines.has(call)) lines.set(call, outcome(call, result));
      if (lines.size === LINES_MAX) return [...lines.values()].reverse();
    }
  }
  return [...lines.values()].reverse();
}

/** The one argument that tells the call apart, when it is short; a cut one would name something else. */
function tellingValue(args: Readonly<Record<string, unknown>>): string[] {
  const value = Object.values(args).find((candidate) => typeof candidate === "string" && candidate !== "");
  return typeof value === "string" && value.length <= VALUE_CHARS_MAX && !value.includes("\n") ? [value] : [];
}

function outcome(call: string, { text, isError }: { readonly text: string; readonly isError: boolean }): string {
  if (!isError) return `worked: ${call}`;
  const reason = quotableSentences(text.slice(0, 1_000))[0] ?? "";
  return `failed: ${call}${reason === "" || reason.length > 2 * VALUE_CHARS_MAX ? "" : ` (${reason})`}`;
}
