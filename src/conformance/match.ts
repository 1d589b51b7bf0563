import type { Expected } from "./scenario.ts";

/** The first place where a value is not what is expected, in a sentence; undefined when there is none. */
export function firstDifference(expected: Expected, actual: unknown, path = ""): string | undefined {
  if (expected instanceof RegExp) {
    const fits = typeof actual === "string" && expected.test(actual);
    return fits ? undefined : `${at(path)} is ${shown(actual)}, and must fit ${expected}`;
  }
  if (Array.isArray(expected)) return differenceOfLists(expected, actual, path);
  if (typeof expected === "object" && expected !== null) return differenceOfObjects(expected, actual, path);
  return Object.is(expected, actual) ? undefined : `${at(path)} is ${shown(actual)}, and must be ${shown(expected)}`;
}

function differenceOfLists(expected: readonly Expected[], actual: unknown, path: string): string | undefined {
  if (!Array.isArray(actual)) return `${at(path)} is ${shown(actual)}, and must be a list`;
  for (const [index, element] of expected.entries()) {
    if (index >= actual.length) break;
    const difference = firstDifference(element, actual[index], `${path}[${index}]`);
    if (difference !== undefined) return difference;
  }
  if (actual.length === expected.length) return undefined;
  const more = actual.length > expected.length ? `, the first too many ${shown(actual[expected.length])}` : "";
  return `${at(path)} has ${actual.length} elements, and must have ${expected.length}${more}`;
}

function differenceOfObjects(expected: object, actual: unknown, path: string): string | undefined {
  if (typeof actual !== "object" || actual === null) return `${at(path)} is ${shown(actual)}, and must be an object`;
  for (const [field, value] of Object.entries(expected)) {
    const inside = path === "" ? field : `${path}.${field}`;
    const has = Object.hasOwn(actual, field);
    if (value === undefined && has) return `${inside} is there, and must not be`;
    if (value === undefined) continue;
    if (!has) return `${inside} is missing`;
    const difference = firstDifference(value, Reflect.get(actual, field), inside);
    if (difference !== undefined) return difference;
  }
  return undefined;
}

function at(path: string): string {
  return path === "" ? "it" : path;
}

const SHOWN_CHARS_MAX = 200;

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > SHOWN_CHARS_MAX ? `${text.slice(0, SHOWN_CHARS_MAX)}…` : text;
}
