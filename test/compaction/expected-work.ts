import type { Entry } from "@rkat/core/contract/entry";
import type { JsonObject } from "@rkat/core/contract/session";

const quoted = (text: unknown): string => JSON.stringify(cut(String(text).replaceAll(/\s+/gu, " ").trim(), 160));
const cut = (text: string, charsMax: number): string =>
  text.length <= charsMax ? text : `${text.slice(0, charsMax)}…`;

/** What is known of the work by reading the log once, without the product's code. */
export function expectedFrom(entries: readonly Entry[]): ReadonlySet<string> {
  const calls = new Map<string, { name: string; args: JsonObject }>();
  const facts = new Map<string, string>();
  let request = "";
  for (const { body } of entries) {
    if (body.kind === "turn_opened") request = String(body.message.content);
    if (body.kind === "assistant")
      for (const block of body.message.blocks)
        if (block.block_type === "tool_use") calls.set(block.data.id, block.data);
    if (body.kind !== "tool_results") continue;
    for (const { tool_use_id, content, is_error } of body.message.results) {
      const { name, args } = calls.get(tool_use_id) ?? { name: "", args: {} };
      const [key, fact] = factOf({ name, args, output: String(content), isError: is_error }) ?? [];
      if (key !== undefined && fact !== undefined) facts.set(key, fact);
    }
  }
  return new Set(facts.size === 0 ? [] : [`last request of the user: ${cut(request, 400)}`, ...facts.values()]);
}

interface Ran {
  readonly name: string;
  readonly args: JsonObject;
  readonly output: string;
  readonly isError: boolean;
}

function factOf({ name, args, output, isError }: Ran): readonly [key: string, fact: string] | undefined {
  const { command, code, id, subject, status, path, task } = args;
  const failed = ", NOT successful since";
  switch (name) {
    case "shell":
    case "remote__run":
      return [`c${command}`, `ran ${quoted(command)}: exit code ${code}${code === 0 ? "" : failed}`];
    case "box__exec":
    case "run":
      return [`c${command}`, isError ? `tried ${quoted(command)}: failed${failed}` : `ran ${quoted(command)}`];
    case "task_create":
      return [`t${id}`, `task ${id} pending: ${quoted(subject)}`];
    case "task_update":
      return [
        `t${id}`,
        status === "completed" ? `task done: ${quoted(subject)}` : `task ${id} in progress: ${quoted(subject)}`,
      ];
    case "apply_patch":
    case "edit_file":
    case "files__write_file":
      return isError ? undefined : [`f${path}`, `wrote ${quoted(path)}`];
    case "agent":
      return [
        `a${task}`,
        `sub-agent "otter", session ${output.match(/session (\S+),/u)?.[1]}, finished: ${quoted(task)}`,
      ];
    case "tickets__create_issue":
    case "pager":
      return isError ? undefined : [`o${name}${subject}`, `called ${name} with ${quoted(JSON.stringify(args))}`];
    default:
      return undefined;
  }
}
