import { join } from "node:path";
import { createContext, runInContext } from "node:vm";
import { rolldown } from "rolldown";
import { expect, it } from "vitest";
import { openServedRuntime } from "./clients/served-runtime.ts";
import { serveRuntime } from "./support/rest-server.ts";

/** What browsers have, and nothing of Node. */
const WEB = {
  ...{ fetch, AbortController, AbortSignal, URL, URLSearchParams, Headers, Request, Response, ReadableStream },
  ...{ TextDecoder, TextEncoder, crypto, atob, btoa, setTimeout, clearTimeout },
};

/** A page's code with the client in it, as a bundler of pages makes it. */
async function bundlePage(): Promise<string> {
  const bundle = await rolldown({
    input: join(import.meta.dirname, "clients/page.ts"),
    platform: "browser",
    // As it is published: in the repository the package names its sources.
    resolve: { alias: { "rkat/client": join(import.meta.dirname, "../packages/client/dist/browser.js") } },
    onLog: (level, log) => {
      throw new Error(`${level}: ${log.message}`);
    },
  });
  const { output } = await bundle.generate({ format: "iife", name: "page", codeSplitting: false });
  expect(output).toHaveLength(1);
  return output[0].code;
}

it("[G6] a page has the same client over HTTP, with nothing of Node in it", async () => {
  const code = await bundlePage();
  expect(code).not.toMatch(/["']node:|\brequire\(|ZodType/);
  const { url } = await serveRuntime(openServedRuntime("kept"), { token: "s3cret" });
  const context = createContext({ ...WEB });
  runInContext(code, context);
  const reported = JSON.parse(await runInContext(`page.run(${JSON.stringify(url)}, "s3cret")`, context));
  const durable = ["run_started", "turn_started", "text_complete", "turn_completed", "run_completed"];
  expect(reported).toEqual({
    text: "You said: Hello from a page",
    types: [...durable.slice(0, 2), "text_delta", "text_delta", ...durable.slice(2)],
    replayed: durable,
    hasTime: true,
    codes: ["REQUEST_CANCELLED", "INVALID_PARAMS", "UNAUTHORIZED", "CAPABILITY_UNAVAILABLE"],
  });
});
