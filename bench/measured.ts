import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { markdownTable } from "../docs/markdown.ts";

/** What a number must not exceed. */
export interface Target {
  readonly what: string;
  readonly value: number;
  readonly max: number;
}

/** What a bench leaves in `bench/results`. */
export interface Result {
  readonly name: string;
  readonly at: string;
  readonly commit: string;
  readonly machine: {
    readonly node: string;
    readonly arch: string;
    readonly cpus: number;
    readonly cpu: string;
  };
  readonly targets: readonly Target[];
}

const PAGE = join(import.meta.dirname, "../docs/measured.md");
const RESULTS = join(import.meta.dirname, "results");

/** Writes the results that are there to `docs/measured.md`. */
export async function writeMeasured(): Promise<void> {
  const names = (await readdir(RESULTS)).filter((name) => name.endsWith(".json")).sort();
  const results = names.map(async (name): Promise<Result> => JSON.parse(await readFile(join(RESULTS, name), "utf8")));
  await writeFile(PAGE, withResults(await readFile(PAGE, "utf8"), await Promise.all(results)));
}

/** The page with a section for each result, in place of the one that it has. */
export function withResults(page: string, results: readonly Result[]): string {
  const parts = page.split(/^(?=## )/m).map((text) => [/^## (.*)/.exec(text)?.[1] ?? "", text.trim()] as const);
  const sections = new Map([...parts, ...results.map((result) => [result.name, sectionOf(result)] as const)]);
  return `${[...sections.values()].join("\n\n")}\n`;
}

function sectionOf({ name, at, commit, machine, targets }: Result): string {
  const { node, arch, cpus, cpu } = machine;
  const rows = targets.map(({ what, value, max }) => [what, value.toFixed(2), `≤ ${max.toFixed(2)}`]);
  const where = `${at.slice(0, 10)}, commit ${commit}, ${arch}, ${cpus} × ${cpu}, Node ${node}.`;
  return [`## ${name}`, where, markdownTable(["what", "measured", "wanted"], rows)].join("\n\n");
}
