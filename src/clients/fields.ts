import { messageOf, RuntimeError } from "../contract/error.ts";

export type Fields = Readonly<Record<string, unknown>>;

/** Whether a value is an object with fields, and no list. */
export function isRecord(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** What a wire carries of a value; throws INVALID_PARAMS for what none can carry. */
export function jsonOf(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch (cause) {
    throw new RuntimeError("INVALID_PARAMS", `the input cannot be written as JSON: ${messageOf(cause)}`, { cause });
  }
}
