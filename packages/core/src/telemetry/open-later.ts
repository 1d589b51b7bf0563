import type { Tracer } from "@opentelemetry/api";
import type { OpenTelemetry, Telemetry, Watch } from "../ports/telemetry.ts";

export interface TelemetryOptions {
  /** A tracer, or a function that loads one for the first span; defaults to the application's own tracer provider. */
  readonly tracer?: Tracer | (() => Promise<Tracer>);
  /** Whether spans include messages, tool arguments and results, and failure texts. Keys are never included. */
  readonly captureContent?: boolean;
}

/** Telemetry whose code is loaded with the first span. */
export function openTelemetryLater(given: TelemetryOptions, redact: (text: string) => string): OpenTelemetry {
  const { tracer, captureContent = false } = given;
  let opening: Promise<Telemetry> | undefined;
  const open = async (): Promise<Telemetry> => {
    const { createTelemetry, applicationTracer } = await import("./telemetry.ts");
    const found = typeof tracer === "function" ? await tracer() : (tracer ?? applicationTracer());
    return createTelemetry({ tracer: found, redact, capturesContent: captureContent });
  };
  return () => {
    opening ??= open();
    return opening;
  };
}

export function withSecondTelemetry(
  open: OpenTelemetry | undefined,
  besides: Telemetry | undefined,
): OpenTelemetry | undefined {
  if (besides === undefined) return open;
  if (open === undefined) return async () => besides;
  return async () => join(besides, await open());
}

function join(first: Telemetry, second: Telemetry): Telemetry {
  return {
    watch: (work): Watch => {
      const outer = first.watch(work);
      const inner = second.watch({ ...work, model: outer.model, tools: outer.tools });
      return {
        model: inner.model,
        tools: inner.tools,
        appended: (bodies) => {
          outer.appended(bodies);
          inner.appended(bodies);
        },
        end: (how) => {
          outer.end(how);
          inner.end(how);
        },
      };
    },
    watchRecall: (asked, search) => first.watchRecall(asked, () => second.watchRecall(asked, search)),
  };
}
