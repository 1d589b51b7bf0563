import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";

/** Runs a turn with a tool and a search in a process of its own and prints which files it loaded. */
const PROGRAM = `
  const { registerHooks } = await import("node:module");
  const loaded = new Set();
  registerHooks({
    load(url, context, next) {
      loaded.add(url);
      return next(url, context);
    },
  });
  const { createRuntime, createScriptedModel } = await import(process.argv[1]);
  const model = createScriptedModel([{ calls: [{ name: "memory_search", args: { query: "x" } }] }, { text: "Done." }]);
  const runtime = createRuntime({ model, memory: {}, compaction: true, ...JSON.parse(process.argv[2]) });
  await runtime.createSession("Hi.");
  await runtime.close();
  process.stdout.write(JSON.stringify([...loaded]));
`;

async function loadedBy(options: object): Promise<readonly string[]> {
  const door = new URL("../../../node/src/index.ts", import.meta.url).href;
  const args = ["--input-type=module", "--eval", PROGRAM, door, JSON.stringify(options)];
  const env = { PATH: process.env.PATH, OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9" };
  const { stdout } = await promisify(execFile)(process.execPath, args, { env });
  const loaded: readonly string[] = JSON.parse(stdout);
  return loaded;
}

const isOfTelemetry = (url: string): boolean => /@opentelemetry|\/src\/telemetry\/(?!open-later)/.test(url);

describe("telemetry that is not asked for", () => {
  it("[G9] [F2] loads nothing, whatever the environment says", async () => {
    const loaded = await loadedBy({});
    expect(loaded.some((url) => url.includes("/src/create-runtime.ts"))).toBe(true);
    expect(loaded.filter(isOfTelemetry)).toEqual([]);
  });

  it("[G9] that which is asked for loads the API and no SDK", async () => {
    const loaded = (await loadedBy({ telemetry: true })).filter(isOfTelemetry);
    expect(loaded.some((url) => url.includes("@opentelemetry/api/"))).toBe(true);
    expect(loaded.filter((url) => /@opentelemetry\/(?!api\/)|\/export\//.test(url))).toEqual([]);
  });
});
