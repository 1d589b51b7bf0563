import { CAPABILITY_ABSENT, type Capability } from "../contract/capability.ts";
import { invalid } from "../contract/error.ts";
import type { Tool } from "../ports/tool.ts";
import { requireTools } from "../turn/tool-batch.ts";
import { nodeFault } from "./node-version.ts";
import type { Advice } from "./operation-calls.ts";
import { requireNames } from "./options.ts";

/** Throws INVALID_PARAMS for a Node that is too old, which would fail later with less information. */
export function requireNode(version: string): void {
  const fault = nodeFault(version);
  if (fault !== undefined) throw invalid(fault);
}

type Expected = readonly [isIt: (value: unknown) => boolean, wanted: string];
const isObject = (value: unknown): boolean => typeof value === "object" && value !== null;
const isText = (value: unknown): boolean => typeof value === "string";
const isFunction = (value: unknown): boolean => typeof value === "function";
const isServer = (value: unknown): boolean =>
  value instanceof Object &&
  "name" in value &&
  isText(value.name) &&
  (("command" in value && isText(value.command)) || ("url" in value && isText(value.url)));
const isServers = (value: unknown): boolean =>
  Array.isArray(value) && value.every(isServer) && new Set(value.map(({ name }) => name)).size === value.length;
const isSubAgent = (value: unknown): boolean =>
  value instanceof Object &&
  ["name", "description", "prompt"].every((key) => isText(Object.entries(value).find(([name]) => name === key)?.[1]));
const isModel = (value: unknown): boolean =>
  isText(value) || (value instanceof Object && ("stream" in value || "doStream" in value));

const expectedOf = (presets: readonly string[]): Readonly<Record<string, Expected>> => ({
  model: [isModel, "give a model's name, an AI SDK model or a model client"],
  provider: [isText, "give the name of a provider"],
  store: [isObject, "give a store"],
  memory: [isObject, "give the options of a memory; {} for one in this process"],
  compaction: [(value) => value === true || isObject(value), "give true, or options of a compaction"],
  resumeTurns: [(value) => typeof value === "boolean" || isObject(value), "give true or false"],
  schedules: [isObject, "give a home of schedules"],
  runSchedules: [(value) => typeof value === "boolean" || isObject(value), "give true or false"],
  jobsFolder: [isText, "give the path of a folder"],
  isShortLived: [(value) => typeof value === "boolean", "give true or false"],
  tools: [Array.isArray, "give a list of tools"],
  hooks: [Array.isArray, "give a list of hooks, each {id, point, run}"],
  mcpServers: [isServers, "give a list of MCP servers, each {name, command} or {name, url} and no two of one name"],
  mcpLogins: [isObject, "give a keeper of logins at MCP servers"],
  subAgents: [
    (value) => Array.isArray(value) && value.every(isSubAgent),
    "give a list of sub-agents, each {name, description, prompt}",
  ],
  skills: [Array.isArray, "give a list of skills, each {name, description, body}"],
  agentsMd: [isFunction, "give what loadConfig returns as agentsMd"],
  toolPreset: [(name) => presets.includes(String(name)), `give one of ${presets.join(", ")}`],
  ceiling: [(name) => presets.includes(String(name)), `give one of ${presets.join(", ")}`],
  systemPrompt: [isText, "give a text"],
  config: [isObject, "give a configuration, as loadConfig returns one"],
  compose: [isFunction, "give what loadConfig returns as compose"],
  configStore: [isObject, "give a store of a configuration's layer"],
  realm: [isObject, "give what clients are told of the realm"],
  env: [isObject, "give an object of variables"],
  projectRoot: [isText, "give the path of a folder"],
  secrets: [(value) => Array.isArray(value) && value.every(isText), "give a list of texts"],
  clock: [isObject, "give a clock"],
  agents: [isObject, "give a home of agents"],
  telemetry: [(value) => value === true || isObject(value), "give true, or options of telemetry"],
  isOwnAddress: [isFunction, "give a function of an address"],
  observer: [isObject, "give an observer of a server"],
  log: [isFunction, "give a function that is told lines"],
  warn: [isFunction, "give a function of a sentence"],
});

/** Throws INVALID_PARAMS for a name that is neither an option of a runtime nor one of these. */
export function requireOptionNames(options: object, others: readonly string[] = []): void {
  requireNames(options, [...others, ...Object.keys(expectedOf([]))]);
}

/** Throws INVALID_PARAMS for the first unknown or wrong option: callers without types get a sentence, too. */
export function requireOptions(
  options: { readonly tools?: readonly Tool[]; readonly telemetry?: true | object },
  presets: readonly string[],
): void {
  requireOptionNames(options);
  const expected = expectedOf(presets);
  for (const [name, value] of Object.entries(options)) {
    const [isIt, wanted] = expected[name] ?? [() => false, ""];
    if (value !== undefined && !isIt(value)) throw invalid(`${name}: ${wanted}`);
  }
  if (typeof options.telemetry === "object") requireNames(options.telemetry, ["tracer", "captureContent"]);
  requireTools(options.tools ?? []);
}

const COMPOSED_BY: Readonly<Record<Capability, string>> = {
  "session-store": "give createRuntime a store",
  "memory-store": "give createRuntime a memory, {} for one in this process",
  "session-compaction": "give createRuntime compaction: true",
};

/** How to enable a missing capability, for the developer who composed the runtime. */
export function adviceFor(features: readonly string[]): Advice {
  // The keys of the table are the capabilities.
  const names = Object.keys(COMPOSED_BY) as Capability[];
  const rows = names.map((name) => {
    const { code, message } = CAPABILITY_ABSENT[name];
    const fix = features.includes(name)
      ? `use openRuntime, or ${COMPOSED_BY[name]}`
      : `add ${name} to the features of the configuration`;
    return [code, `${message.replace(/ \(.*$/, "")}: ${fix}`];
  });
  return Object.fromEntries(rows);
}
