import { globSync, readFileSync } from "node:fs";
import { dirname, relative, resolve } from "node:path";
import { defineConfig, type Plugin } from "rolldown";
import { parseSync } from "rolldown/utils";
import { builtinsOnFirstCall } from "./builtins-on-first-call.ts";

const isValue = (id: string) => /\/core\/src\/(?:contract\/wire\/wire-table|config\/default-config)\.ts$/.test(id);

/** Values derived from the schemas are bundled as values: a client then loads no schema and no zod. */
const asValue: Plugin = {
  name: "as-value",
  load: async (id: string) => {
    if (!isValue(id)) return null;
    const module: Readonly<Record<string, unknown>> = await import(id);
    return Object.entries(module)
      .map(([name, value]) => `export const ${name} = JSON.parse(${JSON.stringify(JSON.stringify(value))});`)
      .join("\n");
  },
};

/** These files are also loaded by a Node that is too old, and report it in a sentence. */
const reportsOldNode = (path: string) => /\/rkat\/src\/(?:cli|run-server)\.ts$/.test(path);

const onNode = [asValue, builtinsOnFirstCall((path) => !path.startsWith("\0") && !reportsOldNode(path))];

const EXTERNAL = [
  /^@agentclientprotocol\//,
  /^@ai-sdk\//,
  /^@modelcontextprotocol\//,
  /^@opentelemetry\//,
  "@cfworker/json-schema",
  "commander",
  "jsonc-parser",
  "pg",
  "string-width",
  "yaml",
];
const OURS = /^@rkat\//;
const isExternal = (id: string) =>
  [...EXTERNAL, OURS].some((one) => (typeof one === "string" ? one === id : one.test(id)));

const IMPORT = /^(?:import|export)(?! type\b)[^;]*? from "([^"]+)";|\bimport\("([^"]+)"\)/gms;

/** The source file that an import of ours names; undefined for other packages. */
function sourceOf(from: string, specifier: string): string | undefined {
  if (specifier.startsWith(".")) return resolve(dirname(from), specifier);
  const [, name, path = "index"] = /^@rkat\/(\w+)(?:\/(.+))?$/.exec(specifier) ?? [];
  return name === undefined ? undefined : resolve(`packages/${name}/src/${path}.ts`);
}

/** The files that entries load at once: static imports are followed, dynamic ones are not. */
function loadedBy(...entries: readonly string[]): ReadonlySet<string> {
  const found = new Set<string>();
  const follow = (path: string): void => {
    if (found.has(path)) return;
    found.add(path);
    if (isValue(path)) return;
    for (const [, specifier] of readFileSync(path, "utf8").matchAll(IMPORT)) {
      const source = specifier && sourceOf(path, specifier);
      if (source) follow(source);
    }
  };
  for (const entry of entries) follow(resolve(entry));
  return found;
}

/** Modules that run as a thread or a process of their own; `workerFile` finds them by these paths. */
const CORE_WORKERS = ["compactions/reading-thread", "sessions/schema-thread"];
const NODE_WORKERS = ["embedders/model-process", "log/scan-thread"];
const inPackage = (name: string, modules: readonly string[]) =>
  Object.fromEntries(modules.map((module) => [module, `packages/${name}/src/${module}.ts`]));

/** What other packages import of a package: each is an entry of its bundle. */
function entriesOf(name: string): Record<string, string> {
  const root = resolve(`packages/${name}/src`);
  const sources = globSync("packages/*/src/**/*.ts").filter((path) => !path.endsWith(".test.ts"));
  const imported = sources
    .filter((path) => !path.startsWith(`packages/${name}/`))
    .flatMap((path) =>
      [...readFileSync(path, "utf8").matchAll(IMPORT)].map(([, one, other]) => sourceOf(path, one ?? other ?? "")),
    );
  const entries = imported.filter((path) => path?.startsWith(`${root}/`));
  return Object.fromEntries([...new Set(entries)].map((path = "") => [relative(root, path).slice(0, -3), path]));
}

/** What the import of `@rkat/node` loads at once, of core as well. */
const loadedAtOnce = loadedBy("packages/node/src/index.ts");
const INTERNAL = "internal";

/** The names that a module exports, each as it is called in `@rkat/core/internal`. */
function internalNames(path: string): readonly (readonly [string, string])[] {
  const { staticExports } = parseSync(path, readFileSync(path, "utf8")).module;
  const entries = staticExports.flatMap(({ entries }) => entries).filter(({ isType }) => !isType);
  const prefix = relative("packages/core/src", path).replace(/\.ts$/, "").replaceAll(/\W/g, "_");
  return entries.flatMap(({ exportName: { name } }) => (name === null ? [] : [[name, `${prefix}$${name}`] as const]));
}

/**
 * Core's modules that are loaded anyway reach the other packages through one file, `@rkat/core/internal`: a file for
 * each of them took the import of `@rkat/node` half as long again.
 */
const throughOneFile: Plugin = {
  name: "through-one-file",
  resolveId: (id, from) => {
    if (id === INTERNAL) return `\0${INTERNAL}`;
    const path = /^@rkat\/core\//.test(id) && from !== undefined ? sourceOf(from, id) : undefined;
    return path !== undefined && loadedAtOnce.has(path) ? `\0core:${path}` : null;
  },
  load: (id) => {
    if (id === `\0${INTERNAL}`) {
      const paths = Object.values(entriesOf("core")).filter((path) => loadedAtOnce.has(path));
      const exported = paths.map((path) => {
        const names = internalNames(path).map(([name, alias]) => `${name} as ${alias}`);
        return `export { ${names.join(", ")} } from ${JSON.stringify(path)};`;
      });
      return exported.join("\n");
    }
    if (!id.startsWith("\0core:")) return null;
    const names = internalNames(id.slice("\0core:".length)).map(([name, alias]) => `${alias} as ${name}`);
    return `export { ${names.join(", ")} } from "@rkat/core/${INTERNAL}";`;
  },
};

const text = loadedBy(...Object.values(inPackage("core", CORE_WORKERS)));
/** Loaded by the opening of a state folder. */
const folder = loadedBy(
  "packages/node/src/log/config-file.ts",
  "packages/node/src/log/open.ts",
  "packages/node/src/recall-index/open.ts",
  "packages/node/src/projections/rkat-files.ts",
);

/** Few files, since each takes half a millisecond to find; each holds modules that are needed together. */
function groupsOf(entry: string) {
  const [index, client] = [loadedBy(entry), loadedBy("packages/client/src/index.ts")];
  return [
    // Alone: a Node that is too old for the rest can still load it.
    { name: "node-version", test: /\/runtime\/node-version\.ts$/ },
    { name: "zod", test: /node_modules\/zod\// },
    { name: "core", test: /^\0core:/ },
    { name: "client", test: (id: string) => index.has(id) && client.has(id) },
    { name: "text", test: (id: string) => index.has(id) && text.has(id) },
    { name: "contract", test: (id: string) => index.has(id) && id.includes("/core/src/contract/") },
    { name: "runtime", test: (id: string) => index.has(id) || /node_modules\/smol-toml\//.test(id) },
    { name: "folder", test: (id: string) => folder.has(id) },
  ];
}

/** A module that a static import brings anyway is also imported where it is needed: that is no mistake. */
const QUIET = { preserveEntrySignatures: "allow-extension", checks: { ineffectiveDynamicImport: false } } as const;

const outputTo = (name: string) => ({
  dir: `packages/${name}/dist`,
  format: "esm" as const,
  chunkFileNames: "chunks/[name]-[hash].js",
});

const library = (name: string, entry: string) => ({
  ...QUIET,
  input: {
    ...entriesOf(name),
    ...(name === "core" ? { ...inPackage(name, CORE_WORKERS), [INTERNAL]: INTERNAL } : {}),
  },
  platform: "node" as const,
  plugins: [throughOneFile, ...onNode],
  // Of core's modules those that `throughOneFile` leaves are external.
  external: (id: string) =>
    isExternal(id) && !(id.startsWith("@rkat/core/") && loadedAtOnce.has(sourceOf("", id) ?? "")),
  output: { ...outputTo(name), codeSplitting: { groups: groupsOf(entry), includeDependenciesRecursively: false } },
});

/** The console's page; its files are named by their content, so that a browser may keep them for ever. */
const consolePage: Plugin = {
  name: "console-page",
  generateBundle(_, bundle) {
    const home = "packages/console";
    const asset = (name: string, paths: readonly string[]): string => {
      const source = paths.map((path) => readFileSync(path, "utf8")).join("");
      return this.getFileName(this.emitFile({ type: "asset", name, source }));
    };
    // The theme first: screens say what differs from it.
    const styles = [`${home}/theme.css`, ...globSync(`${home}/screens/**/*.css`).sort()];
    const entry = Object.values(bundle).find((file) => file.type === "chunk" && file.isEntry);
    // A page that holds the script itself must not contain this; the Markdown parser has it in texts and expressions.
    if (entry?.type === "chunk") entry.code = entry.code.replaceAll("<!--", "\\x3c!--");
    const names = {
      icon: asset("icon.svg", [`${home}/icon.svg`]),
      style: asset("console.css", styles),
      script: entry?.fileName ?? "",
    };
    const page = readFileSync(`${home}/index.html`, "utf8").replace(
      /\{(icon|style|script)\}/g,
      (_whole, name: string) => (name === "icon" ? names.icon : name === "style" ? names.style : names.script),
    );
    this.emitFile({ type: "asset", fileName: "index.html", source: page });
  },
};

// Every bundle is built from sources: no package's build needs another's output.
export default defineConfig([
  library("core", "packages/node/src/index.ts"),
  library("node", "packages/node/src/index.ts"),
  library("postgres", "packages/postgres/src/index.ts"),
  library("server", "packages/server/src/rest/start.ts"),
  // Workers hold what they take of core, and so are quick to start.
  {
    input: inPackage("node", NODE_WORKERS),
    platform: "node",
    plugins: onNode,
    external: EXTERNAL,
    output: { ...outputTo("node"), chunkFileNames: "chunks/worker-[name]-[hash].js" },
  },
  // By itself: it keeps the loop of its caller, and loads neither stores nor servers.
  {
    input: { "ai-sdk": "packages/core/src/ai-sdk.ts" },
    platform: "node",
    plugins: [asValue],
    external: EXTERNAL,
    output: { ...outputTo("core"), chunkFileNames: "chunks/ai-sdk-[name]-[hash].js" },
  },
  // The client has no dependency: its bundle holds what it takes of core.
  {
    input: { index: "packages/client/src/index.ts" },
    platform: "node",
    plugins: [asValue],
    output: outputTo("client"),
  },
  {
    input: { browser: "packages/client/src/browser.ts" },
    platform: "browser",
    plugins: [asValue],
    output: outputTo("client"),
  },
  // The commands hold all packages: most of a short command's time is the loading of modules.
  {
    ...QUIET,
    input: Object.fromEntries(
      ["cli", "rpc", "rest", "mcp", "acp"].map((name) => [name, `packages/rkat/src/${name}.ts`]),
    ),
    platform: "node",
    plugins: onNode,
    external: EXTERNAL,
    output: {
      ...outputTo("rkat"),
      codeSplitting: { groups: groupsOf("packages/node/src/index.ts"), includeDependenciesRecursively: false },
    },
  },
  {
    input: Object.fromEntries(
      ["index", "doors/client", "doors/client-browser", "doors/ai-sdk", "doors/server"].map((name) => [
        name,
        `packages/rkat/src/${name}.ts`,
      ]),
    ),
    external: [OURS],
    output: outputTo("rkat"),
  },
  {
    input: { console: "packages/console/main.tsx" },
    platform: "browser",
    plugins: [asValue, consolePage],
    output: {
      dir: "packages/server/dist/console",
      format: "esm",
      minify: true,
      entryFileNames: "assets/[name]-[hash].js",
      chunkFileNames: "assets/[name]-[hash].js",
      assetFileNames: "assets/[name]-[hash][extname]",
    },
  },
]);
