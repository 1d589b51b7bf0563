import { cliFlag, nonnegative } from "./input.ts";
import { isJsonTable } from "./json.ts";
import { z } from "./schema.ts";

const wanted = { error: "write the configuration as an object, by the keys of its file" };
const ConfigTable = z.record(z.string(), z.unknown(), wanted);

const expected_generation = cliFlag(
  "--expected-generation <n>",
  nonnegative.nullish().describe("only if the realm's own layer has changed this often"),
);
const layer = (what: string) =>
  cliFlag("--json <text>", ConfigTable.describe(what).meta({ examples: [{ agent: { model: "offline" } }] }));

const config = layer("the whole layer as JSON, by the keys of the file");
const patch = layer("what changes as JSON, by the keys of the file; null removes a key");

/** What is asked for may stand by itself, as clients of this wire send it: `{agent: …}` for `{config: {agent: …}}`. */
const named = (name: "config" | "patch") => (given: unknown) => {
  if (!isJsonTable(given)) return given;
  const { [name]: table, expected_generation: generation, ...bare } = given;
  if (isJsonTable(table)) return { ...given, [name]: withSubAgents(table) };
  if (name in given || Object.keys(bare).length === 0) return given;
  return { [name]: withSubAgents(bare), ...(generation === undefined ? {} : { expected_generation: generation }) };
};

/** Moves the former `[agents.NAME]` to `[sub_agents.NAME]`; an entry that has both stays, for `composeLayers` to refuse. */
export function withSubAgents(table: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const { agents, sub_agents = {}, ...rest } = table;
  if (!isJsonTable(agents) || !isJsonTable(sub_agents)) return table;
  const both = Object.entries(agents).filter(([name]) => Object.hasOwn(sub_agents, name));
  const moved = { ...rest, sub_agents: { ...agents, ...sub_agents } };
  return both.length === 0 ? moved : { ...moved, agents: Object.fromEntries(both) };
}

const SetConfig = z.preprocess(named("config"), z.object({ config, expected_generation }));

/** Changes the realm's own layer by a merge patch of RFC 7396; null removes a key. */
const PatchConfig = z.preprocess(named("patch"), z.object({ patch, expected_generation }));

/** What can name a realm. */
export const REALM_ID = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;

export const ConfiguredRealm = z.object({
  realm_id: z.string().optional().describe("the realm's id"),
  instance_id: z.string().optional().describe("the process's own id"),
  backend: z.string().optional().describe("what the realm is kept in"),
  resolved_paths: z.record(z.string(), z.string()).optional().describe("where the realm's files are"),
});
export type ConfiguredRealm = z.infer<typeof ConfiguredRealm>;

export const ConfigEnvelope = ConfiguredRealm.extend({
  config: ConfigTable.describe("what holds, by the keys of the file, defaults filled in; it can be written back"),
  generation: z.number().int().nonnegative().describe("how often the realm's own layer has changed"),
  restart_required: z
    .array(z.string())
    .optional()
    .describe("keys that have changed and wait for the next start of this process"),
});
export type ConfigEnvelope = z.infer<typeof ConfigEnvelope>;

/** What `meerkat_config` takes: one tool for the three operations on the configuration. */
export const ConfigTool = z.object({
  action: z
    .enum(["get", "set", "patch"], { error: 'write one of "get", "set", "patch"' })
    .describe("get reads what holds, set replaces the project's own layer, patch changes it"),
  config: config.optional(),
  patch: patch.optional(),
  expected_generation,
});

/** The rows of the table about the configuration. */
export const CONFIG_OPERATIONS = {
  readConfig: {
    summary: "Read the effective configuration, defaults filled in, with the generation of the realm's own layer.",
    input: z.object({}),
    output: ConfigEnvelope,
    rpc: "config/get",
    http: "GET /config",
    mcp: "meerkat_config",
    cli: "rkat config get",
    cliJson: ["--json", "--with-generation"],
    scope: "read",
    sees: "public",
  },
  setConfig: {
    summary: "Replace the realm's own layer of the configuration; turns that start afterwards follow it.",
    input: SetConfig,
    output: ConfigEnvelope,
    rpc: "config/set",
    http: "PUT /config",
    mcp: "meerkat_config",
    cli: "rkat config set FILE",
    cliJson: [],
    scope: "config",
    sees: "project",
    audited: { action: "config_changed" },
  },
  patchConfig: {
    summary: "Change the realm's own layer of the configuration by a merge patch; null removes a key.",
    input: PatchConfig,
    output: ConfigEnvelope,
    rpc: "config/patch",
    http: "PATCH /config",
    mcp: "meerkat_config",
    mcpInput: () => ConfigTool,
    mcpSummary:
      "Read the effective configuration (get), replace the project's own layer of it (set), or change that layer by a merge patch in which null removes a key (patch).",
    cli: "rkat config patch FILE",
    cliJson: [],
    scope: "config",
    sees: "project",
    audited: { action: "config_changed" },
  },
} as const;
