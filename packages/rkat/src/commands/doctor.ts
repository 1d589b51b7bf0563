import { constants } from "node:fs";
import { access, chmod, lstat, readdir, realpath, rm, stat } from "node:fs/promises";
import { dirname, isAbsolute, join, relative } from "node:path";
import type { Config } from "@rkat/core/config/config-schema";
import { asRuntimeError, ERRORS, invalid } from "@rkat/core/contract/error";
import { isJsonTable } from "@rkat/core/contract/json";
import type { SubAgent } from "@rkat/core/ports/sub-agent";
import { nearMiss } from "@rkat/core/text/near-miss";
import { withoutControls } from "@rkat/core/text/terminal-text";
import type { LoadedConfig } from "@rkat/node/config/load-config";
import { isErrno, realmNameIn } from "@rkat/node/config/realm";
import type { verifyDatabase } from "@rkat/node/store-places";
import { Option } from "commander";
import { canAsk, isAgreed } from "../chat/ask-person.ts";
import { type Call, command } from "../command-row.ts";
import { chooseModel, lacksModel } from "../first-run.ts";
import { jsonFlag } from "../flags.ts";
import { bytesText, counted, createPaint, writeJson } from "../io.ts";
import { isThere, loadHere, readConfiguration, withSessions } from "../open-runtime.ts";
import type { Invocation, ModelOutlook, Parts } from "../parts.ts";
import { whileWaiting } from "../progress.ts";
import { changeConfigFile, isProjectFile, shownPath, userFileOf, withKeyRenamed } from "./config.ts";
import { LOCK_ENDING } from "./output-file.ts";
import { subAgentsIn } from "./overview.ts";
import { PLAIN_BEFORE } from "./store.ts";

export const doctorRow = command("doctor", {
  text: "Check the setup and fix problems: Node, the configuration, keys and the folder.",
  flags: () => [
    new Option("--verify", "read all stored data and check that it is complete and unchanged"),
    new Option("--fix", "fix what can be fixed, and ask before each change"),
    new Option("--yes", "with --fix: fix without asking"),
    jsonFlag(),
  ],
  examples: [
    ["rkat doctor", "sends nothing, shows no key"],
    ["rkat doctor --fix", "asks before each change"],
    ["rkat doctor --verify", "changes nothing"],
    ["rkat doctor --verify --store postgres://rkat@db/rkat", "a database; its password from PGPASSWORD"],
  ],
  notes: [["Exit codes", "0 a turn can run · 1 something is broken · 31 a record is damaged (--verify)"]],
  run: check,
});

async function check({ invocation, flags }: Call<DoctorFlags>): Promise<void> {
  const { verify, json } = flags;
  if (flags.fix && verify) throw invalid("--fix changes files and --verify only reads; use one of them");
  if (flags.yes && !flags.fix) throw invalid("--yes answers what --fix asks; write both");
  if (verify) return verifySessions(invocation, json === true);
  const fixes = flags.fix ? await fixProblems(invocation, flags.yes === true) : undefined;
  const findings = await examine(invocation);
  const isHealthy = findings.every(({ status }) => status !== "broken");
  if (json) writeJson(invocation.io, { ok: isHealthy, findings, ...fixes });
  else print(invocation, findings, fixes);
  invocation.exitWith(isHealthy ? 0 : 1);
}

interface DoctorFlags {
  readonly fix?: boolean;
  readonly yes?: boolean;
  readonly verify?: boolean;
  readonly json?: boolean;
}

async function examine(invocation: Invocation): Promise<readonly Finding[]> {
  const { io, parts, place } = invocation;
  const node: Finding = { check: "node", status: "ok", finding: `Node ${io.nodeVersion}` };
  const folder = await examineFolder(place().projectRoot);
  try {
    const { config, sources, mcpServers, subAgents, brought, leftOut, problems, advice } = await loadHere(invocation);
    const from = sources.length === 0 ? "defaults; no file was found" : sources.join(", ");
    const hint = sources.length === 0 ? { fix: "rkat init writes one to edit" } : {};
    const configuration: Finding = { check: "configuration", status: "ok", finding: from, ...hint };
    const models = await examineModels(config, await parts.inspectModels(config));
    return [
      node,
      configuration,
      ...examineTrust(brought, leftOut),
      ...models,
      ...examineServers(mcpServers),
      ...examineAgents(await subAgentsIn({ config, subAgents }), problems),
      ...advice.map((finding): Finding => ({ check: "sub-agents", status: "missing", finding })),
      folder,
      await examineSessions(invocation, config),
      ...(await examineSeal(invocation, config)),
    ];
  } catch (thrown) {
    return [node, ...brokenConfiguration(thrown), folder];
  }
}

/** No finding where the project's files request nothing. */
function examineTrust(brought: LoadedConfig["brought"], leftOut: string | undefined): readonly Finding[] {
  const check = "trust";
  if (leftOut !== undefined) return [{ check, status: "missing", finding: leftOut, fix: "rkat trust --status" }];
  if (brought.length === 0) return [];
  const isKept = brought.every(({ state }) => state === "trusted");
  const how = isKept ? "trusted as they are" : "trusted for this run: --trust or RKAT_TRUST";
  return [{ check, status: "ok", finding: `${brought.map(({ path }) => path).join(", ")}: ${how}` }];
}

function brokenConfiguration(thrown: unknown): readonly Finding[] {
  const { message } = asRuntimeError(thrown);
  return [{ check: "configuration", status: "broken", finding: message, fix: "edit it, then run rkat doctor again" }];
}

/** Servers are listed, not tested: a test would start a program. */
function examineServers(servers: LoadedConfig["mcpServers"]): readonly Finding[] {
  const finding = servers.map(({ name, enabled }) => (enabled === false ? `${name} (off)` : name)).join(", ");
  return finding === "" ? [] : [{ check: "MCP servers", status: "ok", finding, fix: "rkat mcp list tests them" }];
}

function examineAgents(agents: readonly SubAgent[], problems: LoadedConfig["problems"]): readonly Finding[] {
  const check = "sub-agents";
  const finding = agents.map(({ name }) => name).join(", ");
  const named: readonly Finding[] = finding === "" ? [] : [{ check, status: "ok", finding }];
  return [
    ...named,
    ...problems.map((problem): Finding => {
      const isInstructions = /(?:AGENTS|CLAUDE)\.md is left out/.test(problem);
      const other = isInstructions ? "AGENTS.md" : "skills";
      return { check: problem.startsWith("a sub-agent") ? check : other, status: "missing", finding: problem };
    }),
  ];
}

async function examineModels(config: Config, outlook: ModelOutlook): Promise<readonly Finding[]> {
  const providers = outlook.providers.map(({ provider, keyVariable, hasKey, baseUrl }): Finding => {
    const check = `provider ${provider}`;
    const [address] = baseUrl.split("?");
    if (hasKey) return { check, status: "ok", finding: `key in ${keyVariable}, ${address}` };
    return { check, status: "missing", finding: `no key, ${address}`, fix: `set ${keyVariable}` };
  });
  const servers = Object.entries(config.self_hosted.servers).map(([name, { base_url }]): Finding => {
    return { check: `server ${name}`, status: "ok", finding: base_url };
  });
  return [...providers, ...servers, await examineDefault(outlook)];
}

async function examineDefault(outlook: ModelOutlook): Promise<Finding> {
  const check = "default model";
  try {
    const { provider, modelId } = await outlook.chooseDefault();
    return { check, status: "ok", finding: `${modelId} (${provider})` };
  } catch (thrown) {
    return { check, status: "missing", finding: asRuntimeError(thrown).message };
  }
}

async function examineFolder(cwd: string): Promise<Finding> {
  try {
    await access(cwd, constants.W_OK);
    return { check: "folder", status: "ok", finding: `${cwd} is writable` };
  } catch {
    const fix = "turns run, but tools cannot change files here; choose another folder or its permissions";
    return { check: "folder", status: "missing", finding: `${cwd} is not writable`, fix };
  }
}

function print({ io }: Invocation, findings: readonly Finding[], fixes: Fixes | undefined): void {
  const { green, yellow, red, dim } = createPaint(io.stdout, io.env);
  for (const sentence of fixes?.fixed ?? []) io.stdout.write(`${green("Fixed:")} ${withoutControls(sentence)}\n`);
  for (const sentence of fixes?.left ?? []) io.stdout.write(`${yellow("Left:")} ${withoutControls(sentence)}\n`);
  if (fixes?.fixed.length === 0 && fixes.left.length === 0) io.stdout.write("There is nothing to fix.\n");
  if (fixes !== undefined) io.stdout.write("\n");
  const marks = { ok: green("✓"), missing: yellow("–"), broken: red("✗") };
  const width = Math.max(...findings.map(({ check }) => check.length));
  for (const { check, status, finding, fix } of findings) {
    io.stdout.write(`${marks[status]} ${withoutControls(`${check.padEnd(width)}  ${finding}`)}\n`);
    if (fix !== undefined) io.stdout.write(`${" ".repeat(width + 4)}${dim(withoutControls(fix))}\n`);
  }
  const isHealthy = findings.every(({ status }) => status !== "broken");
  io.stdout.write(
    isHealthy ? '\nA turn can run. Try: rkat "hello" --model offline\n' : "\nNo turn can run until this is fixed.\n",
  );
}

/** One check. `missing` is not a fault: a turn can run without it. */
interface Finding {
  readonly check: string;
  readonly status: "ok" | "missing" | "broken";
  readonly finding: string;
  readonly fix?: string;
}

/** Where sessions are stored, their number and their size. */
async function examineSessions(invocation: Invocation, config: Config): Promise<Finding> {
  const check = "state";
  const { stateFolder } = invocation.place();
  if (!config.features.includes("session-store")) {
    return { check, status: "missing", finding: "not kept: the features leave out session-store" };
  }
  if (config.store.url !== undefined) return examineDatabase(invocation, config.store);
  if (!(await isThere(stateFolder))) {
    return { check, status: "ok", finding: `none yet; they will be kept in ${stateFolder}` };
  }
  try {
    const kept = await withSessions(invocation, async ({ runtime }) => {
      const sessions = counted((await runtime.listSessions()).length, "session");
      const { agents } = await runtime.dispatch("listAgents", {});
      return agents.length === 0 ? sessions : `${sessions}, ${counted(agents.length, "agent")}`;
    });
    const size = bytesText(await folderBytes(stateFolder));
    return { check, status: "ok", finding: `${kept}, ${size} in ${stateFolder}` };
  } catch (thrown) {
    const fix = "rkat doctor --verify shows what is damaged";
    return { check, status: "broken", finding: asRuntimeError(thrown).message, fix };
  }
}

/** No finding where nothing is encrypted and no key is named. */
async function examineSeal({ place }: Invocation, { encryption }: Config): Promise<readonly Finding[]> {
  const check = "encryption";
  const hasKey = Object.keys(encryption).length > 0;
  try {
    const { inspectSeal, keepsPlain } = await import("@rkat/node/sealed-realm");
    const report = await inspectSeal(place().stateFolder);
    if (report === undefined && !hasKey) return [];
    if (report === undefined && keepsPlain(place().stateFolder))
      return [
        { check, status: "missing", finding: "not encrypted although a key is named", fix: "rkat encryption enable" },
      ];
    if (report === undefined) return [{ check, status: "ok", finding: "begins with the first turn" }];
    const [problem] = report.problems;
    if (problem !== undefined) return [{ check, status: "broken", finding: problem }];
    const finding = `encrypted with the key ${report.keyId}, which wraps ${report.keys} others`;
    return [{ check, status: "ok", finding, ...(report.isPlainBefore ? { fix: PLAIN_BEFORE } : {}) }];
  } catch (thrown) {
    return [{ check, status: "broken", finding: asRuntimeError(thrown).message }];
  }
}

/** The database: its address, its latency, and the processes that use the realm. */
async function examineDatabase({ place }: Invocation, { url = "", ...store }: Config["store"]): Promise<Finding> {
  const check = "database";
  try {
    const realm = realmNameIn(place(), { url, ...store });
    const report = await (await import("@rkat/postgres")).inspectDatabase({ url, realm });
    const { server, place: where, latencyMs } = report;
    const reached = `PostgreSQL ${server} at ${where}, ${latencyMs.toFixed(1)} ms away`;
    if (report.schema === undefined) {
      return { check, status: "ok", finding: `${reached}; empty, its tables are made by the first turn` };
    }
    const kept = `${counted(report.sessions, "session")} and ${counted(report.agents, "agent")} in realm ${realm}`;
    const now = `${counted(report.held, "turn")} running, by ${counted(report.processes, "holder")}`;
    return { check, status: "ok", finding: `${reached}; ${kept}; ${now}` };
  } catch (thrown) {
    const fix = "check RKAT_STORE_URL or [store] url, and that the database runs and accepts this user";
    return { check, status: "broken", finding: asRuntimeError(thrown).message, fix };
  }
}

async function folderBytes(folder: string): Promise<number> {
  const names = await readdir(folder, { recursive: true });
  let bytes = 0;
  for (const name of names) {
    // A file may be deleted meanwhile; it then has no size.
    const found = await stat(join(folder, name)).catch(() => undefined);
    if (found?.isFile()) bytes += found.size;
  }
  return bytes;
}

/** Checks the realm of the command's folder: its database, or its state folder. */
async function verifySessions(invocation: Invocation, isJson: boolean): Promise<void> {
  const place = invocation.place();
  // The command without the flag reports an invalid configuration; the folder can be checked without one.
  const config = (await readConfiguration(invocation).catch(() => undefined))?.config;
  const store = config?.store;
  if (store?.url !== undefined) {
    const address = { place: store.url, realm: realmNameIn(place, store) };
    return verifyKept(invocation, isJson, async () =>
      (await import("@rkat/node/store-places")).verifyDatabase(address),
    );
  }
  const { stateFolder } = place;
  const options = { encryption: config?.encryption ?? {}, env: invocation.io.env };
  await verifyKept(invocation, isJson, async () =>
    (await isThere(stateFolder)) ? invocation.parts.verifyStore(stateFolder, options) : NOTHING,
  );
}

type Report = Awaited<ReturnType<Parts["verifyStore"] | typeof verifyDatabase>>;

const NOTHING: Report = { segments: 0, records: 0, sessions: 0, agents: 0, bytes: 0, blobs: 0, problems: [] };

/** Checks all stored data, and exits with the store's code when something is damaged. */
async function verifyKept({ io, exitWith }: Invocation, isJson: boolean, verify: () => Promise<Report>): Promise<void> {
  const report = await whileWaiting(io, "reading every record", verify);
  const { records, sessions, agents, bytes, blobs = 0, problems } = report;
  const isSound = problems.length === 0;
  exitWith(isSound ? 0 : ERRORS.SESSION_STORE_ERROR.exit);
  if (isJson) return writeJson(io, { ok: isSound, ...report });
  const { green, red } = createPaint(io.stdout, io.env);
  for (const problem of problems) io.stdout.write(`${red("✗")} ${withoutControls(problem)}\n`);
  const whose = [counted(sessions, "session"), ...(agents === 0 ? [] : [counted(agents, "agent")])].join(" and ");
  const files = "segments" in report ? ` in ${counted(report.segments, "file")}` : "";
  const found = `${counted(records, "record")} of ${whose}${files}${blobs === 0 ? "" : `, ${counted(blobs, "blob")}`}`;
  const right = "segments" in report ? "every checksum is right" : "every log is whole";
  const verdict = isSound ? right : counted(problems.length, "problem");
  io.stdout.write(`${isSound ? green("✓") : red("✗")} ${found}, ${bytesText(bytes)}: ${verdict}\n`);
}

/** What `rkat doctor --fix` did, and what it left to the user; one sentence each. */
interface Fixes {
  readonly fixed: readonly string[];
  readonly left: readonly string[];
}

interface Repair {
  /** The change, as the end of a question. */
  readonly does: string;
  /** The advice where the user declines. */
  readonly otherwise: string;
  /** Makes the change, and returns a sentence about it. */
  run(): Promise<string>;
}

/** Fixes what it can, and asks before each change; with `isYes` it does not ask. */
async function fixProblems(invocation: Invocation, isYes: boolean): Promise<Fixes> {
  const { io } = invocation;
  if (!isYes && !canAsk(io)) throw invalid("no person can be asked here; rkat doctor --fix --yes fixes without asking");
  const fixed: string[] = [];
  const left: string[] = [];
  /** Whether it was done: what fails is left, in the sentence that says why. */
  const isDone = async (run: () => Promise<string | undefined>, otherwise: string): Promise<boolean> => {
    try {
      const done = await run();
      (done === undefined ? left : fixed).push(done ?? otherwise);
      return done !== undefined;
    } catch (thrown) {
      if (io.interrupt.aborted) throw thrown;
      left.push(asRuntimeError(thrown).message);
      return false;
    }
  };
  const isFixed = ({ does, otherwise, run }: Repair): Promise<boolean> =>
    isDone(async () => (isYes || (await isAgreed(io, withoutControls(`${does}?`))) ? run() : undefined), otherwise);
  for (let keys = 0; keys < KEYS_MAX; keys += 1) {
    const repair = await keyRepair(invocation);
    if (repair === undefined || !(await isFixed(repair))) break;
  }
  for (const repair of [await permissionRepair(invocation), await leftoverRepair(invocation)])
    if (repair !== undefined) await isFixed(repair);
  // The checks that follow report a configuration that cannot be read.
  const loaded = await loadHere(invocation).catch(() => undefined);
  if (loaded === undefined) return { fixed, left };
  if (await lacksModel(invocation, loaded.config)) {
    const advice = "no model is set up: rkat at a terminal asks for one, or set a provider's key";
    await isDone(async () => (canAsk(io) && !isYes ? chooseModel(invocation) : undefined), advice);
  }
  return { fixed, left: [...left, ...(await ollamaAdvice(invocation, loaded.config)), ...trustAdvice(loaded)] };
}

const KEYS_MAX = 20;

async function keyRepair(invocation: Invocation): Promise<Repair | undefined> {
  const details = await loadHere(invocation).then(
    () => undefined,
    (thrown: unknown) => asRuntimeError(thrown).details,
  );
  const given: unknown = isJsonTable(details) ? details.unknown_keys : undefined;
  const place = invocation.place();
  for (const one of Array.isArray(given) ? given.filter(isJsonTable) : []) {
    const { source, path, meant } = one;
    if (typeof source !== "string" || !Array.isArray(path) || !Array.isArray(meant)) continue;
    // Variables and the realm's own layer are not edited.
    if (!isProjectFile(source, place) && source !== userFileOf(place)) continue;
    const [was, is, file] = [path.join("."), meant.join("."), shownPath(invocation, source)];
    return {
      does: `Rename ${was} to ${is} in ${file}`,
      otherwise: `${file}: ${was} is not a known key; rename it to ${is}, or take it out`,
      run: async () => {
        await changeConfigFile(invocation, source, (before) => withKeyRenamed(before, path, meant));
        return `renamed ${was} to ${is} in ${file}`;
      },
    };
  }
  return undefined;
}

const OTHERS = 0o077;

/** Stored data must be readable and writable by its owner only. */
async function permissionRepair(invocation: Invocation): Promise<Repair | undefined> {
  const { stateFolder } = invocation.place();
  if ((await wronglyOpen(invocation)).length === 0) return undefined;
  return {
    does: `Make ${stateFolder} readable and writable by you alone`,
    otherwise: `others can read stored data, or you cannot write it: chmod -R u+rwX,go= ${stateFolder}`,
    run: async () => {
      let count = 0;
      // The files of a folder are visible only once the folder is readable.
      for (let depth = 0; depth < DEPTH_MAX; depth += 1) {
        const wrong = await wronglyOpen(invocation);
        for (const { path, wanted } of wrong) await makeOwn(path, wanted);
        count += wrong.length;
        if (wrong.length === 0) break;
      }
      return `made ${counted(count, "place")} of ${stateFolder} yours alone`;
    },
  };
}

const DEPTH_MAX = 8;

async function makeOwn(path: string, mode: number): Promise<void> {
  await chmod(path, mode).catch((cause: unknown) => {
    const why = isErrno(cause) ? cause.code : "it failed";
    const advice = "chown it to yourself, or keep sessions elsewhere with --state-root FOLDER";
    throw invalid(`${path} cannot be changed (${why}); ${advice}`, cause);
  });
}

async function wronglyOpen(invocation: Invocation): Promise<readonly Entry[]> {
  const entries = await entriesOf(invocation);
  return entries.filter(({ mode, wanted }) => (mode & OTHERS) !== 0 || (mode & wanted) !== wanted);
}

interface Entry {
  readonly path: string;
  readonly name: string;
  readonly mode: number;
  readonly wanted: number;
  readonly changedMs: number;
}

/** The state folder and everything in it but links; of a project's own place for realms, that one, too. */
async function entriesOf({ place }: Invocation): Promise<readonly Entry[]> {
  const { stateFolder, projectRoot } = place();
  const root = dirname(stateFolder);
  if (await isLinked(projectRoot, stateFolder)) return [];
  // A folder that others chose for realms may have to be open to them.
  const above = root === join(projectRoot, ".rkat", "realms") ? [root] : [];
  const paths = [...above, stateFolder, ...(await pathsIn(stateFolder))];
  const found = await Promise.all(paths.map((path) => entryAt(path, path.slice(stateFolder.length + 1))));
  return found.filter((entry) => entry !== undefined);
}

/** What lies in a folder and those in it, as far as it can be seen; a link is not followed. */
async function pathsIn(folder: string, depth = 1): Promise<readonly string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  const inside = entries.map(async (entry) => {
    const path = join(folder, entry.name);
    return [path, ...(entry.isDirectory() && depth < DEPTH_MAX ? await pathsIn(path, depth + 1) : [])];
  });
  return (await Promise.all(inside)).flat();
}

async function isLinked(projectRoot: string, stateFolder: string): Promise<boolean> {
  const way = relative(projectRoot, stateFolder);
  const base = way.startsWith("..") || isAbsolute(way) ? dirname(stateFolder) : projectRoot;
  const [real, realBase] = await Promise.all([stateFolder, base].map((path) => realpath(path).catch(() => undefined)));
  return real === undefined || realBase === undefined || real !== join(realBase, relative(base, stateFolder));
}

async function entryAt(path: string, name: string): Promise<Entry | undefined> {
  // A file may go while the folder is walked.
  const found = await lstat(path).catch(() => undefined);
  if (found === undefined || !(found.isFile() || found.isDirectory())) return undefined;
  return {
    path,
    name,
    mode: found.mode & 0o777,
    wanted: found.isDirectory() ? 0o700 : 0o600,
    changedMs: found.mtimeMs,
  };
}

const UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";

/** The names of unfinished files, which no other file has. */
const UNFINISHED = [
  new RegExp(`^(?:agents/)?blobs/(?:.*/)?${UUID}\\.tmp$`),
  new RegExp(`\\.(?:db|json)\\.${UUID}\\.new$`),
  new RegExp(`^\\.rkat/sessions/${UUID}/[^/]+\\.tmp$`),
];
const UNFINISHED_SETTINGS = new RegExp(`^(?:rkat|config|mcp)\\.toml(?:\\.${UUID}|\\${LOCK_ENDING})$`);
const UNFINISHED_TRUST = new RegExp(`^[0-9a-f]{64}\\.json\\.${UUID}\\.new$`);

/** No write takes so long. */
const UNFINISHED_MS = 24 * 60 * 60 * 1_000;

async function leftoverRepair(invocation: Invocation): Promise<Repair | undefined> {
  const { projectRoot, userRoot } = invocation.place();
  const kept = (await entriesOf(invocation)).filter(({ name }) => UNFINISHED.some((pattern) => pattern.test(name)));
  const settings = [projectRoot, join(projectRoot, ".rkat"), join(userRoot, ".rkat")];
  const beside = await Promise.all([
    ...settings.map((folder) => namesIn(folder, UNFINISHED_SETTINGS)),
    namesIn(join(userRoot, ".rkat", "trust"), UNFINISHED_TRUST),
  ]);
  const old = new Set(
    [...kept, ...beside.flat()].filter(isOld).flatMap(({ path, wanted }) => (wanted === 0o600 ? [path] : [])),
  );
  if (old.size === 0) return undefined;
  const what = counted(old.size, "unfinished file");
  return {
    does: `Remove ${what} that a killed command left over`,
    otherwise: `${what} of killed commands take room: ${[...old].slice(0, NAMED_MAX).join(", ")}`,
    run: async () => {
      for (const path of old) await rm(path, { force: true });
      return `removed ${what} of killed commands`;
    },
  };
}

const NAMED_MAX = 3;

function isOld({ changedMs }: Entry): boolean {
  return Date.now() - changedMs > UNFINISHED_MS;
}

async function namesIn(folder: string, pattern: RegExp): Promise<readonly Entry[]> {
  const names = (await readdir(folder).catch(() => [])).filter((name) => pattern.test(name));
  const found = await Promise.all(names.map((name) => entryAt(join(folder, name), name)));
  return found.filter((entry) => entry !== undefined);
}

const OLLAMA = "ollama/";

async function ollamaAdvice({ io, parts }: Invocation, config: Config): Promise<readonly string[]> {
  const { model = "" } = config.agent;
  const isElsewhere = (config.self_hosted.servers.ollama ?? config.providers.ollama?.base_url) !== undefined;
  if (!model.startsWith(OLLAMA) || isElsewhere) return [];
  const ollama = (await parts.findLocalServers(io.interrupt)).find(({ name }) => name === "ollama");
  if (ollama === undefined) return ["Ollama does not answer; start it with: ollama serve"];
  const wanted = model.slice(OLLAMA.length);
  const names = ollama.models.map(({ name }) => name);
  // It takes a name without a tag for that of the latest.
  if (names.includes(wanted) || names.includes(`${wanted}:latest`)) return [];
  const [family] = wanted.split(":");
  const nearest = names.find((name) => name.split(":")[0] === family) ?? nearMiss(wanted, names) ?? names[0];
  const instead = nearest === undefined ? "" : `, or use ${OLLAMA}${nearest}, which it has`;
  return [`Ollama has no ${wanted}; get it with: ollama pull ${wanted}${instead}`];
}

function trustAdvice({ leftOut }: LoadedConfig): readonly string[] {
  return leftOut === undefined ? [] : ["some files of this project are not trusted: rkat trust shows and trusts them"];
}
