import { invalid, messageOf, type RuntimeError } from "../contract/error.ts";
import type { JsonObject } from "../contract/session.ts";
import type { FieldNames } from "../contract/wire-table.ts";

/** A name of the wire as TypeScript spells it: `max_tokens` is `maxTokens`. */
type Camel<Name extends string> = Name extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<Camel<Tail>>}`
  : Name;

type IsUnion<T, Whole = T> = T extends unknown ? ([Whole] extends [T] ? false : true) : never;

/**
 * An input of the wire under TypeScript's names, at every depth. A user's own data keeps its keys, and what has one of
 * several shapes, as a message has, the names it also comes back with.
 */
export type CamelCased<T> =
  IsUnion<Exclude<T, null | undefined>> extends true
    ? T
    : T extends readonly (infer Item)[]
      ? readonly CamelCased<Item>[]
      : T extends object
        ? string extends keyof T
          ? Readonly<T>
          : { readonly [K in keyof T as K extends string ? Camel<K> : K]: Either<T[K]> }
        : T;

/** Programs that were written before both were understood spell what is inside an option as the wire does. */
type Either<T> = CamelCased<T> | T;

export function camelOf(name: string): string {
  return name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

/** An input under the wire's names; what has no name among the fields is left to whoever validates it. */
export function toWire(options: object, fields: FieldNames): Record<string, unknown> {
  const wireNames = new Map(Object.keys(fields).map((field) => [camelOf(field), field]));
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

/** A sentence about fields with the names that they have in TypeScript. */
export function inCamelCase(sentence: string, fields: FieldNames): string {
  const known = namesIn(fields);
  return sentence.replaceAll(/(?<![a-z])[a-z]+(?:_[a-z]+)+/g, (name) => (known.has(name) ? camelOf(name) : name));
}

function namesIn(fields: FieldNames): ReadonlySet<string> {
  const inner = Object.values(fields).flatMap((value) => (value === null ? [] : [...namesIn(value)]));
  return new Set([...Object.keys(fields), ...inner]);
}

/** Throws INVALID_PARAMS unless the options are an object of these names: one that is ignored has no effect, unseen. */
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

/** The name that shares most of its beginning and end with what was written; undefined when less than half is shared. */
function nearest(written: string, names: readonly string[]): string | undefined {
  const [best] = names
    .map((name) => ({ name, shared: sharedLetters(plain(written), plain(name)) }))
    .filter(({ name, shared }) => shared * 2 > Math.max(plain(written).length, plain(name).length))
    .sort((a, b) => b.shared - a.shared);
  return best?.name;
}

/** `max_tokens` is how the wire spells `maxTokens`. */
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

/** As much of Standard Schema 1 (standardschema.dev) as a result needs: zod, Valibot, ArkType and others follow it. */
interface StandardSchema<T> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly types?: { readonly input: T } | undefined;
    readonly jsonSchema?: { readonly input: (options: { readonly target: string }) => JsonObject };
  };
}

/** What a result must look like: a JSON schema, or a schema of a library that can be written as one. */
export type OutputSchema<T = unknown> = StandardSchema<T> | Readonly<JsonObject>;

/** The JSON schema of what a model is to write; throws INVALID_PARAMS, saying what to do, where there is none. */
export function jsonSchemaOf(schema: unknown): unknown {
  if (!isStandard(schema)) return schema;
  const { jsonSchema, vendor } = schema["~standard"];
  if (jsonSchema === undefined) throw notJson(vendor, "this version of it cannot");
  try {
    const made: unknown = jsonSchema.input({ target: "draft-2020-12" });
    // A promise or a list would be written as a schema that asks for nothing.
    if (Object.getPrototypeOf(made) !== Object.prototype) throw new TypeError("its JSON schema gives no object");
    // A validator that does not know the dialect by its address refuses the whole schema.
    const { $schema: _dialect, ...written } = made as JsonObject; // A plain object, by the line above.
    return written;
  } catch (cause) {
    throw notJson(vendor, messageOf(cause), cause);
  }
}

function isStandard(schema: unknown): schema is StandardSchema<unknown> {
  return schema instanceof Object && "~standard" in schema && schema["~standard"] instanceof Object;
}

function notJson(vendor: string, why: string, cause?: unknown): RuntimeError {
  const message = `outputSchema: give this ${vendor} schema as a JSON schema, which it is not written as by itself: ${why}`;
  return invalid(message, cause);
}
