import { existsSync, globSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { runSimulation } from "@rkat/conformance/laboratory";
import { defaultConfig } from "@rkat/core/config/settings";
import { findModel } from "@rkat/core/providers/catalog";
import { readRecordedLog } from "@rkat/core/replay/replay-script";
import { readProbes } from "@rkat/core/runtime/probes";
import { recordLongWork } from "./recorded-long.ts";
import { publish } from "./report.ts";

// What the default rule for when to compact costs beside a threshold of 80 % of the window, on the recorded logs and on
// one that fills a window of a million tokens: with the windows of their models, and with a small one.
// `node bench/compaction-due.ts months` is a part.
const [only = "*"] = process.argv.slice(2).filter((arg) => !arg.startsWith("--"));
const WINDOW_SHARE = 0.8;
const SMALL_WINDOW = 64_000;

const recorded = join(import.meta.dirname, "logs");
const made = mkdtempSync(join(tmpdir(), "rkat-bench-due-"));
try {
  await recordLongWork(made);
  const files = [recorded, made].flatMap((folder) => globSync(`${folder}/${only}.jsonl`).sort());
  const published: Reading[] = [];
  const small: Reading[] = [];
  for (const file of files) published.push(await measure(file));
  for (const file of files.filter((one) => one.startsWith(recorded))) small.push(await measure(file, SMALL_WINDOW));
  const sum = (readings: readonly Reading[], of: (reading: Reading) => number): number =>
    readings.reduce((total, reading) => total + of(reading), 0);
  const ratio = (readings: readonly Reading[]): number =>
    sum(readings, ({ due }) => due.dollars) / sum(readings, ({ late }) => late.dollars);
  const worst = (readings: readonly Reading[]): number => Math.max(...readings.map((one) => ratio([one])));
  await publish({
    name: "compaction-due",
    tables: [tableOf(published), tableOf(small)],
    targets: [
      { what: "dollars, default over 80 %, windows of the models", value: ratio(published), max: 1 },
      { what: "of the log for which that is worst", value: worst(published), max: 1.01 },
      { what: "dollars, default over 80 %, windows of 64,000", value: ratio(small), max: 1 },
      // A log may end right after a compaction, whose cost nothing then saves.
      { what: "of the log for which that is worst", value: worst(small), max: 1.1 },
      { what: "facts lost", value: sum([...published, ...small], ({ due, late }) => due.lost + late.lost), max: 0 },
    ],
    measured: { published, small },
  });
} finally {
  rmSync(made, { recursive: true, force: true });
}

type Reading = Awaited<ReturnType<typeof measure>>;

function tableOf(readings: readonly Reading[]): string[][] {
  return [
    ["log", "window", "calls", "$ default", "$ at 80 %", "ratio", "default", "80 %", "lost", "probes", "largest"],
    ...readings.map(({ name, window, due, late }) => [
      name,
      String(window),
      String(due.calls),
      due.dollars.toFixed(3),
      late.dollars.toFixed(3),
      (due.dollars / late.dollars).toFixed(3),
      due.times,
      late.times,
      `${due.lost} / ${late.lost}`,
      `${due.probes} / ${late.probes}`,
      `${due.largest} / ${late.largest}`,
    ]),
  ];
}

async function measure(file: string, smallWindow?: number) {
  const name = basename(file, ".jsonl");
  const entries = readRecordedLog(readFileSync(file, "utf8"), file);
  const probes = file.replace(".jsonl", ".probes.json");
  const [first] = entries;
  const model = first?.body.kind === "session_created" ? first.body.settings.model : "";
  const window = smallWindow ?? findModel(model)?.context_window ?? 0;
  const { runs } = await runSimulation({
    logs: [
      { name, entries, probes: existsSync(probes) ? readProbes(readFileSync(probes, "utf8"), probes) : undefined },
    ],
    policies: [
      { name: "default", settings: {} },
      { name: "80 %", settings: { auto_compact_threshold: Math.floor(window * WINDOW_SHARE) } },
    ],
    summariesBy: "offline",
    config: { ...defaultConfig(), models: { [model]: { context_window: window } } },
    env: {},
    signal: new AbortController().signal,
    progress: (_done, _total, what) => process.stderr.write(`${what}\n`),
  });
  const [due, late] = runs.map((run) => ({
    calls: run.calls,
    dollars: run.cost?.total ?? Number.NaN,
    times: `${run.compactions}+${run.evictions}`,
    lost: run.specifics.lost,
    probes: `${run.probes.found}/${run.probes.asked}`,
    largest: run.largest_context,
  }));
  if (due === undefined || late === undefined) throw new Error(`${name}: two policies are compared`);
  return { name, window, due, late };
}
