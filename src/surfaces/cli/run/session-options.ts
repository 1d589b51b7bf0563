import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import type { Config } from "../../../config/load-config.ts";
import { RuntimeError } from "../../../contract/error.ts";
import type { JsonObject, ToolFilter } from "../../../contract/session.ts";
import { isErrno } from "../../wire/state-folder.ts";
import { fieldsOf } from "../field-flags.ts";
import type { RunFlags } from "./run-flags.ts";

/** The fields of the session that the flags ask for; what they leave open the configuration decides. */
export function sessionFields(flags: RunFlags, config: Config, outputSchema: JsonObject | undefined): JsonObject {
  return { ...fieldsOf("createSession", flags), ...toolFields(flags, config), ...turnFields(flags, outputSchema) };
}

/** The fields of any turn that are not as a flag is written. */
export function turnFields({ param, paramsJson }: RunFlags, outputSchema: JsonObject | undefined): JsonObject {
  const params = { ...paramsJson, ...Object.fromEntries(param.map(([key, text]) => [key, lenient(text)])) };
  return { output_schema: outputSchema, provider_params: Object.keys(params).length === 0 ? undefined : params };
}

/** Without a flag: what is safe, and what the configuration switches on besides. */
function toolFields({ tools: named, yolo, allowTool, blockTool }: RunFlags, config: Config): JsonObject {
  const tools = yolo ? "full" : named;
  const isOn = (isEnabled: boolean) => (tools === undefined && isEnabled ? true : undefined);
  // What nobody asked for gives way to a file that forbids it.
  const isForbidden = tools === undefined && config.forbidden.includes("builtins");
  return {
    tool_preset: tools ?? "safe",
    enable_builtins: isForbidden ? false : isOn(config.tools.builtins_enabled),
    enable_shell: isOn(config.tools.shell_enabled),
    tool_filter: toolFilter(allowTool, blockTool),
  };
}

function toolFilter(allowed: readonly string[], blocked: readonly string[]): ToolFilter {
  if (allowed.length > 0) return { Allow: allowed.filter((name) => !blocked.includes(name)) };
  return blocked.length > 0 ? { Deny: [...blocked] } : "All";
}

/** `temperature=0.2` is a number, `effort=high` a text. */
function lenient(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** The schema that `--schema` gives, in a file or as it stands; undefined when it is not there. */
export async function readSchema(given: string | undefined, cwd: string): Promise<JsonObject | undefined> {
  if (given === undefined) return undefined;
  const isInline = given.trimStart().startsWith("{");
  const text = isInline ? given : await readSchemaFile(given, cwd);
  const source = isInline ? "--schema" : given;
  try {
    const schema: unknown = JSON.parse(text);
    if (typeof schema === "object" && schema !== null && !Array.isArray(schema)) return { ...schema };
  } catch (cause) {
    throw new RuntimeError("INVALID_PARAMS", `${source} is not valid JSON`, { cause });
  }
  throw new RuntimeError("INVALID_PARAMS", `${source} is not a JSON schema: it must be an object`);
}

async function readSchemaFile(path: string, cwd: string): Promise<string> {
  try {
    return await readFile(resolve(cwd, path), "utf8");
  } catch (cause) {
    const reason = isErrno(cause) && cause.code === "ENOENT" ? "there is no such file" : "it cannot be read";
    throw new RuntimeError("INVALID_PARAMS", `--schema ${path}: ${reason}`, { cause });
  }
}
