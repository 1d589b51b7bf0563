import { ProxyTracerProvider, type Tracer } from "@opentelemetry/api";
import type { SpanExporter } from "@opentelemetry/sdk-trace";
import type { TelemetryOptions } from "./open-later.ts";

export interface Sending {
  /** Its tracer loads the SDK with the first span. */
  readonly telemetry: TelemetryOptions;
  /** Credentials of the collector. */
  readonly secrets: readonly string[];
  close(): Promise<void>;
}

/** Undefined if export is off or misconfigured. */
export function createSending(
  config: TelemetryConfig,
  { env, warn }: { env: Readonly<Record<string, string | undefined>>; warn: (sentence: string) => void },
): Sending | undefined {
  const settings = exportSettings(config, env);
  if (settings === undefined) return undefined;
  if (!/^https?:$/.test(URL.parse(settings.url)?.protocol ?? "")) {
    // The configured address was validated when it was read; the variables are shared with other programs.
    warn("telemetry is not sent: write an address like http://localhost:4318 into the OTEL_EXPORTER_OTLP_ variable");
    return undefined;
  }
  let opening: Promise<Exporter> | undefined;
  return {
    telemetry: {
      captureContent: config.capture_content,
      tracer: async () => {
        opening ??= openExporter(settings, warn);
        return (await opening).tracer;
      },
    },
    secrets: Object.values(settings.headers),
    close: async () => (await opening)?.close(),
  };
}

/** Sends spans to a collector in the background. */
interface Exporter {
  readonly tracer: Tracer;
  /** Sends the rest, within a time limit. */
  close(): Promise<void>;
}

/** An unreachable collector must not delay the end of a command. */
const CLOSE_MS_MAX = 2_000;

/**
 * Loads the SDK and its OTLP exporter, which are optional: without them a warning is given and nothing is sent.
 * Failures are reported once and spans dropped.
 */
async function openExporter(settings: ExportSettings, warn: (sentence: string) => void): Promise<Exporter> {
  const sdk = await loadSdk();
  if (sdk === undefined) {
    warn(
      "telemetry is enabled and its packages are not installed, so nothing is sent; npm install @opentelemetry/sdk-trace @opentelemetry/resources @opentelemetry/exporter-trace-otlp-http",
    );
    return { tracer: new ProxyTracerProvider().getTracer("rkat"), close: async () => {} };
  }
  const { url, serviceName } = settings;
  let isReported = false;
  const report = (why: string): void => {
    if (!isReported)
      warn(`telemetry cannot be sent to ${placeOf(url)} (${why}); it is dropped, and this is reported once`);
    isReported = true;
  };
  const otlp = new sdk.OTLPTraceExporter({ url, headers: { ...settings.headers } });
  const processor = new sdk.BatchSpanProcessor({ exporter: reportingFailures(otlp, report) });
  const resource = sdk.defaultResource().merge(sdk.resourceFromAttributes({ "service.name": serviceName }));
  const provider = new sdk.TracerProvider({ resource, spanProcessors: [processor] });
  let closing: Promise<void> | undefined;
  return {
    tracer: provider.getTracer("rkat"),
    close: () => {
      closing ??= within(
        CLOSE_MS_MAX,
        provider.shutdown().catch((thrown: unknown) => report(reasonOf(thrown))),
        () => report(`not within ${CLOSE_MS_MAX} ms`),
      );
      return closing;
    },
  };
}

async function loadSdk() {
  try {
    const [trace, resources, otlp] = await Promise.all([
      import("@opentelemetry/sdk-trace"),
      import("@opentelemetry/resources"),
      import("@opentelemetry/exporter-trace-otlp-http"),
    ]);
    return { ...trace, ...resources, ...otlp };
  } catch (thrown) {
    const code = thrown instanceof Error && "code" in thrown ? thrown.code : undefined;
    if (code === "ERR_MODULE_NOT_FOUND" || code === "MODULE_NOT_FOUND") return undefined;
    throw thrown;
  }
}

/** Reports the exporter's failures, which otherwise go to the SDK's disabled log. */
function reportingFailures(exporter: SpanExporter, report: (why: string) => void): SpanExporter {
  return {
    export: (spans, done) =>
      exporter.export(spans, (result) => {
        if (result.code !== 0) report(reasonOf(result.error));
        done(result);
      }),
    shutdown: () => exporter.shutdown(),
    forceFlush: async () => exporter.forceFlush?.(),
  };
}

/** A code or a class: a message may quote headers. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return "it failed";
  return "code" in error && error.code !== undefined ? String(error.code) : error.name;
}

/** An address without credentials. */
function placeOf(url: string): string {
  const { origin, pathname } = new URL(url);
  return `${origin}${pathname}`;
}

async function within(ms: number, work: Promise<void>, late: () => void): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const tooLong = new Promise<void>((resolve) => {
    timer = setTimeout(() => {
      late();
      resolve();
    }, ms);
  });
  await Promise.race([work, tooLong]);
  clearTimeout(timer);
}

export interface TelemetryConfig {
  readonly enabled: boolean;
  readonly endpoint?: string | undefined;
  readonly capture_content: boolean;
  readonly service_name: string;
}

export interface ExportSettings {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly serviceName: string;
}

const TRACES_PATH = "v1/traces";
const DEFAULT_ENDPOINT = "http://localhost:4318";

/**
 * The configuration overridden by the standard variables. Undefined if nothing is sent: an address in the environment
 * serves other programs, too, and does not enable export.
 */
export function exportSettings(
  config: TelemetryConfig,
  env: Readonly<Record<string, string | undefined>>,
): ExportSettings | undefined {
  const given = (name: string): string | undefined => env[name]?.trim() || undefined;
  if (!config.enabled || given("OTEL_SDK_DISABLED")?.toLowerCase() === "true") return undefined;
  const endpoint = given("OTEL_EXPORTER_OTLP_ENDPOINT") ?? config.endpoint ?? DEFAULT_ENDPOINT;
  return {
    // The variable for traces is used as written, the other is a base.
    url: given("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") ?? `${endpoint.replace(/(?<!\/)\/+$/, "")}/${TRACES_PATH}`,
    headers: headersIn(given("OTEL_EXPORTER_OTLP_TRACES_HEADERS") ?? given("OTEL_EXPORTER_OTLP_HEADERS") ?? ""),
    serviceName: given("OTEL_SERVICE_NAME") ?? config.service_name,
  };
}

/** Headers in the variables' format: `name=value,name=value`, percent-encoded. */
function headersIn(text: string): Readonly<Record<string, string>> {
  return Object.fromEntries(
    text.split(",").flatMap((pair) => {
      const at = pair.indexOf("=");
      if (at < 1) return [];
      return [[decoded(pair.slice(0, at)).toLowerCase(), decoded(pair.slice(at + 1))]];
    }),
  );
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text.trim());
  } catch {
    return text.trim();
  }
}
