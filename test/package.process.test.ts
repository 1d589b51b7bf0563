import { execFile, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { defaultConfig } from "@rkat/core/config/settings";
import { nodeFault } from "@rkat/core/runtime/node-version";
import { openApiDocument } from "@rkat/server/rest/openapi";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const root = join(import.meta.dirname, "..");
/** The packages as they are published. */
const packed = join(root, "build/packed/node_modules");
const [sdk, cli] = [join(packed, "@rkat/node/dist/index.js"), join(packed, "rkat/dist/cli.js")];
let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "rkat-package-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Counts the schemas that are made, and lists what is loaded, at each step of a start. */
const WATCHED = `
  import { registerHooks } from "node:module";
  const urls = [];
  globalThis.schemasMade = 0;
  registerHooks({
    load: (url, context, next) => {
      urls.push(url);
      const loaded = next(url, context);
      if (!url.includes("/chunks/zod-")) return loaded;
      return { ...loaded, source: String(loaded.source).replace("function _(def) {", "$&globalThis.schemasMade += 1;") };
    },
  });
  const steps = [];
  const step = (what) => steps.push({ what, schemas: globalThis.schemasMade, urls: urls.splice(0) });
  const { openRuntime, defaultConfig } = await import(process.argv[1]);
  step("import");
  const runtime = await openRuntime({ stateFolder: process.argv[2], model: "offline", env: {} });
  step("open");
  await runtime.createSession("Hello.");
  step("turn");
  await runtime.close();
  console.log(JSON.stringify({ steps, config: defaultConfig() }));
`;

/** A Node of the machine's own that is too old for us, where there is one. */
async function oldNode(): Promise<string | undefined> {
  for (const path of ["/usr/bin/node", "/usr/local/bin/node"].filter((one) => existsSync(one))) {
    const { stdout } = await promisify(execFile)(path, ["--version"]);
    if (nodeFault(stdout.trim().slice(1)) !== undefined) return path;
  }
  return undefined;
}

interface Watched {
  readonly steps: readonly { readonly what: string; readonly schemas: number; readonly urls: readonly string[] }[];
  readonly config: unknown;
}

describe("the packages as they are built", () => {
  it("makes no schema, and loads no package and nothing it can do without, before the first turn", async () => {
    const args = ["--input-type=module", "-e", WATCHED, sdk, join(folder, "state")];
    const { stdout } = await promisify(execFile)(process.execPath, args);
    const { steps, config }: Watched = JSON.parse(stdout);
    expect(steps.map(({ what, schemas }) => [what, schemas > 0])).toEqual([
      ["import", false],
      ["open", false],
      ["turn", true],
    ]);
    const files = steps.map(({ urls }) => urls.map((url) => url.replace(/^.*\/|-[\w-]{8}\.js$/g, "")).sort());
    expect(files.slice(0, 2)).toEqual([
      // Of @rkat/node: core, index, runtime; of @rkat/core the others.
      [
        ...["client", "contract", "core", "index.js", "index.js", "internal.js", "node-version.js"],
        ...["rolldown-runtime", "rolldown-runtime", "runtime", "runtime", "text", "zod"],
      ],
      // The models that the configuration names can be asked for by name.
      ["folder", "load-config.js", "open.js"],
    ]);
    // A key that has no value is not in JSON.
    expect(config).toEqual(JSON.parse(JSON.stringify(defaultConfig())));
  });

  it("[H1] a Node that is too old is told so by whatever composes a runtime", async ({ skip }) => {
    const node = await oldNode();
    if (node === undefined) return skip("there is no Node below 22.18 on this machine");
    const { stdout } = await promisify(execFile)(node, [
      "--input-type=module",
      "-e",
      `const { createRuntime, openRuntime, openEmbeddedStore, copyStore } = await import(process.argv[1]);
       const calls = [() => createRuntime({ model: "offline" }), () => openRuntime({ stateFolder: "x" }),
         () => openEmbeddedStore("x"), () => copyStore({ place: "x" }, { place: "y" })];
       for (const call of calls) await (async () => call())().catch(({ message }) => console.log(message));`,
      sdk,
    ]);
    expect(stdout).toMatch(/^(?:rkat needs Node 22\.18 or newer; this is Node \d+\.\d+\.\d+\.\n){4}$/);
  });

  it("has every schema as the sources say it", async () => {
    const env = { PATH: process.env.PATH, HOME: folder, RKAT_MODEL: "offline" };
    const server = spawn(process.execPath, [cli, "serve", "--port", "0", "--json"], { cwd: folder, env });
    try {
      let said = "";
      for await (const data of server.stdout) {
        said += data;
        if (said.includes("\n")) break;
      }
      const { url } = JSON.parse(said) as { url: string }; // What `--json` promises.
      const { version } = JSON.parse(readFileSync(join(packed, "rkat/package.json"), "utf8")) as { version: string };
      const served = await (await fetch(`${url}/openapi.json`)).json();
      expect(served).toEqual(JSON.parse(JSON.stringify(openApiDocument(version)(url))));
    } finally {
      const closed = new Promise((resolve) => server.once("close", resolve));
      server.kill("SIGKILL");
      await closed;
    }
  });
});
