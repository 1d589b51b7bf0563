import { constants } from "node:fs";
import { type FileHandle, open, opendir, realpath, stat } from "node:fs/promises";
import { basename, dirname, join, relative, resolve } from "node:path";
import { invalid, RuntimeError } from "@rkat/core/contract/error";
import type { ContentBlock } from "@rkat/core/contract/message";
import { MEDIA_BYTES_MAX, textOfFile } from "@rkat/core/sessions/media";
import { nearMiss } from "@rkat/core/text/near-miss";
import { withoutControls } from "@rkat/core/text/terminal-text";
import { attachedBlock } from "../commands/run-flags.ts";
import { bytesText, counted } from "../io.ts";
import { isThere } from "../open-runtime.ts";

/** A prompt with the files that it names. */
export interface TypedPrompt {
  readonly text: string;
  readonly attached: readonly ContentBlock[];
  /** A line a file, of what was attached. */
  readonly notes: readonly string[];
}

/** The folders that names are looked for in. */
interface Folders {
  readonly root: string;
  readonly home: string;
}

/** A user at a terminal may name any file; piped text only files of the project. */
export interface Mentioning extends Folders {
  readonly isTyped: boolean;
}

const FILES_MAX = 32;
/** The most words that are looked up on disk, since pasted text may hold any number. */
const MENTIONS_MAX = 1_000;
/** More text than this fills most contexts. */
const TEXT_BYTES_MAX = 1_024 * 1_024;

/** An `@` at the beginning of a word with what follows it; one behind a backslash is only a sign. */
const MENTION = /(?<![^\s([{])(\\?)@(?:"([^"\n]{1,1000})"|([^\s"]\S{0,999}))/g;

/** Attaches the files that a prompt names by `@path`; their names stay in it. Throws INVALID_PARAMS for one that is not there. */
export async function readMentions(prompt: string, folders: Mentioning): Promise<TypedPrompt> {
  const found = new Map<string, Attached>();
  let text = "";
  let at = 0;
  let looked = 0;
  for (const match of prompt.matchAll(MENTION)) {
    const [whole, backslash, quoted, word = ""] = match;
    looked += 1;
    const isLooked = backslash === "" && looked <= MENTIONS_MAX;
    const mention = isLooked ? await findMention({ quoted, word }, folders) : undefined;
    text += prompt.slice(at, match.index);
    at = match.index + whole.length;
    if (mention === undefined) {
      text += whole.slice(backslash?.length ?? 0);
      continue;
    }
    const { path, shown, rest } = mention;
    if (!found.has(path)) found.set(path, await attach(mention, folders));
    if (found.size > FILES_MAX) throw invalid(`a prompt takes ${FILES_MAX} files, and this one names more; name fewer`);
    text += `${quoted === undefined ? shown : `"${shown}"`}${rest}`;
  }
  const attached = [...found.values()];
  return {
    text: text + prompt.slice(at),
    attached: attached.map(({ block }) => block),
    notes: attached.map(({ note }) => note),
  };
}

interface Mention {
  readonly path: string;
  readonly shown: string;
  /** The punctuation that follows it. */
  readonly rest: string;
}

/** What a word names; undefined where it is only a word, like `@alice`. */
async function findMention(
  { quoted, word }: { readonly quoted: string | undefined; readonly word: string },
  folders: Folders,
): Promise<Mention | undefined> {
  const written = quoted ?? word;
  const ends = quoted === undefined ? endsOf(word) : [written.length];
  for (const end of ends) {
    const shown = written.slice(0, end);
    const path = pathOf(shown, folders);
    if (await isThere(path)) return { path, shown, rest: written.slice(end) };
  }
  const shown = written.slice(0, ends.at(-1));
  if (shown === "" || !(quoted !== undefined || (await isMeantAsPath(shown, folders)))) return undefined;
  const near = await nearestName(pathOf(shown, folders));
  const meant = near === undefined ? undefined : join(dirname(shown), near);
  const named = meant?.includes(" ") ? `"${meant}"` : meant;
  const hint = named === undefined ? "where" : `did you mean @${named}? Where`;
  throw invalid(withoutControls(`there is no file ${shown}; ${hint} none is meant, write \\@`));
}

/** Of the punctuation that follows a name so many signs may be part of it. */
const SIGNS_MAX = 8;

/** Where a word may end: as it stands, then without the punctuation that follows it, sign by sign. */
function endsOf(word: string): readonly number[] {
  const [punctuation = ""] = /(?<![.,;:!?)\]}'"…])[.,;:!?)\]}'"…]*$/.exec(word) ?? [];
  const bare = word.length - punctuation.length;
  if (bare === 0) return [word.length];
  const near = Array.from({ length: Math.min(punctuation.length, SIGNS_MAX) }, (_, signs) => bare + signs);
  return [word.length, ...near.toReversed()];
}

function pathOf(shown: string, { root, home }: Folders): string {
  return shown === "~" || shown.startsWith("~/") ? join(home, shown.slice(1)) : resolve(root, shown);
}

/** `@src/clii.ts`, `./it` and `notes.md` are; `@alice` and `@types/node` are not, unless there is such a folder. */
async function isMeantAsPath(shown: string, folders: Folders): Promise<boolean> {
  // Code that is pasted has words of its own, like `@get("/a/b")`.
  if (!/^[\p{L}\p{N}_./~+@-]+$/u.test(shown)) return false;
  if (/^(?:\.{1,2}|~)?\//.test(shown) || /\.[a-z][a-z0-9]{0,4}$/i.test(shown)) return true;
  const [folder = "", ...rest] = shown.split("/");
  return rest.length > 1 || (rest.length === 1 && (await isThere(pathOf(folder, folders))));
}

/** More entries of a folder are not looked at. */
const ENTRIES_MAX = 10_000;

async function nearestName(path: string): Promise<string | undefined> {
  const names = await namesIn(dirname(path));
  return nearMiss(
    basename(path),
    names.map(({ name }) => name),
  );
}

interface Named {
  readonly name: string;
  readonly isFolder: boolean;
}

/** What a folder holds that begins so, by name; nothing where it cannot be read. */
async function namesIn(folder: string, beginning = ""): Promise<readonly Named[]> {
  const names: Named[] = [];
  let looked = 0;
  try {
    for await (const entry of await opendir(folder)) {
      looked += 1;
      if (looked > ENTRIES_MAX) break;
      // What cannot be written in a line cannot be named in one.
      const isPlain = !/[\n\t]/.test(entry.name) && withoutControls(entry.name) === entry.name;
      if (!entry.name.startsWith(beginning) || !isPlain) continue;
      const isLink = entry.isSymbolicLink();
      const isFolder = isLink ? await isFolderAt(join(folder, entry.name)) : entry.isDirectory();
      names.push({ name: entry.name, isFolder });
    }
  } catch {
    return [];
  }
  return names.toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

function isFolderAt(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}

interface Attached {
  readonly block: ContentBlock;
  readonly note: string;
}

async function attach({ path, shown }: Mention, { root, isTyped }: Mentioning): Promise<Attached> {
  const name = withoutControls(shown);
  const isFar = await isOutside(path, root);
  if (isFar && !isTyped)
    throw invalid(`@${name} lies outside the project, and from a pipe only its files are attached; \\@ is only a sign`);
  const outside = isFar ? ", which lies outside the project" : "";
  if (await isFolderAt(path)) {
    const { text, count } = await listing(path, name);
    return { block: { type: "text", text }, note: `${name}, a folder of ${counted(count, "name")}${outside}` };
  }
  const bytes = await readPlain(path, shown);
  const block = attachedBlock(path, bytes);
  const note = `${name} (${bytesText(bytes.length)})${outside}`;
  if (block.type !== "file" || block.media_type === "application/pdf") return { block, note };
  if (bytes.length > TEXT_BYTES_MAX) throw tooLarge(shown, bytes.length, TEXT_BYTES_MAX);
  // By its path: two files of a project may have the same name.
  const text = textOfFile({ ...block, name }, bytes);
  if (text === undefined)
    throw invalid(`@${name} is neither text, an image nor a PDF, which are all that a model can be shown`);
  return { block: { type: "text", text }, note };
}

/** Also by way of a link. */
async function isOutside(path: string, root: string): Promise<boolean> {
  const [at, from] = await Promise.all([realpath(path), realpath(root)].map((found) => found.catch(() => "")));
  return /^\.\.(?:\/|$)/.test(relative(from ?? "", at ?? ""));
}

const LISTED_MAX = 500;

async function listing(path: string, name: string): Promise<{ readonly text: string; readonly count: number }> {
  const names = (await namesIn(path)).map((entry) => `${entry.name}${entry.isFolder ? "/" : ""}`);
  const more = names.length > LISTED_MAX ? [`… and ${names.length - LISTED_MAX} more`] : [];
  const lines = [`<folder name="${name.replace(/["<>]/g, " ")}">`, ...names.slice(0, LISTED_MAX), ...more, "</folder>"];
  return { text: lines.join("\n"), count: names.length };
}

/** Reads a regular file; pipes and devices are refused, since they may never end. */
async function readPlain(path: string, shown: string): Promise<Buffer> {
  if (!(await stat(path)).isFile()) throw noPlainFile(shown);
  let file: FileHandle | undefined;
  try {
    file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    // It may have been replaced since.
    if (!(await file.stat()).isFile()) throw noPlainFile(shown);
    return await readBounded(file, shown);
  } catch (cause) {
    if (cause instanceof RuntimeError) throw cause;
    throw new RuntimeError("INVALID_PARAMS", `@${withoutControls(shown)} cannot be read; check its permissions`, {
      cause,
    });
  } finally {
    await file?.close();
  }
}

const READ_BYTES = 1_024 * 1_024;

/** Reads up to a bound instead of trusting the size: a file may grow, and files in /proc report 0. */
async function readBounded(file: FileHandle, shown: string): Promise<Buffer> {
  const { size } = await file.stat();
  if (size > MEDIA_BYTES_MAX) throw tooLarge(shown, size, MEDIA_BYTES_MAX);
  const chunks: Buffer[] = [];
  for (let bytes = 0; bytes <= MEDIA_BYTES_MAX; ) {
    const { bytesRead, buffer } = await file.read({ buffer: Buffer.alloc(READ_BYTES) });
    if (bytesRead === 0) return Buffer.concat(chunks);
    chunks.push(buffer.subarray(0, bytesRead));
    bytes += bytesRead;
  }
  throw tooLarge(shown, MEDIA_BYTES_MAX + 1, MEDIA_BYTES_MAX);
}

function noPlainFile(shown: string): RuntimeError {
  return invalid(`@${withoutControls(shown)} is not a regular file; name one`);
}

function tooLarge(shown: string, bytes: number, bytesMax: number): RuntimeError {
  const size = `${bytesText(bytes)}, and at most ${bytesText(bytesMax)} of it can be attached`;
  return invalid(`@${withoutControls(shown)} has ${size}; attach a part of it, or let the model read it`);
}

const PATHS_MAX = 200;
/** Generated folders are completed only when typed in full. */
const UNASKED = ["node_modules", ".git"];
const ASKED_CHARS_MIN = 3;

/** The paths that begin so, from a folder; folders end in a slash. What cannot be read offers none. */
export async function completePath(beginning: string, cwd: string, home?: string): Promise<readonly string[]> {
  if (beginning.includes("\0") || (home === undefined && beginning.startsWith("~/"))) return [];
  const slash = beginning.lastIndexOf("/") + 1;
  const [folder, begun] = [beginning.slice(0, slash), beginning.slice(slash)];
  const names = await namesIn(pathOf(folder === "" ? "." : folder, { root: cwd, home: home ?? cwd }), begun);
  const isOffered = ({ name }: Named): boolean =>
    UNASKED.includes(name) ? begun.length >= ASKED_CHARS_MIN : !(begun === "" && name.startsWith("."));
  return names
    .filter(isOffered)
    .slice(0, PATHS_MAX)
    .map(({ name, isFolder }) => `${folder}${name}${isFolder ? "/" : ""}`);
}
