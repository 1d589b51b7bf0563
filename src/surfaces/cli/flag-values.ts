import { InvalidArgumentError, Option } from "commander";
import { parseDuration } from "../../contract/input/duration.ts";
import type { JsonObject } from "../../contract/session.ts";

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

/** Reads a whole number; underscores may group its digits. */
export function wholeFrom(least: number): (text: string) => number {
  return (text) => {
    const value = /^\d[\d_]*$/.test(text) ? Number(text.replaceAll("_", "")) : Number.NaN;
    if (Number.isSafeInteger(value) && value >= least) return value;
    throw new InvalidArgumentError(`Write a whole number of at least ${least}.`);
  };
}

/** Reads a duration as milliseconds. */
export function duration(text: string): number {
  const ms = parseDuration(text);
  if (ms !== undefined && ms > 0) return ms;
  throw new InvalidArgumentError("Write a duration like 30s, 5m or 1h30m.");
}

/** Reads an object. */
export function jsonObject(example: string): (text: string) => JsonObject {
  return (text) => {
    const value = json(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return { ...value };
    throw new InvalidArgumentError(`Write a JSON object, like ${example}.`);
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
