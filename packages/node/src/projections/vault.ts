import { join } from "node:path";
import { AgentName, type MemoryMetadata, type Tier } from "@rkat/core/contract/agent";
import { invalid } from "@rkat/core/contract/error";
import type { FoundMemory, Vault, VaultMemory, VaultTiers } from "@rkat/core/ports/vault";
import { refuseLinks } from "./file-calls.ts";
import {
  handWritten,
  isOurs,
  type Markdown,
  nodeVaultCalls,
  numberedName,
  numberOf,
  parseJson,
  personsTexts,
  readMarkdown,
  replace,
  toMarkdown,
  type VaultCalls,
  type VaultParts,
  writeNumbered,
} from "./vault-files.ts";

/** Each omitted file is reported once. */
const TOLD_MAX = 1_000;

/** The vault `.rkat/agents/<name>/` with `memories/`, `notes/`, `summaries/` and the user's texts. */
export function createVault({
  folder,
  io = nodeVaultCalls,
  warn,
}: {
  readonly folder: string;
  readonly io?: VaultCalls;
  readonly warn: (sentence: string) => void;
}): Vault {
  const reported = new Set<string>();
  const parts: VaultParts = {
    io,
    warn: (sentence) => {
      if (reported.has(sentence) || reported.size >= TOLD_MAX) return;
      reported.add(sentence);
      warn(sentence);
    },
  };
  const within = async (agent: string, ...names: readonly string[]): Promise<string> => {
    const path = join(folder, ".rkat", "agents", nameOf(agent), ...names);
    await refuseLinks(io, folder, path);
    return path;
  };
  return {
    texts: async (agent) => {
      await within(agent, "notes");
      return personsTexts(parts, await within(agent));
    },
    found: async (agent) => foundMemories(parts, await within(agent, "memories")),
    written: async (agent, count) => writtenMemories(parts, await within(agent, "memories"), count),
    writeMemories: async (agent, memories) => writeMemories(parts, await within(agent, "memories"), memories),
    writeNote: async (agent, { number, title, content }) => {
      const notes = await within(agent, "notes");
      await io.makeFolder(notes);
      await writeNumbered(parts, notes, { number, text: toMarkdown({ seq: number, title }, content) });
    },
    erase: async (agent, { memories, notes, finds }) => {
      const eraseIn = async (kind: string, isGone: (name: string) => boolean): Promise<void> => {
        const place = await within(agent, kind);
        for (const name of await io.list(place)) {
          const path = join(place, name);
          const isSaid = isGone(name) || finds(name) || finds(new TextDecoder().decode(await io.read(path)));
          if (isSaid) await io.remove(path);
        }
      };
      // A killed process may have left a temporary file of a number.
      const isOf = (numbers: ReadonlySet<number>) => (name: string) =>
        numbers.has(numberOf(name.replace(/\.tmp$/, "")) ?? 0);
      await eraseIn("memories", isOf(new Set(memories)));
      await eraseIn("notes", isOf(new Set(notes)));
      await eraseIn("summaries", () => true);
    },
    writeSummaries: async (agent, tiers) =>
      writeSummaries(parts, await within(agent, "summaries"), { agent: nameOf(agent), tiers }),
  };
}

/** The name of the folder, never a path. */
function nameOf(agent: string): string {
  const { data, error } = AgentName.safeParse(agent);
  if (data !== undefined) return data;
  throw invalid(`agent: ${error?.issues[0]?.message}, got ${JSON.stringify(agent)}`);
}

/** More than the short-term summaries of one second. */
const COPIES_MAX = 1_000;

async function writeSummaries(
  parts: VaultParts,
  folder: string,
  { agent, tiers }: { readonly agent: string; readonly tiers: VaultTiers },
): Promise<void> {
  const created_at = new Date(tiers.compacted_at_ms).toISOString();
  const textOf = ({ from, to, by, summary }: Tier): string =>
    toMarkdown({ agent, from, to, by, created_at }, `${summary.trimEnd()}\n`);
  const recent = textOf(tiers.recent);
  await parts.io.makeFolder(folder);
  await keepCopy(parts, { tier: tiers.recent, text: recent, stem: join(folder, `recent-${stampOf(created_at)}`) });
  if (tiers.longterm !== undefined) await update(parts, join(folder, "longterm.md"), textOf(tiers.longterm));
  await update(parts, join(folder, "recent.md"), recent);
}

/** YYYYMMDD-HHMMSS. */
function stampOf(iso: string): string {
  return iso.slice(0, "YYYY-MM-DDTHH:MM:SS".length).replace(/[-:]/g, "").replace("T", "-");
}

/** A range is summarised once, so a copy with it is this one. */
async function keepCopy(
  parts: VaultParts,
  { tier, text, stem }: { readonly tier: Tier; readonly text: string; readonly stem: string },
): Promise<void> {
  for (let copy = 1; copy <= COPIES_MAX; copy += 1) {
    const path = `${stem}${copy === 1 ? "" : `-${copy}`}.md`;
    if ((await parts.io.size(path)) === undefined) return replace(parts.io, path, text);
    const fields = (await readMarkdown(parts, path))?.fields;
    if (fields?.get("from") === String(tier.from) && fields.get("to") === String(tier.to)) return;
  }
  parts.warn(`${stem}.md has ${COPIES_MAX} namesakes; another copy was not made`);
}

async function update({ io }: VaultParts, path: string, text: string): Promise<void> {
  const isThere = (await io.size(path)) !== undefined;
  if (isThere && Buffer.from(text).equals(await io.read(path))) return;
  await replace(io, path, text);
}

const ENDING = /\.(?:md|txt)$/i;

async function foundMemories(parts: VaultParts, folder: string): Promise<readonly FoundMemory[]> {
  const files = await handWritten(parts, folder, ENDING);
  return files.map(({ name, fields, body }) => {
    const metadata = metadataOf(fields);
    return { file: name, content: body, ...(metadata === undefined ? {} : { metadata }) };
  });
}

/** Killed concurrent writers may have left a gap, but not further back than this. */
const LAST_CHECKED = 64;

/** The number up to which memories have files. */
async function writtenMemories({ io }: VaultParts, folder: string, count: number): Promise<number> {
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

/** In the given order: after an interruption the earlier ones have files. */
async function writeMemories(parts: VaultParts, folder: string, memories: readonly VaultMemory[]): Promise<void> {
  for (const { file } of memories) checkName(file);
  if (memories.length > 0) await parts.io.makeFolder(folder);
  for (const memory of memories) {
    const { number, content, file } = memory;
    await writeNumbered(parts, folder, { number, text: memoryText(memory) });
    if (file !== undefined) await removeTaken(parts, join(folder, file), { name: file, content });
  }
}

function memoryText({ number, content, created_at_ms, metadata, file }: VaultMemory): string {
  const created_at = new Date(created_at_ms).toISOString();
  return toMarkdown({ seq: number, created_at, metadata, source: file }, content);
}

/** The name comes from the log; a foreign log must not remove a file outside. */
function checkName(file: string | undefined): void {
  if (file === undefined || (ENDING.test(file) && !/[/\\\0]/.test(file))) return;
  throw invalid(`file: expected the name of a memory file, got ${JSON.stringify(file)}`);
}

/** A file that changed since it was found is another memory and stays; a trailing line break is no change. */
async function removeTaken(
  parts: VaultParts,
  path: string,
  { name, content }: { readonly name: string; readonly content: string },
): Promise<void> {
  const markdown = await readMarkdown(parts, path);
  if (markdown === undefined || isOurs(name, markdown) || markdown.body.trimEnd() !== content.trimEnd()) return;
  await parts.io.remove(path);
}

/** Keys of our own files; users may use them differently. */
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
