import { type Tracer, trace } from "@opentelemetry/api";
import type { AgentEvent, Usage } from "../contract/event.ts";
import type { StopReason } from "../contract/message.ts";
import type { AskedRecall, Telemetry, Watch, WatchedWork } from "../ports/telemetry.ts";
import { providerName, type UndecidedChat, watchModel } from "./chat-spans.ts";
import {
  type Attributes,
  contentOf,
  createSpans,
  errorTypeOf,
  messageIn,
  type OpenSpan,
  partsOf,
  type Spans,
  textContent,
} from "./spans.ts";
import { createCompactionSpans, leaveTools, watchTools } from "./tool-spans.ts";

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
