import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Capability } from "../contract/capability.ts";
import { RuntimeError } from "../contract/error.ts";
import type { Driver } from "./drivers/driver.ts";
import { type ModelServer, openModelServer } from "./model/model-server.ts";
import type { Scenario } from "./scenario.ts";
import { SCENARIOS } from "./scenarios/all.ts";
import { conformanceToml } from "./settings.ts";
import { type CommandWords, openTarget, type Stage, surfaceOf, type Target } from "./targets.ts";
import { readPresent, reasonOf, tellScenario, type Verdict } from "./tell-scenario.ts";

/** What came of one scenario on one surface. */
export interface Report {
  readonly surface: string;
  readonly scenario: string;
  readonly title: string;
  readonly verdict: Verdict;
}

/** What is to be told, and to whom. */
export interface Wish {
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
    run: (wish: Wish) => run(parts, wish),
  };
}

async function* run(parts: ConformanceParts, wish: Wish): AsyncGenerator<Report> {
  const scenarios = chosen(wish.only);
  const model = await openModelServer(wish.modelPort);
  try {
    const folder = await mkdtemp(join(tmpdir(), "rkat-conformance-"));
    try {
      const stage = { ...parts, folder, modelUrl: model.url, features: Capability.options };
      for (const target of targetsOf(wish, parts.self)) yield* tellTarget(target, { stage, model, scenarios, wish });
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

function targetsOf({ target }: Wish, self: CommandWords): readonly Target[] {
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

interface Told {
  readonly stage: Stage;
  readonly model: ModelServer;
  readonly scenarios: readonly Scenario[];
  readonly wish: Wish;
}

async function* tellTarget(target: Target, { stage, model, scenarios, wish }: Told): AsyncGenerator<Report> {
  const driver = await reached(target, () => openTarget(target, stage));
  try {
    const present = await reached(target, () => readPresent(driver));
    if ("url" in target) await probe(driver, target.url, model);
    for (const scenario of scenarios) {
      if (wish.signal.aborted) throw new RuntimeError("REQUEST_CANCELLED", "interrupted");
      const { verdict } = await tellScenario(driver, scenario, { present, run: newRun() });
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
