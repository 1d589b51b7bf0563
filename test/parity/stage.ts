import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "@rkat/client";
import { createCliDriver } from "@rkat/conformance/cli-driver";
import {
  openRestServer,
  openTarget,
  ownTargets,
  SCENARIOS,
  type Stage,
  settleFolder,
  TOKEN,
} from "@rkat/conformance/conformance";
import { type Driver, lackOfTurns, openRuntimeDriver, type ReportedEvent, runsTurn } from "@rkat/conformance/driver";
import { type ModelServer, openModelServer } from "@rkat/conformance/model-server";
import { normalised, readPresent, runScenario, type ScenarioRun } from "@rkat/conformance/run-scenario";
import type { Capability } from "@rkat/core/contract/capability";
import { loadConfig } from "@rkat/node/config/load-config";
import { readIfThere } from "@rkat/node/config/realm";
import { openRuntime } from "@rkat/node/open-runtime";
import { afterAll, beforeAll } from "vitest";
import { ownCommands } from "./own-commands.ts";
import { openPythonDriver } from "./python-driver.ts";

/** `cli` makes the commands in this process, `cli processes` a process for each. */
export type Way = "runtime" | "rpc" | "rest" | "mcp" | "mcp-http" | "cli" | "cli processes" | Client;

type Client = (typeof CLIENTS)[number];

/** The clients, each by both of its wires. */
export const CLIENTS = ["typescript stdio", "typescript http", "python stdio", "python http"] as const;

export interface Opened {
  readonly driver: Driver;
  readonly present: ReadonlySet<Capability>;
}

/** Opens ways in with the models of the scenarios behind them, for the tests of one file. */
export function useStage(): (way: Way, features: readonly Capability[]) => Promise<Opened> {
  const root = mkdtempSync(join(tmpdir(), "rkat-parity-"));
  const opened: Driver[] = [];
  let models: ModelServer;
  beforeAll(async () => {
    models = await openModelServer(0);
  });
  afterAll(async () => {
    await Promise.all(opened.map((driver) => driver.close()));
    await models.close();
    rmSync(root, { recursive: true, force: true });
  });
  return async (way, features) => {
    const stage: Stage = {
      folder: mkdtempSync(join(root, "build-")),
      modelUrl: models.url,
      features,
      env: { PATH: process.env.PATH, NO_COLOR: "1" },
      openRuntime: openRuntimeIn,
    };
    const driver = await openWay(way, stage);
    opened.push(driver);
    return { driver, present: await readPresent(driver) };
  };
}

const DOOR = join(import.meta.dirname, "../../packages/rkat/dist/cli.js");

async function openWay(way: Way, stage: Stage): Promise<Driver> {
  if (way === "cli") {
    const { folder, env } = await settleFolder(way, stage);
    return createCliDriver(ownCommands(folder, env));
  }
  const client = CLIENTS.find((one) => one === way);
  if (client !== undefined) return openClient(client, stage);
  const kind = way === "cli processes" ? "cli" : way;
  const target = ownTargets({ command: process.execPath, args: [DOOR] }).find((one) => one.kind === kind);
  if (target === undefined) throw new Error(`there is no way ${way}`);
  return openTarget(target, stage);
}

async function openClient(client: Client, stage: Stage): Promise<Driver> {
  const { folder, env } = await settleFolder(client.replace(" ", "-"), stage);
  const realm = ["--realm", "conformance", "--state-root", join(folder, "state")];
  const command = process.execPath;
  const rpc = { command, args: [DOOR, "rpc", ...realm], cwd: folder, env };
  if (client === "typescript stdio") return openRuntimeDriver("typescript", () => connect(rpc));
  if (client === "python stdio") return openPythonDriver(rpc);
  const server = await openRestServer({ command, args: [DOOR, "serve", ...realm], cwd: folder, env });
  let { url } = server;
  const driver = await (client === "typescript http"
    ? openRuntimeDriver("typescript", () => connect({ url, token: TOKEN }))
    : openPythonDriver({ command, args: [], cwd: folder, env }, () => url));
  return {
    ...driver,
    // The server's one name for two operations is the client's, too.
    lacks: lackOfTurns,
    restart: async () => {
      url = await server.restart();
      await driver.restart();
    },
    close: async () => {
      await driver.close();
      await server.close();
    },
  };
}

async function openRuntimeIn(folder: string, env: Stage["env"]) {
  const { config, skills } = await loadConfig({ cwd: folder, home: folder, env, readFile: readIfThere });
  return openRuntime({ config, skills, env, projectRoot: folder, stateFolder: join(folder, "state") });
}

let runs = 0;

/** Tells one scenario by its name. */
export function playScenario({ driver, present }: Opened, name: string): Promise<ScenarioRun> {
  const scenario = SCENARIOS.find((one) => one.name === name);
  if (scenario === undefined) throw new Error(`there is no scenario ${name}`);
  runs += 1;
  return runScenario(driver, scenario, { present, run: runs.toString(16).padStart(8, "0") });
}

/** Whether a busy machine comes to speak of the time before it is over is its own affair. */
const isReported = ({ budget_type }: ReportedEvent): boolean => budget_type !== "time";

/** Who has given a word has a name where a token was asked for. */
function withoutName(event: ReportedEvent): ReportedEvent {
  return { ...event, by: undefined };
}

/**
 * Everything of a telling that must be the same on every surface, whether or not the scenario speaks of it: every
 * field of every event of a turn, every field of its result, and the code of what failed.
 */
export function essenceOf({ reported, kept }: ScenarioRun): unknown {
  const turns = reported.map(({ call, events, outcome }) => ({
    call,
    events: runsTurn(call) ? events.filter(isReported).map(withoutName) : [],
    outcome: outcome.ok
      ? { ok: true as const, result: runsTurn(call) ? outcome.result : "an answer" }
      : { ok: false as const, code: outcome.code, message: "a sentence" },
  }));
  return normalised(turns, kept);
}
