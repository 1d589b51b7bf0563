import { type Tracer, trace } from "@opentelemetry/api";
import type { EntryBody, EntryBodyOf } from "../contract/entry.ts";
import type { AgentEvent, Usage } from "../contract/event.ts";
import type { StopReason } from "../contract/message.ts";
import type { JsonObject } from "../contract/session.ts";
import type { AskedRecall, Telemetry, Watch, WatchedWork } from "../ports/telemetry.ts";
import type { Tool, ToolCallContext } from "../ports/tool.ts";
import {
  type Attributes,
  contentOf,
  createSpans,
  errorTypeOf,
  type Failure,
  messageIn,
  type OpenSpan,
  partsOf,
  providerName,
  type Spans,
  textContent,
  type UndecidedChat,
  watchModel,
} from "./spans.ts";

/** The tracer of the application's provider; without one its spans are dropped. */
export function applicationTracer(): Tracer {
  return trace.getTracer("rkat");
}

/** Emits OpenTelemetry spans by the conventions for generative AI. */
export function createTelemetry(parts: Parameters<typeof createSpans>[0]): Telemetry {
  const spans = createSpans(parts);
  return {
    watch: (work) => watchWork(spans, work),
    watchRecall: (asked, search) => recallInSpan(spans, asked, search),
  };
}

function watchWork(spans: Spans, work: WatchedWork): Watch {
  const { sessionId, signal, traceparent } = work;
  const turn = work.kind === "turn" ? beginTurn(spans, work) : undefined;
  const compactions = createCompactionSpans(spans, { sessionId, turn, traceparent });
  if (work.kind === "preparation") compactions.prepare();
  const parent = (): OpenSpan | undefined => compactions.current() ?? turn;
  let undecided: UndecidedChat | undefined;
  let retry: Attributes = {};
  const spent = { input: 0, output: 0 };
  let lastReason: StopReason | undefined;
  const decide = (type?: string): void => {
    undecided?.span.end(type === undefined ? undecided.otherwise : { type }, undecided.atMs);
    undecided = undefined;
  };
  const tools = { spans, signal, parent, running: new Map<OpenSpan, AbortSignal>() };
  return {
    model: watchModel(work.model, {
      spans,
      sessionId,
      signal,
      parent,
      isCompacted: work.isCompacted,
      retry: () => {
        decide();
        const known = retry;
        retry = {};
        return known;
      },
      undecided: (chat) => {
        undecided = chat;
      },
      answered: (usage, stopReason) => {
        addUsage(spent, usage);
        lastReason = stopReason;
      },
    }),
    tools: watchTools(work.tools, tools),
    appended: (bodies) => {
      for (const body of bodies) {
        if (body.kind === "attempt_failed") {
          const failed = retryOf(body.event);
          decide(failed.kind);
          retry = failed.next;
        }
        if (body.kind === "tool_results") leaveTools(tools);
        compactions.appended(body);
      }
    },
    end: ({ result, error }) => {
      decide(error === undefined || undecided?.otherwise !== undefined ? undefined : "empty_response");
      leaveTools(tools);
      compactions.leave();
      const details = result ?? detailsOf(error?.details);
      turn?.set({
        "gen_ai.usage.input_tokens": spent.input,
        "gen_ai.usage.output_tokens": spent.output,
        "gen_ai.response.finish_reasons": lastReason === undefined ? undefined : [lastReason],
        "gen_ai.output.messages":
          result && contentOf(spans, () => [{ role: "assistant", parts: partsOf(result.text) }]),
        "rkat.turn.model_calls": result?.turns,
        "rkat.turn.tool_calls": result?.tool_calls,
        "rkat.turn.cause": details.terminal_cause_kind,
        "rkat.turn.error_class": "error_class" in details ? details.error_class : undefined,
      });
      turn?.end(error && { type: error.code, message: error.message });
    },
  };
}

function beginTurn(spans: Spans, { sessionId, model, wantsJson, prompt = "", traceparent }: WatchedWork): OpenSpan {
  return spans.begin({
    name: "invoke_agent",
    kind: "internal",
    traceparent,
    attributes: {
      "gen_ai.operation.name": "invoke_agent",
      "gen_ai.conversation.id": sessionId,
      "gen_ai.provider.name": providerName(model.provider),
      "gen_ai.request.model": model.modelId,
      "gen_ai.output.type": wantsJson ? "json" : undefined,
      "gen_ai.input.messages": contentOf(spans, () => [{ role: "user", parts: partsOf(prompt) }]),
    },
  });
}

function addUsage(spent: { input: number; output: number }, { input_tokens, output_tokens }: Usage): void {
  spent.input += input_tokens;
  spent.output += output_tokens;
}

function retryOf(event: AgentEvent): { readonly kind: string | undefined; readonly next: Attributes } {
  if (event.type !== "retrying") return { kind: undefined, next: {} };
  const kind = event.retry?.failure.kind;
  return {
    kind,
    next: {
      "rkat.chat.attempt": event.attempt + 1,
      "rkat.retry.reason": kind,
      "rkat.retry.delay_ms": event.delay_ms,
    },
  };
}

/** Facts of a failure that are our own values, not sentences. */
function detailsOf(details: unknown): { readonly terminal_cause_kind?: string; readonly error_class?: string } {
  if (typeof details !== "object" || details === null) return {};
  const { terminal_cause_kind, error_class } = details as Record<string, unknown>; // An object, as just checked.
  return {
    ...(typeof terminal_cause_kind === "string" ? { terminal_cause_kind } : {}),
    ...(typeof error_class === "string" ? { error_class } : {}),
  };
}

async function recallInSpan(
  spans: Spans,
  { query, limit, reach, traceparent }: AskedRecall,
  search: Parameters<Telemetry["watchRecall"]>[1],
): ReturnType<Telemetry["watchRecall"]> {
  const span = spans.begin({
    name: "search_memory",
    kind: "internal",
    traceparent,
    attributes: {
      "gen_ai.operation.name": "search_memory",
      "rkat.memory.limit": limit,
      "rkat.memory.reach": reach,
      "gen_ai.memory.query.text": textContent(spans, query),
    },
  });
  try {
    const found = await span.within(search);
    span.set({
      "gen_ai.memory.record.count": found.results.length,
      "rkat.memory.mode": found.mode,
      "gen_ai.memory.records": contentOf(spans, () =>
        found.results.map(({ content, score, ...metadata }) => ({ content, score, metadata })),
      ),
    });
    span.end();
    return found;
  } catch (thrown) {
    span.end({ type: errorTypeOf(thrown), message: messageIn(thrown) });
    throw thrown;
  }
}

interface ToolSpans {
  readonly spans: Spans;
  /** Aborts when the work is interrupted; a tool aborted otherwise has timed out. */
  readonly signal: AbortSignal;
  /** Running tools: one that ignores its signal is abandoned, and its span must end. */
  readonly running: Map<OpenSpan, AbortSignal>;
  parent(): OpenSpan | undefined;
}

/** Wraps the tools so that each run is a span; calls of a tool are inside it. */
function watchTools(tools: ReadonlyMap<string, Tool>, watching: ToolSpans): ReadonlyMap<string, Tool> {
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

function leaveTools(watching: ToolSpans): void {
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
interface CompactionSpans {
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

function createCompactionSpans(spans: Spans, { sessionId, turn, traceparent }: Where): CompactionSpans {
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
