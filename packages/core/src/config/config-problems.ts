import { z } from "../contract/schema.ts";

type Path = readonly PropertyKey[];

interface Given {
  readonly raw: unknown;
  readonly schema: z.ZodType;
  /** Names the file or the variable that a key comes from. */
  readonly sourceOf: (path: Path) => string;
}

/** One sentence per problem: where it is, what is wrong and what to write. */
export function describeProblems(error: z.ZodError, { raw, schema, sourceOf }: Given): readonly string[] {
  const unknownFirst = error.issues.toSorted(
    (a, b) => Number(b.code === "unrecognized_keys") - Number(a.code === "unrecognized_keys"),
  );
  const each = unknownFirst.flatMap((issue) => {
    if (issue.code !== "unrecognized_keys")
      return [() => badValue(issue.path, issue.message, raw, sourceOf(issue.path))];
    return issue.keys.map((key) => () => unknownKey([...issue.path, key], sourceOf([...issue.path, key]), schema));
  });
  // Bounded, since a request may have many unknown keys and each is compared with all known ones.
  return each.slice(0, PROBLEMS_MAX).map((describe) => describe());
}

const PROBLEMS_MAX = 20;

/** An unknown key, the file or variable it comes from, and the key that was probably meant. */
export interface UnknownKey {
  readonly source: string;
  readonly path: readonly string[];
  readonly meant: readonly string[] | undefined;
}

/** The unknown keys among the problems, for `rkat doctor --fix`. */
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

/** The key of the same name in another section, else the most similar one; keys of the same section are preferred. */
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

/** Longer than any known key. */
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
