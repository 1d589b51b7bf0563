import { readdir, readFile, stat } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import type { LaboratoryPolicy, loadPolicy } from "@rkat/conformance/laboratory";
import type { Config } from "@rkat/core/config/config-schema";
import { invalid, RuntimeError } from "@rkat/core/contract/error";
import type { Figures, Simulation, SummariesBy } from "@rkat/core/contract/wire/simulation";
import { readRecordedLog, writeRecordedLog } from "@rkat/core/replay/replay-script";
import type { SimulatedLog } from "@rkat/core/replay/simulation";
import { readProbes } from "@rkat/core/runtime/probes";
import { withoutControls } from "@rkat/core/text/terminal-text";
import { configuredRealm } from "@rkat/node/config/realm";
import { Option } from "commander";
import { type Call, command } from "../command-row.ts";
import { jsonFlag, repeated } from "../flags.ts";
import { alignColumns, costText, counted, createPaint, grouped, type Io, writeJson } from "../io.ts";
import { readConfiguration, withSessions } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";
import { withBar } from "../progress.ts";
import { keptPage } from "../session-page.ts";
import { findSession, SELECTOR_NOTE, shortId } from "../session-selector.ts";
import { refuseExisting, writeFileWhole } from "./output-file.ts";

interface Flags {
  readonly policy: readonly string[];
  readonly summaries: SummariesBy;
  readonly model?: string;
  readonly save?: string;
  readonly html?: string;
  readonly force?: boolean;
  readonly json?: boolean;
}

/** `rkat compact simulate`: recorded sessions, replayed under other policies. */
export const simulateRow = command("compact simulate LOG…", {
  text: "Replay recorded sessions under other policies, and compare what each costs and keeps. The sessions are not changed, and no model is called unless --summaries model is given.",
  usage: "SESSION|FILE... [options]",
  flags: () => [
    repeated("--policy <file>", "a file with keys of [compaction]; without it, the configured ones and the defaults"),
    new Option("--summaries <by>", "who writes summaries: offline, recorded (the log's own, where it has one) or model")
      .choices(["offline", "recorded", "model"])
      .default("offline"),
    new Option("-m, --model <name>", "count and price as if this model had been asked; without it, the recorded one"),
    new Option("--save <file>", "also write the session's log to a file, to be replayed elsewhere"),
    new Option("--html <file>", "also write a page with charts that any browser shows"),
    new Option("--force", "with --html: overwrite the file"),
    jsonFlag(),
  ],
  examples: [
    ["rkat compact simulate last", "the configured policy against the defaults"],
    ["rkat compact simulate last --policy a.toml --policy b.toml", "two policies against each other"],
    ["rkat compact simulate logs/*.jsonl --policy a.toml --html report.html", "recorded logs, with charts"],
    ["rkat compact simulate last --summaries model", "with summaries of the configured model, which cost money"],
  ],
  notes: [
    SELECTOR_NOTE,
    ["A policy file holds", "keys of [compaction], such as auto_compact_threshold = 60_000, and an optional name"],
    ["Exit codes", "0 done · 2 wrong input · 10 no such session · 30 a replay broke off · 130 interrupted"],
  ],
  run: ({ invocation, self, flags }: Call<Flags>) => simulateLogs(invocation, self.args, flags),
});

async function simulateLogs(invocation: Invocation, words: readonly string[], flags: Flags): Promise<void> {
  const { io } = invocation;
  const { html, force = false, json, model } = flags;
  if (force && html === undefined) throw invalid("--force is for --html; leave it out");
  const path = html === undefined ? undefined : resolve(io.cwd, html);
  const file = { shown: html ?? "", isForced: force };
  // Checked before the replay.
  if (path !== undefined) await refuseExisting(path, file);
  const { config } = await readConfiguration(invocation);
  const laboratory = await import("@rkat/conformance/laboratory");
  const policies = await policiesOf(invocation, laboratory.loadPolicy, { config, files: flags.policy });
  const logs = await logsOf(invocation, words);
  if (flags.save !== undefined) await saveLog(invocation, logs, flags.save);
  const simulation = await withBar(io, (bar) =>
    laboratory.runSimulation({
      logs,
      policies,
      summariesBy: flags.summaries,
      model,
      config,
      env: io.env,
      signal: io.interrupt,
      progress: (done, total, what) => bar.show(what, done, total),
    }),
  );
  if (json) writeJson(io, simulation);
  else io.stdout.write(`${simulationLines(io, simulation).join("\n")}\n`);
  if (path !== undefined && html !== undefined) {
    await writeFileWhole(path, [await keptPage("kept-simulation", simulation)], file);
    io.stderr.write(`Wrote ${html}.\n`);
  }
}

interface Asked {
  readonly config: Config;
  readonly files: readonly string[];
}

async function policiesOf(
  { io }: Invocation,
  load: typeof loadPolicy,
  { config, files }: Asked,
): Promise<readonly LaboratoryPolicy[]> {
  const configured: LaboratoryPolicy = { name: "configured", settings: { ...config.compaction } };
  const byDefault: LaboratoryPolicy = { name: "default", settings: {} };
  if (files.length === 0) return Object.keys(config.compaction).length === 0 ? [byDefault] : [configured, byDefault];
  const policies: LaboratoryPolicy[] = [];
  for (const shown of files) {
    const path = resolve(io.cwd, shown);
    const text = await textOf(path, shown, "--policy");
    const policy = await load(text, { path, shown, named: basename(shown).replace(/\.toml$/, "") });
    if (policies.some(({ name }) => name === policy.name)) {
      throw invalid(`${shown}: another policy is named ${policy.name}; write name = "…"`);
    }
    policies.push(policy);
  }
  return policies;
}

const FILE_BYTES_MAX = 256 * 1024 * 1024;
const PATH_LIKE = /[/\\]|\.jsonl$/;
const LOG_FILE = /\.jsonl$/;

async function logsOf(invocation: Invocation, words: readonly string[]): Promise<readonly SimulatedLog[]> {
  const logs: SimulatedLog[] = [];
  const add = (log: SimulatedLog): void => {
    const again = logs.filter(({ name }) => name === log.name || name.startsWith(`${log.name} (`)).length;
    logs.push(again === 0 ? log : { ...log, name: `${log.name} (${again + 1})` });
  };
  for (const word of words) {
    const path = resolve(invocation.io.cwd, word);
    const found = await stat(path).catch(() => undefined);
    if (found === undefined && !PATH_LIKE.test(word)) add(await keptLog(invocation, word));
    else if (found?.isDirectory()) for (const log of await folderLogs(path, word)) add(log);
    else add(await fileLog(path, word));
  }
  return logs;
}

async function folderLogs(folder: string, shown: string): Promise<readonly SimulatedLog[]> {
  const names = (await readdir(folder)).filter((name) => LOG_FILE.test(name)).sort();
  if (names.length === 0) throw invalid(`${shown}: it has no .jsonl files; name a log`);
  return Promise.all(names.map((name) => fileLog(join(folder, name), join(shown, name))));
}

async function fileLog(path: string, shown: string): Promise<SimulatedLog> {
  const entries = readRecordedLog(await textOf(path, shown, "a log"), shown);
  const besides = shown.replace(LOG_FILE, "") + PROBES;
  const probes = await readFile(path.replace(LOG_FILE, "") + PROBES, "utf8").catch(() => undefined);
  const name = basename(shown).replace(LOG_FILE, "");
  return { name, entries, probes: probes === undefined ? undefined : readProbes(probes, besides) };
}

const PROBES = ".probes.json";

async function keptLog(invocation: Invocation, word: string): Promise<SimulatedLog> {
  const { id, address, encryption } = await withSessions(invocation, async (opened) => {
    const { store, encryption } = opened.config;
    const realm = configuredRealm(opened.place, store, { paths: false }).realm_id;
    const address = store.url === undefined ? { place: opened.place.stateFolder } : { place: store.url, realm };
    const id = await findSession(opened, word);
    // Throws SESSION_NOT_FOUND as every command does.
    await opened.runtime.dispatch("readSession", { session_id: id });
    return { id, address, encryption };
  });
  const { readKeptLog } = await import("@rkat/node/store-places");
  return { name: shortId(id), entries: await readKeptLog(address, id, encryption) };
}

async function saveLog({ io }: Invocation, logs: readonly SimulatedLog[], file: string): Promise<void> {
  const [log, ...others] = logs;
  if (log === undefined || others.length > 0) throw invalid("--save writes one log; name one session");
  await writeFileWhole(resolve(io.cwd, file), [writeRecordedLog(log.entries)], {
    shown: file,
    isForced: false,
    instead: "name another file",
  });
  io.stderr.write(`Wrote ${file}. Anyone who gets the file can read the whole session.\n`);
}

async function textOf(path: string, shown: string, what: string): Promise<string> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined) throw invalid(`${shown}: there is no such file for ${what}`);
  if (!found.isFile()) throw invalid(`${shown}: it is not a regular file; name one for ${what}`);
  if (found.size > FILE_BYTES_MAX) throw new RuntimeError("PAYLOAD_TOO_LARGE", `${shown}: it is larger than 256 MiB`);
  const bytes = await readFile(path).catch((cause: unknown) => {
    throw invalid(`${shown} cannot be read; check its permissions`, cause);
  });
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    throw invalid(`${shown} is not UTF-8 text`, cause);
  }
}

/** A simulation as text: one table per log, and one for all. */
function simulationLines({ stdout, env }: Io, { logs, runs, sums, summaries }: Simulation): readonly string[] {
  const { bold, dim, yellow } = createPaint(stdout, env);
  const tables = logs.flatMap(({ name, model, calls, turns, is_priced, notes }) => [
    bold(withoutControls(name)) +
      dim(`  ${withoutControls(model)}, ${counted(turns, "turn")}, ${counted(calls, "call")}`),
    ...tableOf(runs.filter(({ log }) => log === name)),
    ...(is_priced ? [] : [yellow(`! no price of ${withoutControls(model)} is known; -m names another model`)]),
    ...notes.map((note) => dim(`  ${withoutControls(note)}`)),
    "",
  ]);
  const all = logs.length > 1 ? [bold(`All ${logs.length} logs`), ...tableOf(sums), ""] : [];
  const made =
    summaries === "model"
      ? "by the configured model"
      : summaries === "recorded"
        ? "as recorded, else offline"
        : "offline";
  return [...tables, ...all, dim(`Summaries: ${made}. Cost: turns + summaries. Specifics: kept · recoverable · lost.`)];
}

const HEADING = [
  "policy",
  "input",
  "cached",
  "output",
  "cost",
  "compactions",
  "evictions",
  "summaries",
  "waited",
  "largest",
  "specifics",
  "recall",
];

function tableOf(rows: readonly (Figures & { readonly policy: string })[]): readonly string[] {
  return alignColumns([HEADING, ...rows.map(rowOf)]).map((line) => `  ${line}`);
}

function rowOf(run: Figures & { readonly policy: string }): readonly string[] {
  const { cost, specifics, probes } = run;
  const kept = specifics.in_summary + specifics.in_tail + specifics.pinned;
  const failed = run.failed === 0 ? "" : ` (${run.failed} failed)`;
  return [
    run.policy,
    grouped(run.input_tokens + run.summary_input_tokens),
    grouped(run.cached_tokens),
    grouped(run.output_tokens + run.summary_output_tokens),
    cost === undefined ? "?" : `${costText({ amount: cost.turns })} + ${costText({ amount: cost.summaries })}`,
    `${grouped(run.compactions)}${failed}`,
    grouped(run.evictions),
    grouped(run.summaries),
    `${grouped(run.waited)} (${(run.waited_share * 100).toFixed(1)} %)`,
    grouped(run.largest_context),
    `${grouped(kept)} · ${grouped(specifics.recoverable)} · ${grouped(specifics.lost)}`,
    probes.asked === 0 ? "–" : `${probes.found} of ${probes.asked}`,
  ];
}
