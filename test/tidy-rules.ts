import { basename, dirname } from "node:path/posix";
import { type Import, importsOf, isShipped, packageOf, type SourceFile, withoutComments } from "./source-files.ts";

/** Each rule takes files and answers with one sentence a fault, saying what to do. */
export type Rule = (files: readonly SourceFile[]) => readonly string[];

const FILE_LINES_MAX = 400;
const ROOT_ENTRIES_MAX = 24;
const FOLDERS_MAX = 36;
const FOLDER_FILES_MIN = 4;
const FOLDER_LINES_MIN = 400;

const DOORS = [
  "src/index.ts",
  "src/client.ts",
  "src/ai-sdk.ts",
  "src/cli.ts",
  "src/rpc.ts",
  "src/rest.ts",
  "src/mcp.ts",
  "src/acp.ts",
  "src/runtime.ts",
  "src/runtime-on-disk.ts",
  "src/runtime-in-database.ts",
  "src/composed-hooks.ts",
  "src/composed-tools.ts",
  "src/sealed-realm.ts",
  "src/store-places.ts",
  "src/laboratory.ts",
  "src/run-server.ts",
];

/** Which layers a layer may import besides itself. Doors may import everything and are imported by nobody. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  config: ["contract", "ports"],
  surfaces: ["service", "contract", "ports", "text"],
  clients: ["service", "contract"],
  service: ["core", "memory", "ports", "contract", "text"],
  conformance: ["service", "contract"],
  core: ["ports", "contract", "text"],
  memory: ["ports", "contract", "text"],
  providers: ["ports", "contract", "text"],
  embedders: ["ports", "contract", "text", "wasm"],
  stores: ["ports", "contract", "text", "wasm"],
  projections: ["ports", "contract", "text"],
  tools: ["ports", "contract", "text"],
  telemetry: ["ports", "contract", "text"],
  ports: ["contract"],
  contract: [],
  text: [],
  wasm: [],
};

/**
 * The rooms of a layer, which are its folders, do not see each other, except for these: what the others of their layer
 * stand on. A layer that is not here has rooms that stand alone.
 */
const GROUND_ROOMS: Readonly<Record<string, readonly string[]>> = {
  surfaces: ["wire"],
  // A memory that machines share is searched in a copy on each of them.
  stores: ["embedded", "recall"],
  // A compaction by cascade is written as an agent's tiers are, and what either says is checked the same way.
  core: ["agent", "grounding"],
};

/** Imports of types that cross the layers: the command line and whoever starts a server are handed a runtime. */
const MAY_IMPORT_TYPES: readonly { readonly from: string; readonly to: RegExp }[] = [
  // The parts that its door composes have the types of the modules they come from.
  { from: "src/surfaces/cli/", to: /^src\/(?:[^/]+\.ts$|(?:config|conformance|providers|tools)\/)/ },
  { from: "src/surfaces/wire/", to: /^src\/(?:runtime-on-disk\.ts|config\/)/ },
];

/** Where a dependency lives. One folder can then say what it costs to replace it. */
const HOMES: Readonly<Record<string, readonly string[]>> = {
  zod: ["src/contract/"],
  "@agentclientprotocol/sdk": ["src/surfaces/acp/"],
  "@ai-sdk/anthropic": ["src/providers/"],
  "@ai-sdk/google": ["src/providers/"],
  "@ai-sdk/openai": ["src/providers/"],
  "@ai-sdk/provider": ["src/providers/", "src/embedders/"],
  "@cfworker/json-schema": ["src/core/"],
  "@codemirror/legacy-modes": ["src/surfaces/cli/"],
  "@codemirror/streamparser": ["src/surfaces/cli/"],
  "@modelcontextprotocol/sdk": ["src/surfaces/mcp/", "src/tools/mcp/"],
  "@opentelemetry/api": ["src/telemetry/"],
  "@opentelemetry/exporter-trace-otlp-http": ["src/telemetry/"],
  "@opentelemetry/resources": ["src/telemetry/"],
  "@opentelemetry/sdk-trace": ["src/telemetry/"],
  // The types of AI SDK models, which ours take, speak of it and do not bring it along.
  "@types/json-schema": ["src/providers/"],
  commander: ["src/surfaces/cli/"],
  "fs-native-extensions": ["src/stores/"],
  pg: ["src/stores/postgres/"],
  "smol-toml": ["src/config/"],
  "string-width": ["src/surfaces/cli/"],
  unbash: ["src/core/"],
  yaml: ["src/config/"],
};

/** Layers that never see the machine: what they need of it is handed in. */
const PURE = /^src\/(?:core|contract|ports|text|wasm)\//;

/**
 * The composition root looks up the defaults of what can be handed in. Node has no other call that ends a command
 * together with what it started than `process.kill` on its group, and a process no other way to speak with its parent.
 */
const MAY_TOUCH: readonly { readonly path: RegExp; readonly uses: RegExp }[] = [
  { path: /^src\/(?:cli|run-server)\.ts$/, uses: /./ },
  { path: /^src\/client\.ts$/, uses: /^process\.(?:env|execPath)$/ },
  { path: /^src\/runtime(?:-on-disk)?\.ts$/, uses: /^process\.(?:env|cwd|pid|kill|versions)$/ },
  { path: /^src\/store-places\.ts$/, uses: /^process\.(?:env|cwd|pid|versions)$/ },
  { path: /^src\/embedders\/model-child\.ts$/, uses: /^process\.env$/ },
  { path: /^src\/embedders\/model-process\.ts$/, uses: /^process\.(?:kill|on|once|pid|send)$/ },
  { path: /^src\/tools\/(?:command|shell)\.ts$/, uses: /^process\.kill$/ },
  // What a process has used nobody else knows.
  { path: /^src\/surfaces\/wire\/process-metrics\.ts$/, uses: /^process\.(?:cpuUsage|memoryUsage|uptime)$/ },
];

/** The layer of a file of `src`: its folder, or "door"; undefined when it has no place. */
function layerOf(path: string): string | undefined {
  if (DOORS.includes(path)) return "door";
  const [, layer] = /^src\/([^/]+)\//.exec(path) ?? [];
  return layer !== undefined && layer in MAY_IMPORT ? layer : undefined;
}

export const layerFaults: Rule = (files) =>
  files.filter(isShipped).flatMap((file) => {
    const from = layerOf(file.path);
    if (from === undefined) return [`${file.path} is in no layer: move it into one, or add the layer to MAY_IMPORT`];
    if (from === "door") return [];
    return importsOf(file).flatMap((imported) => layerFault(file.path, from, imported));
  });

function layerFault(path: string, from: string, imported: Import): readonly string[] {
  const { target, kind, specifier } = imported;
  if (target === undefined) return [];
  const to = layerOf(target);
  if (to === from) return [];
  if (to !== undefined && MAY_IMPORT[from]?.includes(to)) {
    if (from !== "surfaces" || to !== "ports" || kind === "type") return [];
    return [`${path} imports ${specifier}: surfaces take only types from ports, so write \`import type\``];
  }
  const isHandedIn = MAY_IMPORT_TYPES.some((row) => path.startsWith(row.from) && row.to.test(target));
  if (isHandedIn && kind === "type") return [];
  return [`${path} imports ${specifier}: ${from} may not see ${to ?? "it"}; use a port or hand in a function`];
}

/** `manifest` is the text of package.json: a dependency without a home, and a home without one, are faults. */
export function homeFaults(files: readonly SourceFile[], manifest: string): readonly string[] {
  const listed = JSON.parse(manifest) as Partial<
    Record<"dependencies" | "optionalDependencies" | "devDependencies", Record<string, string>>
  >;
  const dependencies = { ...listed.dependencies, ...listed.optionalDependencies };
  const homeless = Object.keys(dependencies).filter((name) => !(name in HOMES));
  // What is bundled need not be installed by anybody else.
  const deserted = Object.keys(HOMES).filter((name) => !(name in { ...dependencies, ...listed.devDependencies }));
  const strays = files.filter((file) => isShipped(file) && !DOORS.includes(file.path)).flatMap(strayImports);
  return [
    ...homeless.map((name) => `${name} is a dependency without a home: give it one folder in HOMES`),
    ...deserted.map((name) => `${name} has a home in HOMES and is no dependency: delete the row`),
    ...strays,
  ];
}

/** The room of a file: the folder of its layer that it lies in; undefined for one that lies in the layer itself. */
function roomOf(path: string): string | undefined {
  return /^src\/[^/]+\/([^/]+)\//.exec(path)?.[1];
}

/** What lies in a layer itself belongs to all of its rooms, and may see them. */
export const roomFaults: Rule = (files) =>
  files.filter(isShipped).flatMap((file) => {
    const layer = layerOf(file.path);
    const room = roomOf(file.path);
    if (layer === undefined || room === undefined) return [];
    return importsOf(file).flatMap(({ target = "", specifier }) => {
      const other = roomOf(target);
      if (layerOf(target) !== layer || other === undefined || other === room) return [];
      if (GROUND_ROOMS[layer]?.includes(other)) return [];
      const advice = "move what they share below both, into a room of GROUND_ROOMS, or hand it in";
      return [`${file.path} imports ${specifier}: ${layer}/${room} may not see ${layer}/${other}; ${advice}`];
    });
  });

/** What the browser's half may see: the public client as pages have it, types of the contract, and its small framework. */
const CONSOLE_MAY_IMPORT: readonly { readonly to: RegExp; readonly kinds: readonly Import["kind"][] }[] = [
  { to: /^console\//, kinds: ["static", "type", "dynamic"] },
  { to: /^src\/clients\/browser\.ts$/, kinds: ["static", "type"] },
  { to: /^src\/(?:client\.ts$|contract\/)/, kinds: ["type"] },
  { to: /^(?:preact|preact\/hooks|@preact\/signals)$/, kinds: ["static", "type"] },
];

/** The console is proof of the public client: with anything else of `src` it would show what no client can. */
export const consoleFaults: Rule = (files) =>
  files
    .filter((file) => /^console\/.*\.tsx?$/.test(file.path))
    .flatMap((file) =>
      importsOf(file)
        .filter(({ target, specifier, kind }) => {
          const name = target ?? specifier;
          return !CONSOLE_MAY_IMPORT.some(({ to, kinds }) => to.test(name) && kinds.includes(kind));
        })
        .map(
          ({ specifier }) =>
            `${file.path} imports ${specifier}: the console sees src/clients/browser.ts, types of the contract, and Preact`,
        ),
    );

function strayImports(file: SourceFile): readonly string[] {
  return importsOf(file).flatMap(({ specifier }) => {
    const name = packageOf(specifier);
    if (name === undefined) return [];
    const homes = HOMES[name] ?? [];
    if (homes.some((home) => file.path.startsWith(home))) return [];
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
        .map((use) => `${file.path} uses ${use}: only src/cli.ts may; take it as a parameter`),
    ];
  });

/**
 * A module's own address is for finding packages, for reading our own manifest, and for telling sources from the bundle.
 * A bundler makes it the address of the user's whole program, which a thread or process started with it would run again.
 */
const OWN_ADDRESS_USES =
  /createRequire\((?:packageFile\("package\.json"\) \?\? )?import\.meta\.url\)|runServer\(import\.meta\.url,|new URL\("\.\.\/package\.json", import\.meta\.url\)|\?\.href === import\.meta\.url/g;
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
    for (let folder = dirname(file.path); folder !== "."; folder = dirname(folder)) {
      const { files: held, lines } = folders.get(folder) ?? { files: 0, lines: 0 };
      folders.set(folder, { files: held + 1, lines: lines + file.text.split("\n").length - 1 });
    }
  }
  const small = [...folders].filter(
    ([, { files: held, lines }]) => held < FOLDER_FILES_MIN && lines < FOLDER_LINES_MIN,
  );
  const crowd =
    folders.size > FOLDERS_MAX ? [`src has ${folders.size} folders: join some, ${FOLDERS_MAX} is the most`] : [];
  return [
    ...crowd,
    ...small.map(([folder]) => `${folder} has under ${FOLDER_FILES_MIN} files and ${FOLDER_LINES_MIN} lines: join it`),
  ];
};

export const exportFaults: Rule = (files) =>
  files.filter(isShipped).flatMap((file) => {
    const code = withoutComments(file.text);
    const hasDefault = /^export\s+default\b/m.test(code) || /^export\s*\{[^}]*\bas\s+default\b/m.test(code);
    const hasStar = /^export\s+(?:type\s+)?\*/m.test(code);
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

const FOREIGN_WORDS: readonly { readonly pattern: RegExp; readonly advice: string }[] = [
  {
    pattern: /(?<![\w.~)}\]*-])\/(?:root|work|farm|home|Users)\/[\w.]+/,
    advice: "a path of one machine: write it relative to the project",
  },
  {
    pattern: /"resolved": "https?:\/\/(?!registry\.npmjs\.org\/)[^/"]+/,
    advice: "a registry of one machine: install from the public one",
  },
  {
    pattern: /\bregistry\s*=\s*https?:\/\/\S+|\b(?:artifactory|verdaccio|jfrog\.io|npm\.pkg\.github\.com)\b/,
    advice: "a registry of one machine: leave the choice to whoever installs",
  },
];

export const foreignFaults: Rule = (files) =>
  files
    .filter((file) => !basename(file.path).startsWith("tidy"))
    .flatMap((file) =>
      FOREIGN_WORDS.flatMap(({ pattern, advice }) => {
        const [word] = pattern.exec(file.text) ?? [];
        return word === undefined ? [] : [`${file.path} says ${word}, ${advice}`];
      }),
    );

/** Words that plain English replaces: each names no subject, or is our dialect for a standard word. */
const BANNED_WORDS: readonly { readonly pattern: RegExp; readonly advice: string }[] = [
  { pattern: /\b[Ww]hoever\b/, advice: "name the subject: the caller, the client, the user, the server" },
  {
    pattern: /\b(?:[Nn]o|[Ss]ome|[Aa]ny)body\b/,
    advice: "name the subject: the caller, the client, the user, no person",
  },
  { pattern: /\b[Mm]end(?:s|ed|ing)?\b/, advice: "write fix" },
  { pattern: /\b[Bb]reathes?\b/, advice: "write yield to the event loop" },
  { pattern: /\b[Ww]aits? for a word\b/, advice: "write waits for approval" },
  { pattern: /\b[Gg]o(?:es)? on with\b/, advice: "write continue or resume" },
  { pattern: /\bthose there are\b/, advice: "write all, or list them" },
];

/** The folders that are free of these words; add one when it is. */
const PLAIN_FOLDERS: readonly string[] = [
  "console/",
  "docs/",
  "src/clients/",
  "src/config/",
  "src/contract/",
  "src/ports/",
  "src/surfaces/",
];
/** Decisions are history. Names of files, and a caller's name on the wire, are not prose. */
const NOT_PLAIN = /^docs\/decisions\/|\.test\.tsx?$/;
const NAMES = /^import .*$|"\.\/mend\.ts"|name: "nobody"/gm;

export const wordFaults: Rule = (files) =>
  files
    .filter(({ path }) => PLAIN_FOLDERS.some((folder) => path.startsWith(folder)) && !NOT_PLAIN.test(path))
    .flatMap(({ path, text }) => {
      const prose = text.replace(NAMES, "");
      return BANNED_WORDS.flatMap(({ pattern, advice }) => {
        const [word] = pattern.exec(prose) ?? [];
        return word === undefined ? [] : [`${path} says ${word}: ${advice}`];
      });
    });
