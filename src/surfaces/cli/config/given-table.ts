import { resolve } from "node:path";
import type { Command } from "commander";
import { RuntimeError } from "../../../contract/error.ts";
import { isJsonTable, type JsonTable } from "../../../contract/input/merge-patch.ts";
import { isErrno, readIfThere } from "../../wire/state-folder.ts";
import { linesOf } from "../io.ts";
import type { Invocation } from "../parts.ts";

/** The ways to write a table on the command line; each command declares those it has. */
export interface TableFlags {
  readonly file?: string | undefined;
  readonly json?: string;
  readonly toml?: string;
}

export function addTableFile(command: Command): Command {
  return command.argument("[file]", "TOML, or JSON where its name ends so; - reads stdin").usage("[FILE] [options]");
}

/** The table that was given, once and in one way; throws INVALID_PARAMS otherwise. */
export async function readTable(invocation: Invocation, { file, json, toml }: TableFlags): Promise<JsonTable> {
  if ([file, json, toml].filter((given) => given !== undefined).length !== 1) {
    throw new RuntimeError("INVALID_PARAMS", "write what to keep once: a FILE, - for stdin, --json or --toml");
  }
  if (json !== undefined) return parseJson(json, "--json");
  const { parse } = await invocation.parts.toml();
  if (toml !== undefined) return parse(toml, "--toml");
  const { text, name } = await readText(invocation, file ?? "-");
  // What is piped in may be either; TOML never begins with a brace.
  const isJson = name.endsWith(".json") || (file === "-" && text.trimStart().startsWith("{"));
  return isJson ? parseJson(text, name) : parse(text, name);
}

async function readText({ io }: Invocation, file: string): Promise<{ readonly text: string; readonly name: string }> {
  if (file === "-") {
    const lines: string[] = [];
    for await (const line of linesOf(io.stdin, "a setting")) lines.push(line);
    return { text: lines.join("\n"), name: "stdin" };
  }
  const text = await readIfThere(resolve(io.cwd, file)).catch((cause) => {
    const why = isErrno(cause) ? cause.code : "it failed";
    throw new RuntimeError("INVALID_PARAMS", `${file} cannot be read: ${why}; give a file of settings`, { cause });
  });
  if (text === undefined) {
    const hint = /[{=]/.test(file) ? "; to write the settings themselves, use --json" : "";
    throw new RuntimeError("INVALID_PARAMS", `there is no file ${file}${hint}`);
  }
  return { text, name: file };
}

function parseJson(text: string, name: string): JsonTable {
  try {
    const value: unknown = JSON.parse(text);
    if (isJsonTable(value)) return value;
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new RuntimeError("INVALID_PARAMS", `${name} is not valid JSON: ${why}`, { cause });
  }
  throw new RuntimeError("INVALID_PARAMS", `${name} is not a configuration: it must be an object`);
}
