// After rolldown and tsc: places declarations and licences beside the bundles, and writes the packages as they are
// published under build/packed/node_modules. `npm publish build/packed/node_modules/NAME` publishes one.
import { cpSync, existsSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";

const PUBLISHED = ["core", "node", "postgres", "server", "client", "rkat"];
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
  readonly exports: Readonly<Record<string, Targets>>;
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

function publish(name: string): void {
  const home = `packages/${name}`;
  const { devDependencies: _own, ...manifest } = JSON.parse(readFileSync(`${home}/package.json`, "utf8")) as Manifest;
  const isInternal = (key: string) => name === "rkat" && key === "./*";
  const exports = Object.entries(manifest.exports)
    .filter(([key]) => !isInternal(key))
    .map(([key, target]) => [key, publishedTarget(target)]);
  const folder = join(OUT, manifest.name);
  mkdirSync(folder, { recursive: true });
  const written = { ...manifest, exports: Object.fromEntries(exports), files: ["dist", "assets/*.*", "bin"] };
  writeFileSync(join(folder, "package.json"), `${JSON.stringify(written, null, 2)}\n`);
  for (const part of ["dist", "bin", "README.md"]) {
    if (existsSync(`${home}/${part}`)) cpSync(`${home}/${part}`, join(folder, part), { recursive: true });
  }
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
for (const name of PUBLISHED) publish(name);
