import type { BlockMeta, ToolUseBlock } from "../contract/message.ts";
import type { JsonObject } from "../contract/session.ts";

/** A tool call as a block. Arguments are text until they parse; unusable ones are kept, for the model to be shown. */
export function toolUseBlock(call: { id: string; name: string; input: unknown; meta?: BlockMeta }): ToolUseBlock {
  const { id, name, input, meta } = call;
  return {
    block_type: "tool_use",
    data: { id, name, ...parseArguments(input, name), ...(meta === undefined ? {} : { meta }) },
  };
}

export function parseArguments(input: unknown, tool: string): { args: JsonObject; args_error?: string } {
  const text = typeof input === "string" ? input : JSON.stringify(input ?? {});
  if (text.trim() === "") return { args: {} };
  try {
    const args: unknown = JSON.parse(text);
    if (typeof args === "object" && args !== null && !Array.isArray(args)) return { args: args as JsonObject }; // just checked
    return { args: { raw_arguments: text }, args_error: `the arguments of ${tool} must be a JSON object` };
  } catch (thrown) {
    const why = thrown instanceof Error ? thrown.message : String(thrown);
    return { args: { raw_arguments: text }, args_error: `the arguments of ${tool} are not valid JSON: ${why}` };
  }
}
