import { InvalidArgumentError, Option } from "commander";
import { parseDuration } from "../../contract/input/duration.ts";

export type Pair = readonly [key: string, value: string];

/** A flag that may be written more than once. */
export function repeated(flags: string, description: string): Option {
  return new Option(flags, description)
    .argParser((value: string, before: readonly string[]) => [...before, value])
    .default([]);
}

/** A flag of keys and values that may be written more than once. */
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

/** Takes a duration as it is written. */
export function duration(text: string): string {
  if ((parseDuration(text) ?? 0) > 0) return text;
  throw new InvalidArgumentError("Write a duration like 30s, 5m or 1h30m.");
}

/** Reads an object or a list, whichever the example is. */
export function jsonLike(example: unknown): (text: string) => unknown {
  const isList = Array.isArray(example);
  const shown = JSON.stringify(example).replaceAll(/(?<=[:,])/g, " ");
  return (text) => {
    const value = json(text);
    if (typeof value === "object" && value !== null && Array.isArray(value) === isList) return value;
    throw new InvalidArgumentError(`Write a JSON ${isList ? "list" : "object"}, like ${shown}.`);
  };
}

/** Reads any JSON value. */
export function json(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new InvalidArgumentError("Write valid JSON.");
  }
}
