import { type Exporter, exportSettings, type TelemetryConfig } from "./exporter.ts";
import type { TelemetryOptions } from "./open-later.ts";

/** Spans that are sent to a collector. */
export interface Sending {
  /** Its tracer loads what sends, for the first span. */
  readonly telemetry: TelemetryOptions;
  /** What gives access to the collector. */
  readonly secrets: readonly string[];
  close(): Promise<void>;
}

/** Undefined when the configuration or the environment says that nothing is sent, or says it wrongly. */
export function createSending(
  config: TelemetryConfig,
  { env, warn }: { env: Readonly<Record<string, string | undefined>>; warn: (sentence: string) => void },
): Sending | undefined {
  const settings = exportSettings(config, env);
  if (settings === undefined) return undefined;
  if (!/^https?:$/.test(URL.parse(settings.url)?.protocol ?? "")) {
    // The configuration's own address was checked when it was read, and the variables are written for others, too.
    warn("telemetry is not sent: write an address like http://localhost:4318 into the OTEL_EXPORTER_OTLP_ variable");
    return undefined;
  }
  let opening: Promise<Exporter> | undefined;
  return {
    telemetry: {
      captureContent: config.capture_content,
      tracer: async () => {
        opening ??= import("./exporter.ts").then(({ openExporter }) => openExporter(settings, warn));
        return (await opening).tracer;
      },
    },
    secrets: Object.values(settings.headers),
    close: async () => (await opening)?.close(),
  };
}
