import { describe, expect, it } from "vitest";
import { secretsIn } from "../tools/shell.ts";
import { exportSettings } from "./exporter.ts";

const ON = { enabled: true, capture_content: false, service_name: "rkat" };

describe("where spans are sent", () => {
  it("[G9] an address in the environment alone switches nothing on", () => {
    const env = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318" };
    expect(exportSettings({ ...ON, enabled: false }, env)).toBeUndefined();
  });

  it("[G9] OTEL_SDK_DISABLED switches off what the configuration enables", () => {
    expect(exportSettings(ON, { OTEL_SDK_DISABLED: "True" })).toBeUndefined();
    expect(exportSettings(ON, { OTEL_SDK_DISABLED: "false" })).toBeDefined();
  });

  it("[G9] the collector of this machine is asked unless the file or the environment names another", () => {
    const urlOf = (config: object, env: Record<string, string> = {}) => exportSettings({ ...ON, ...config }, env)?.url;
    expect(urlOf({})).toBe("http://localhost:4318/v1/traces");
    expect(urlOf({ endpoint: "http://file:4318/" })).toBe("http://file:4318/v1/traces");
    const general = { OTEL_EXPORTER_OTLP_ENDPOINT: "https://env/otlp" };
    expect(urlOf({ endpoint: "http://file:4318" }, general)).toBe("https://env/otlp/v1/traces");
    const traces = { ...general, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "https://env/only-traces" };
    expect(urlOf({}, traces)).toBe("https://env/only-traces");
    expect(urlOf({}, { OTEL_EXPORTER_OTLP_ENDPOINT: "  " })).toBe("http://localhost:4318/v1/traces");
  });

  it("[G9] headers and the service's name are those of the environment", () => {
    const env = {
      OTEL_SERVICE_NAME: "billing",
      OTEL_EXPORTER_OTLP_HEADERS: "Authorization=Basic%20abc==, x-team = a%2Cb ,broken,=none,bad=%E0%A4%A",
    };
    expect(exportSettings(ON, env)).toEqual({
      url: "http://localhost:4318/v1/traces",
      serviceName: "billing",
      headers: { authorization: "Basic abc==", "x-team": "a,b", bad: "%E0%A4%A" },
    });
  });

  it("[H3] what gives access to the collector is a secret, and no command of a tool sees it", () => {
    const env = { OTEL_EXPORTER_OTLP_HEADERS: "a=1", OTEL_EXPORTER_OTLP_TRACES_HEADERS: "b=2", ACCEPT_HEADERS: "c=3" };
    expect(secretsIn(env)).toEqual(["a=1", "b=2"]);
  });
});
