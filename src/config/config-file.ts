import { dirname, join } from "node:path";
import { parse, stringify, TomlError } from "smol-toml";
import { z } from "zod";
import { RuntimeError } from "../contract/error.ts";
import { type JsonTable, spellDuration } from "../contract/input.ts";
import { type JsonSchema, withExamples } from "../contract/requests.ts";
import { spellSubAgents } from "./agents-schema.ts";
import { type Config, ConfigFile } from "./config-schema.ts";
import { spellRules } from "./permission-layers.ts";
import { spellRetention } from "./retention-schema.ts";
import { withoutPassword } from "./store-schema.ts";

export interface ConfigPlaces {
  readonly cwd: string;
  readonly home: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Resolves with undefined when there is no such file. */
  readonly readFile: (path: string) => Promise<string | undefined>;
  /** The folder that keeps the realm, whose own `config.toml` wins over the project's file. */
  readonly stateFolder?: string | undefined;
  /** Whoever calls vouches for what the project's files want, this once; `RKAT_TRUST=1` in `env` does so, too. */
  readonly isTrusted?: boolean | undefined;
}

export interface FoundFile {
  readonly path: string;
  readonly text: string;
}

const PARENTS_MAX = 256;

/** The file of the nearest folder, from the working one upwards, that has one of these names. */
export async function findUpwards(
  { cwd, readFile }: ConfigPlaces,
  namesIn: (folder: string) => readonly string[],
): Promise<FoundFile | undefined> {
  let folder = cwd;
  for (let depth = 0; depth < PARENTS_MAX; depth += 1) {
    const found = await Promise.all(namesIn(folder).map((name) => readIfThere(join(folder, name), readFile)));
    const [first, second] = found.filter((file) => file !== undefined);
    if (first !== undefined && second !== undefined) {
      const message = `${first.path} and ${second.path} both configure this project; keep one and remove the other`;
      throw new RuntimeError("INVALID_PARAMS", message);
    }
    if (first !== undefined) return first;
    const parent = dirname(folder);
    if (parent === folder) return undefined;
    folder = parent;
  }
  return undefined;
}

/** The file at a path; undefined when there is none. */
export async function readIfThere(path: string, readFile: ConfigPlaces["readFile"]): Promise<FoundFile | undefined> {
  try {
    const text = await readFile(path);
    return text === undefined ? undefined : { path, text };
  } catch (cause) {
    throw new RuntimeError("INVALID_PARAMS", `${path} is there and cannot be read; check its permissions`, { cause });
  }
}

/** Throws INVALID_PARAMS, saying where, for a text that is not TOML. */
export function parseToml(text: string, path: string): JsonTable {
  try {
    return parse(text);
  } catch (cause) {
    if (!(cause instanceof TomlError)) throw cause;
    const [summary = ""] = cause.message.split("\n");
    const reason = summary.replace(/^Invalid TOML document: /, "");
    const place = `line ${cause.line}, column ${cause.column}`;
    throw new RuntimeError("INVALID_PARAMS", `${path} is not valid TOML at ${place}: ${reason}`, { cause });
  }
}

/** A configuration as its file says it; sections without a key are left out. */
export function formatToml(table: JsonTable): string {
  const sections = Object.entries(table).filter(([, section]) => !isTable(section) || Object.keys(section).length > 0);
  return stringify(Object.fromEntries(sections));
}

type Path = readonly PropertyKey[];

interface Given {
  /** What was read and did not fit. */
  readonly raw: unknown;
  /** What it should have fitted. */
  readonly schema: z.ZodType;
  /** Names the file or the variable that a key comes from. */
  readonly sourceOf: (path: Path) => string;
}

/** Says in one sentence per problem where it is, what is wrong and what to write. */
export function describeProblems(error: z.ZodError, { raw, schema, sourceOf }: Given): readonly string[] {
  const unknownFirst = error.issues.toSorted(
    (a, b) => Number(b.code === "unrecognized_keys") - Number(a.code === "unrecognized_keys"),
  );
  const each = unknownFirst.flatMap((issue) => {
    if (issue.code !== "unrecognized_keys")
      return [() => badValue(issue.path, issue.message, raw, sourceOf(issue.path))];
    return issue.keys.map((key) => () => unknownKey([...issue.path, key], sourceOf([...issue.path, key]), schema));
  });
  // A request may name as many keys as it has room for, and the nearest of each is looked for among all there are.
  return each.slice(0, PROBLEMS_MAX).map((tell) => tell());
}

const PROBLEMS_MAX = 20;

/** A key that is none, in the file or the variable it comes from, and the one it is a slip of the finger away from. */
export interface UnknownKey {
  readonly source: string;
  readonly path: readonly string[];
  readonly meant: readonly string[] | undefined;
}

/** The same problems as far as they are keys that are none, for who would mend them. */
export function unknownKeys(error: z.ZodError, { schema, sourceOf }: Omit<Given, "raw">): readonly UnknownKey[] {
  const paths = error.issues.flatMap((issue) =>
    issue.code === "unrecognized_keys" ? issue.keys.map((key) => [...issue.path, key].map(String)) : [],
  );
  return paths.slice(0, PROBLEMS_MAX).map((path) => ({ source: sourceOf(path), path, meant: keyMeant(path, schema) }));
}

/** A key beside the unknown one that is spelled nearly as it is. */
function keyMeant(path: readonly string[], schema: z.ZodType): readonly string[] | undefined {
  const [section, name] = [path.slice(0, -1), path.at(-1) ?? ""];
  const names = knownKeys(schema).flatMap((known) => (isBeside(known, section) ? [known.at(-1) ?? ""] : []));
  const slips = names.map((known) => ({ known, distance: editDistance(name, known) }));
  const [first] = slips.sort((a, b) => a.distance - b.distance);
  return first !== undefined && first.distance <= SLIP_MAX && first.distance < name.length / 2
    ? [...section, first.known]
    : undefined;
}

const SLIP_MAX = 2;

/** Whether a known key stands in this section; a name that the user chooses may be any. */
function isBeside(known: readonly string[], section: readonly string[]): boolean {
  const parents = known.slice(0, -1);
  return parents.length === section.length && parents.every((part, index) => [ANY_NAME, section[index]].includes(part));
}

function badValue(path: Path, message: string, raw: unknown, source: string): string {
  const value = path.reduce<unknown>((at, key) => (isParent(at) ? at[String(key)] : undefined), raw);
  const key = path.map(String).join(".");
  if (value === undefined) return `${source}: ${key} is missing; ${message}`;
  const fix = message.startsWith("Invalid input") ? `make it a table, [${key}]` : message;
  return `${source}: ${key} ${shown(key, value)}; ${fix}`;
}

const SHOWN_CHARACTERS_MAX = 60;
const MAY_HOLD_SECRETS = /(?:_env|[._]url|\.endpoint|\.(?:env|headers|args)(?:\..*)?)$/;

/** The value, unless it could hold a secret: someone will paste a key where a variable's name belongs. */
function shown(key: string, value: unknown): string {
  const written = JSON.stringify(value) ?? "";
  if (MAY_HOLD_SECRETS.test(key) || written.length > SHOWN_CHARACTERS_MAX || isTable(value)) return "is not usable";
  return `is ${written}`;
}

function unknownKey(path: Path, source: string, schema: z.ZodType): string {
  const written = path.map(String).join(".");
  const key = written.length > KEY_CHARS_MAX ? `${written.slice(0, KEY_CHARS_MAX)}…` : written;
  return `${source}: ${key} is not a known key; did you mean ${nearestKey(path.map(String), schema)}?`;
}

const KEY_CHARS_MAX = 120;

/** The key of this very name in another section, else the most alike, a sibling before a closer stranger. */
function nearestKey(path: readonly string[], schema: z.ZodType): string {
  const section = path.slice(0, -1);
  const ranked = knownKeys(schema).flatMap((known) => {
    const [parents, name] = [known.slice(0, -1), known.at(-1) ?? ""];
    const isSibling = isBeside(known, section);
    if (!isSibling && parents.includes(ANY_NAME)) return [];
    const key = [...(isSibling ? section : parents), name].join(".");
    const distance = editDistance(path.at(-1) ?? "", name);
    return [{ key, cost: distance + (isSibling || distance === 0 ? 0 : STRANGER_COST) }];
  });
  return ranked.reduce((best, next) => (next.cost < best.cost ? next : best)).key;
}

const ANY_NAME = "<name>";
const STRANGER_COST = 2;

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema | boolean;
  readonly items?: Schema;
}

/** Every key of the file as a path, sections included; names that the user chooses, and numbers, are `<name>`. */
function knownKeys(file: z.ZodType): readonly (readonly string[])[] {
  const known = knownIn.get(file) ?? keysIn(file);
  knownIn.set(file, known);
  return known;
}

const knownIn = new WeakMap<z.ZodType, readonly (readonly string[])[]>();

function keysIn(file: z.ZodType): readonly (readonly string[])[] {
  const walk = (schema: Schema, path: readonly string[]): readonly (readonly string[])[] => {
    const children = Object.entries(schema.properties ?? {});
    const { additionalProperties, items: row = additionalProperties } = schema;
    const named: typeof children = typeof row === "object" ? [[ANY_NAME, row]] : [];
    const here = children.map(([key]) => [...path, key]);
    return [...here, ...[...children, ...named].flatMap(([key, child]) => walk(child, [...path, key]))];
  };
  // A JSON schema is wider than what is read of it here: it nests by these three fields only.
  return walk(z.toJSONSchema(file, { io: "input" }) as Schema, []);
}

/** No key is longer; what is differs in all the rest. */
const COMPARED_CHARS_MAX = 64;

/** Insertions, deletions and substitutions that turn one word into the other. */
function editDistance(given: string, to: string): number {
  const from = given.slice(0, COMPARED_CHARS_MAX);
  let row = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (const [i, letter] of [...from].entries()) {
    const next = [i + 1];
    for (const [j, other] of [...to].entries()) {
      const kept = (row[j] ?? 0) + (letter === other ? 0 : 1);
      next.push(Math.min(kept, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}

function isParent(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}

/** True of a TOML table, not of its lists and dates. */
export function isTable(value: unknown): value is Readonly<Record<string, unknown>> {
  return isParent(value) && !Array.isArray(value) && !(value instanceof Date);
}

/** Every key of the file, with what is said of it. */
export function configFileSchema(): JsonSchema {
  // zod's type of a JSON schema is this one with every keyword of the standard.
  return z.toJSONSchema(ConfigFile, { io: "input", override: withExamples }) as JsonSchema;
}

/** A configuration by the keys of its file; reading it back gives the same. */
export function spellConfig(config: Config): JsonTable {
  const {
    features,
    agent,
    budget,
    limits: held,
    retry,
    compaction,
    tools,
    shell,
    ceiling,
    permissions,
    store,
    ui,
    retention,
    sub_agents,
    forbidden: _file,
    ...rest
  } = config;
  const { initial_delay_ms, max_delay_ms, retry_after_max_ms, call_timeout_ms, stall_timeout_ms, ...retries } = retry;
  const { default_timeout_ms, approval_timeout_ms, ...offered } = tools;
  const { lease_ms, ...kept } = store;
  const { grace_ms, ...pages } = ui;
  const spelled = {
    features,
    agent,
    budget: spellLimits(budget),
    ceiling: { tools: ceiling.tools, models: ceiling.models, ...spellLimits(ceiling.limits) },
    limits: held,
    retry: {
      ...retries,
      initial_delay: spellDuration(initial_delay_ms),
      max_delay: spellDuration(max_delay_ms),
      retry_after_max: spellDuration(retry_after_max_ms),
      call_timeout: call_timeout_ms === undefined ? "disabled" : spellDuration(call_timeout_ms),
      stall_timeout: stall_timeout_ms === undefined ? "disabled" : spellDuration(stall_timeout_ms),
    },
    compaction,
    permissions: spellRules(permissions),
    tools: {
      ...offered,
      default_timeout: spellDuration(default_timeout_ms),
      approval_timeout: spellDuration(approval_timeout_ms),
    },
    shell: { program: shell.program, timeout_secs: shell.timeout_ms / 1_000 },
    store: { ...kept, lease: spellDuration(lease_ms) },
    ui: { ...pages, grace: grace_ms === undefined ? "disabled" : spellDuration(grace_ms) },
    retention: spellRetention(retention),
    sub_agents: spellSubAgents(sub_agents),
    ...rest,
  };
  // A key without a value is one that the file does not have.
  return JSON.parse(JSON.stringify(spelled));
}

/** The same for others to read: without the password of a database. */
export function tellConfig(config: Config): JsonTable {
  const { url } = config.store;
  return spellConfig(url === undefined ? config : { ...config, store: { ...config.store, url: withoutPassword(url) } });
}

function spellLimits({ max_duration_ms, ...limits }: Config["budget"]): JsonTable {
  return { ...limits, max_duration: max_duration_ms === undefined ? undefined : spellDuration(max_duration_ms) };
}
