import { invalid } from "../contract/error.ts";
import type { JsonObject } from "../contract/session.ts";
import type { FieldNames } from "../contract/wire/wire-table.ts";
import { isStandard, readBy, type StandardSchema } from "../ports/standard-schema.ts";

/** A wire name in TypeScript's spelling: `max_tokens` is `maxTokens`. */
type Camel<Name extends string> = Name extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<Camel<Tail>>}`
  : Name;

type IsUnion<T, Whole = T> = T extends unknown ? ([Whole] extends [T] ? false : true) : never;

/**
 * What the wire carries in TypeScript's spelling, at every depth. User data keeps its keys, and unions, such as events
 * and messages, keep their wire names.
 */
export type CamelCased<T, Role extends "input" | "output" = "input"> =
  IsUnion<Exclude<T, null | undefined>> extends true
    ? T
    : T extends readonly (infer Item)[]
      ? readonly CamelCased<Item, Role>[]
      : T extends object
        ? string extends keyof T
          ? Readonly<T>
          : { readonly [K in keyof T as K extends string ? Camel<K> : K]: CamelCased<T[K], Role> | Also<T[K], Role> }
        : T;

/** Older programs spell nested options as the wire does; both are accepted. */
type Also<T, Role extends "input" | "output"> = Role extends "input" ? T : never;

/** What the SDK answers for a value of the wire; `createSession` answers one of two. */
export type Answer<T> = T extends unknown ? CamelCased<T, "output"> : never;

export function camelOf(name: string): string {
  return name.includes("_") ? name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()) : name;
}

const wireNamesOf = new WeakMap<FieldNames, ReadonlyMap<string, string>>();

/** An input in wire spelling; unknown names are left to validation. */
export function toWire(options: object, fields: FieldNames): Record<string, unknown> {
  // A list has as many objects of the same fields as it likes.
  const wireNames =
    wireNamesOf.get(fields) ?? new Map(Object.keys(fields).map((field) => [camelOf(field), field] as const));
  wireNamesOf.set(fields, wireNames);
  return Object.fromEntries(
    Object.entries(options).map(([name, value]) => {
      const field = wireNames.get(name) ?? name;
      return [field, valueToWire(value, fields[field] ?? null)];
    }),
  );
}

function valueToWire(value: unknown, fields: FieldNames | null): unknown {
  if (fields === null || typeof value !== "object" || value === null) return value;
  return Array.isArray(value) ? value.map((item) => valueToWire(item, fields)) : toWire(value, fields);
}

/** An output in TypeScript's spelling; names that are not in the schema stay as they are. */
export function fromWire(value: unknown, fields: FieldNames | null): unknown {
  if (fields === null || typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((item) => fromWire(item, fields));
  const entries = Object.entries(value).map(([name, inner]) => {
    return Object.hasOwn(fields, name) ? [camelOf(name), fromWire(inner, fields[name] ?? null)] : [name, inner];
  });
  return Object.fromEntries(entries);
}

/** A sentence with field names in TypeScript's spelling. */
export function inCamelCase(sentence: string, fields: FieldNames): string {
  const known = namesIn(fields);
  return sentence.replaceAll(/(?<![a-z])[a-z]+(?:_[a-z]+)+/g, (name) => (known.has(name) ? camelOf(name) : name));
}

function namesIn(fields: FieldNames): ReadonlySet<string> {
  const inner = Object.values(fields).flatMap((value) => (value === null ? [] : [...namesIn(value)]));
  return new Set([...Object.keys(fields), ...inner]);
}

/** Throws INVALID_PARAMS for unknown option names: an ignored option would fail silently. */
export function requireNames(options: object, names: readonly string[]): void {
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw invalid("give the options as an object");
  }
  const unknown = Object.keys(options).find((name) => !names.includes(name));
  if (unknown === undefined) return;
  const meant = nearest(unknown, names);
  const advice = meant === undefined ? `there are ${names.join(", ")}` : `did you mean ${meant}?`;
  throw invalid(`${unknown} is no option; ${advice}`);
}

/** The name with the longest common prefix and suffix; undefined if less than half is shared. */
function nearest(written: string, names: readonly string[]): string | undefined {
  const [best] = names
    .map((name) => ({ name, shared: sharedLetters(plain(written), plain(name)) }))
    .filter(({ name, shared }) => shared * 2 > Math.max(plain(written).length, plain(name).length))
    .sort((a, b) => b.shared - a.shared);
  return best?.name;
}

function plain(name: string): string {
  return name.toLowerCase().replaceAll(/[_-]/g, "");
}

function sharedLetters(a: string, b: string): number {
  const most = Math.min(a.length, b.length);
  let start = 0;
  while (start < most && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < most - start && a.at(-1 - end) === b.at(-1 - end)) end += 1;
  return start + end;
}

/** The shape of a result: a JSON schema, or a library's schema that can be converted to one. */
export type OutputSchema<T = unknown> = StandardSchema<T> | Readonly<JsonObject>;

/** A result as the caller's schema reads it; where that refuses it, the reason instead of the output. */
export async function readResult(result: object, schema: unknown): Promise<object> {
  if (!("structuredOutput" in result) || !isStandard(schema)) return result;
  const { structuredOutput, ...others } = result;
  const read = await readBy(schema, structuredOutput);
  if ("value" in read) return { ...others, structuredOutput: read.value };
  const extractionError = { lastOutput: JSON.stringify(structuredOutput), attempts: 1, reason: read.problem };
  return { ...others, extractionError };
}
