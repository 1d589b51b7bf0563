import type { Tracer } from "@opentelemetry/api";
import type { OpenTelemetry, Telemetry } from "../ports/telemetry.ts";

/** Who is told of what happens, and how much. */
export interface TelemetryOptions {
  /** A tracer, or what loads one for the first span; without it, that of the application's own tracer provider. */
  readonly tracer?: Tracer | (() => Promise<Tracer>);
  /** Whether what is said, what tools are given and return, and what failures say is told, too. Keys never are. */
  readonly captureContent?: boolean;
}

/** Telemetry whose code is loaded with the first thing there is to tell. */
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
