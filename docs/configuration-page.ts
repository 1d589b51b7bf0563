import { VARIABLES } from "@rkat/core/config/config-layers";
import { configFileSchema } from "@rkat/core/config/spell-config";
import { code, markdownTable, page } from "./markdown.ts";

/** As much of a JSON schema as the configuration uses. */
interface Schema {
  readonly description?: string;
  readonly type?: string | readonly string[];
  readonly format?: string;
  readonly default?: unknown;
  readonly const?: unknown;
  readonly enum?: readonly string[];
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema;
  readonly minimum?: number;
  readonly exclusiveMinimum?: number;
  readonly maximum?: number;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema | boolean;
}

/** Every key, by its schema, with its meaning. */
export function configurationPage(): string {
  const { properties = {} }: Schema = configFileSchema();
  const { features, ...sections } = properties;
  const tables = Object.entries(sections).flatMap(([name, schema]) => sectionsOf(name, schema));
  const variables = VARIABLES.map(({ name, path }) => [code(name), code(path.join("."))]);
  return page("Configuration", "packages/core/src/config/config-schema.ts", [
    "TOML, in `rkat.toml` or `.rkat/config.toml` of the project (the nearest parent folder that has one), merged over `~/.rkat/config.toml`: a project's key replaces the user's, but it takes away no rule, no hook and no tool that the user forbids. Over both lie the realm's own `config.toml`, which `rkat config set` and `config/patch` write, then the variables below, then flags and what a request says. An unknown key is an error that names the nearest known one. Keys of providers are never written here: the configuration names the variable that holds one. `rkat init` writes a commented file, `rkat config get` shows what holds, `rkat doctor` where it comes from.",
    "Of a project's files, what starts a program, names an address or the variable of a key, or lets a model act is left out until you trust them with `rkat trust`; [security.md](security.md#what-a-project-may-do) lists these keys. `RKAT_TRUST=1` trusts them for one process.",
    'Durations are written like `"500ms"`, `"30s"`, `"1h30m"`. Where there is no default, the meaning says what applies without the key.',
    "## Top level",
    markdownTable(HEAD, [row("features", features ?? {})]),
    ...tables,
    "## Variables",
    "Each wins over the files. Keys and addresses of providers, and the variables of telemetry, are described in [models.md](models.md) and in [telemetry.md](telemetry.md).",
    markdownTable(["variable", "key"], variables),
  ]);
}

const HEAD = ["key", "value", "default", "meaning"];

/** A section with its table; a table of tables is a section for each name one chooses. */
function sectionsOf(path: string, schema: Schema, about = schema.description): readonly string[] {
  const { properties, additionalProperties } = schema;
  if (typeof additionalProperties === "object") {
    const named = sectionsOf(`${path}.NAME`, additionalProperties, properties === undefined ? about : undefined);
    return [...(properties === undefined ? [] : section(`[${path}]`, schema, about)), ...named];
  }
  const inside = Object.entries(properties ?? {});
  if (inside.every(([, one]) => one.type === "object")) {
    return inside.flatMap(([name, one]) => sectionsOf(`${path}.${name}`, one));
  }
  return [...section(`[${path}]`, schema, about), ...inside.flatMap(([key, one]) => listOf(`${path}.${key}`, one))];
}

function section(name: string, { properties = {} }: Schema, about: string | undefined): readonly string[] {
  const rows = Object.entries(properties).map(([key, one]) => row(key, one));
  return [`## ${code(name)}`, ...(about === undefined ? [] : [sentence(about)]), markdownTable(HEAD, rows)];
}

/** The tables of a list, and those in each of them. */
function listOf(path: string, { type, items, description }: Schema): readonly string[] {
  if (type !== "array" || items?.properties === undefined) return [];
  const inner = Object.entries(items.properties).filter(([, one]) => one.properties !== undefined);
  return [
    ...section(`[[${path}]]`, items, description),
    ...inner.flatMap(([key, one]) => section(`[${path}.${key}]`, one, one.description)),
  ];
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

function row(key: string, schema: Schema): readonly string[] {
  const { default: given, description: meaning } = schema;
  if (meaning === undefined) throw new Error(`${key} is a key of the configuration without a meaning: describe it`);
  return [code(key), valueText(schema), given === undefined ? "" : code(JSON.stringify(given)), meaning];
}

function valueText(schema: Schema): string {
  if (schema.const !== undefined) return code(JSON.stringify(schema.const));
  if (schema.enum !== undefined) return schema.enum.map((value) => code(JSON.stringify(value))).join(", ");
  if (schema.anyOf !== undefined) {
    const choices = schema.anyOf.filter(({ const: value }) => value !== undefined).map(valueText);
    return [...choices, "a duration"].join(" or ");
  }
  if (schema.properties !== undefined) return "a table";
  if (schema.type === "array") {
    return schema.items?.properties === undefined ? `a list of ${valueText(schema.items ?? {})}` : "a list of tables";
  }
  if (schema.type === "boolean") return "`true`, `false`";
  if (schema.type === "string") return schema.format === "uri" ? "an address" : "a text";
  if (typeof schema.additionalProperties === "object") return `a table of ${valueText(schema.additionalProperties)}`;
  return numberText(schema);
}

function numberText({ type, minimum, exclusiveMinimum, maximum = Number.MAX_SAFE_INTEGER }: Schema): string {
  const kind = type === "integer" ? "a whole number" : "a number";
  const from = exclusiveMinimum === undefined ? `from ${minimum ?? 0}` : `above ${exclusiveMinimum}`;
  return maximum === Number.MAX_SAFE_INTEGER ? `${kind} ${from}` : `${kind} ${from} to ${maximum}`;
}
