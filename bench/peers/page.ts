import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { markdownTable } from "../../docs/markdown.ts";
import { toSvg } from "./chart.ts";
import { LEFT_OUT } from "./peers.ts";
import type { PeersResult, Table } from "./result.ts";

const DOCS = join(import.meta.dirname, "../../docs");
const IDLE_MAX = 0.5;
const KEPT = join(import.meta.dirname, "result.json");

export async function readKept(): Promise<PeersResult> {
  return JSON.parse(await readFile(KEPT, "utf8"));
}

/** Keeps a result, and writes its page and its pictures. */
export async function keep(result: PeersResult): Promise<void> {
  await writeFile(KEPT, `${JSON.stringify(result, null, 2)}\n`);
  for (const [path, text] of filesOf(result)) await writeFile(join(DOCS, path), text);
}

/** The page and the pictures of a result, by their path in docs. */
export function filesOf(result: PeersResult): ReadonlyMap<string, string> {
  const charts = result.tables.flatMap(({ name, chart }) => (chart ? [[pictureOf(name), toSvg(chart)] as const] : []));
  return new Map([["compared-measured.md", pageOf(result)], ...charts]);
}

const pictureOf = (name: string): string => `pictures/peers-${name}.svg`;

function pageOf({ command, minutes, machine, peers, tables }: PeersResult): string {
  const { node, arch, cpus, cpu, load } = machine;
  const rows = peers.map(({ title, versions, memory, folder = "–", note, problem }) => [
    title,
    versions,
    memory,
    folder,
    [note, problem && `not installed as it should be: ${problem}`].filter((text) => text).join("; "),
  ]);
  return `${[
    "# Measured beside others",
    `\`${command}\` wrote this page on ${cpus} × ${cpu}, ${arch}, Node ${node}; its last run took ${minutes} minutes. ` +
      `The machine's load average was ${load.toFixed(1)} before it began${load > IDLE_MAX ? ": other programs used it too" : ""}. ` +
      "It installs each project from npm into a cache folder and gives all of them the same work in the same run, by turns, each in a process " +
      "of its own, against a model server on this machine that answers at once. What is compared is what the runtimes cost; no model thinks. " +
      "Figures are CPU time and bytes, not seconds. A row that rkat loses is a row like another.",
    "[Compared with others](compared.md) says what each project does; [measured](measured.md) has the limits that rkat keeps.",
    "## Projects",
    "Each is used as its own documentation says, and configured as written here; its driver is a file in `bench/peers/drivers`.",
    markdownTable(["project", "versions", "in memory", "kept on disk", "note"], rows),
    ...tables.flatMap(sectionOf),
    "## Left out",
    LEFT_OUT.map(([what, why]) => `- ${what}: ${why}.`).join("\n"),
  ].join("\n\n")}\n`;
}

function sectionOf({ name, title, at, commit, text, columns, rows, missing, chart }: Table): readonly string[] {
  return [
    `## ${title}`,
    `${text} Measured ${at.slice(0, 10)}, commit ${commit}.`,
    ...(rows.length > 0
      ? [
          markdownTable(
            [...columns],
            rows.map((row) => [...row]),
          ),
        ]
      : []),
    ...(chart && rows.length > 0 ? [`![${chart.title}](${pictureOf(name)})`] : []),
    ...(missing.length > 0
      ? [
          missing
            .map(
              ([contender, reason]) =>
                `- Missing, ${contender}: \`${reason.replace(/\s+/g, " ").replaceAll("`", "'")}\``,
            )
            .join("\n"),
        ]
      : []),
  ];
}
