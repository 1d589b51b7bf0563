import type { EntryBody, EntryBodyOf } from "../contract/entry.ts";
import type { JsonObject } from "../contract/session.ts";
import type { Tool, ToolCallContext } from "../ports/tool.ts";
import { contentOf, errorTypeOf, type Failure, messageIn, type OpenSpan, type Spans, textContent } from "./spans.ts";

export interface ToolSpans {
  readonly spans: Spans;
  /** Aborts when the work is interrupted; a tool aborted otherwise has timed out. */
  readonly signal: AbortSignal;
  /** Running tools: one that ignores its signal is abandoned, and its span must end. */
  readonly running: Map<OpenSpan, AbortSignal>;
  parent(): OpenSpan | undefined;
}

/** Wraps the tools so that each run is a span; calls of a tool are inside it. */
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
): Promise<unknown> {
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

/** Ends the spans of abandoned tools. */
export function leaveTools(watching: ToolSpans): void {
  for (const [span, signal] of watching.running) span.end(stoppedBy(watching, signal) ?? { type: "unfinished" });
  watching.running.clear();
}

function stoppedBy({ signal: interrupted }: ToolSpans, signal: AbortSignal): Failure | undefined {
  if (!signal.aborted) return undefined;
  return { type: interrupted.aborted ? "interrupted" : "timeout" };
}

/** An untyped tool may return anything. */
function isError(output: unknown): boolean {
  return typeof output === "object" && output !== null && "isError" in output && output.isError === true;
}

/** The running compaction, tracked by its entries. */
export interface CompactionSpans {
  /** Undefined while none runs. */
  current(): OpenSpan | undefined;
  /** Starts the span of a prepared compaction, which ends when it is ready or dropped. */
  prepare(): void;
  appended(body: EntryBody): void;
  /** Ends a span that was broken off. */
  leave(): void;
}

interface Where {
  readonly sessionId: string | undefined;
  readonly traceparent: string | undefined;
  readonly turn: OpenSpan | undefined;
}

export function createCompactionSpans(spans: Spans, { sessionId, turn, traceparent }: Where): CompactionSpans {
  let open: OpenSpan | undefined;
  const begin = (): OpenSpan =>
    spans.begin({
      name: "compact",
      kind: "internal",
      parent: turn,
      traceparent,
      attributes: { "gen_ai.operation.name": "compact", "gen_ai.conversation.id": sessionId },
    });
  return {
    current: () => open,
    prepare: () => {
      open = begin();
    },
    appended: (body) => {
      if (body.kind === "event" && body.event.type === "compaction_started") open = begin();
      if (body.kind === "compaction_prepared") {
        open?.set({ ...numbersOf(body.compaction), "rkat.compaction.prepared": true });
        open?.set({ "rkat.compaction.summary": textContent(spans, body.compaction.summary) });
        open?.end();
        open = undefined;
      }
      if (body.kind === "compaction_dropped" && body.compaction_id === undefined) {
        open?.end({ type: "compaction_dropped", message: body.reason });
        open = undefined;
      }
      if (body.kind !== "compacted" && body.kind !== "compaction_failed") return;
      // A compactor that fails before it starts is reported by its failure alone.
      const span = open ?? begin();
      open = undefined;
      if (body.kind === "compaction_failed") return span.end({ type: "compaction_failed", message: body.error });
      span.set(numbersOf(body));
      span.set({ "rkat.compaction.summary": textContent(spans, body.summary) });
      span.end();
    },
    leave: () => {
      open?.end({ type: "unfinished" });
      open = undefined;
    },
  };
}

function numbersOf({ receipt, ...body }: EntryBodyOf<"compaction_prepared">["compaction"]) {
  return {
    "rkat.compaction.id": body.compaction_id,
    "rkat.compaction.trigger": body.trigger,
    "rkat.compaction.strategy": body.strategy,
    "rkat.compaction.summary_by": body.summary_by,
    "rkat.compaction.messages_before": body.messages_before,
    "rkat.compaction.messages_after": body.messages_after,
    "rkat.compaction.tokens_before": body.tokens_before,
    "rkat.compaction.tokens_after": body.tokens_after,
    "rkat.compaction.summary_tokens": body.summary_tokens,
    "rkat.compaction.receipt.total": receipt.total,
    "rkat.compaction.receipt.in_summary": receipt.in_summary,
    "rkat.compaction.receipt.in_tail": receipt.in_tail,
    "rkat.compaction.receipt.pinned": receipt.pinned,
    "rkat.compaction.receipt.recoverable": receipt.recoverable,
    "rkat.compaction.receipt.found_by_search": receipt.found_by_search,
    "rkat.compaction.receipt.lost": receipt.lost,
    "rkat.compaction.receipt.invented": receipt.invented.length,
    "rkat.compaction.receipt.unverified": receipt.unverified?.length ?? 0,
  };
}
