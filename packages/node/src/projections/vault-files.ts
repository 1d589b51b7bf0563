import { lstat, readFile } from "node:fs/promises";
import { basename, extname, join } from "node:path";
import { messageOf } from "@rkat/core/contract/error";
import type { VaultTexts } from "@rkat/core/ports/vault";
import { type FileCalls, isAbsence, isOfDisk, nodeFileCalls, whenAbsent } from "./file-calls.ts";

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
export interface Markdown {
  readonly fields: ReadonlyMap<string, string>;
  readonly body: string;
}

/** Undefined omits the line; an object is written as JSON. */
export type Field = string | number | Readonly<Record<string, unknown>> | undefined;

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
  const parsed = value.startsWith('"') ? parseJson(value) : undefined;
  return typeof parsed === "string" ? parsed : value;
}

export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export interface VaultParts {
  readonly io: VaultCalls;
  /** Receives what is left out, and why. */
  readonly warn: (sentence: string) => void;
}

/** The limit of a memory. */
const BODY_CHARS_MAX = 1_000_000;
/** With front matter and multi-byte characters. */
const FILE_BYTES_MAX = 4 * BODY_CHARS_MAX;

/** Undefined if it does not exist or, with a warning, if it is too large or no text. */
export async function readMarkdown({ io, warn }: VaultParts, path: string): Promise<Markdown | undefined> {
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
export async function personsTexts(parts: VaultParts, folder: string): Promise<VaultTexts> {
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
export async function writeNumbered(
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
export async function handWritten(
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

export function isOurs(name: string, { fields }: Markdown): boolean {
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
