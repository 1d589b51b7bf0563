import { execFileSync } from "node:child_process";
import { globSync, statSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "../..");

/** Tests start the built commands, which takes a quarter of the time of their sources. Builds them where a source is newer. */
export function setup(): void {
  const timeOf = (path: string) => statSync(join(root, path), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  const sources = globSync(
    [
      "packages/*/src/**/*.ts",
      "packages/console/**/*.{ts,tsx,css}",
      "packages/create/{bin,templates}/**/*.*",
      "build/*.ts",
    ],
    { cwd: root },
  );
  const newest = Math.max(...sources.map(timeOf));
  if (newest > timeOf("packages/rkat/dist/cli.js"))
    execFileSync("npm", ["run", "--silent", "build"], { cwd: root, stdio: "pipe" });
}
