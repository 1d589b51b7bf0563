// What grows with a folder and should not: each thing at several sizes, with the slope of the line through them on logarithmic
// scales. `--small` for a run of a minute, `--max 10k` for no larger size; `--only turns,events,forks,sessions,agents,disk,work,chunks`. With
// `--part`: only that, as JSON.
import { spawn } from "node:child_process";
import { parseArgs } from "node:util";
import { measureTalk, measureWork } from "./growth-disk.ts";
import { measureAgents, measureSessions } from "./growth-folders.ts";
import { type GrowthRow, tableOf, targetsOf } from "./growth-rows.ts";
import { measureChunks, measureEvents, measureForks, measureTurns } from "./growth-sessions.ts";
import { toSize } from "./memory-store-sizes.ts";
import { publish } from "./report.ts";

interface Part {
  readonly title: string;
  readonly small: readonly number[];
  readonly full: readonly number[];
  measure(sizes: readonly number[]): Promise<readonly GrowthRow[]>;
}

const PARTS: Readonly<Record<string, Part>> = {
  turns: { title: "a turn, after turns", small: [100, 1_000], full: [100, 1_000, 10_000], measure: measureTurns },
  events: { title: "a log of events", small: [2_000, 10_000], full: [10_000, 100_000], measure: measureEvents },
  forks: { title: "a fork of messages", small: [1_000, 10_000], full: [1_000, 10_000, 40_000], measure: measureForks },
  sessions: {
    title: "a folder of sessions",
    small: [300, 1_500],
    full: [1_000, 10_000, 100_000],
    measure: measureSessions,
  },
  agents: { title: "a folder of agents", small: [50, 200], full: [200, 2_000], measure: measureAgents },
  disk: {
    title: "on disk, over what was said, after turns of talk",
    small: [100, 400],
    full: [500, 5_000],
    measure: measureTalk,
  },
  work: {
    title: "on disk, over what was said, after turns of work",
    small: [50, 200],
    full: [200, 1_000],
    measure: measureWork,
  },
  chunks: {
    title: "a memory of chunks",
    small: [2_000, 10_000],
    full: [10_000, 100_000, 1_000_000],
    measure: measureChunks,
  },
};

// The other options are those of whoever runs all benches.
const { values } = parseArgs({
  strict: false,
  options: {
    small: { type: "boolean" },
    max: { type: "string" },
    only: { type: "string" },
    part: { type: "string" },
  },
});
const isSmall =
  values.small === true || process.env.npm_lifecycle_event === "bench" || process.argv.includes("--no-assert");

if (typeof values.part === "string") console.log(JSON.stringify(await measured(values.part)));
else await measureAll(typeof values.only === "string" ? values.only.split(",") : Object.keys(PARTS));

async function measured(name: string): Promise<readonly GrowthRow[]> {
  const part = PARTS[name];
  if (part === undefined) throw new Error(`--only: ${name} is none of ${Object.keys(PARTS).join(", ")}`);
  const sizes = isSmall ? part.small : part.full;
  const max = typeof values.max === "string" ? toSize("--max", values.max) : Number.POSITIVE_INFINITY;
  return part.measure(sizes.filter((size) => size <= max));
}

async function measureAll(names: readonly string[]): Promise<void> {
  const readings: { readonly title: string; readonly rows: readonly GrowthRow[] }[] = [];
  for (const name of names) readings.push({ title: PARTS[name]?.title ?? name, rows: await inProcess(name) });
  await publish({
    name: "growth",
    tables: readings.map(({ title, rows }) => tableOf(title, rows)),
    targets: readings.flatMap(({ rows }) => targetsOf(rows)),
    measured: readings,
  });
}

/** Each part alone: what one leaves in memory is not for another to collect. */
async function inProcess(name: string): Promise<readonly GrowthRow[]> {
  let text = "";
  const args = [
    import.meta.filename,
    "--part",
    name,
    ...(isSmall ? ["--small"] : []),
    ...(typeof values.max === "string" ? ["--max", values.max] : []),
  ];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  for await (const chunk of child.stdout) text += chunk;
  return JSON.parse(text);
}
