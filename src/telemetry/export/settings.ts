/** What a configuration says of telemetry. */
export interface TelemetryConfig {
  readonly enabled: boolean;
  readonly endpoint?: string | undefined;
  readonly capture_content: boolean;
  readonly service_name: string;
}

/** Where spans are sent, and as whose. */
export interface ExportSettings {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly serviceName: string;
}

const TRACES_PATH = "v1/traces";
const DEFAULT_ENDPOINT = "http://localhost:4318";

/**
 * The configuration under the standard variables, which win. Undefined when nothing is to be sent: an address in the
 * environment is there for other programs, too, and says only where, never whether.
 */
export function exportSettings(
  config: TelemetryConfig,
  env: Readonly<Record<string, string | undefined>>,
): ExportSettings | undefined {
  const given = (name: string): string | undefined => env[name]?.trim() || undefined;
  if (!config.enabled || given("OTEL_SDK_DISABLED")?.toLowerCase() === "true") return undefined;
  const endpoint = given("OTEL_EXPORTER_OTLP_ENDPOINT") ?? config.endpoint ?? DEFAULT_ENDPOINT;
  return {
    // Of the two the one for traces is taken as it is written, the other is a base.
    url: given("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") ?? `${endpoint.replace(/(?<!\/)\/+$/, "")}/${TRACES_PATH}`,
    headers: headersIn(given("OTEL_EXPORTER_OTLP_TRACES_HEADERS") ?? given("OTEL_EXPORTER_OTLP_HEADERS") ?? ""),
    serviceName: given("OTEL_SERVICE_NAME") ?? config.service_name,
  };
}

/** Headers as the variables write them: `name=value,name=value`, percent-encoded. */
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
