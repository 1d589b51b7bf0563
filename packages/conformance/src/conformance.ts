import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Capability } from "@rkat/core/contract/capability";
import { RuntimeError } from "@rkat/core/contract/error";
import { firstLine, type Start, startChild, withinTime } from "./child.ts";
import { commandsOf, createCliDriver } from "./cli-driver.ts";
import { CLIENTS } from "./client-scenarios.ts";
import { COMPACTIONS } from "./compaction-scenarios.ts";
import { type Driver, openRuntimeDriver, type RuntimeLike, type Surface } from "./driver.ts";
import { LIMITS, REFUSALS } from "./limit-scenarios.ts";
import { connectHttp, connectStdio, openMcpDriver } from "./mcp-driver.ts";
import { MEMORIES } from "./memory-scenarios.ts";
import { MODELS, type ModelServer, openModelServer } from "./model-server.ts";
import { createRestDriver, lackOfServer } from "./rest-driver.ts";
import { openRpcDriver } from "./rpc-driver.ts";
import { readPresent, reasonOf, runScenario, type Verdict } from "./run-scenario.ts";
import type { Scenario } from "./scenario.ts";
import { COMMS, PORTABLES, SCHEDULES, SESSIONS } from "./session-scenarios.ts";
import { CONFORMANCE_SKILL, HOOKS, SKILLS, SUB_AGENTS, TURNS } from "./turn-scenarios.ts";

/** Every scenario, in the order they are told. */
export const SCENARIOS: readonly Scenario[] = [
  ...TURNS,
  ...CLIENTS,
  ...SUB_AGENTS,
  ...LIMITS,
  ...HOOKS,
  ...SESSIONS,
  ...PORTABLES,
  ...COMMS,
  ...SCHEDULES,
  ...COMPACTIONS,
  ...MEMORIES,
  ...SKILLS,
  ...REFUSALS,
];

/** What came of one scenario on one surface. */
export interface Report {
  readonly surface: string;
  readonly scenario: string;
  readonly title: string;
  readonly verdict: Verdict;
}

/** What is to be told, and to whom. */
export interface ConformanceOptions {
  /** Without one, this installation's own surfaces. */
  readonly target?:
    | { readonly kind: "rpc" | "mcp"; readonly words: readonly string[] }
    | Extract<Target, { readonly url: string }>;
  /** Names of scenarios; none for all. */
  readonly only: readonly string[];
  /** Where the models listen; 0 takes a free port. */
  readonly modelPort: number;
  readonly signal: AbortSignal;
}

/** What the door composes for it. */
export interface ConformanceParts {
  readonly env: Stage["env"];
  /** How this installation's `rkat` is started. */
  readonly self: CommandWords;
  readonly openRuntime: Stage["openRuntime"];
}

/** The scenarios that every surface must tell alike, and the telling of them. */
export function createConformance(parts: ConformanceParts) {
  return {
    scenarios: SCENARIOS.map(({ name, title }) => ({ name, title })),
    /** The configuration that a server at an address must have been started with. */
    configuration: (modelPort: number) => conformanceToml(`http://127.0.0.1:${modelPort}/v1`, Capability.options),
    run: (options: ConformanceOptions) => run(parts, options),
  };
}

async function* run(parts: ConformanceParts, options: ConformanceOptions): AsyncGenerator<Report> {
  const scenarios = chosen(options.only);
  const model = await openModelServer(options.modelPort);
  try {
    const folder = await mkdtemp(join(tmpdir(), "rkat-conformance-"));
    try {
      const stage = { ...parts, folder, modelUrl: model.url, features: Capability.options };
      for (const target of targetsOf(options, parts.self))
        yield* reportTarget(target, { stage, model, scenarios, options });
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  } finally {
    await model.close();
  }
}

function chosen(only: readonly string[]): readonly Scenario[] {
  const unknown = only.find((name) => !SCENARIOS.some((scenario) => scenario.name === name));
  if (unknown !== undefined) {
    throw new RuntimeError("INVALID_PARAMS", `there is no scenario ${unknown}; rkat conformance --list shows them`);
  }
  return only.length === 0 ? SCENARIOS : SCENARIOS.filter(({ name }) => only.includes(name));
}

function targetsOf({ target }: ConformanceOptions, self: CommandWords): readonly Target[] {
  if (target === undefined) return ownTargets(self);
  if ("url" in target) return [target];
  const [command = "", ...args] = target.words;
  return [{ kind: target.kind, command, args }];
}

/** Every surface of an installation, by the words that start it. */
export function ownTargets({ command, args }: CommandWords): readonly Target[] {
  const started = (kind: "cli" | "rpc" | "rest" | "mcp" | "mcp-http", ...words: readonly string[]): Target => ({
    kind,
    command,
    args: [...args, ...words],
  });
  return [
    { kind: "runtime" },
    started("rpc", "rpc"),
    started("rest", "serve"),
    started("mcp", "mcp"),
    started("mcp-http", "mcp"),
    started("cli"),
  ];
}

interface Finding {
  readonly stage: Stage;
  readonly model: ModelServer;
  readonly scenarios: readonly Scenario[];
  readonly options: ConformanceOptions;
}

async function* reportTarget(target: Target, { stage, model, scenarios, options }: Finding): AsyncGenerator<Report> {
  const driver = await reached(target, () => openTarget(target, stage));
  try {
    const present = await reached(target, () => readPresent(driver));
    if ("url" in target) await probe(driver, target.url, model);
    for (const scenario of scenarios) {
      if (options.signal.aborted) throw new RuntimeError("REQUEST_CANCELLED", "interrupted");
      const { verdict } = await runScenario(driver, scenario, { present, run: newRun() });
      yield { surface: surfaceOf(target), scenario: scenario.name, title: scenario.title, verdict };
    }
  } finally {
    await driver.close();
  }
}

async function reached<T>(target: Target, reach: () => Promise<T>): Promise<T> {
  try {
    return await reach();
  } catch (thrown) {
    // One that cannot be started, or ends or is silent at once, was not the server that was meant.
    if (!("url" in target)) throw new RuntimeError("INVALID_PARAMS", reasonOf(thrown), { cause: thrown });
    throw new RuntimeError("INVALID_PARAMS", `${target.url} cannot be reached: ${reasonOf(thrown)}`, { cause: thrown });
  }
}

/** A server that asks other models would fail every scenario for one reason, so that is said at once. */
async function probe(driver: Driver, url: string, model: ModelServer): Promise<void> {
  const run = newRun();
  const outcome = await driver.call("createSession", { prompt: `Is this it, ${run}?`, model: "conformance-plain" });
  if (outcome.ok && model.wasAsked(run)) return;
  const why = outcome.ok ? "its models are others" : `it says: ${outcome.message}`;
  const message = `${url} was not started with the configuration above (${why}); start it with that file, and try again`;
  throw new RuntimeError("INVALID_PARAMS", message);
}

/** Sets the texts of one telling apart from those of another; always of one length, since sizes are compared. */
function newRun(): string {
  return randomBytes(4).toString("hex");
}

/** The configuration the scenarios need, as a file of TOML. */
export function conformanceToml(modelUrl: string, features: readonly Capability[]): string {
  const models = Object.keys(MODELS).map(
    (name) => `[self_hosted.models.${name}]\nserver = "scripted"\ncontext_window = 100000\n`,
  );
  return [
    `features = ${JSON.stringify(features)}\n`,
    '[agent]\nmodel = "conformance-summary"\n',
    '[retry]\nmax_retries = 2\ninitial_delay = "1ms"\nmax_delay = "5ms"\n',
    // What is found must not depend on what is installed, nor on what was told to the server before.
    '[memory]\nembedder = "hashing"\nscope = "session"\n',
    "[agent_memory]\nimmediate_window = 1\nrecent_window = 8\n",
    // Set where it is there only: settings of a capability that is absent are refused.
    ...(features.includes("session-compaction") ? [COMPACTION] : []),
    '[retention.labels]\n"retention=short" = "1ms"\n',
    `[self_hosted.servers.scripted]\nbase_url = "${modelUrl}"\n`,
    ...models,
    "[prices.conformance-priced]\ninput = 1000\noutput = 4000\n",
  ].join("\n");
}

const COMPACTION = "[compaction]\nrecent_turn_budget = 1\nmax_summary_tokens = 50\nmin_turns_between_compactions = 1\n";

/** A command and the words it is called with. */
export interface CommandWords {
  readonly command: string;
  readonly args: readonly string[];
}

/** What the scenarios are told to. */
export type Target =
  | { readonly kind: "runtime" }
  | ({ readonly kind: "cli" | "rpc" | "rest" | "mcp" | "mcp-http" } & CommandWords)
  | ({ readonly kind: "rest-url" } & Address)
  | ({ readonly kind: "mcp-url" } & Address);

interface Address {
  readonly url: string;
  readonly token: string | undefined;
}

/** Where targets are started, and with what. */
export interface Stage {
  /** A folder of the run's own; each target works in one inside. */
  readonly folder: string;
  readonly modelUrl: string;
  readonly features: readonly Capability[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Opens a runtime in this process, with the configuration of a folder. */
  openRuntime(folder: string, env: Stage["env"]): Promise<RuntimeLike>;
}

/** The surface a target is a case of. */
function surfaceOf({ kind }: Target): Surface {
  if (kind === "rest-url") return "rest";
  return kind === "mcp-url" ? "mcp-http" : kind;
}

/** Starts a target in a folder of its own, with the configuration the scenarios need, or connects to it. */
export async function openTarget(target: Target, stage: Stage): Promise<Driver> {
  if (target.kind === "rest-url") return createRestDriver({ ...target, close: async () => {} });
  if (target.kind === "mcp-url") {
    const lacks = (ability: string) => lackOfServer({ restart: undefined, token: target.token }, ability);
    const open = () => connectHttp(target.url, target.token);
    return openMcpDriver({ surface: "mcp-http", lacks, open, restart: async () => {}, close: async () => {} });
  }
  const { folder, env } = await settleFolder(target.kind, stage);
  if (target.kind === "runtime") return openRuntimeDriver("runtime", () => stage.openRuntime(folder, env));
  const start: Start = { command: target.command, args: target.args, cwd: folder, env };
  // A server works on a realm of its own unless it is given one, and after a restart it must be the same.
  const kept = { ...start, args: [...start.args, "--realm", "conformance", "--state-root", join(folder, "state")] };
  switch (target.kind) {
    case "cli":
      return createCliDriver(commandsOf(start));
    case "rpc":
      return openRpcDriver(kept);
    case "rest":
      return openRest(kept);
    case "mcp":
      return openMcpDriver({
        surface: "mcp",
        lacks: () => undefined,
        open: () => connectStdio(kept),
        restart: async () => {},
        close: async () => {},
      });
    case "mcp-http":
      return openMcpOverHttp(kept);
  }
}

/** Makes a folder with the configuration the scenarios need, and the environment to work in it. */
export async function settleFolder(name: string, stage: Omit<Stage, "openRuntime">) {
  const { folder: root, modelUrl, features, env } = stage;
  const folder = join(root, name);
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, "rkat.toml"), conformanceToml(modelUrl, features));
  const skill = join(folder, ...CONFORMANCE_SKILL.path);
  await mkdir(dirname(skill), { recursive: true });
  await writeFile(skill, CONFORMANCE_SKILL.text);
  // What the caller has set for its own sessions is not for these.
  const foreign = Object.entries(env).filter(([name]) => !name.startsWith("RKAT_"));
  const own = { HOME: folder, XDG_DATA_HOME: join(folder, "data"), RKAT_FEATURES: features.join(",") || "none" };
  return { folder, env: { ...Object.fromEntries(foreign), ...own } };
}

const ANY_PORT = ["--port", "0"];

/** Of servers that live as long as the scenarios: answering a question and forgetting take a token. */
export const TOKEN = "conformance";

async function openRest(start: Start): Promise<Driver> {
  return createRestDriver({ ...(await openRestServer(start)), token: TOKEN });
}

/** Starts a server of REST on a free port. */
export function openRestServer(start: Start) {
  const env = { ...start.env, RKAT_TOKEN: TOKEN };
  return openServer({ ...start, env, args: [...start.args, ...ANY_PORT, "--json"] }, "stdout", (line) => {
    const [, url] = /"url":\s*"([^"]+)"/.exec(line) ?? [];
    return url;
  });
}

async function openMcpOverHttp(start: Start): Promise<Driver> {
  const args = [...start.args, "--http", ...ANY_PORT];
  const env = { ...start.env, RKAT_TOKEN: TOKEN };
  const server = await openServer({ ...start, env, args }, "stderr", (line) => {
    const [, url] = /listening on (http\S+)/.exec(line) ?? [];
    return url;
  });
  let { url } = server;
  return openMcpDriver({
    surface: "mcp-http",
    lacks: () => undefined,
    open: () => connectHttp(url, TOKEN),
    restart: async () => {
      url = await server.restart();
    },
    close: server.close,
  });
}

/** Starts a server that says where it listens. */
async function openServer(start: Start, says: "stdout" | "stderr", read: (line: string) => string | undefined) {
  const open = async () => {
    const child = await startChild(start);
    try {
      return { child, url: await withinTime(firstLine(child, says, read), start.command) };
    } catch (thrown) {
      await child.stop();
      throw thrown;
    }
  };
  let server = await open();
  return {
    url: server.url,
    restart: async () => {
      await server.child.stop();
      server = await open();
      return server.url;
    },
    close: () => server.child.stop(),
  };
}
