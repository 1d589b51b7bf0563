import { lstat, readFile } from "node:fs/promises";
import { basename, extname, join } from "node:path";
import { AgentName, type MemoryMetadata, type Tier } from "@rkat/core/contract/agent";
import { invalid, messageOf } from "@rkat/core/contract/error";
import { isRecord, jsonIn } from "@rkat/core/contract/json";
import type { FoundMemory, Vault, VaultMemory, VaultTexts, VaultTiers } from "@rkat/core/ports/vault";
import { type FileCalls, isAbsence, isOfDisk, nodeFileCalls, refuseLinks, whenAbsent } from "./file-calls.ts";

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
  const given = jsonIn(fields.get("metadata") ?? "");
  const isCopy = fields.has("seq");
  const own = [...fields].filter(([key]) => {
    if (key === "metadata") return !isRecord(given);
    return !isCopy || !OUR_KEYS.includes(key);
  });
  const metadata = { ...(isRecord(given) ? given : {}), ...Object.fromEntries(own) };
  return Object.keys(metadata).length === 0 ? undefined : metadata;
}

/** The vault's file system calls, so that tests can make them fail. */
export interface VaultCalls extends Pick<FileCalls, "isLink" | "makeFolder" | "list" | "write" | "rename" | "remove"> {
  /** A file's size; undefined if there is none, and for a link, a folder or a pipe. */
  size(path: string): Promise<number | undefined>;
  read(path: string): Promise<Uint8Array>;
}

export const nodeVaultCalls: VaultCalls = {
  ...nodeFileCalls,
  size: async (path) => {
    const found = await lstat(path).catch(whenAbsent(undefined));
    return found?.isFile() ? found.size : undefined;
  },
  read: (path) => readFile(path),
};

/** Replaces atomically, without a sync: the file is derived and the log remains. */
export async function replace(io: VaultCalls, path: string, text: string): Promise<void> {
  await io.write(`${path}.tmp`, text);
  try {
    await io.rename(`${path}.tmp`, path);
  } catch (error) {
    // Another process that projects the same log has written the same text.
    if (!isAbsence(error) || (await io.size(path)) === undefined) throw error;
  }
}

/** A Markdown file: front matter by key, and body. */
interface Markdown {
  readonly fields: ReadonlyMap<string, string>;
  readonly body: string;
}

/** Undefined omits the line; an object is written as JSON. */
type Field = string | number | Readonly<Record<string, unknown>> | undefined;

/** The text of a file. `parseMarkdown` returns the body unchanged, whatever it starts with. */
export function toMarkdown(fields: Readonly<Record<string, Field>>, body: string): string {
  const lines = Object.entries(fields).flatMap(([key, field]) =>
    field === undefined ? [] : [`${key}: ${fieldText(field)}\n`],
  );
  return `---\n${lines.join("")}---\n\n${body}`;
}

/** Text that only looks like front matter, such as lines between two rules, belongs to the body. */
export function parseMarkdown(text: string): Markdown {
  return withFrontMatter(text) ?? { fields: new Map(), body: text };
}

/** A plain YAML scalar: unambiguous at both ends, without `: ` or a comment. */
const PLAIN = /^[\p{L}\p{N}](?:[^\p{C}\p{Zl}\p{Zp}#:]|:(?!\s|$))*(?<!\s)$/u;

function fieldText(field: Exclude<Field, undefined>): string {
  if (typeof field === "string") return PLAIN.test(field) ? field : JSON.stringify(field);
  return JSON.stringify(field);
}

const RULE = "---";
const FIRST_LINE = /^---[ \t]*\r?\n/;
const FIELD = /^([\p{L}_][\p{L}\p{N}_.-]*)[ \t]*:(?:[ \t]+([^ \t].*)?)?$/su;
const BLANK_OR_COMMENT = /^\s*(?:#|$)/;
/** A list below a key, or a continued value. */
const CONTINUATION = /^(?:[ \t]|-[ \t])/;

function withFrontMatter(text: string): Markdown | undefined {
  const fields = new Map<string, string>();
  let last: string | undefined;
  let at = FIRST_LINE.exec(text)?.[0].length ?? text.length;
  while (at < text.length) {
    const newline = text.indexOf("\n", at);
    const end = newline === -1 ? text.length : newline;
    const line = text.slice(at, end).trimEnd();
    at = end + 1;
    if (line === RULE) return fields.size === 0 ? undefined : { fields, body: text.slice(at).replace(/^\r?\n/, "") };
    if (BLANK_OR_COMMENT.test(line)) continue;
    const [, key, value = ""] = FIELD.exec(line) ?? [];
    if (key !== undefined) {
      fields.set(key, unquoted(value));
      last = key;
    } else if (last !== undefined && CONTINUATION.test(line)) {
      fields.set(last, `${fields.get(last)}\n${line.trim()}`.trimStart());
    } else return undefined;
  }
  return undefined;
}

function unquoted(value: string): string {
  if (/^'.*'$/s.test(value)) return value.slice(1, -1).replaceAll("''", "'");
  const parsed = value.startsWith('"') ? jsonIn(value) : undefined;
  return typeof parsed === "string" ? parsed : value;
}

interface VaultParts {
  readonly io: VaultCalls;
  /** Receives what is left out, and why. */
  readonly warn: (sentence: string) => void;
}

const BODY_CHARS_MAX = 1_000_000;
/** With front matter and multi-byte characters. */
const FILE_BYTES_MAX = 4 * BODY_CHARS_MAX;

/** Undefined if it does not exist or, with a warning, if it is too large or no text. */
async function readMarkdown({ io, warn }: VaultParts, path: string): Promise<Markdown | undefined> {
  const size = await io.size(path);
  if (size === undefined) return undefined;
  if (size > FILE_BYTES_MAX) return leaveOut(TOO_LONG);
  let bytes: Uint8Array;
  try {
    bytes = await io.read(path);
  } catch (error) {
    if (!isOfDisk(error)) throw error;
    // One unreadable file must not prevent reading the others.
    return leaveOut(messageOf(error));
  }
  const text = decoded(bytes);
  if (text === undefined) return leaveOut("it is not UTF-8");
  const markdown = parseMarkdown(text);
  return markdown.body.length > BODY_CHARS_MAX ? leaveOut(TOO_LONG) : markdown;

  function leaveOut(why: string): undefined {
    warn(`${path} is left out: ${why}`);
  }
}

const TOO_LONG = `it has more than ${BODY_CHARS_MAX} characters`;

function decoded(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** The user's texts about an agent, in the agent's folder. */
async function personsTexts(parts: VaultParts, folder: string): Promise<VaultTexts> {
  const profile = (await readMarkdown(parts, join(folder, "profile.md")))?.body.trim() ?? "";
  const commands = (await readMarkdown(parts, join(folder, "commands.md")))?.body ?? "";
  const notes = await handWritten(parts, join(folder, "notes"), /\.md$/i);
  return {
    ...(profile === "" ? {} : { profile }),
    commands: commandsIn(commands),
    notes: notes.map((note) => ({ title: titleOf(note), content: note.body })),
  };
}

/** The items of a list, or else the lines. Headings are ignored. */
function commandsIn(text: string): readonly string[] {
  const lines = text.split(/\r?\n/).map((line) => line.trim());
  const items = lines.flatMap((line) => /^[-*][ \t]+([^ \t].*)$/.exec(line)?.[1] ?? []);
  return items.length > 0 ? items : lines.filter((line) => line !== "" && !/^#+[ \t]/.test(line));
}

function titleOf({ name, fields, body }: Markdown & { readonly name: string }): string {
  const said = fields.get("title")?.trim() || /^# +(\S.*)$/m.exec(body)?.[1]?.trim();
  return said || basename(name, extname(name));
}

const DIGITS_MIN = 6;

export function numberedName(number: number): string {
  return `${stemOf(number)}.md`;
}

export function numberOf(name: string): number | undefined {
  const number = Number.parseInt(name, 10);
  return number > 0 && name.toLowerCase() === numberedName(number) ? number : undefined;
}

/** Writes a numbered file. A user's file in its place is moved aside. */
async function writeNumbered(
  parts: VaultParts,
  folder: string,
  { number, text }: { readonly number: number; readonly text: string },
): Promise<void> {
  const name = numberedName(number);
  const path = join(folder, name);
  if ((await parts.io.size(path)) !== undefined) {
    const there = await readMarkdown(parts, path);
    // Ours never change; a different one was placed there, perhaps from another agent's folder.
    if (there === undefined || !isOurs(name, there) || there.body !== parseMarkdown(text.toWellFormed()).body) {
      const aside = join(folder, `${stemOf(number)}-found.md`);
      await parts.io.rename(path, aside);
      parts.warn(`${path} was a user's file; it was renamed to ${aside}`);
    }
  }
  await replace(parts.io, path, text);
}

/** Files that a user wrote, by name. */
async function handWritten(
  parts: VaultParts,
  folder: string,
  ending: RegExp,
): Promise<readonly (Markdown & { readonly name: string })[]> {
  const names = (await parts.io.list(folder)).filter((name) => ending.test(name) && !name.startsWith("."));
  // Numbers have no gaps. A larger one may be a date, so the file itself decides.
  const count = names.filter((name) => numberOf(name) !== undefined).length;
  const files: (Markdown & { name: string })[] = [];
  for (const name of names.filter((one) => (numberOf(one) ?? Number.POSITIVE_INFINITY) > count).sort(byName)) {
    const markdown = await readMarkdown(parts, join(folder, name));
    if (markdown === undefined || isOurs(name, markdown) || markdown.body.trim() === "") continue;
    files.push({ name, ...markdown });
  }
  return files;
}

function isOurs(name: string, { fields }: Markdown): boolean {
  const number = numberOf(name);
  return number !== undefined && fields.get("seq") === String(number);
}

function stemOf(number: number): string {
  return String(number).padStart(DIGITS_MIN, "0");
}

const collator = new Intl.Collator("en", { numeric: true });

function byName(a: string, b: string): number {
  return collator.compare(a, b) || (a < b ? -1 : 1);
}
