import { dirname } from "node:path/posix";
import { type Import, importsOf, isShipped, packageOf, type SourceFile, withoutComments } from "./source-files.ts";

/** Each rule takes files and answers with one sentence a fault, saying what to do. */
export type Rule = (files: readonly SourceFile[]) => readonly string[];

const FILE_LINES_MAX = 700;
const ROOT_ENTRIES_MAX = 24;
const FOLDER_FILES_MIN = 4;
const FOLDER_FILES_MAX = 25;
const FOLDER_LINES_MIN = 400;

/** The most lines of each package. A decision in docs/decisions raises a number. */
const PACKAGE_LINES_MAX: Readonly<Record<string, number>> = {
  core: 63_772,
  node: 15_260,
  postgres: 3_483,
  server: 13_563,
  client: 1_420,
  create: 80,
  rkat: 17_782,
  conformance: 4_637,
  console: 7_070,
};

interface Layer {
  readonly name: string;
  /** Its rooms, which are folders of a package: `core/turn`. */
  readonly rooms: RegExp;
  /** The layers it may import besides itself. */
  readonly sees: readonly string[];
  /** Whether its rooms do not see each other. */
  readonly isApart?: true;
}

/** Files beside the rooms of a package compose them, and may import everything that its manifest names. */
const LAYERS: readonly Layer[] = [
  { name: "contract", rooms: /^core\/contract$/, sees: [] },
  { name: "text", rooms: /^core\/text$/, sees: [] },
  { name: "ports", rooms: /^core\/ports$/, sees: ["contract"] },
  { name: "settings", rooms: /^core\/config$/, sees: ["contract", "ports"] },
  {
    name: "policy",
    rooms: /^core\/(?:turn|state|compaction|grounding|permission|agent-memory|recall)$/,
    sees: ["contract", "ports", "text"],
  },
  {
    name: "adapters",
    rooms: /^core\/(?:providers|tools|telemetry|stores)$/,
    sees: ["contract", "ports", "text"],
    isApart: true,
  },
  {
    name: "service",
    rooms: /^core\/(?:runtime|sessions|compactions|memory|erasure|transfer|replay|sub-agents|skills|agents|schedules)$/,
    sees: ["policy", "contract", "ports", "text"],
  },
  { name: "wasm", rooms: /^node\/wasm$/, sees: [] },
  {
    name: "files",
    rooms: /^node\/(?:log|tables|backup|recall-index|projections|embedders)$/,
    sees: ["adapters", "contract", "ports", "text", "wasm"],
  },
  { name: "config files", rooms: /^node\/config$/, sees: ["settings", "contract", "ports"] },
  { name: "http", rooms: /^server\/http$/, sees: ["service", "settings", "config files", "contract", "ports", "text"] },
  {
    name: "surfaces",
    rooms: /^server\/(?:rest|rpc|mcp|acp)$/,
    sees: ["http", "service", "config files", "contract", "ports", "text"],
    isApart: true,
  },
  {
    name: "chat routes",
    rooms: /^server\/(?:openai|ui-stream)$/,
    sees: ["http", "service", "contract", "ports", "text"],
  },
];

/** Folders of packages that compose others. */
const COMPOSING = /^(?:rkat|conformance|postgres|client)\//;

/** Where a dependency lives. One folder can then say what it costs to replace it. */
const HOMES: Readonly<Record<string, readonly string[]>> = {
  zod: ["core/contract/", "core/config/", "core/tools/"],
  "@agentclientprotocol/sdk": ["server/acp/"],
  "@ai-sdk/anthropic": ["core/providers/"],
  "@ai-sdk/google": ["core/providers/"],
  "@ai-sdk/openai": ["core/providers/"],
  "@ai-sdk/provider": ["core/providers/", "core/ai-sdk.ts", "node/embedders/"],
  "@cfworker/json-schema": ["core/turn/"],
  "@codemirror/legacy-modes": ["rkat/chat/"],
  "@codemirror/streamparser": ["rkat/chat/"],
  "@modelcontextprotocol/client": ["core/tools/mcp/"],
  "@modelcontextprotocol/core": ["server/mcp/"],
  "@modelcontextprotocol/server": ["server/mcp/"],
  "@opentelemetry/api": ["core/telemetry/"],
  "@opentelemetry/exporter-trace-otlp-http": ["core/telemetry/"],
  "@opentelemetry/resources": ["core/telemetry/"],
  "@opentelemetry/sdk-trace": ["core/telemetry/"],
  "@preact/signals": ["console/"],
  // The types of AI SDK models, which ours take, speak of it and do not bring it along.
  "@types/json-schema": ["core/providers/"],
  commander: ["rkat/"],
  croner: ["core/schedules/"],
  "fs-native-extensions": ["node/log/"],
  "jsonc-parser": ["rkat/connect/"],
  "markdown-it": ["console/"],
  pg: ["postgres/"],
  preact: ["console/"],
  "smol-toml": ["node/config/"],
  "string-width": ["rkat/"],
  unbash: ["core/permission/"],
  yaml: ["node/config/"],
};

/** Layers that never see the machine: what they need of it is handed in. */
const PURE =
  /^packages\/(?:core\/src\/(?:contract|ports|text|config|turn|state|compaction|grounding|permission|agent-memory|recall)|node\/src\/wasm)\//;

/**
 * The composition root looks up the defaults of what can be handed in. Node has no other call that ends a command
 * together with what it started than `process.kill` on its group, and a process no other way to speak with its parent.
 */
const MAY_TOUCH: readonly { readonly path: RegExp; readonly uses: RegExp }[] = [
  { path: /^packages\/rkat\/src\/(?:cli|run-server)\.ts$/, uses: /./ },
  { path: /^packages\/client\/src\/index\.ts$/, uses: /^process\.(?:env|execPath)$/ },
  {
    path: /^packages\/(?:core|node)\/src\/(?:create|open)-runtime\.ts$/,
    uses: /^process\.(?:env|cwd|emitWarning|pid|kill|versions)$/,
  },
  { path: /^packages\/node\/src\/store-places\.ts$/, uses: /^process\.(?:env|cwd|pid|versions)$/ },
  { path: /^packages\/node\/src\/embedders\/model-child\.ts$/, uses: /^process\.env$/ },
  {
    path: /^packages\/node\/src\/embedders\/model-process\.ts$/,
    uses: /^process\.(?:kill|on|once|pid|send|versions)$/,
  },
  { path: /^packages\/core\/src\/tools\/(?:command|shell)\.ts$/, uses: /^process\.kill$/ },
  // What a process has used nobody else knows.
  { path: /^packages\/server\/src\/http\/metrics\.ts$/, uses: /^process\.(?:cpuUsage|memoryUsage|uptime)$/ },
];

/** The room of a file: its package and the folder of it that the file lies in; undefined beside the rooms. */
function roomOf(path: string): string | undefined {
  const [, name, room] = /^packages\/(\w+)\/src\/([^/]+)\//.exec(path) ?? [];
  return room === undefined ? undefined : `${name}/${room}`;
}

const layerOf = (room: string) => LAYERS.find(({ rooms }) => rooms.test(room));

export const layerFaults: Rule = (files) =>
  files.filter(isShipped).flatMap((file) => {
    const room = roomOf(file.path);
    if (room === undefined || COMPOSING.test(room)) return [];
    const layer = layerOf(room);
    if (layer === undefined) return [`${file.path} is in no layer: move it into one, or add its room to LAYERS`];
    return importsOf(file).flatMap((imported) => layerFault(file.path, { room, layer }, imported));
  });

function layerFault(
  path: string,
  { room, layer }: { room: string; layer: Layer },
  imported: Import,
): readonly string[] {
  const { target, specifier, kind } = imported;
  const other = target === undefined ? undefined : roomOf(target);
  if (target === undefined || other === room) return [];
  const to = other === undefined ? undefined : layerOf(other);
  if (to === layer ? !layer.isApart : to !== undefined && layer.sees.includes(to.name)) return [];
  // A server is handed a runtime, and takes only its type.
  if (kind === "type" && room.startsWith("server/") && /^packages\/node\/src\/[^/]+\.ts$/.test(target)) return [];
  const what = to === layer ? other : (to?.name ?? "it");
  return [`${path} imports ${specifier}: ${room} may not see ${what}; use a port or hand in a function`];
}

interface Manifest {
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
}

function manifestsOf(files: readonly SourceFile[]): ReadonlyMap<string, Manifest> {
  const found = files.filter(({ path }) => /^packages\/\w+\/package\.json$/.test(path));
  return new Map(found.map(({ path, text }) => [path.split("/")[1] ?? "", JSON.parse(text)]));
}

/** Dependencies of the build alone: our bundles hold their code. */
const BUNDLED = ["@codemirror/legacy-modes", "@codemirror/streamparser"];

/** Our packages that a bundle of another holds. */
const HELD: Readonly<Record<string, readonly string[]>> = { client: ["@rkat/core"], rkat: ["@rkat/conformance"] };

/** A package imports only packages that its manifest names. */
export const manifestFaults: Rule = (files) => {
  const manifests = manifestsOf(files);
  return files.filter(isShipped).flatMap((file) => {
    const owner = file.path.split("/")[1] ?? "";
    const { dependencies, peerDependencies } = manifests.get(owner) ?? {};
    const named = [...Object.keys({ ...dependencies, ...peerDependencies }), ...BUNDLED, ...(HELD[owner] ?? [])];
    return importsOf(file)
      .flatMap(({ specifier }) => packageOf(specifier) ?? [])
      .filter((name) => !named.includes(name))
      .map((name) => `${file.path} imports ${name}, which the manifest of its package does not name`);
  });
};

/** A dependency of a package without a home, and a home without one, are faults. */
export const homeFaults: Rule = (files) => {
  const listed = [...manifestsOf(files).values()].flatMap(({ dependencies, peerDependencies }) =>
    Object.keys({ ...dependencies, ...peerDependencies }),
  );
  const known = new Set(listed.filter((name) => !name.startsWith("@rkat/")));
  const homeless = [...known].filter((name) => !(name in HOMES));
  const deserted = Object.keys(HOMES).filter((name) => !known.has(name) && !BUNDLED.includes(name));
  return [
    ...homeless.map((name) => `${name} is a dependency without a home: give it one folder in HOMES`),
    ...deserted.map((name) => `${name} has a home in HOMES and is no dependency: delete the row`),
    ...files.filter(isShipped).flatMap(strayImports),
  ];
};

/** The lines of each package, tests aside. */
export const sizeFaults: Rule = (files) => {
  const lines = new Map<string, number>();
  for (const { path, text } of files) {
    const [, name] = /^packages\/(\w+)\/.*\.tsx?$/.exec(path) ?? [];
    if (name === undefined || path.endsWith(".test.ts") || path.includes("/assets/")) continue;
    lines.set(name, (lines.get(name) ?? 0) + text.split("\n").length - 1);
  }
  return [...lines].flatMap(([name, count]) => {
    const most = PACKAGE_LINES_MAX[name] ?? 0;
    return count <= most ? [] : [`packages/${name} has ${count} lines: remove some, ${most} is the most`];
  });
};

/** What the browser's half may see: the public client as pages have it, types of the contract, and its small framework. */
const CONSOLE_MAY_IMPORT: readonly { readonly to: RegExp; readonly kinds: readonly Import["kind"][] }[] = [
  { to: /^packages\/console\//, kinds: ["static", "type", "dynamic"] },
  { to: /^packages\/client\/src\/browser\.ts$/, kinds: ["static", "type"] },
  { to: /^packages\/(?:client\/src\/index\.ts$|core\/src\/contract\/)/, kinds: ["type"] },
  // The terminal's rule about characters that hide or reverse text.
  { to: /^packages\/core\/src\/text\/terminal-text\.ts$/, kinds: ["static"] },
  { to: /^(?:preact|preact\/hooks|@preact\/signals|markdown-it)$/, kinds: ["static", "type"] },
];

/** The console is proof of the public client: with anything else of `src` it would show what no client can. */
export const consoleFaults: Rule = (files) =>
  files
    .filter((file) => /^packages\/console\/.*\.tsx?$/.test(file.path))
    .flatMap((file) =>
      importsOf(file)
        .filter(({ target, specifier, kind }) => {
          const name = target ?? specifier;
          return !CONSOLE_MAY_IMPORT.some(({ to, kinds }) => to.test(name) && kinds.includes(kind));
        })
        .map(
          ({ specifier }) =>
            `${file.path} imports ${specifier}: the console sees @rkat/client/browser, types of the contract, and Preact`,
        ),
    );

function strayImports(file: SourceFile): readonly string[] {
  return importsOf(file).flatMap(({ specifier }) => {
    const name = packageOf(specifier);
    if (name === undefined || name === "rkat" || name.startsWith("@rkat/")) return [];
    const homes = HOMES[name] ?? [];
    const place = file.path.replace(/^packages\/(\w+)\/src\//, "$1/");
    if (homes.some((home) => place.startsWith(home))) return [];
    return [`${file.path} imports ${name}, which lives in ${homes.join(", ") || "no folder"}: move the code there`];
  });
}

export const machineFaults: Rule = (files) =>
  files.filter(isShipped).flatMap((file) => {
    const builtins = importsOf(file).map(({ specifier }) => specifier);
    const allowed = MAY_TOUCH.filter(({ path }) => path.test(file.path));
    const effects = [...withoutComments(file.text).matchAll(/\b(?:process|console)\.[a-z]\w*/gi)].map(([use]) => use);
    return [
      ...builtins
        .filter((name) => (PURE.test(file.path) ? name.startsWith("node:") : name === "node:process" && !allowed[0]))
        .map((name) => `${file.path} imports ${name}: have the caller hand in what it needs`),
      ...[...new Set(effects)]
        .filter((use) => !allowed.some(({ uses }) => uses.test(use)))
        .map((use) => `${file.path} uses ${use}: only the command line may; take it as a parameter`),
    ];
  });

/**
 * A module's own address is for finding packages, for reading our own manifest, and for telling sources from the bundle.
 * A bundler makes it the address of the user's whole program, which a thread or process started with it would run again.
 */
const OWN_ADDRESS_USES =
  /createRequire\((?:packageFile\("@rkat\/node", "package\.json"\) \?\? )?import\.meta\.url\)|runServer\(import\.meta\.url,|new URL\("\.\.\/package\.json", import\.meta\.url\)|import\.meta\.url\.endsWith\("\/ports\/package-file\.ts"\)/g;
const OWN_ADDRESS = /\bimport\.meta\.(?:url|filename|dirname)\b|\bprocess\.argv(?:\[1\]|\.at\(1\))/g;

export const ownAddressFaults: Rule = (files) =>
  files.filter(isShipped).flatMap((file) => {
    const uses = withoutComments(file.text).replaceAll(OWN_ADDRESS_USES, "").match(OWN_ADDRESS) ?? [];
    return uses.map((use) => `${file.path} uses ${use}: start an entry of its own, found by workerFile()`);
  });

export const lengthFaults: Rule = (files) =>
  files
    .filter((file) => /\.(?:ts|tsx|js|mjs|py|sh|css)$/.test(file.path) || file.path === ".ci/run")
    // Nobody edits what is generated, and a split would only be one more thing to look up.
    .filter((file) => !file.text.startsWith("# Generated from "))
    .map((file) => ({ path: file.path, lines: file.text.replace(/\n$/, "").split("\n").length }))
    .filter(({ lines }) => lines > FILE_LINES_MAX)
    .map(({ path, lines }) => `${path} has ${lines} lines: split it by idea, ${FILE_LINES_MAX} is the most`);

export const rootFaults: Rule = (files) => {
  const entries = new Set(files.map((file) => file.path.split("/")[0] ?? ""));
  if (entries.size <= ROOT_ENTRIES_MAX) return [];
  return [`the root has ${entries.size} entries: move or delete some, ${ROOT_ENTRIES_MAX} is the most`];
};

/** A folder with what lies in the folders inside it. */
export const folderFaults: Rule = (files) => {
  const folders = new Map<string, { files: number; lines: number }>();
  for (const file of files.filter(isShipped)) {
    for (let folder = dirname(file.path); /^packages\/\w+\/src\//.test(folder); folder = dirname(folder)) {
      const { files: held, lines } = folders.get(folder) ?? { files: 0, lines: 0 };
      folders.set(folder, { files: held + 1, lines: lines + file.text.split("\n").length - 1 });
    }
  }
  const small = [...folders].filter(
    ([, { files: held, lines }]) => held < FOLDER_FILES_MIN && lines < FOLDER_LINES_MIN,
  );
  const own = Map.groupBy(files.filter(isShipped), ({ path }) => dirname(path));
  const large = [...own].filter(([, { length }]) => length > FOLDER_FILES_MAX);
  return [
    ...small.map(([folder]) => `${folder} has under ${FOLDER_FILES_MIN} files and ${FOLDER_LINES_MIN} lines: join it`),
    ...large.map(
      ([folder, { length }]) => `${folder} has ${length} files: make it two, ${FOLDER_FILES_MAX} is the most`,
    ),
  ];
};

export const exportFaults: Rule = (files) =>
  files.filter(isShipped).flatMap((file) => {
    const code = withoutComments(file.text);
    const hasDefault = /^export\s+default\b/m.test(code) || /^export\s*\{[^}]*\bas\s+default\b/m.test(code);
    // A package may pass on all that another exports.
    const hasStar = /^export\s+(?:type\s+)?\*(?! from "@rkat\/)/m.test(code);
    return [
      ...(hasDefault ? [`${file.path} has a default export: give it a name`] : []),
      ...(hasStar ? [`${file.path} has an \`export *\`: name what it exports`] : []),
    ];
  });

/** Through types, too: who cannot be read without the other is one idea in two files, or two with one missing below. */
export const cycleFaults: Rule = (files) => {
  const edges = new Map(
    files.filter(isShipped).map((file) => {
      return [file.path, importsOf(file).flatMap(({ target }) => target ?? [])] as const;
    }),
  );
  const done = new Set<string>();
  const faults: string[] = [];
  const visit = (path: string, trail: readonly string[]): void => {
    const start = trail.indexOf(path);
    if (start >= 0) {
      faults.push(`${[...trail.slice(start), path].join(" → ")} is a cycle: move what they share below both`);
      return;
    }
    if (done.has(path)) return;
    for (const target of edges.get(path) ?? []) visit(target, [...trail, path]);
    done.add(path);
  };
  for (const path of edges.keys()) visit(path, []);
  return faults;
};
