import { dirname, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { composeLayers } from "@rkat/core/config/config-layers";
import type { Config } from "@rkat/core/config/config-schema";
import { defaultConfig, modelConfig } from "@rkat/core/config/settings";
import type { EntryBody } from "@rkat/core/contract/entry";
import { messageOf, RuntimeError } from "@rkat/core/contract/error";
import type { Policy, Simulation } from "@rkat/core/contract/wire/simulation";
import { createInMemoryStore, createRuntime } from "@rkat/core/create-runtime";
import type { Store } from "@rkat/core/ports/store";
import { configuredPrices, findModel, mergeModels, publishedPrices } from "@rkat/core/providers/catalog";
import { createOfflineModel } from "@rkat/core/providers/offline/offline";
import { createModelResolver } from "@rkat/core/providers/resolve";
import type { ReplayOptions } from "@rkat/core/replay/replay";
import { type SimulationOptions, simulate } from "@rkat/core/replay/simulation";
import type { CompactionOptions } from "@rkat/core/sessions/session-settings";
import { parseToml } from "@rkat/node/config/config-file";

/** A policy with what of it is code. */
export interface LaboratoryPolicy extends Policy {
  readonly options?: CompactionOptions | undefined;
}

/** What is replayed, and with whose prices and models. */
export interface LaboratoryOptions
  extends Pick<SimulationOptions, "logs" | "summariesBy" | "model" | "signal" | "progress"> {
  readonly policies: readonly LaboratoryPolicy[];
  /** Says which models there are and what they charge. */
  readonly config: Config;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** Replays recorded logs in runtimes of their own, in memory, each with one of the policies. */
export async function runSimulation({ config, env, ...options }: LaboratoryOptions): Promise<Simulation> {
  const known = mergeModels(config.models);
  const summariser =
    options.summariesBy === "model"
      ? await createModelResolver({ env, config: modelConfig({}, config) }).resolve(undefined, undefined)
      : createOfflineModel();
  return simulate({
    ...options,
    summariser,
    compose: composeReplay,
    modelOf: (model) => {
      const found = findModel(model, known);
      const published = found && publishedPrices(found.provider, model);
      const contextWindow = config.self_hosted.models[model]?.context_window ?? found?.context_window;
      return { prices: configuredPrices(config.prices, model) ?? published, contextWindow };
    },
  });
}

/** So long no recorded output is; a bound would cut again what was cut. */
const OUTPUT_BYTES_MAX = Number.MAX_SAFE_INTEGER;
/** Longer than any gap of a recording: what took its time then is not to fail now. */
const TIMEOUT_MS = Number.POSITIVE_INFINITY;

function composeReplay(
  { settings, options, name }: LaboratoryPolicy,
  { model, clock, tools, appended }: Parameters<ReplayOptions["compose"]>[0],
): ReturnType<ReplayOptions["compose"]> {
  const config = defaultConfig();
  const store = observed(createInMemoryStore({ now: clock.now }), appended);
  const replaying: Config = {
    ...config,
    compaction: settings,
    retry: { ...config.retry, max_retries: 0, call_timeout_ms: undefined, stall_timeout_ms: undefined },
    tools: { ...config.tools, output_bytes_max: OUTPUT_BYTES_MAX, default_timeout_ms: TIMEOUT_MS },
  };
  try {
    const runtime = createRuntime({
      config: replaying,
      model,
      store,
      clock,
      tools,
      compaction: options ?? true,
      memory: {},
      toolPreset: "safe",
      // Nothing of this machine is in a recording, so nothing of it is to be taken out.
      env: {},
    });
    return { runtime, log: store.log };
  } catch (thrown) {
    if (!(thrown instanceof RuntimeError)) throw thrown;
    throw new RuntimeError(thrown.code, `${name}: ${thrown.message}`, { cause: thrown });
  }
}

function observed(store: Store, appended: (body: EntryBody) => void): Store {
  const append: Store["log"]["append"] = async (...given) => {
    const entries = await store.log.append(...given);
    for (const { body } of entries) appended(body);
    return entries;
  };
  return { ...store, log: { ...store.log, append } };
}

/** Reads a policy, and loads the module it names; `path` is where its file lies. */
export async function loadPolicy(
  text: string,
  { path, shown, named }: { readonly path: string; readonly shown: string; readonly named: string },
): Promise<LaboratoryPolicy> {
  const { name = named, module, compaction } = readPolicyFile(text, shown);
  const settings: Record<string, unknown> = { ...compaction };
  if (module === undefined) return { name, settings };
  try {
    const loaded: unknown = await inTime(import(pathToFileURL(resolve(dirname(path), module)).href));
    const options: unknown = Object(loaded).compaction;
    if (typeof options !== "object" || options === null) {
      throw new Error("it exports no object named compaction, with options as createRuntime takes them");
    }
    return { name, settings, options };
  } catch (cause) {
    const message = `${shown}: module ${module} cannot be used: ${messageOf(cause)}`;
    throw new RuntimeError("INVALID_PARAMS", message, { cause });
  }
}

const MODULE_MS_MAX = 10_000;

/** A module that awaits what never comes would end the process without a word. */
async function inTime<T>(loading: Promise<T>): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => reject(new Error(`it took longer than ${MODULE_MS_MAX / 1_000} seconds to load`)),
    MODULE_MS_MAX,
  );
  try {
    return await Promise.race([loading, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** A way to compact, as a file says it. */
interface PolicyFile {
  /** Undefined: the caller names it. */
  readonly name: string | undefined;
  /** A module with the parts of it that are code. */
  readonly module: string | undefined;
  readonly compaction: Config["compaction"];
}

/** Reads the keys of `[compaction]`, a `name` and a `module`. Throws INVALID_PARAMS naming the file, the key and the fix. */
export function readPolicyFile(text: string, path: string): PolicyFile {
  const { name, module, ...keys } = parseToml(text, path);
  try {
    const { compaction } = composeLayers({ name: path, table: { compaction: keys } }, {})({}, path);
    return { name: textOf(name, `${path}: name`), module: textOf(module, `${path}: module`), compaction };
  } catch (thrown) {
    if (!(thrown instanceof RuntimeError)) throw thrown;
    // The keys of this file lie at its top.
    throw new RuntimeError(thrown.code, thrown.message.replaceAll("compaction.", ""), { cause: thrown });
  }
}

function textOf(value: unknown, key: string): string | undefined {
  if (value === undefined || (typeof value === "string" && value.trim() !== "")) return value;
  throw new RuntimeError("INVALID_PARAMS", `${key} is not usable; write a text in quotes`);
}
