import { globSync, readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { defineConfig, type Plugin } from "rolldown";
import { builtinsOnFirstCall } from "./builtins-on-first-call.ts";

const isValue = (id: string) => /\/src\/(?:contract\/wire-table|config\/default-config)\.ts$/.test(id);

/** What is derived from the schemas for callers is bundled as its value: a client then loads no schema, and no zod. */
const asValue = {
  name: "as-value",
  load: async (id: string) => {
    if (!isValue(id)) return null;
    const module: Readonly<Record<string, unknown>> = await import(id);
    return Object.entries(module)
      .map(([name, value]) => `export const ${name} = JSON.parse(${JSON.stringify(JSON.stringify(value))});`)
      .join("\n");
  },
};

/** Loaded by a Node that is too old as well, to say so in a sentence. */
const warnsOldNode = (path: string) => /\/src\/(?:cli|run-server)\.ts$/.test(path);

/** The console's page, with the names that its files have by what is in them: a browser may keep them for ever. */
const consolePage: Plugin = {
  name: "console-page",
  generateBundle(_, bundle) {
    const asset = (name: string, paths: readonly string[]): string => {
      const source = paths.map((path) => readFileSync(path, "utf8")).join("");
      return this.getFileName(this.emitFile({ type: "asset", name, source }));
    };
    // The theme first: screens say what differs from it.
    const styles = ["console/theme.css", ...globSync("console/screens/**/*.css").sort()];
    const entry = Object.values(bundle).find((file) => file.type === "chunk" && file.isEntry);
    const names = {
      icon: asset("icon.svg", ["console/icon.svg"]),
      style: asset("console.css", styles),
      script: entry?.fileName ?? "",
    };
    const page = readFileSync("console/index.html", "utf8").replace(
      /\{(icon|style|script)\}/g,
      (_whole, name: string) => (name === "icon" ? names.icon : name === "style" ? names.style : names.script),
    );
    this.emitFile({ type: "asset", fileName: "index.html", source: page });
  },
};

/** What some doors load at once, by following the imports that are not made later. */
function loadedBy(...doors: readonly string[]): ReadonlySet<string> {
  const found = new Set<string>();
  const follow = (path: string): void => {
    if (found.has(path)) return;
    found.add(path);
    if (isValue(path)) return;
    const source = readFileSync(path, "utf8");
    for (const [, from = ""] of source.matchAll(/^(?:import|export)(?! type\b)[^;]*? from "(\.[^"]+)";/gms))
      follow(resolve(dirname(path), from));
  };
  for (const door of doors) follow(resolve(door));
  return found;
}

/** Loaded by the opening of a folder, whoever opens it. */
const FOLDER = [
  "src/stores/embedded/config-file.ts",
  "src/stores/embedded/open.ts",
  "src/stores/recall/open.ts",
  "src/projections/rkat-files.ts",
];
const [index, client, folder] = [loadedBy("src/index.ts"), loadedBy("src/client.ts"), loadedBy(...FOLDER)];
/** What threads and processes of ours run, under the names that `workerFile` knows them by. */
const WORKERS = [
  "embedders/model-process",
  "service/reading-thread",
  "service/schema-thread",
  "stores/embedded/scan-thread",
];
const threads = loadedBy("src/service/reading-thread.ts", "src/service/schema-thread.ts");

// Few files, since each takes half a millisecond to find, and each with what is needed together: a short command, a
// client and a thread load theirs without the rest.
const groups = [
  // Alone: whoever is too old for the rest can still load it.
  { name: "node-version", test: /\/src\/service\/node-version\.ts$/ },
  { name: "zod", test: /node_modules\/zod\// },
  { name: "client", test: (id: string) => index.has(id) && client.has(id) },
  { name: "text", test: (id: string) => index.has(id) && threads.has(id) },
  { name: "contract", test: (id: string) => index.has(id) && id.includes("/src/contract/") },
  { name: "runtime", test: (id: string) => index.has(id) || /node_modules\/smol-toml\//.test(id) },
  { name: "folder", test: (id: string) => folder.has(id) },
];

const EXTERNAL = [
  /^@agentclientprotocol\//,
  /^@ai-sdk\//,
  /^@modelcontextprotocol\//,
  /^@opentelemetry\//,
  "@cfworker/json-schema",
  "commander",
  "pg",
  "string-width",
  "yaml",
];

// One file where there were hundreds: most of a short command's time was the loading of modules, and of zod's most of all.
export default defineConfig([
  {
    input: {
      index: "src/index.ts",
      client: "src/client.ts",
      cli: "src/cli.ts",
      rpc: "src/rpc.ts",
      rest: "src/rest.ts",
      mcp: "src/mcp.ts",
      acp: "src/acp.ts",
      ...Object.fromEntries(WORKERS.map((name) => [name, `src/${name}.ts`])),
    },
    platform: "node",
    plugins: [asValue, builtinsOnFirstCall((path) => !warnsOldNode(path))],
    external: EXTERNAL,
    output: {
      dir: "dist",
      format: "esm",
      chunkFileNames: "chunks/[name]-[hash].js",
      codeSplitting: { groups, includeDependenciesRecursively: false },
    },
  },
  // Apart from the others: a chunk that is shared with them would bring stores and servers to whoever keeps an own loop.
  {
    input: { "ai-sdk": "src/ai-sdk.ts" },
    platform: "node",
    plugins: [asValue],
    external: EXTERNAL,
    output: { dir: "dist", format: "esm", chunkFileNames: "chunks/ai-sdk-[name]-[hash].js" },
  },
  // Apart as well: a chunk that is shared could bring something of Node into a page.
  {
    input: { "client-browser": "src/clients/browser.ts" },
    platform: "browser",
    plugins: [asValue],
    output: { dir: "dist", format: "esm" },
  },
  {
    input: { console: "console/main.tsx" },
    platform: "browser",
    plugins: [asValue, consolePage],
    transform: { jsx: { runtime: "automatic", importSource: "preact" } },
    output: {
      dir: "dist/console",
      format: "esm",
      minify: true,
      entryFileNames: "assets/[name]-[hash].js",
      chunkFileNames: "assets/[name]-[hash].js",
      assetFileNames: "assets/[name]-[hash][extname]",
    },
  },
]);
