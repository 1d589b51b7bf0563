import { existsSync, globSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { type LaboratoryPolicy, readPolicyFile, runSimulation } from "@rkat/conformance/laboratory";
import { defaultConfig } from "@rkat/core/config/settings";
import { readRecordedLog } from "@rkat/core/replay/replay-script";
import { readProbes } from "@rkat/core/runtime/probes";
import { formatTable } from "./table.ts";

// The recorded logs under the policies of `bench/policies`: what each costs, and what it keeps. All of it takes some minutes;
// `node bench/simulation.ts 'months' '40k-*'` is a part.
const [only = "*", chosen = "*"] = process.argv.slice(2);
const folder = join(import.meta.dirname, "logs");
const logs = globSync(`${only}.jsonl`, { cwd: folder })
  .sort()
  .map((file) => {
    const name = basename(file, ".jsonl");
    const probes = join(folder, `${name}.probes.json`);
    return {
      name,
      entries: readRecordedLog(readFileSync(join(folder, file), "utf8"), file),
      probes: existsSync(probes) ? readProbes(readFileSync(probes, "utf8"), probes) : undefined,
    };
  });
const policies = globSync(`policies/${chosen}.toml`, { cwd: import.meta.dirname })
  .sort()
  .map((file): LaboratoryPolicy => {
    const { name = basename(file, ".toml"), compaction } = readPolicyFile(
      readFileSync(join(import.meta.dirname, file), "utf8"),
      file,
    );
    return { name, settings: { ...compaction } };
  });
const { runs, sums } = await runSimulation({
  logs,
  policies,
  summariesBy: "offline",
  config: defaultConfig(),
  env: {},
  signal: new AbortController().signal,
  progress: (done, total, what) => process.stderr.write(`${done}/${total} ${what}\n`),
});
const rowOf = (name: string, run: (typeof sums)[number]): string[] => [
  name,
  run.policy,
  String(run.calls),
  String(run.input_tokens),
  String(run.cached_tokens),
  run.cost === undefined ? "?" : run.cost.total.toFixed(3),
  run.cost === undefined ? "?" : run.cost.summaries.toFixed(3),
  `${run.compactions}+${run.evictions}`,
  String(run.summaries),
  `${run.waited} (${(run.waited_share * 100).toFixed(1)} %)`,
  String(run.largest_context),
  String(run.specifics.lost),
  `${run.probes.found}/${run.probes.asked}`,
];
const heading = [
  "log",
  "policy",
  "calls",
  "input",
  "cached",
  "$",
  "$ summaries",
  "compactions+evictions",
  "summaries",
  "waited",
  "largest",
  "lost",
  "probes",
];
const rows = [...runs.map((run) => rowOf(run.log, run)), ...sums.map((sum) => rowOf("all", sum))];
console.log(formatTable([heading, ...rows]));
