import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Collector, openCollector } from "./support/collector.ts";
import { startRkat } from "./support/rkat-process.ts";

let folder: string;
let collector: Collector;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "rkat-telemetry-"));
  collector = await openCollector();
});
afterEach(async () => {
  await collector.close();
  rmSync(folder, { recursive: true, force: true });
});

const ASK = ["run", "What is 6 * 7? The password is zebrafish.", "-m", "offline"];

function configure(lines: string): void {
  writeFileSync(join(folder, "rkat.toml"), `[telemetry]\n${lines}\n`);
}

describe("rkat run", () => {
  it("[G9] sends its spans to the collector before it ends", async () => {
    configure(`enabled = true\nendpoint = "${collector.endpoint}"\nservice_name = "kettle"`);
    const env = { OTEL_EXPORTER_OTLP_HEADERS: "authorization=Basic%20b2s6b2s=" };
    const { code, stderr } = await startRkat(folder, ASK, { env }).ended;
    expect({ code, stderr }).toEqual({ code: 0, stderr: expect.not.stringContaining("telemetry") });
    const spans = collector.spans();
    expect(spans.map(({ name }) => name).toSorted()).toEqual(["chat offline", "invoke_agent"]);
    const turn = spans.find(({ name }) => name === "invoke_agent");
    expect(spans.find(({ name }) => name === "chat offline")).toMatchObject({
      parentSpanId: turn?.spanId,
      traceId: turn?.traceId,
    });
    expect(collector.requests).toMatchObject([{ path: "/v1/traces", headers: { authorization: "Basic b2s6b2s=" } }]);
    expect(collector.requests[0]?.body).toContain('"stringValue":"kettle"');
    expect(collector.requests[0]?.body).not.toContain("zebrafish");
  });

  it("[G9] sends nothing because of an address alone, and something when a variable enables it", async () => {
    const env = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.endpoint };
    expect((await startRkat(folder, ASK, { env }).ended).code).toBe(0);
    expect(collector.requests).toEqual([]);
    expect((await startRkat(folder, ASK, { env: { ...env, RKAT_TELEMETRY: "true" } }).ended).code).toBe(0);
    expect(collector.spans().map(({ name }) => name)).toContain("invoke_agent");
  });

  it("[G9] says in a sentence that an address is none, and answers as ever", async () => {
    const env = { RKAT_TELEMETRY: "true", OTEL_EXPORTER_OTLP_ENDPOINT: "localhost:4318" };
    const { code, stdout, stderr } = await startRkat(folder, ASK, { env }).ended;
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringContaining("42") });
    expect(stderr).toContain("! telemetry is not sent: write an address like http://localhost:4318 into");
  });

  it("[G9] says in a sentence which packages are missing, and answers as ever", async () => {
    configure(`enabled = true\nendpoint = "${collector.endpoint}"`);
    const hooks = `import { registerHooks } from "node:module";
      registerHooks({
        resolve(specifier, context, next) {
          if (!specifier.startsWith("@opentelemetry/sdk")) return next(specifier, context);
          throw Object.assign(new Error("not found"), { code: "ERR_MODULE_NOT_FOUND" });
        },
      });`;
    const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(hooks)}` };
    const { code, stdout, stderr } = await startRkat(folder, ASK, { env }).ended;
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringContaining("42") });
    expect(stderr).toContain(
      "! telemetry is enabled and its packages are not installed, so nothing is sent; npm install @opentelemetry/sdk-trace",
    );
    expect(collector.requests).toEqual([]);
  });

  it("[G9] answers as ever when no collector is there, and says so once", async () => {
    const { endpoint } = collector;
    await collector.close();
    configure(`enabled = true\nendpoint = "${endpoint}"`);
    const { code, stdout, stderr } = await startRkat(folder, ASK).ended;
    collector = await openCollector();
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringContaining("42") });
    expect(stderr.split("\n").filter((line) => line.includes("telemetry"))).toEqual([
      expect.stringMatching(
        /^! telemetry cannot be sent to http:\/\/127\.0\.0\.1:\d+\/v1\/traces \(.+\); it is dropped, and this is reported once$/,
      ),
    ]);
  });
});
