import { execFileSync } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { availableParallelism, cpus } from "node:os";
import { join } from "node:path";
import type { Result, Target } from "./measured.ts";
import { formatTable } from "./table.ts";

export interface Report {
  /** Names the file of the results. */
  readonly name: string;
  readonly tables: readonly (readonly (readonly string[])[])[];
  readonly targets: readonly Target[];
  /** Everything measured, for comparing with another day. */
  readonly measured: object;
}

/** Prints a report, keeps it, and fails the process when a target is missed, unless `--no-assert` is given. */
export async function publish(report: Report): Promise<void> {
  const { name, tables, targets, measured } = report;
  const rows = targets.map(({ what, value, max }) => [
    what,
    value.toFixed(2),
    `≤ ${max.toFixed(2)}`,
    isMet({ value, max }) ? "met" : "MISSED",
  ]);
  const all = [...tables, [["target", "measured", "wanted", ""], ...rows]];
  console.log(`\n# ${name}\n\n${all.map(formatTable).join("\n\n")}\n`);
  const folder = join(import.meta.dirname, "results");
  await mkdir(folder, { recursive: true });
  const machine = {
    node: process.version,
    arch: process.arch,
    cpus: availableParallelism(),
    cpu: cpus()[0]?.model ?? "unknown",
  };
  const kept: Result & { readonly measured: object } = {
    name,
    at: new Date().toISOString(),
    commit: execFileSync("git", ["describe", "--always", "--dirty"], { encoding: "utf8" }).trim(),
    machine,
    targets,
    measured,
  };
  await writeFile(join(folder, `${name}.json`), `${JSON.stringify(kept, null, 2)}\n`);
  if (targets.every(isMet) || process.argv.includes("--no-assert")) return;
  process.exitCode = 1;
}

function isMet({ value, max }: Pick<Target, "value" | "max">): boolean {
  return value <= max;
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const [low = Number.NaN, high = low] =
    sorted.length % 2 === 1 ? [sorted[middle]] : sorted.slice(middle - 1, middle + 1);
  return (low + high) / 2;
}
