import { dirname, join } from "node:path";
import { isTable } from "@rkat/core/config/config-problems";
import { RuntimeError } from "@rkat/core/contract/error";
import type { JsonTable } from "@rkat/core/contract/json";
import { parse, stringify, TomlError } from "smol-toml";

export interface ConfigPlaces {
  readonly cwd: string;
  readonly home: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly readFile: (path: string) => Promise<string | undefined>;
  /** The folder that keeps the realm, whose own `config.toml` wins over the project's file. */
  readonly stateFolder?: string | undefined;
  /** The database that wins over every file and variable, or null for none. */
  readonly storeUrl?: string | null | undefined;
  /** Whether the project's files are trusted for this run; `RKAT_TRUST=1` in `env` does the same. */
  readonly isTrusted?: boolean | undefined;
  /** Where AGENTS.md is looked for: in the project's folder, which is the default, also above it and at home, or nowhere. */
  readonly agentsMd?: "project" | "all" | "none" | undefined;
}

export interface FoundFile {
  readonly path: string;
  readonly text: string;
}

const PARENTS_MAX = 256;

/** The file of the nearest folder, from the working one upwards, that has one of these names. */
export async function findUpwards(
  { cwd, readFile }: ConfigPlaces,
  namesIn: (folder: string) => readonly string[],
): Promise<FoundFile | undefined> {
  let folder = cwd;
  for (let depth = 0; depth < PARENTS_MAX; depth += 1) {
    const found = await Promise.all(namesIn(folder).map((name) => readIfThere(join(folder, name), readFile)));
    const [first, second] = found.filter((file) => file !== undefined);
    if (first !== undefined && second !== undefined) {
      const message = `${first.path} and ${second.path} both configure this project; keep one and remove the other`;
      throw new RuntimeError("INVALID_PARAMS", message);
    }
    if (first !== undefined) return first;
    const parent = dirname(folder);
    if (parent === folder) return undefined;
    folder = parent;
  }
  return undefined;
}

export async function readIfThere(path: string, readFile: ConfigPlaces["readFile"]): Promise<FoundFile | undefined> {
  try {
    const text = await readFile(path);
    return text === undefined ? undefined : { path, text };
  } catch (cause) {
    throw new RuntimeError("INVALID_PARAMS", `${path} cannot be read; check its permissions`, { cause });
  }
}

/** Throws INVALID_PARAMS, saying where, for a text that is not TOML. */
export function parseToml(text: string, path: string): JsonTable {
  try {
    return parse(text);
  } catch (cause) {
    if (!(cause instanceof TomlError)) throw cause;
    const [summary = ""] = cause.message.split("\n");
    const reason = summary.replace(/^Invalid TOML document: /, "");
    const place = `line ${cause.line}, column ${cause.column}`;
    throw new RuntimeError("INVALID_PARAMS", `${path} is not valid TOML at ${place}: ${reason}`, { cause });
  }
}

/** A configuration as its file says it; sections without a key are left out. */
export function formatToml(table: JsonTable): string {
  const sections = Object.entries(table).filter(([, section]) => !isTable(section) || Object.keys(section).length > 0);
  return stringify(Object.fromEntries(sections));
}
