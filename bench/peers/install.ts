import { execFile } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import type { Peer } from "./peers.ts";

const INSTALL_MS_MAX = 900_000;
const CACHE = join(process.env.XDG_CACHE_HOME ?? join(homedir(), ".cache"), "rkat-bench-peers");
const PACKED = join(import.meta.dirname, "../../build/packed/node_modules");
/** The headers that the npm package of Node brings, so that native code is built for the Node that runs it. */
const HEADERS = join(dirname(process.execPath), `../node_modules/node-${process.platform}-${process.arch}`);
const env = { ...process.env, ...(existsSync(join(HEADERS, "include")) && { npm_config_nodedir: HEADERS }) };
const npm = (folder: string, ...args: readonly string[]) =>
  promisify(execFile)("npm", args, { cwd: folder, env, timeout: INSTALL_MS_MAX });

/** A driver beside the packages it imports, or why there is none. */
export type Installed = { readonly driver: string; readonly problem?: string } | { readonly missing: string };

/** Installs what is not in the cache already. Packages come without their scripts; native code is built after that. */
export async function install({ name, packages }: Peer): Promise<Installed> {
  const folder = join(CACHE, name);
  const driver = join(folder, "driver.js");
  const manifest = JSON.stringify({ private: true, type: "module", dependencies: packages }, null, 2);
  const stamp = join(folder, "installed.json");
  mkdirSync(folder, { recursive: true });
  let problem: string | undefined;
  if (Object.keys(packages).length === 0) {
    // What users install: the packages as they are published.
    rmSync(join(folder, "node_modules"), { recursive: true, force: true });
    writeFileSync(join(folder, "package.json"), manifest);
    symlinkSync(PACKED, join(folder, "node_modules"));
  } else if (!existsSync(stamp) || readFileSync(stamp, "utf8") !== manifest) {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, "package.json"), manifest);
    try {
      await npm(folder, "install", "--no-audit", "--no-fund", "--legacy-peer-deps", "--ignore-scripts");
    } catch (error) {
      return { missing: reasonOf(error) };
    }
    problem = await npm(folder, "rebuild").then(() => undefined, reasonOf);
    if (problem === undefined) writeFileSync(stamp, manifest);
  }
  writeFileSync(driver, withoutTypes(join("drivers", `${name}.ts`)));
  return { driver, ...(problem !== undefined && { problem }) };
}

/** The program that runs a driver, beside them. Types are taken out here, so that no process that is measured does it. */
export function installHost(): string {
  mkdirSync(CACHE, { recursive: true });
  const host = join(CACHE, "host.js");
  writeFileSync(join(CACHE, "package.json"), JSON.stringify({ private: true, type: "module" }));
  writeFileSync(host, withoutTypes("host.ts"));
  return host;
}

function withoutTypes(path: string): string {
  return stripTypeScriptTypes(readFileSync(join(import.meta.dirname, path), "utf8"));
}

function reasonOf(error: unknown): string {
  const told = String((error as { readonly stderr?: string }).stderr ?? error); // `execFile` adds what was printed.
  const lines = told.split("\n").filter((line) => !line.startsWith("npm warn"));
  return lines.find((line) => /No matching|404|ERR|notarget/.test(line)) ?? lines[0] ?? "npm failed";
}
