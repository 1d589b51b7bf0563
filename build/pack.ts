// After rolldown and tsc: places declarations and licences beside the bundles, and writes the packages as they are
// published under build/packed/node_modules. `npm publish build/packed/node_modules/NAME` publishes one. In a workflow,
// GITHUB_REPOSITORY names the repository that manifests point to: npm compares it with the one that provenance proves.
import { cpSync, existsSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { llmsFull, llmsIndex } from "../docs/llms.ts";

const PUBLISHED = ["core", "node", "postgres", "server", "client", "rkat"];
/** A program of one file, which is published as it stands. */
const CREATE = "create";
/** Packages whose code is in the bundles of ours, by the bundles that hold it. */
const BUNDLED: Readonly<Record<string, readonly string[]>> = {
  core: ["zod", "unbash"],
  node: ["smol-toml"],
  client: ["zod"],
  rkat: ["zod", "unbash", "smol-toml", "@codemirror/legacy-modes"],
};
const OUT = "build/packed/node_modules";

type Targets = string | { readonly [condition: string]: string };

interface Manifest {
  readonly name: string;
  readonly description: string;
  readonly exports: Readonly<Record<string, Targets>>;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta?: unknown;
  readonly devDependencies?: unknown;
}

/** Where an export of a source lies in what is published, with its declarations. */
function publishedTarget(target: Targets): Targets | { types: string; default: Targets } {
  if (typeof target !== "string") {
    const { default: fallback = "", ...others } = target;
    const conditions = Object.entries(others).map(([name, path]) => [name, publishedTarget(path)]);
    return Object.fromEntries([...conditions, ["default", publishedTarget(fallback)]]);
  }
  const [, path] = /^\.\/src\/(.+)\.ts$/.exec(target) ?? [];
  return path === undefined ? target : { types: `./dist/${path}.d.ts`, default: `./dist/${path}.js` };
}

/** What the page of a package shows: the project's front page, without links into files that a package does not have. */
function readmeOf({ name, description }: Manifest): string {
  if (name !== "rkat") return `# ${name}\n\n${description}\n\nA part of [rkat](https://www.npmjs.com/package/rkat).\n`;
  return readFileSync("README.md", "utf8").replaceAll(/!?\[([^\]]*)\]\((?!https?:|#)[^)]*\)/g, "$1");
}

/** The fields by which a registry shows where a package comes from. */
function repositoryFields(): object {
  const { GITHUB_REPOSITORY, GITHUB_SERVER_URL = "https://github.com" } = process.env;
  if (GITHUB_REPOSITORY === undefined) return {};
  const home = `${GITHUB_SERVER_URL}/${GITHUB_REPOSITORY}`;
  return {
    repository: { type: "git", url: `git+${home}.git` },
    homepage: `${home}#readme`,
    bugs: { url: `${home}/issues` },
  };
}

const manifestOf = (name: string) => JSON.parse(readFileSync(`packages/${name}/package.json`, "utf8")) as Manifest;
const IMPORTS = /(?:^|[;\s}])(?:import|export)[^"'();]*?from\s*"([^"]+)"|import\(\s*"([^"]+)"\s*\)/g;

/** The bundles of rkat hold code of the other packages, and import what that needs: rkat depends on it, too. */
function neededBy(name: string, manifest: Manifest): Partial<Manifest> {
  const texts = globSync(`packages/${name}/dist/**/*.js`).map((path) => readFileSync(path, "utf8"));
  const imported = texts.flatMap((text) => [...text.matchAll(IMPORTS)].map(([, first, other]) => first ?? other ?? ""));
  const isImported = ([one]: readonly [string, unknown]) =>
    imported.some((specifier) => specifier === one || specifier.startsWith(`${one}/`));
  const others = PUBLISHED.map(manifestOf);
  const those = (kind: "dependencies" | "peerDependencies") =>
    others.flatMap((other) => Object.entries(other[kind] ?? {}).filter(isImported));
  const dependencies = { ...Object.fromEntries(those("dependencies")), ...manifest.dependencies };
  const peers = those("peerDependencies").filter(([one]) => !(one in dependencies));
  if (peers.length === 0) return { dependencies };
  const optional = Object.fromEntries(peers.map(([one]) => [one, { optional: true }]));
  return { dependencies, peerDependencies: Object.fromEntries(peers), peerDependenciesMeta: optional };
}

function publish(name: string): void {
  const home = `packages/${name}`;
  const { devDependencies: _own, ...manifest } = manifestOf(name);
  const isInternal = (key: string) => name === "rkat" && key === "./*";
  const exports = Object.entries(manifest.exports)
    .filter(([key]) => !isInternal(key))
    .map(([key, target]) => [key, publishedTarget(target)]);
  const folder = join(OUT, manifest.name);
  mkdirSync(folder, { recursive: true });
  const written = {
    ...manifest,
    ...(name === "rkat" ? neededBy(name, manifest) : {}),
    ...repositoryFields(),
    exports: Object.fromEntries(exports),
    files: ["dist", "assets/*.*", "bin", "templates"],
  };
  writeFileSync(join(folder, "package.json"), `${JSON.stringify(written, null, 2)}\n`);
  for (const part of ["dist", "bin", "templates"]) {
    if (existsSync(`${home}/${part}`)) cpSync(`${home}/${part}`, join(folder, part), { recursive: true });
  }
  writeFileSync(join(folder, "README.md"), readmeOf(manifest));
  for (const path of globSync(`${home}/assets/*.*`)) cpSync(path, join(folder, "assets", path.split("/").at(-1) ?? ""));
  for (const path of ["LICENSE", "CHANGELOG.md"]) cpSync(path, join(folder, path));
}

/** The client has no dependency: the declarations that it takes of core lie in a folder of its own. */
function bringDeclarationsOfCore(): void {
  const seen = new Set<string>();
  const bring = (path: string): void => {
    if (seen.has(path)) return;
    seen.add(path);
    const text = readFileSync(path, "utf8").replace(/"@rkat\/core\/([^"]+)"/g, (_whole, module: string) => {
      const target = `packages/client/dist/core/${module}.d.ts`;
      copyWithImports(`build/types/core/src/${module}.d.ts`, target);
      const to = relative(dirname(path), target).replace(/\.d\.ts$/, ".js");
      return JSON.stringify(to.startsWith(".") ? to : `./${to}`);
    });
    writeFileSync(path, text);
  };
  const copyWithImports = (from: string, to: string): void => {
    if (seen.has(to)) return;
    seen.add(to);
    mkdirSync(dirname(to), { recursive: true });
    cpSync(from, to);
    for (const [, specifier = ""] of readFileSync(from, "utf8").matchAll(/"(\.[^"]+)\.(?:js|ts)"/g)) {
      copyWithImports(`${join(dirname(from), specifier)}.d.ts`, `${join(dirname(to), specifier)}.d.ts`);
    }
  };
  for (const path of globSync("packages/client/dist/*.d.ts")) bring(path);
}

rmSync("build/packed", { recursive: true, force: true });
// Half of the declarations of schemas is indentation.
for (const path of globSync("build/types/**/*.d.ts")) {
  writeFileSync(path, readFileSync(path, "utf8").replace(/^ +/gm, ""));
}
for (const name of PUBLISHED) {
  cpSync(`build/types/${name}/src`, `packages/${name}/dist`, { recursive: true });
  for (const bundled of BUNDLED[name] ?? []) {
    cpSync(`node_modules/${bundled}/LICENSE`, `packages/${name}/dist/licences/${bundled.replaceAll("/", "-")}`);
  }
}
bringDeclarationsOfCore();
writeFileSync("packages/server/dist/llms.txt", llmsIndex());
writeFileSync("packages/server/dist/llms-full.txt", llmsFull());
for (const name of [...PUBLISHED, CREATE]) publish(name);
