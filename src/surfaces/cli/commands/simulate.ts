import { readdir, readFile, stat, writeFile } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { Argument, type Command, Option } from "commander";
import type { Config } from "../../../config/load-config.ts";
import { RuntimeError } from "../../../contract/error.ts";
import type { SummariesBy } from "../../../contract/simulation.ts";
import { readProbes } from "../../../service/probes.ts";
import { readRecordedLog, writeRecordedLog } from "../../../service/recorded-log.ts";
import type { SimulatedLog } from "../../../service/simulation.ts";
import { configuredRealm, isErrno } from "../../wire/realm.ts";
import { jsonFlag, repeated } from "../flags.ts";
import { describeHelp } from "../help.ts";
import { writeJson } from "../io.ts";
import { readConfiguration, withSessions } from "../open-runtime.ts";
import type { Invocation, Laboratory, LaboratoryPolicy } from "../parts.ts";
import { withBar } from "../progress.ts";
import { keptPage } from "../session-page.ts";
import { findSession, SELECTOR_NOTE, shortId } from "../session-selector.ts";
import { refuseExisting, writeFileWhole } from "./output-file.ts";
import { simulationLines } from "./simulation-view.ts";

interface Flags {
  readonly policy: readonly string[];
  readonly summaries: SummariesBy;
  readonly model?: string;
  readonly save?: string;
  readonly html?: string;
  readonly force?: boolean;
  readonly json?: boolean;
}

/** Declares `rkat compact simulate`: recorded sessions, replayed under other policies. */
export function addSimulate(parent: Command, invocation: Invocation): void {
  const command = parent
    .command("simulate")
    .summary("replay recorded sessions under other policies")
    .description(
      "Replays sessions, or files of recorded logs, under other ways to compact, and compares what each costs and " +
        "keeps. Nothing of the sessions is changed, and no model is asked unless --summaries says so.",
    )
    .addArgument(new Argument("<log...>"))
    .usage("SESSION|FILE... [options]")
    .addOption(
      repeated("--policy <file>", "a file with keys of [compaction]; without it, what is configured and the defaults"),
    )
    .addOption(
      new Option(
        "--summaries <by>",
        "who writes summaries: offline, recorded (the log's own, where it has one) or model",
      )
        .choices(["offline", "recorded", "model"])
        .default("offline"),
    )
    .option("-m, --model <name>", "count and price as if this model had been asked; without it, the recorded one")
    .option("--save <file>", "also write the session's log to a file, to be replayed elsewhere")
    .option("--html <file>", "also write a page with charts that any browser shows")
    .option("--force", "with --html: overwrite the file")
    .addOption(jsonFlag())
    .action((words: readonly string[], flags: Flags) => simulateLogs(invocation, words, flags));
  describeHelp(command, {
    examples: [
      ["rkat compact simulate last", "what is configured, against the defaults"],
      ["rkat compact simulate last --policy a.toml --policy b.toml", "two policies against each other"],
      ["rkat compact simulate logs/*.jsonl --policy a.toml --html report.html", "recorded logs, with charts"],
      ["rkat compact simulate last --summaries model", "with summaries of the configured model, which cost money"],
    ],
    notes: [
      SELECTOR_NOTE,
      ["A policy file holds", "keys of [compaction], such as auto_compact_threshold = 60_000, and a name if it likes"],
      ["Exit codes", "0 done · 2 wrong input · 10 no such session · 30 a replay broke off · 130 interrupted"],
    ],
  });
}

async function simulateLogs(invocation: Invocation, words: readonly string[], flags: Flags): Promise<void> {
  const { io, parts } = invocation;
  const { html, force = false, json, model } = flags;
  if (force && html === undefined) throw new RuntimeError("INVALID_PARAMS", "--force is for --html; leave it out");
  const path = html === undefined ? undefined : resolve(io.cwd, html);
  const file = { shown: html ?? "", isForced: force };
  // Before everything is replayed for nothing.
  if (path !== undefined) await refuseExisting(path, file);
  const { config } = await readConfiguration(invocation);
  const laboratory = await parts.loadLaboratory();
  const policies = await policiesOf(invocation, laboratory, { config, files: flags.policy });
  const logs = await logsOf(invocation, laboratory, words);
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
  { loadPolicy }: Laboratory,
  { config, files }: Asked,
): Promise<readonly LaboratoryPolicy[]> {
  const configured: LaboratoryPolicy = { name: "configured", settings: { ...config.compaction } };
  const byDefault: LaboratoryPolicy = { name: "default", settings: {} };
  if (files.length === 0) return Object.keys(config.compaction).length === 0 ? [byDefault] : [configured, byDefault];
  const policies: LaboratoryPolicy[] = [];
  for (const shown of files) {
    const path = resolve(io.cwd, shown);
    const text = await textOf(path, shown, "--policy");
    const policy = await loadPolicy(text, { path, shown, named: basename(shown).replace(/\.toml$/, "") });
    if (policies.some(({ name }) => name === policy.name)) {
      throw new RuntimeError("INVALID_PARAMS", `${shown}: another policy is named ${policy.name}; write name = "…"`);
    }
    policies.push(policy);
  }
  return policies;
}

const FILE_BYTES_MAX = 256 * 1024 * 1024;
const PATH_LIKE = /[/\\]|\.jsonl$/;
const LOG_FILE = /\.jsonl$/;

async function logsOf(
  invocation: Invocation,
  laboratory: Laboratory,
  words: readonly string[],
): Promise<readonly SimulatedLog[]> {
  const logs: SimulatedLog[] = [];
  const add = (log: SimulatedLog): void => {
    const again = logs.filter(({ name }) => name === log.name || name.startsWith(`${log.name} (`)).length;
    logs.push(again === 0 ? log : { ...log, name: `${log.name} (${again + 1})` });
  };
  for (const word of words) {
    const path = resolve(invocation.io.cwd, word);
    const found = await stat(path).catch(() => undefined);
    if (found === undefined && !PATH_LIKE.test(word)) add(await keptLog(invocation, laboratory, word));
    else if (found?.isDirectory()) for (const log of await folderLogs(path, word)) add(log);
    else add(await fileLog(path, word));
  }
  return logs;
}

async function folderLogs(folder: string, shown: string): Promise<readonly SimulatedLog[]> {
  const names = (await readdir(folder)).filter((name) => LOG_FILE.test(name)).sort();
  if (names.length === 0) throw new RuntimeError("INVALID_PARAMS", `${shown}: it has no .jsonl files; name a log`);
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

async function keptLog(invocation: Invocation, laboratory: Laboratory, word: string): Promise<SimulatedLog> {
  const { id, address, encryption } = await withSessions(invocation, async (opened) => {
    const { store, encryption } = opened.config;
    const realm = configuredRealm(opened.place, store, { paths: false }).realm_id;
    const address = store.url === undefined ? { place: opened.place.stateFolder } : { place: store.url, realm };
    const id = await findSession(opened, word);
    // Whoever may not see it, or names one that is not there, is told as everywhere.
    await opened.runtime.dispatch("readSession", { session_id: id });
    return { id, address, encryption };
  });
  return { name: shortId(id), entries: await laboratory.readKeptLog(address, id, encryption) };
}

async function saveLog({ io }: Invocation, logs: readonly SimulatedLog[], file: string): Promise<void> {
  const [log, ...others] = logs;
  if (log === undefined || others.length > 0) {
    throw new RuntimeError("INVALID_PARAMS", "--save writes one log; name one session");
  }
  try {
    await writeFile(resolve(io.cwd, file), writeRecordedLog(log.entries), { flag: "wx", mode: 0o600 });
  } catch (cause) {
    const code = isErrno(cause) ? cause.code : undefined;
    const why = code === "EEXIST" ? "is there already; name another file" : `cannot be written: ${code ?? "it failed"}`;
    throw new RuntimeError("INVALID_PARAMS", `${file} ${why}`, { cause });
  }
  io.stderr.write(`Wrote ${file}. Whoever has the file can read all of it.\n`);
}

async function textOf(path: string, shown: string, what: string): Promise<string> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined) throw new RuntimeError("INVALID_PARAMS", `${shown}: there is no such file for ${what}`);
  if (!found.isFile()) throw new RuntimeError("INVALID_PARAMS", `${shown}: it is no plain file; name one for ${what}`);
  if (found.size > FILE_BYTES_MAX) throw new RuntimeError("PAYLOAD_TOO_LARGE", `${shown}: it is larger than 256 MiB`);
  const bytes = await readFile(path).catch((cause: unknown) => {
    throw new RuntimeError("INVALID_PARAMS", `${shown} cannot be read; check its permissions`, { cause });
  });
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new RuntimeError("INVALID_PARAMS", `${shown} is not UTF-8 text`, { cause });
  }
}
