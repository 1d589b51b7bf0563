import { join } from "node:path";
import type { MemoryMetadata } from "../../contract/agent/agent-entry.ts";
import { RuntimeError } from "../../contract/error.ts";
import type { FoundMemory, VaultMemory } from "../../ports/vault.ts";
import { type Markdown, parseJson, toMarkdown } from "./front-matter.ts";
import { handWritten, isOurs, numberedName, numberOf, writeNumbered } from "./numbered-files.ts";
import { readMarkdown, type VaultParts } from "./read-markdown.ts";

const ENDING = /\.(?:md|txt)$/i;

export async function foundMemories(parts: VaultParts, folder: string): Promise<readonly FoundMemory[]> {
  const files = await handWritten(parts, folder, ENDING);
  return files.map(({ name, fields, body }) => {
    const metadata = metadataOf(fields);
    return { file: name, content: body, ...(metadata === undefined ? {} : { metadata }) };
  });
}

/** Writers that run side by side may have left a gap when they were killed, but none further back than this. */
const LAST_CHECKED = 64;

/** The number up to which memories have their files. */
export async function writtenMemories({ io }: VaultParts, folder: string, count: number): Promise<number> {
  const first = Math.max(1, count - LAST_CHECKED + 1);
  const sizes = await Promise.all(
    Array.from({ length: count - first + 1 }, (_, at) => io.size(join(folder, numberedName(first + at)))),
  );
  const gap = sizes.indexOf(undefined);
  if (gap === -1) return count;
  if (gap > 0) return first + gap - 1;
  return (await io.list(folder)).reduce((newest, name) => {
    const number = numberOf(name) ?? 0;
    return number < first && number > newest ? number : newest;
  }, 0);
}

/** In the order they are given: when it is cut short, those before have their files. */
export async function writeMemories(
  parts: VaultParts,
  folder: string,
  memories: readonly VaultMemory[],
): Promise<void> {
  for (const { file } of memories) checkName(file);
  if (memories.length > 0) await parts.io.makeFolder(folder);
  for (const memory of memories) {
    const { number, content, file } = memory;
    await writeNumbered(parts, folder, { number, text: textOf(memory) });
    if (file !== undefined) await removeTaken(parts, join(folder, file), { name: file, content });
  }
}

function textOf({ number, content, created_at_ms, metadata, file }: VaultMemory): string {
  const created_at = new Date(created_at_ms).toISOString();
  return toMarkdown({ seq: number, created_at, metadata, source: file }, content);
}

/** The log gives the name back; a log from elsewhere must not have a file outside removed. */
function checkName(file: string | undefined): void {
  if (file === undefined || (ENDING.test(file) && !/[/\\\0]/.test(file))) return;
  throw new RuntimeError("INVALID_PARAMS", `file: expected the name of a memory file, got ${JSON.stringify(file)}`);
}

/** What a person has changed since it was found is another memory, and stays; an editor's last line break is no change. */
async function removeTaken(
  parts: VaultParts,
  path: string,
  { name, content }: { readonly name: string; readonly content: string },
): Promise<void> {
  const markdown = await readMarkdown(parts, path);
  if (markdown === undefined || isOurs(name, markdown) || markdown.body.trimEnd() !== content.trimEnd()) return;
  await parts.io.remove(path);
}

/** Keys of our own files; a person may mean something else by them. */
const OUR_KEYS = ["seq", "created_at", "source"];

function metadataOf(fields: Markdown["fields"]): MemoryMetadata | undefined {
  const given = parseJson(fields.get("metadata") ?? "");
  const isCopy = fields.has("seq");
  const own = [...fields].filter(([key]) => {
    if (key === "metadata") return !isRecord(given);
    return !isCopy || !OUR_KEYS.includes(key);
  });
  const metadata = { ...(isRecord(given) ? given : {}), ...Object.fromEntries(own) };
  return Object.keys(metadata).length === 0 ? undefined : metadata;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
