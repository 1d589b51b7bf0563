import { RuntimeError } from "../contract/error.ts";

/** The convention's word for a failure that has no name of its own. */
const OTHER = "_OTHER";

/** The class of what was thrown: a code or the name of a class, never what somebody wrote into a message or a name. */
export function errorTypeOf(thrown: unknown): string {
  if (thrown instanceof RuntimeError) return thrown.code;
  if (!(thrown instanceof Error)) return OTHER;
  if (!Object.hasOwn(thrown, "name") && thrown.name !== "Error") return thrown.name;
  const { name } = thrown.constructor;
  return name === "" ? OTHER : name;
}

export function messageIn(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}
