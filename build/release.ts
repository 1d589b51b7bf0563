// Makes everything that a release publishes, into a folder, and checks it: `npm run release`. Nothing is published.
//   node build/release.ts [FOLDER]            after `npm run build`; the folder is build/release unless it is named
//   node build/release.ts --version 0.3.0     writes the version into every manifest and the changelog
// The workflow release.yml runs the first form and publishes the files of the folder.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { checkPackage, createPackageFromTarballData } from "@arethetypeswrong/core";
import { publint } from "publint";

const ROOT = resolve(import.meta.dirname, "..");
const PACKED = join(ROOT, "build/packed/node_modules");
const PYTHON = join(ROOT, "sdks/python");
const VERSION = /^\d+\.\d+\.\d+(?:-[\w.]+)?$/;
/** What a package of ours may depend on, and be in a bundle of ours. */
const LICENCES = /^(?:MIT|ISC|BSD-[23]-Clause|Apache-2\.0|\(AFL-2\.1 OR BSD-3-Clause\))$/;

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
}

interface Bom {
  readonly components: readonly {
    readonly name: string;
    readonly version: string;
    readonly licenses?: readonly { readonly license?: { readonly id?: string }; readonly expression?: string }[];
  }[];
}

const read = (path: string): string => readFileSync(join(ROOT, path), "utf8");
const run = (command: string, args: readonly string[], cwd: string): string =>
  execFileSync(command, args, {
    cwd,
    encoding: "utf8",
    maxBuffer: 64 * 1024 * 1024,
    stdio: ["ignore", "pipe", "inherit"],
  });

/** The files that say a version, each with the expression that finds it. */
function versionPlaces(version: string): readonly (readonly [path: string, now: RegExp])[] {
  const escaped = version.replaceAll(".", "\\.");
  const manifests = globSync("packages/*/package.json", { cwd: ROOT }).sort();
  return [
    ...manifests.map(
      (path) => [path, new RegExp(`(?<="(?:version|@?rkat(?:/\\w+)?)": ")${escaped}(?=")`, "g")] as const,
    ),
    ["sdks/python/pyproject.toml", new RegExp(`(?<=^version = ")${escaped}(?=")`, "gm")],
    ["CHANGELOG.md", new RegExp(`(?<=^## )${escaped}`, "gm")],
  ];
}

/** One version everywhere: packages that depend on each other are published together. */
export function versionFaults(version: string): readonly string[] {
  const unnamed = versionPlaces(version).filter(([path, now]) => !now.test(read(path)));
  const apart = globSync("packages/*/package.json", { cwd: ROOT }).flatMap((path) => {
    const manifest: Manifest = JSON.parse(read(path));
    const ours = Object.entries({ ...manifest.dependencies, ...manifest.devDependencies });
    return ours
      .filter(([name, range]) => /^(?:@rkat\/|rkat$)/.test(name) && range !== version)
      .map(([name, range]) => `${path} asks for ${name} ${range} instead of ${version}`);
  });
  return [...unnamed.map(([path]) => `${path} does not name the version ${version}`), ...apart];
}

function writeVersion(from: string, to: string): void {
  if (!VERSION.test(to)) throw new Error(`${to} is not a version: write MAJOR.MINOR.PATCH, such as 0.3.0`);
  for (const [path, now] of versionPlaces(from)) {
    // The changelog keeps the sections of former versions.
    const text =
      path === "CHANGELOG.md"
        ? read(path).replace(/^## /m, `## ${to} (unreleased)\n\n## `)
        : read(path).replace(now, to);
    writeFileSync(join(ROOT, path), text);
  }
  run("npm", ["install", "--package-lock-only", "--ignore-scripts"], ROOT);
}

/** The part of the changelog on this version. */
function notesOf(version: string): string {
  const [, notes = ""] = read("CHANGELOG.md").split(new RegExp(`^## ${version.replaceAll(".", "\\.")}.*\\n`, "m"));
  return `${notes.split(/^## /m)[0]?.trim()}\n`;
}

async function packageFaults(folder: string, tarball: string): Promise<readonly string[]> {
  const { messages } = await publint({ pkgDir: folder, strict: true });
  const lint = messages
    .filter(({ type }) => type === "error")
    .map(({ code, path }) => `publint: ${code} at ${path.join(".")}`);
  const types = await checkPackage(createPackageFromTarballData(readFileSync(tarball)));
  // Packages of ours are modules only, and a program that still resolves as Node 10 did finds no subpaths.
  const problems = types.types === false ? [] : types.problems;
  const wrong = problems.flatMap((problem) => {
    if (problem.kind === "CJSResolvesToESM") return [];
    if ("resolutionKind" in problem && problem.resolutionKind === "node10") return [];
    return [`types: ${problem.kind} ${"entrypoint" in problem ? problem.entrypoint : ""}`];
  });
  return [...lint, ...wrong].map((fault) => `${basename(tarball)}: ${fault}`);
}

/** What an installation of all packages consists of, as CycloneDX, and its licences. */
function billOfMaterials(tarballs: readonly string[]): {
  readonly bom: string;
  readonly licences: string;
  readonly faults: readonly string[];
} {
  const folder = mkdtempSync(join(tmpdir(), "rkat-bom-"));
  writeFileSync(join(folder, "package.json"), '{ "name": "installation", "version": "0.0.0", "private": true }\n');
  run("npm", ["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline", ...tarballs], folder);
  const bom = run("npm", ["sbom", "--sbom-format", "cyclonedx"], folder);
  rmSync(folder, { recursive: true });
  const { components }: Bom = JSON.parse(bom);
  const rows = components.map(({ name, version, licenses = [] }) => ({
    name,
    version,
    licence: licenses.map(({ license, expression }) => license?.id ?? expression ?? "?").join(" and "),
  }));
  const faults = rows
    .filter(({ licence }) => !LICENCES.test(licence))
    .map(({ name, licence }) => `${name} has the licence ${licence}: allow it in LICENCES or drop the dependency`);
  const table = rows.map(({ name, version, licence }) => `| ${name} | ${version} | ${licence} |`).sort();
  return { bom, faults, licences: ["| package | version | licence |", "| --- | --- | --- |", ...table, ""].join("\n") };
}

const filesOf = (folder: string): readonly string[] =>
  globSync(["*.*", "SHA256SUMS", "python/*"], { cwd: folder }).sort();

async function makeRelease(version: string, out: string): Promise<readonly string[]> {
  if (!existsSync(PACKED)) throw new Error("nothing is packed: run `npm run build` first");
  rmSync(out, { recursive: true, force: true });
  mkdirSync(join(out, "python"), { recursive: true });
  const faults = [...versionFaults(version)];
  // Packages that others depend on are published first.
  const folders = [
    "@rkat/core",
    "@rkat/node",
    "@rkat/postgres",
    "@rkat/client",
    "@rkat/server",
    "rkat",
    "create-rkat",
  ].map((name) => join(PACKED, name));
  const tarballs: string[] = [];
  for (const folder of folders) {
    const [made] = JSON.parse(run("npm", ["pack", folder, "--json", "--pack-destination", out], ROOT));
    const tarball = join(out, made.filename);
    tarballs.push(tarball);
    faults.push(...(await packageFaults(folder, tarball)));
  }
  run(
    "python3",
    [
      "-c",
      `import build_backend as b, sys; print(b.build_wheel(sys.argv[1]), b.build_sdist(sys.argv[1]))`,
      join(out, "python"),
    ],
    PYTHON,
  );
  const { bom, licences, faults: unlicensed } = billOfMaterials(tarballs);
  faults.push(...unlicensed);
  writeFileSync(join(out, "sbom.cdx.json"), bom);
  writeFileSync(join(out, "licences.md"), licences);
  writeFileSync(join(out, "notes.md"), notesOf(version));
  writeFileSync(join(out, "order.txt"), `${tarballs.map((path) => basename(path)).join("\n")}\n`);
  const sums = filesOf(out).map(
    (name) =>
      `${createHash("sha256")
        .update(readFileSync(join(out, name)))
        .digest("hex")}  ${name}\n`,
  );
  writeFileSync(join(out, "SHA256SUMS"), sums.join(""));
  return faults;
}

const { values, positionals } = parseArgs({ options: { version: { type: "string" } }, allowPositionals: true });
const { version }: Manifest = JSON.parse(read("packages/rkat/package.json"));
if (values.version === undefined) {
  const out = resolve(positionals[0] ?? join(ROOT, "build/release"));
  const faults = await makeRelease(version, out);
  for (const fault of faults) console.error(fault);
  if (faults.length > 0) process.exit(1);
  console.log(`rkat ${version} in ${out}:\n${filesOf(out).join("\n")}`);
} else {
  writeVersion(version, values.version);
  console.log(`The version is ${values.version} instead of ${version}; CHANGELOG.md has a section for it.`);
}
