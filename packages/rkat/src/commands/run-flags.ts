import { readFile } from "node:fs/promises";
import { basename, extname, resolve } from "node:path";
import type { Config } from "@rkat/core/config/config-schema";
import { invalid, RuntimeError } from "@rkat/core/contract/error";
import { type Content, type ContentBlock, withPiped } from "@rkat/core/contract/message";
import type { PermissionRules } from "@rkat/core/contract/permission";
import type { JsonObject, ToolFilter } from "@rkat/core/contract/session";
import { isErrno } from "@rkat/node/config/realm";
import { Option } from "commander";
import { fieldFlags, fieldsOf, type Pair, pairs, repeated } from "../flags.ts";
import type { Io } from "../io.ts";

/** The flags of `rkat run` that code reads; `fieldsOf` reads those that are fields of a session. */
export interface RunFlags {
  readonly model?: string;
  readonly system?: string;
  readonly maxTokens?: number;
  readonly maxCost?: number;
  readonly param: readonly Pair[];
  readonly paramsJson?: object;
  readonly tools?: string;
  readonly yolo?: boolean;
  /** Whether calls that rules ask about run without a question. */
  readonly yes?: boolean;
  readonly allow: readonly string[];
  readonly ask: readonly string[];
  readonly deny: readonly string[];
  /** The decision on the shell and patches where no rule matches; there is no flag for it. */
  readonly otherwise?: "ask";
  readonly memory?: boolean;
  readonly skill: readonly object[];
  readonly allowTool: readonly string[];
  readonly blockTool: readonly string[];
  readonly output: "text" | "json";
  readonly json?: boolean;
  readonly events?: boolean;
  readonly schema?: string;
  /** As it was written, then what it says. */
  readonly hooksOverride?: string | JsonObject | undefined;
  /** Undefined: as suits the output. */
  readonly stream?: boolean;
  readonly plain?: boolean;
  readonly verbose?: boolean;
  readonly stdin: StdinMode;
  readonly file: readonly string[];
  readonly resume?: string;
  readonly until?: string;
  readonly untilTrue?: string;
  readonly compactThreshold?: number;
  readonly evict?: boolean;
  readonly evictAt?: number;
}

/** The flags of a command that runs turns; what each may hold is checked while the command line is parsed. */
export function runFlags(own: readonly Option[]): readonly Option[] {
  const fields = Map.groupBy(fieldFlags("createSession"), ({ path: [field] }) => field);
  const groups: Readonly<Record<string, readonly (Option | string)[]>> = {
    Model: [
      "model",
      "provider",
      "system_prompt",
      "additional_instructions",
      pairs("--param <key=value>", "a parameter for the provider, JSON or text; may be repeated"),
      "provider_params",
    ],
    "Budgets (the turn ends gracefully, its text is kept)": ["budget_limits", "max_turns", "max_tokens"],
    "Goal (further turns until it is reached)": ["goal"],
    Tools: [
      "tool_preset",
      new Option("--yolo", "the same as --tools full").conflicts("tools"),
      "enable_memory",
      "enable_agents",
      "skill_refs",
      "tool_filter",
      "permissions",
      new Option("--yes", "the same as --allow '*': run calls that rules ask about without asking"),
    ],
    Output: [
      new Option("-o, --output <format>", "text, the default, or json").choices(["text", "json"]).default("text"),
      new Option("--json", "the same as --output json").implies({ output: "json" }),
      new Option("--events", "one JSON event per line as they happen, the result last").implies({ output: "json" }),
      "output_schema",
      new Option("-s, --stream", "print text as it arrives; the default on a terminal"),
      new Option("--no-stream", "print the text when the turn is over"),
      new Option("--plain", "print text as the model wrote it, as a pipe gets it; on a terminal Markdown is shown"),
      new Option("-v, --verbose", "print every event to stderr"),
    ],
  };
  // The safe choice comes first.
  for (const { option } of fields.get("tool_preset") ?? []) option.choices(["safe", "workspace", "full", "none"]);
  const busy = fieldFlags("startTurn").flatMap(({ path: [field], option }) => (field === "when_busy" ? [option] : []));
  const named = Object.values(groups).flat();
  const rest = [...fields.keys()].filter((field) => !named.includes(field));
  return Object.entries({ ...groups, "Input and session": [...own, ...busy, ...rest] }).flatMap(([group, members]) =>
    members
      .flatMap((one) => (typeof one === "string" ? (fields.get(one) ?? []).map(({ option }) => option) : [one]))
      .map((option) => option.helpGroup(group)),
  );
}

export function stdinFlag(): Option {
  const meaning = "auto, the default: a pipe or file becomes context · blob: always read · off: never";
  return new Option("--stdin <mode>", meaning).choices(["auto", "blob", "off"]).default("auto");
}

export function resumeFlag(): Option {
  return new Option("--resume [session]", "continue a session: the last one, or the one named as in rkat help session");
}

/** The fields of the session that the flags ask for; what they leave open the configuration decides. */
export function sessionFields(flags: RunFlags, config: Config, outputSchema: JsonObject | undefined): JsonObject {
  return { ...fieldsOf("createSession", flags), ...toolFields(flags, config), ...turnFields(flags, outputSchema) };
}

/** The fields of any turn that are not as a flag is written. */
export function turnFields(flags: RunFlags, outputSchema: JsonObject | undefined): JsonObject {
  const { param, paramsJson } = flags;
  const params = { ...paramsJson, ...Object.fromEntries(param.map(([key, text]) => [key, lenient(text)])) };
  return {
    output_schema: outputSchema,
    provider_params: Object.keys(params).length === 0 ? undefined : params,
    permissions: rulesOf(flags),
  };
}

function rulesOf({ allow, ask, deny, yes, otherwise }: RunFlags): PermissionRules | undefined {
  const rules = { allow: [...allow, ...(yes ? ["*"] : [])], ask: [...ask], deny: [...deny], otherwise };
  const given = Object.entries(rules).filter(([, said = ""]) => said.length > 0);
  return given.length === 0 ? undefined : Object.fromEntries(given);
}

/** By default, the safe tools and those that the configuration enables. */
function toolFields({ tools: named, yolo, allowTool, blockTool }: RunFlags, config: Config): JsonObject {
  const tools = yolo ? "full" : named;
  const isOn = (isEnabled: boolean) => (tools === undefined && isEnabled ? true : undefined);
  // A default gives way to a configuration that forbids it.
  const isForbidden = tools === undefined && config.forbidden.includes("builtins");
  return {
    tool_preset: tools ?? "safe",
    enable_builtins: isForbidden ? false : isOn(config.tools.builtins_enabled),
    enable_shell: isOn(config.tools.shell_enabled),
    enable_files: tools === "workspace" || tools === "full" ? true : undefined,
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
export function readSchema(given: string | undefined, cwd: string): Promise<JsonObject | undefined> {
  return readObject({ flag: "--schema", is: "a JSON schema" }, given, cwd);
}

/** The flags with what `--hooks-override` gives, in a file or as it stands. */
export async function withHooksOverride<F extends RunFlags>(flags: F, cwd: string): Promise<F> {
  const { hooksOverride: given } = flags;
  if (typeof given !== "string") return flags;
  const hooksOverride = await readObject({ flag: "--hooks-override", is: "a change of hooks" }, given, cwd);
  return { ...flags, hooksOverride };
}

async function readObject(
  { flag, is }: { readonly flag: string; readonly is: string },
  given: string | undefined,
  cwd: string,
): Promise<JsonObject | undefined> {
  if (given === undefined) return undefined;
  const isInline = given.trimStart().startsWith("{");
  const text = isInline ? given : await readJsonFile(flag, given, cwd);
  const source = isInline ? flag : given;
  try {
    const schema: unknown = JSON.parse(text);
    if (typeof schema === "object" && schema !== null && !Array.isArray(schema)) return { ...schema };
  } catch (cause) {
    throw invalid(`${source} is not valid JSON`, cause);
  }
  throw invalid(`${source} is not ${is}: it must be an object`);
}

async function readJsonFile(flag: string, path: string, cwd: string): Promise<string> {
  try {
    return await readFile(resolve(cwd, path), "utf8");
  } catch (cause) {
    const reason = isErrno(cause) && cause.code === "ENOENT" ? "there is no such file" : "it cannot be read";
    throw invalid(`${flag} ${path}: ${reason}`, cause);
  }
}

export type StdinMode = "auto" | "blob" | "off";

const STDIN_BYTES_MAX = 8 * 1024 * 1024;
/** A pipe that is silent for so long was perhaps inherited and may never end. */
const SILENCE_MS = 2_000;

/** What the model is asked: the words of the command line, with what was piped in as their context; empty for nothing. */
export async function readPrompt(io: Io, words: readonly string[], mode: StdinMode): Promise<string> {
  const asked = words.join(" ").trim();
  const isRead = mode === "blob" || (mode === "auto" && io.stdin.kind === "stream");
  const piped = isRead ? await readStdin(io) : "";
  if (piped.trim() === "") return asked;
  if (asked === "") return piped;
  return withPiped(piped, asked);
}

async function readStdin(io: Io): Promise<string> {
  const waiting = setTimeout(() => {
    io.stderr.write("Waiting for stdin to end; --stdin off ignores it.\n");
  }, SILENCE_MS);
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const chunk of io.stdin.read()) {
      clearTimeout(waiting);
      bytes += chunk.length;
      if (bytes > STDIN_BYTES_MAX) {
        const message = "stdin holds more than 8 MiB; pipe in the part that matters, or let the model read the file";
        throw new RuntimeError("PAYLOAD_TOO_LARGE", message);
      }
      chunks.push(chunk);
    }
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(chunks));
  } catch (cause) {
    if (!(cause instanceof TypeError)) throw cause;
    throw invalid("stdin is not UTF-8 text; --stdin off ignores it", cause);
  } finally {
    clearTimeout(waiting);
  }
}

export function fileFlag(): Option {
  return repeated("--file <path>", "a text, image or PDF that the model is shown; may be repeated");
}

const IMAGES: Readonly<Record<string, string>> = {
  ".png": "image/png",
  ".jpg": "image/jpeg",
  ".jpeg": "image/jpeg",
  ".gif": "image/gif",
  ".webp": "image/webp",
};

/** A prompt with files before it, as one would hand them over before asking. */
export async function withFiles(prompt: string, paths: readonly string[], cwd: string): Promise<Content> {
  if (paths.length === 0) return prompt;
  const files = await Promise.all(paths.map((path) => readAttached(path, cwd)));
  return [...files, { type: "text", text: prompt }];
}

async function readAttached(path: string, cwd: string): Promise<ContentBlock> {
  const bytes = await readFile(resolve(cwd, path)).catch((cause: unknown) => {
    const reason = isErrno(cause) && cause.code === "ENOENT" ? "there is no such file" : "it cannot be read";
    throw invalid(`--file ${path}: ${reason}`, cause);
  });
  return attachedBlock(path, bytes);
}

/** A file as a model is shown it, by the ending of its name: an image, a PDF, or text. */
export function attachedBlock(path: string, bytes: Buffer): ContentBlock {
  const ending = extname(path).toLowerCase();
  const data = bytes.toString("base64");
  const image = IMAGES[ending];
  if (image !== undefined) return { type: "image", media_type: image, source: "inline", data };
  // Other files are read as text, and refused where they are not.
  const media_type = ending === ".pdf" ? "application/pdf" : "text/plain";
  return { type: "file", name: basename(path), media_type, source: "inline", data };
}
