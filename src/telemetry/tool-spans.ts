import type { JsonObject } from "../contract/session.ts";
import type { Tool, ToolCallContext, ToolOutput } from "../ports/tool.ts";
import { contentOf, textContent } from "./content.ts";
import { errorTypeOf, messageIn } from "./error-type.ts";
import type { Failure, OpenSpan, Spans } from "./spans.ts";

export interface ToolSpans {
  readonly spans: Spans;
  /** Aborts when the work is interrupted from outside; a tool that is aborted otherwise has run out of time. */
  readonly signal: AbortSignal;
  /** Tools that run: one that ignores its signal is left behind, and its span must not be. */
  readonly running: Map<OpenSpan, AbortSignal>;
  parent(): OpenSpan | undefined;
}

/** The tools, each run of one told as a span. What a tool calls is part of its span. */
export function watchTools(tools: ReadonlyMap<string, Tool>, watching: ToolSpans): ReadonlyMap<string, Tool> {
  return new Map([...tools].map(([name, tool]) => [name, watchTool(tool, watching)]));
}

function watchTool(tool: Tool, watching: ToolSpans): Tool {
  const { name, description, inputSchema, timeoutMs } = tool;
  return {
    name,
    description,
    inputSchema,
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
    execute: (args, call) => executeInSpan(tool, watching, { args, call }),
  };
}

async function executeInSpan(
  tool: Tool,
  watching: ToolSpans,
  { args, call }: { args: JsonObject; call: ToolCallContext },
): Promise<ToolOutput> {
  const { spans, running } = watching;
  const span = spans.begin({
    name: `execute_tool ${tool.name}`,
    kind: "internal",
    parent: watching.parent(),
    attributes: {
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.name": tool.name,
      "gen_ai.tool.type": "function",
      "gen_ai.tool.call.id": call.toolUseId,
      "gen_ai.conversation.id": call.sessionId,
      "gen_ai.tool.description": textContent(spans, tool.description),
      "gen_ai.tool.call.arguments": contentOf(spans, () => args),
    },
  });
  running.set(span, call.signal);
  try {
    const output = await span.within(() => tool.execute(args, call));
    span.set({ "gen_ai.tool.call.result": contentOf(spans, () => output) });
    span.end(stoppedBy(watching, call.signal) ?? (isError(output) ? { type: "tool_error" } : undefined));
    return output;
  } catch (thrown) {
    span.end(stoppedBy(watching, call.signal) ?? { type: errorTypeOf(thrown), message: messageIn(thrown) });
    throw thrown;
  } finally {
    running.delete(span);
  }
}

/** Ends the spans of tools nobody waits for any more. */
export function leaveTools(watching: ToolSpans): void {
  for (const [span, signal] of watching.running) span.end(stoppedBy(watching, signal) ?? { type: "unfinished" });
  watching.running.clear();
}

function stoppedBy({ signal: interrupted }: ToolSpans, signal: AbortSignal): Failure | undefined {
  if (!signal.aborted) return undefined;
  return { type: interrupted.aborted ? "interrupted" : "timeout" };
}

/** A tool without types may return anything. */
function isError(output: unknown): boolean {
  return typeof output === "object" && output !== null && "isError" in output && output.isError === true;
}
