import { AgentName } from "@rkat/core/contract/agent";
import { accepts, type CliField, cliFields, metaOf, parseDuration, unwrapped } from "@rkat/core/contract/input";
import { isJsonTable } from "@rkat/core/contract/json";
import { OPERATIONS, type OperationName } from "@rkat/core/contract/operations";
import type { JsonObject } from "@rkat/core/contract/session";
import { InvalidArgumentError, Option } from "commander";

export type Pair = readonly [key: string, value: string];

/** Every command that answers with something can do so in JSON. */
export const jsonFlag = (): Option => new Option("--json", "as JSON");

export function repeated(flags: string, description: string): Option {
  return new Option(flags, description)
    .argParser((value: string, before: readonly string[]) => [...before, value])
    .default([]);
}

export function pairs(flags: string, description: string): Option {
  return new Option(flags, description)
    .argParser((text: string, before: readonly Pair[]): readonly Pair[] => {
      const at = text.indexOf("=");
      if (at < 1) throw new InvalidArgumentError("Write it as key=value.");
      return [...before, [text.slice(0, at), text.slice(at + 1)]];
    })
    .default([]);
}

/** What holds without a flag, which its explanation then says. */
export function withoutIt(value: number | string): (option: Option) => Option {
  return (option) => also(option, `${value} without it`).default(value);
}

/** A flag that says more of itself than its field does. */
export function also(option: Option, more: string): Option {
  option.description += `; ${more}`;
  return option;
}

/** Reads a whole number; underscores may group its digits. */
export function wholeFrom(least: number): (text: string) => number {
  return (text) => {
    const value = /^\d[\d_]*$/.test(text) ? Number(text.replaceAll("_", "")) : Number.NaN;
    if (Number.isSafeInteger(value) && value >= least) return value;
    throw new InvalidArgumentError(`Write a whole number of at least ${least}.`);
  };
}

function dollars(text: string): number {
  const amount = /^\d+(?:\.\d+)?$/.test(text) ? Number(text) : Number.NaN;
  if (amount > 0) return amount;
  throw new InvalidArgumentError("Write an amount of US dollars above 0, like 0.5.");
}

function partOfOne(text: string): number {
  const part = /^\d?\.?\d+$/.test(text) ? Number(text) : Number.NaN;
  if (part > 0 && part <= 1) return part;
  throw new InvalidArgumentError("Write a number above 0 and up to 1, like 0.6.");
}

function trueOrFalse(text: string): boolean {
  if (text === "true" || text === "false") return text === "true";
  throw new InvalidArgumentError("Write true or false.");
}

function duration(text: string): string {
  if ((parseDuration(text) ?? 0) > 0) return text;
  throw new InvalidArgumentError("Write a duration like 30s, 5m or 1h30m.");
}

/** Reads an object or a list, whichever the example is. */
function jsonLike(example: unknown): (text: string) => unknown {
  const isList = Array.isArray(example);
  const shown = JSON.stringify(example).replaceAll(/(?<=[:,])/g, " ");
  return (text) => {
    const value = json(text);
    if (typeof value === "object" && value !== null && Array.isArray(value) === isList) return value;
    throw new InvalidArgumentError(`Write a JSON ${isList ? "list" : "object"}, like ${shown}.`);
  };
}

export function json(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new InvalidArgumentError("Write valid JSON.");
  }
}

export function agentName(text: string): string {
  const { data, error } = AgentName.safeParse(text);
  if (data !== undefined) return data;
  const sentence = error?.issues[0]?.message ?? "";
  throw new InvalidArgumentError(`${sentence.charAt(0).toUpperCase()}${sentence.slice(1)}.`);
}

/** One skill more: its name, with its source's id before it where that is not the nearest. */
function andSkill(text: string, before: readonly object[]): readonly object[] {
  const [, source_uuid, skill_name] = /^(?:([^:]*):)?([^:]+)$/.exec(text) ?? [];
  if (skill_name === undefined || source_uuid === "") {
    throw new InvalidArgumentError("Write the name of a skill, or SOURCE_UUID:NAME; rkat skill list shows them.");
  }
  return [...before, source_uuid === undefined ? { skill_name } : { source_uuid, skill_name }];
}

export interface FieldFlag {
  /** Where the field stands in the operation's input. */
  readonly path: readonly [string, ...string[]];
  readonly option: Option;
}

/** The flags of an operation's fields: named, explained and read as the fields' schemas say. */
export function fieldFlags(operation: OperationName): readonly FieldFlag[] {
  return (
    cliFields(OPERATIONS[operation].input)
      // What changes a session that has run is written as what makes one, and no command does both.
      .filter(({ path, word }) => word.startsWith("-") && path[0] !== "change_settings")
      .map((field) => ({ path: field.path, option: optionOf(field) }))
  );
}

/** The flags of an operation's fields; `own` changes some of them, by the names of the fields. */
export function fieldOptions(
  name: OperationName,
  own: Readonly<Record<string, (option: Option) => Option>> = {},
): readonly Option[] {
  return fieldFlags(name).map(({ path, option }) => own[path.at(-1) ?? ""]?.(option) ?? option);
}

/** The input of an operation as the flags say it, by the flags' names in code; what was not written is not in it. */
export function fieldsOf(operation: OperationName, flags: object): JsonObject {
  const given = new Map<string, unknown>(Object.entries(flags));
  return fieldFlags(operation).reduce<JsonObject>((input, { path, option }) => {
    const value = fieldValue(given.get(option.attributeName()), option);
    return value === undefined ? input : placed(input, path, value);
  }, {});
}

function fieldValue(value: unknown, { flags }: Option): unknown {
  if (value instanceof GivenJson) return value.value;
  if (!Array.isArray(value)) return value;
  const isNone = value.length === 0 && !flags.endsWith("<json>");
  return isNone ? undefined : isPairs(flags) ? Object.fromEntries(value) : value;
}

/** The table with a value at a path. */
export function placed(table: JsonObject, [key = "", ...rest]: readonly string[], value: unknown): JsonObject {
  if (rest.length === 0) return { ...table, [key]: value };
  const inner = table[key];
  return { ...table, [key]: placed(isJsonTable(inner) ? inner : {}, rest, value) };
}

/** Any JSON value, null among them, which the parser of flags takes for a flag without a value. */
class GivenJson {
  readonly value: unknown;
  constructor(text: string) {
    this.value = json(text);
  }
}

const isPairs = (flags: string): boolean => flags.endsWith("<key=value>");

function optionOf({ word, schema }: CliField): Option {
  const { description = "", examples } = metaOf(schema);
  const { def } = unwrapped(schema)._zod;
  const option = new Option(word, description);
  const several = `${description}; may be repeated`;
  if (isPairs(word)) return pairs(word, several);
  if (word.endsWith("<time>")) return option.argParser(duration);
  if (word.endsWith("<usd>")) return option.argParser(dollars);
  if (word.endsWith("<share>")) return option.argParser(partOfOne);
  if (word.endsWith("<true|false>")) return option.argParser(trueOrFalse);
  if (word.endsWith("<skill>")) return new Option(word, several).argParser(andSkill).default([]);
  if (word.endsWith("<json>")) {
    return option.argParser(Array.isArray(examples) ? jsonLike(examples[0]) : (text) => new GivenJson(text));
  }
  switch (def.type) {
    case "enum":
      return option.choices(Object.keys(def.entries));
    case "array":
      return repeated(word, several);
    case "number":
      return option.argParser(wholeFrom(accepts(schema, 0) ? 0 : 1));
    default:
      return option;
  }
}
