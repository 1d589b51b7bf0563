import { SpanKind, SpanStatusCode, type Tracer } from "@opentelemetry/api";
import { InMemorySpanExporter, type ReadableSpan, SimpleSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace";

/** A span as a test compares it: what a run decides by chance or by the clock is left out. */
export interface SpanTree {
  readonly name: string;
  readonly kind: string;
  readonly attributes: Readonly<Record<string, unknown>>;
  /** "ok", "error", or the words that come with one. */
  readonly status: string;
  readonly children: readonly SpanTree[];
}

/** The real SDK, keeping what it exports. */
export function openTracing(): {
  readonly provider: TracerProvider;
  readonly tracer: Tracer;
  /** The spans that have ended, as trees, in the order they began. */
  spanTrees(): readonly SpanTree[];
  /** Everything that was exported, as one text. */
  text(): string;
} {
  const exporter = new InMemorySpanExporter();
  const begun: string[] = [];
  const order = {
    onStart: (span: ReadableSpan) => begun.push(span.spanContext().spanId),
    onEnd: () => {},
    forceFlush: async () => {},
    shutdown: async () => {},
  };
  const provider = new TracerProvider({ spanProcessors: [order, new SimpleSpanProcessor({ exporter })] });
  return {
    provider,
    tracer: provider.getTracer("test"),
    spanTrees: () => {
      const spans = exporter.getFinishedSpans();
      const open = begun.filter((id) => !spans.some((span) => span.spanContext().spanId === id));
      if (open.length > 0) throw new Error(`${open.length} spans have not ended`);
      const inOrder = begun.flatMap((id) => spans.filter((span) => span.spanContext().spanId === id));
      return treesOf(inOrder);
    },
    text: () =>
      JSON.stringify(
        exporter.getFinishedSpans().map(({ name, attributes, events, links, status, resource }) => {
          return { name, attributes, events, links, status, resource: resource.attributes };
        }),
      ),
  };
}

function treesOf(spans: readonly ReadableSpan[]): readonly SpanTree[] {
  const isHere = (id: string | undefined): boolean => spans.some((span) => span.spanContext().spanId === id);
  const tree = (span: ReadableSpan): SpanTree => {
    const { spanId, traceId } = span.spanContext();
    const children = spans.filter((other) => other.parentSpanContext?.spanId === spanId);
    if (children.some((child) => child.spanContext().traceId !== traceId)) throw new Error("a child in another trace");
    return {
      name: span.name,
      kind: SpanKind[span.kind],
      attributes: steady(span.attributes),
      status: statusOf(span),
      children: children.map(tree),
    };
  };
  return spans.filter((span) => !isHere(span.parentSpanContext?.spanId)).map(tree);
}

function steady({ "gen_ai.response.time_to_first_chunk": _seconds, ...attributes }: ReadableSpan["attributes"]) {
  return attributes;
}

function statusOf({ status }: ReadableSpan): string {
  if (status.code !== SpanStatusCode.ERROR) return "ok";
  return status.message === undefined ? "error" : `error: ${status.message}`;
}
