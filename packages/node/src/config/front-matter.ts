import { messageOf, RuntimeError } from "@rkat/core/contract/error";
import { isJsonTable, type JsonTable } from "@rkat/core/contract/json";
import type { FoundFile } from "./config-file.ts";

/** A text with a table of YAML before it, between two lines of three dashes. */
export interface FrontMatter {
  readonly table: JsonTable;
  readonly body: string;
}

const HEAD_CHARS_MAX = 16_384;
const FENCE = "---";

/** Throws INVALID_PARAMS, naming the file and what to do, for a head that is none. */
export async function readFrontMatter({ path, text }: FoundFile): Promise<FrontMatter> {
  const lines = text.replace(/^\uFEFF/, "").split("\n");
  if (lines[0]?.trimEnd() !== FENCE) return { table: {}, body: text };
  const end = lines.findIndex((line, index) => index > 0 && line.trimEnd() === FENCE);
  if (end < 0) throw invalidFile(path, `write a line ${FENCE} after its front matter`);
  const head = lines
    .slice(1, end)
    .map((line) => line.trimEnd())
    .join("\n");
  if (head.length > HEAD_CHARS_MAX) throw invalidFile(path, `shorten its front matter to ${HEAD_CHARS_MAX} characters`);
  const body = lines.slice(end + 1).join("\n");
  // Loaded on first use: most projects have no such file.
  const { parse } = await import("yaml");
  try {
    // Plain data without tags or references.
    const table: unknown = parse(head, { schema: "core", maxAliasCount: 0, logLevel: "error" }) ?? {};
    if (!isJsonTable(table)) throw new Error("it is not a table of keys and values");
    return { table, body };
  } catch (thrown) {
    const [why = ""] = messageOf(thrown).split("\n");
    throw invalidFile(path, `fix its front matter: ${why}`, thrown);
  }
}

export function invalidFile(path: string, what: string, cause?: unknown): RuntimeError {
  return new RuntimeError("INVALID_PARAMS", `${path}: ${what}`, { cause });
}
