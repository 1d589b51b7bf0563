import { execFileSync } from "node:child_process";
import { globSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { messageOf } from "@rkat/core/contract/error";

/** In a folder of caches: each is a hundred megabytes, which no other test needs. */
const FOLDER = join(import.meta.dirname, "../../node_modules/.cache/other-runtimes");
const PACKAGES = {
  bun: { version: "1.4.4", program: "node_modules/@oven/bun-*/bin/bun", args: [] },
  deno: { version: "2.9.5", program: "node_modules/@deno/*/deno", args: ["run", "-A", "--node-modules-dir=manual"] },
} as const;

type Found = { readonly command: string; readonly args: readonly string[] } | { readonly missing: string };

/** The program of another JavaScript runtime, from its npm package; or the reason why there is none. */
export function findRuntime(name: keyof typeof PACKAGES): Found {
  const { version, program, args } = PACKAGES[name];
  const home = join(FOLDER, `${name}-${version}`);
  const find = () => globSync(program, { cwd: home })[0];
  try {
    mkdirSync(home, { recursive: true });
    // Its script only moves the program that came as a package for this machine.
    const words = ["install", "--ignore-scripts", "--no-save", "--no-audit", "--prefix", home, `${name}@${version}`];
    if (find() === undefined) execFileSync("npm", words, { stdio: "ignore" });
  } catch (thrown) {
    // There it must be: tests that leave themselves out would be taken for tests that pass.
    if (process.env.CI === "true") throw thrown;
    return { missing: `${name} cannot be installed: ${messageOf(thrown)}` };
  }
  const path = find();
  return path === undefined
    ? { missing: `${name} has no package for this machine` }
    : { command: join(home, path), args };
}
