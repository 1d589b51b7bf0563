import { AsyncLocalStorage } from "node:async_hooks";
import { type Context, context, ROOT_CONTEXT, SpanKind, SpanStatusCode, type Tracer, trace } from "@opentelemetry/api";

/** What is told with a span; what is undefined is left out. */
export type Attributes = Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>;

/** How something went wrong: a class anybody may see, and a sentence that may quote what was said. */
export interface Failure {
  readonly type: string;
  readonly message?: string | undefined;
}

interface NewSpan {
  readonly name: string;
  readonly kind: "internal" | "client";
  /** The span it is part of; absent for the one active where this is called. */
  readonly parent?: OpenSpan | undefined;
  /** The trace of a caller over a wire, which counts instead of the active one. */
  readonly traceparent?: string | undefined;
  readonly attributes: Attributes;
}

/** A span that has begun. */
export interface OpenSpan {
  readonly context: Context;
  set(attributes: Attributes): void;
  /** Ends it, once: what comes later is not heard. */
  end(failure?: Failure, atMs?: number): void;
  /** Runs work that is part of it. */
  within<T>(work: () => T): T;
}

export interface Spans {
  readonly capturesContent: boolean;
  readonly redact: (text: string) => string;
  begin(span: NewSpan): OpenSpan;
}

/** A failure may quote the whole of what it failed at. */
const MESSAGE_CHARS_MAX = 4_096;

/** Makes spans. Every text of one passes `redact`; a failure's sentence is told only where content is. */
export function createSpans(parts: {
  readonly tracer: Tracer;
  readonly redact: (text: string) => string;
  readonly capturesContent: boolean;
}): Spans {
  const { tracer, redact, capturesContent } = parts;
  const safe = (attributes: Attributes) => {
    const told: Record<string, string | number | boolean | string[]> = {};
    for (const [name, value] of Object.entries(attributes)) {
      if (typeof value === "string") told[name] = redact(value);
      else if (typeof value === "object") told[name] = value.map(redact);
      else if (value !== undefined) told[name] = value;
    }
    return told;
  };
  return {
    capturesContent,
    redact,
    begin: ({ name, kind, parent, traceparent, attributes }) => {
      const around = parent?.context ?? contextFrom(traceparent) ?? activeContext();
      const options = { kind: kind === "client" ? SpanKind.CLIENT : SpanKind.INTERNAL, attributes: safe(attributes) };
      const span = tracer.startSpan(redact(name), options, around);
      const inside = trace.setSpan(around, span);
      let hasEnded = false;
      return {
        context: inside,
        set: (more) => {
          if (!hasEnded) span.setAttributes(safe(more));
        },
        end: (failure, atMs) => {
          if (hasEnded) return;
          hasEnded = true;
          if (failure !== undefined) {
            const { type, message } = failure;
            const isTold = capturesContent && message !== undefined;
            span.setAttribute("error.type", type);
            span.setStatus({
              code: SpanStatusCode.ERROR,
              ...(isTold ? { message: redact(message).slice(0, MESSAGE_CHARS_MAX) } : {}),
            });
          }
          span.end(atMs);
        },
        within: (work) => nesting.run(inside, () => context.with(inside, work)),
      };
    },
  };
}

/** The application may have no context manager, and what belongs together here must be together all the same. */
const nesting = new AsyncLocalStorage<Context>();

function activeContext(): Context {
  const active = context.active();
  return active === ROOT_CONTEXT ? (nesting.getStore() ?? active) : active;
}

const TRACEPARENT = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-|$)/;

/** Undefined for what is no traceparent: a caller that writes a wrong one still gets its turn. */
function contextFrom(traceparent: string | undefined): Context | undefined {
  const [, traceId, spanId, flags] = TRACEPARENT.exec(traceparent ?? "") ?? [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return undefined;
  const traceFlags = Number.parseInt(flags, 16) & 1;
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags, isRemote: true });
}
