import type { AgentEventOf } from "@rkat/core/contract/event";
import { oneLine } from "../io.ts";

const ARGS_CHARS_MAX = 100;
const NAME_CHARS_MAX = 200;

/** The name comes from the tool's server and from the model, so it is untrusted text. */
export function toolName({ name }: { readonly name: string }): string {
  return oneLine(name, NAME_CHARS_MAX);
}

/** The first text among the arguments, such as a command or a subject. */
export function callHint({ args }: AgentEventOf<"tool_call_requested">): string {
  const values = Object.values(args);
  const hint = values.find((value) => typeof value === "string") ?? (values.length === 0 ? "" : JSON.stringify(args));
  return hint === "" ? "" : `: ${oneLine(hint, ARGS_CHARS_MAX)}`;
}
