import type { JsonSchema } from "@rkat/core/contract/wire/requests";
import { below, chance, pick } from "../compaction/chances.ts";
import type { Random } from "../support/random-history.ts";

/** What hostile inputs are drawn from: a seed decides all of it. */
export interface Draw {
  readonly random: Random;
  /** Sessions that are there, so that some inputs get past the first check. */
  readonly sessions: readonly string[];
}

/** Text that is written into JSON as it is: numbers no value of this language holds, depths no value needs. */
const RAW = "\u0000raw:";
const raw = (text: string): string => `${RAW}${text}`;
const nested = (open: string, close: string, depth: number): string => raw(open.repeat(depth) + close.repeat(depth));

const NASTY: readonly unknown[] = [
  ...[null, true, false, 0, -1, 1.5, 1e21, 2 ** 53, -(2 ** 53), 4_294_967_296, Number.MAX_VALUE, Number.MIN_VALUE],
  ...["1e999", "-1e999", "-0", "1e-400", "123456789012345678901234567890", "0.1e1"].map(raw),
  ...[
    "",
    " ",
    "\t\n",
    "0",
    "true",
    "null",
    "NaN",
    "[object Object]",
    "x",
    "\u0000",
    "\ud800",
    "\udc00\ud800",
    "\ufeff",
  ],
  ...["../../../../etc/passwd", "/etc/passwd", "..%2f..%2f", "C:\\Windows", "con", ".", "..", "a/b", "a\\b", "%00"],
  ...["__proto__", "constructor", "toString", "hasOwnProperty", "then", "\r\nSet-Cookie: a=b", "'; drop table x;--"],
  ...["\u202eabc", "💥".repeat(50), "é".normalize("NFD"), "a".repeat(10_000), "9".repeat(400), "9999999999999d", "-5s"],
  ...["2026-13-45T99:99:99Z", "00000000-0000-0000-0000-000000000000", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF"],
  ...[[], {}, [[]], [null], [{}], { a: 1 }, { "": "" }, { length: 3 }, { toJSON: 1 }],
  raw('{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}'),
  raw('{"then":1}'),
  raw('{"a":1,"a":2,"a":{}}'),
  nested("[", "]", 100),
  nested('{"a":', "}", 60).replace(":}", ":0}"),
  Array.from({ length: 1_000 }, (_, index) => index),
  Object.fromEntries(Array.from({ length: 500 }, (_, index) => [`k${index}`, index])),
];

/** Rare, since each of them costs as much as a thousand others. */
const HUGE: readonly unknown[] = [
  "x".repeat(1_100_000),
  nested("[", "]", 129),
  nested("[", "]", 5_000),
  nested("[", "]", 200_000),
  nested('{"a":', "}", 20_000).replace(":}", ":0}"),
  Array.from({ length: 50_000 }, () => ({})),
];
const HUGE_SHARE = 0.004;

export function nasty(draw: Draw): unknown {
  return pick(draw.random, chance(draw.random, HUGE_SHARE) ? HUGE : NASTY);
}

/** A value's JSON, with what stands for text written as it is. */
export function toJson(value: unknown): string {
  return (JSON.stringify(value) ?? "null").replace(/"\\u0000raw:((?:[^"\\]|\\.)*)"/g, (_, text: string) =>
    text.replaceAll('\\"', '"'),
  );
}

const WORDS = ["Hello.", "What is 2 + 3?", "ada", "The port is 8080.", "text/plain", "team"];

/** A value that nearly fits a schema, or does. */
export function fitting(schema: JsonSchema, draw: Draw, depth = 0): unknown {
  const { random } = draw;
  if (schema.const !== undefined) return schema.const;
  if (Array.isArray(schema.enum)) return pick(random, schema.enum);
  const either = schema.anyOf ?? schema.oneOf;
  if (Array.isArray(either)) return fitting(pick(random, either) ?? {}, draw, depth);
  switch (schema.type) {
    case "object":
      return fittingObject(schema, draw, depth);
    case "array": {
      const items = schema.items as JsonSchema | undefined; // A list's schema of its items, in these schemas always one.
      return Array.from({ length: below(random, 3) }, () => fitting(items ?? {}, draw, depth + 1));
    }
    case "string":
      if (schema.format === "uuid") return pick(random, draw.sessions) ?? "01900000-0000-7000-8000-000000000001";
      return pick(random, WORDS);
    case "integer":
    case "number":
      return 1 + below(random, 20);
    case "boolean":
      return chance(random, 0.5);
    default:
      return pick(random, WORDS);
  }
}

function fittingObject(schema: JsonSchema, draw: Draw, depth: number): Record<string, unknown> {
  const { properties = {}, required = [] } = schema;
  const chosen = Object.entries(properties).filter(
    ([name, { not }]) =>
      required.includes(name) || (not === undefined && chance(draw.random, depth === 0 ? 0.15 : 0.5)),
  );
  return Object.fromEntries(chosen.map(([name, property]) => [name, fitting(property, draw, depth + 1)]));
}

/** A value of every kind that a field may not be of. */
const WRONG_KINDS: readonly unknown[] = [null, true, -1, 1.5, 2 ** 53, "", "x", [], {}, [{}], nested("[", "]", 100)];

/** Cases for rows with a schema each: by turns a field with a value of each kind, over and over, and what is drawn. */
export function createCases<T>(
  rows: readonly (readonly [row: T, schema: JsonSchema])[],
  draw: Draw,
): () => { readonly row: T; readonly value: unknown } {
  const sweep = rows.flatMap(([row, schema]) =>
    Object.keys(schema.properties ?? {}).flatMap((field) =>
      WRONG_KINDS.map((wrong) => () => ({ row, value: { ...fittingObject(schema, draw, 0), [field]: wrong } })),
    ),
  );
  let at = 0;
  return () => {
    at += 1;
    const swept = at % 2 === 0 ? undefined : sweep[(at >> 1) % sweep.length];
    if (swept !== undefined) return swept();
    const [row, schema] = rows[below(draw.random, rows.length)] ?? never();
    return { row, value: mutated(schema, draw) };
  };
}

function never(): never {
  throw new Error("there are no rows");
}

/** The fields of an operation, most of them with something wrong in one place or several. */
export function mutated(schema: JsonSchema, draw: Draw): unknown {
  const { random } = draw;
  let value = fitting(schema, draw);
  const changes = below(random, 3);
  for (let change = 0; change < changes; change += 1) value = changedIn(value, schema, draw);
  return value;
}

function changedIn(value: unknown, schema: JsonSchema, draw: Draw): unknown {
  const { random } = draw;
  if (typeof value !== "object" || value === null || chance(random, 0.05)) return nasty(draw);
  if (Array.isArray(value)) return chance(random, 0.5) ? [...value, nasty(draw)] : { ...value };
  const fields = Object.keys(value);
  const all = [...fields, ...Object.keys(schema.properties ?? {})];
  const field = pick(random, all) ?? "x";
  const before = (value as Record<string, unknown>)[field]; // An object's fields are unknown, no more.
  switch (below(random, 8)) {
    case 0:
      return Object.fromEntries(Object.entries(value).filter(([name]) => name !== field));
    case 1:
      return { ...value, [String(nasty(draw)).slice(0, 100)]: nasty(draw) };
    case 2:
      return { ...value, [field]: [before] };
    case 3:
      return { ...value, [field]: changedIn(before, schema.properties?.[field] ?? {}, draw) };
    case 4:
      return { ...value, [field]: String(before) };
    default:
      return { ...value, [field]: nasty(draw) };
  }
}

const BAD_BYTES: readonly (readonly number[])[] = [
  [0xff, 0xfe],
  [0xc0, 0x80],
  [0xed, 0xa0, 0x80],
  [0x00],
  [0xf8, 0x88, 0x80, 0x80, 0x80],
  [0x0d, 0x0a],
  [0x0a],
  [0x22],
  [0x5c],
  [0x7b],
  [0x1b, 0x5b, 0x32, 0x4a],
];

/** Bytes with a few of them lost, doubled, turned or put in between. */
export function broken(bytes: Uint8Array, { random }: Draw): Uint8Array {
  const at = below(random, bytes.length + 1);
  const to = Math.min(bytes.length, at + below(random, 64));
  switch (below(random, 6)) {
    case 0:
      return bytes.subarray(0, at);
    case 1:
      return bytes.subarray(at);
    case 2:
      return Buffer.concat([bytes.subarray(0, at), bytes.subarray(to)]);
    case 3:
      return Buffer.concat([bytes.subarray(0, to), bytes.subarray(at)]);
    case 4: {
      const turned = Uint8Array.from(bytes);
      if (at < turned.length) turned[at] = below(random, 256);
      return turned;
    }
    default:
      return Buffer.concat([bytes.subarray(0, at), Buffer.from(pick(random, BAD_BYTES) ?? []), bytes.subarray(at)]);
  }
}
