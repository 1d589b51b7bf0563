import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import type { Config } from "../../../config/load-config.ts";
import { RuntimeError } from "../../../contract/error.ts";
import type { JsonObject } from "../../../contract/session.ts";
import type { SessionOptions } from "../../../service/session-handle.ts";
import { isErrno } from "../../wire/state-folder.ts";
import type { RunFlags } from "./run-flags.ts";

/** The options of the session that the flags ask for; what they leave open the configuration decides. */
export function sessionOptions(flags: RunFlags, config: Config, outputSchema: JsonObject | undefined): SessionOptions {
  return present({
    model: flags.model,
    provider: flags.provider,
    systemPrompt: flags.system,
    additionalInstructions: flags.instructions,
    maxTokens: flags.maxTokensPerTurn,
    maxTurns: flags.maxTurns,
    budgetLimits: present({
      max_tokens: flags.maxTokens,
      max_tool_calls: flags.maxToolCalls,
      max_duration_ms: flags.maxDuration,
    }),
    ...toolOptions(flags, config),
    outputSchema,
    providerParams: providerParams(flags),
    labels: flags.label.length === 0 ? undefined : Object.fromEntries(flags.label),
    appContext: flags.appContext?.value,
    compaction: flags.compactThreshold === undefined ? undefined : { auto_compact_threshold: flags.compactThreshold },
  });
}

/** The parameters for the provider; undefined when there are none. */
export function providerParams({ param, paramsJson }: RunFlags): JsonObject | undefined {
  const params = { ...paramsJson, ...Object.fromEntries(param.map(([key, text]) => [key, lenient(text)])) };
  return Object.keys(params).length === 0 ? undefined : params;
}

/** The fields that have a value: an option that is absent is not one that is undefined. */
function present<T extends object>(fields: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  // What is left has no undefined value, which is all the type says.
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as ReturnType<
    typeof present<T>
  >;
}

/** Without a flag: what is safe, and what the configuration switches on besides. */
function toolOptions({ tools: named, yolo, memory, allowTool, blockTool }: RunFlags, config: Config) {
  const tools = yolo ? "full" : named;
  const isOn = (isEnabled: boolean) => (tools === undefined && isEnabled ? true : undefined);
  // What nobody asked for gives way to a file that forbids it.
  const isForbidden = tools === undefined && config.forbidden.includes("builtins");
  return {
    toolPreset: tools ?? "safe",
    enableBuiltins: isForbidden ? false : isOn(config.tools.builtins_enabled),
    enableShell: isOn(config.tools.shell_enabled),
    enableMemory: memory,
    toolFilter: toolFilter(allowTool, blockTool),
  };
}

function toolFilter(allowed: readonly string[], blocked: readonly string[]): SessionOptions["toolFilter"] {
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
