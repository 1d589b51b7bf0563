import { z } from "zod";
import { RECALL_OUTPUT } from "../contract/compaction.ts";
import { RuntimeError } from "../contract/error.ts";
import type { Message, ToolResult } from "../contract/message.ts";
import type { Tool } from "../ports/tool.ts";
import type { ToolSettings } from "./builtin.ts";
import { defineTool } from "./define-tool.ts";

type Transcript = readonly { readonly seq: number; readonly message: Message }[];

/**
 * The tool by which a model reads an output again that stands in its context as one line, for sessions with these
 * settings. It reads the transcript of the session that asks: what a rewrite took away is not shown again.
 */
export function createRecallOutput(
  transcriptOf: (sessionId: string) => Promise<Transcript>,
): (settings: ToolSettings) => Tool | undefined {
  let tool: Tool | undefined;
  const make = (): Tool =>
    defineTool({
      name: RECALL_OUTPUT,
      description:
        "Show a tool's output again that left the context. Lines like [read_file … recall_output(seq: 41) shows it] stand for such outputs and say what to ask for.",
      input: RecallOutput,
      run: async (asked, { sessionId }) => ({ content: outputAt(await transcriptOf(sessionId), asked).content }),
    });
  return ({ mcp = false, builtins, shell, memory }) => {
    // With the preset `none` a session has no tools of the runtime's, so not this one either.
    if (!mcp && builtins === "none" && !shell && !memory) return undefined;
    tool ??= make();
    return tool;
  };
}

const RecallOutput = z.strictObject({
  seq: z.int().positive().describe("The seq the line names"),
  call: z.int().positive().optional().describe("Which of several calls, where the line says so"),
});

function outputAt(transcript: Transcript, { seq, call }: { seq: number; call?: number | undefined }): ToolResult {
  const message = transcript.findLast((placed) => placed.seq === seq)?.message;
  if (message?.role !== "tool_results") {
    throw invalid(
      `seq: there is no tool output at ${seq} of this session; write a seq that a line of the context names`,
    );
  }
  const { results } = message;
  const result = results[(call ?? (results.length === 1 ? 1 : 0)) - 1];
  if (result !== undefined) return result;
  const which = results.length === 1 ? "leave it out" : `write a number from 1 to ${results.length}`;
  throw invalid(`call: the outputs at ${seq} are ${results.length}; ${which}`);
}

function invalid(message: string): RuntimeError {
  return new RuntimeError("INVALID_PARAMS", message);
}
