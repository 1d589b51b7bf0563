import { composeLayers } from "@rkat/core/config/config-layers";
import type { Config } from "@rkat/core/config/config-schema";
import { RuntimeError } from "@rkat/core/contract/error";
import { parseToml } from "./config-file.ts";

/** A way to compact, as a file says it. */
export interface PolicyFile {
  /** Undefined: the caller names it. */
  readonly name: string | undefined;
  /** A module with the parts of it that are code. */
  readonly module: string | undefined;
  readonly compaction: Config["compaction"];
}

/** Reads the keys of `[compaction]`, a `name` and a `module`. Throws INVALID_PARAMS naming the file, the key and the fix. */
export function readPolicyFile(text: string, path: string): PolicyFile {
  const { name, module, ...keys } = parseToml(text, path);
  try {
    const { compaction } = composeLayers({ name: path, table: { compaction: keys } }, {})({}, path);
    return { name: textOf(name, `${path}: name`), module: textOf(module, `${path}: module`), compaction };
  } catch (thrown) {
    if (!(thrown instanceof RuntimeError)) throw thrown;
    // The keys of this file lie at its top.
    throw new RuntimeError(thrown.code, thrown.message.replaceAll("compaction.", ""), { cause: thrown });
  }
}

function textOf(value: unknown, key: string): string | undefined {
  if (value === undefined || (typeof value === "string" && value.trim() !== "")) return value;
  throw new RuntimeError("INVALID_PARAMS", `${key} is not usable; write a text in quotes`);
}
