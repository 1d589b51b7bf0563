import { type Command, Option } from "commander";
import { accepts, metaOf, unwrapped, type WrittenField, writtenFields } from "../../contract/input/field-words.ts";
import { isJsonTable } from "../../contract/input/merge-patch.ts";
import { OPERATIONS, type OperationName } from "../../contract/operations.ts";
import type { JsonObject } from "../../contract/session.ts";
import { duration, json, jsonLike, pairs, repeated, wholeFrom } from "./flag-values.ts";

export interface FieldFlag {
  /** Where the field stands in the operation's input. */
  readonly path: readonly [string, ...string[]];
  readonly option: Option;
}

/** The flags of an operation's fields: named, explained and read as the fields' schemas say. */
export function fieldFlags(operation: OperationName): readonly FieldFlag[] {
  return writtenFields(OPERATIONS[operation].input)
    .filter(({ word }) => word.startsWith("-"))
    .map((field) => ({ path: field.path, option: optionOf(field) }));
}

/** Declares the flags of an operation's fields; `own` has what a command does otherwise, by the names of the fields. */
export function addFieldFlags(
  command: Command,
  operation: OperationName,
  own: Readonly<Record<string, (option: Option) => Option>> = {},
): Command {
  for (const { path, option } of fieldFlags(operation)) {
    const change = own[path.at(-1) ?? ""];
    command.addOption(change === undefined ? option : change(option));
  }
  return command;
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

function placed(input: JsonObject, [name, next, ...rest]: FieldFlag["path"], value: unknown): JsonObject {
  if (next === undefined) return { ...input, [name]: value };
  const inner = input[name];
  return { ...input, [name]: placed(isJsonTable(inner) ? inner : {}, [next, ...rest], value) };
}

/** Any JSON value, null among them, which the parser of flags takes for a flag without a value. */
class GivenJson {
  readonly value: unknown;
  constructor(text: string) {
    this.value = json(text);
  }
}

const isPairs = (flags: string): boolean => flags.endsWith("<key=value>");

function optionOf({ word, schema }: WrittenField): Option {
  const { description = "", examples } = metaOf(schema);
  const { def } = unwrapped(schema)._zod;
  const option = new Option(word, description);
  const several = `${description}; may be repeated`;
  if (isPairs(word)) return pairs(word, several);
  if (word.endsWith("<time>")) return option.argParser(duration);
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
