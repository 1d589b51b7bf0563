import { lstat, open, readdir } from "node:fs/promises";
import { join, relative } from "node:path";
import { invalid } from "../contract/error.ts";
import { z } from "../contract/schema.ts";
import type { Clock } from "../ports/clock.ts";
import type { Tool } from "../ports/tool.ts";
import { defineTool } from "./define-tool.ts";
import { decodeText, type FileLock, makeChanges, readExisting } from "./patch.ts";
import { isStored, resolveInProject } from "./project-path.ts";

const LINES_DEFAULT = 500;
const LINES_MAX = 5_000;
const CHARS_MAX = 100_000;
const LINE_CHARS_MAX = 500;
const HITS_MAX = 200;
/** A search ends after so many files; larger files and binary files are left out. */
const FILES_MAX = 20_000;
const SEARCHED_BYTES_MAX = 1_000_000;
const FOLDERS_SKIPPED: ReadonlySet<string> = new Set(["node_modules", "dist", "build", "target", "__pycache__"]);

const path = z.string().min(1).describe("The file, relative to the project");

export interface FileToolOptions {
  /** The project's folder; no file outside is read or written. */
  readonly root: string;
  readonly clock: Clock;
  /** Shared with patches, so that changes of one file do not overlap. */
  readonly lock: FileLock;
}

/** Tools to read, search and edit files of the project; rules on patches also judge edits. */
export function createFileTools({ root, clock, lock }: FileToolOptions): readonly Tool[] {
  const read = defineTool({
    name: "read_file",
    effects: "none",
    description: "Read a text file of the project, or a range of its lines; each line has its number.",
    input: z.strictObject({
      path,
      from: z.int().positive().default(1).describe("The first line"),
      lines: z.int().positive().max(LINES_MAX).default(LINES_DEFAULT).describe("How many lines"),
    }),
    run: async ({ path: name, from, lines }) => {
      const { bytes } = await readExisting(await resolveInProject(root, name), name);
      return numbered(decodeText(bytes, name), { name, from, lines });
    },
  });
  const search = defineTool({
    name: "search_files",
    effects: "none",
    description:
      "Find a text in the files of the project: every hit as path:line: text. The text is taken literally. Hidden files, binary files, files above 1 MB, node_modules and build folders are left out.",
    input: z.strictObject({
      text: z.string().min(1).max(LINE_CHARS_MAX).describe("The text to find, within one line"),
      path: z.string().min(1).default(".").describe("The folder or file to search, relative to the project"),
      name: z.string().optional().describe("The end of the names of files to search, such as .ts"),
      ignore_case: z.boolean().default(false).describe("Whether upper and lower case are the same"),
    }),
    run: async ({ text, path: name, name: ending = "", ignore_case }, { signal }) => {
      const start = await resolveInProject(root, name);
      const base = await resolveInProject(root, ".");
      return searchFiles({ start, base, ending, signal, isHit: matcher(text, ignore_case) });
    },
  });
  const edit = defineTool({
    name: "edit_file",
    description:
      "Replace a text in a file of the project by another. The old text must be in the file exactly once, spaces and line ends included; with all it may be there several times.",
    input: z.strictObject({
      path,
      old_text: z.string().min(1).describe("The text that goes, exactly as it is in the file"),
      new_text: z.string().describe("The text that comes"),
      all: z.boolean().default(false).describe("Whether every place is changed"),
    }),
    run: ({ path: name, old_text, new_text, all }, { signal }) =>
      lock(async () => {
        const target = await resolveInProject(root, name);
        const before = await readExisting(target, name);
        const pieces = decodeText(before.bytes, name).split(old_text);
        const places = pieces.length - 1;
        if (places === 0)
          throw invalid(`old_text is not in ${name}; read the file and write it exactly as it is there`);
        if (places > 1 && !all)
          throw invalid(`old_text is in ${name} ${places} times; write more of the text around it, or set all`);
        const after = { bytes: Buffer.from(pieces.join(new_text)), mode: before.mode };
        await makeChanges([{ path: target, before, after }], { signal, newId: () => clock.newId() });
        return `M ${name}${places === 1 ? "" : ` in ${places} places`}`;
      }),
  });
  return [
    read,
    // Which files it reads is unknown before it runs, so a rule that denies reading some of them asks.
    { ...search, standsFor: { tool: "read_file", args: () => ({ path: null }) } },
    { ...edit, standsFor: { tool: "apply_patch", args: (args) => ({ path: args.path ?? null }) } },
  ];
}

function numbered(
  text: string,
  range: { readonly name: string; readonly from: number; readonly lines: number },
): string {
  const { name, from } = range;
  const all = text.split("\n");
  // The end of the last line does not begin another.
  if (all.at(-1) === "") all.pop();
  if (from > Math.max(1, all.length)) throw invalid(`from: ${name} has ${all.length} lines`);
  const shown: string[] = [];
  let chars = 0;
  for (const line of all.slice(from - 1, from - 1 + range.lines)) {
    const cut =
      line.length > LINE_CHARS_MAX * 4 ? `${line.slice(0, LINE_CHARS_MAX * 4)}… (${line.length} characters)` : line;
    chars += cut.length;
    if (chars > CHARS_MAX && shown.length > 0) break;
    shown.push(`${from + shown.length}\t${cut}`);
  }
  const last = from + shown.length - 1;
  if (from === 1 && last >= all.length) return shown.join("\n");
  return `${shown.join("\n")}\n[lines ${from} to ${last} of ${all.length}]`;
}

function matcher(text: string, ignoreCase: boolean): (line: string) => boolean {
  if (!ignoreCase) return (line) => line.includes(text);
  const lower = text.toLowerCase();
  return (line) => line.toLowerCase().includes(lower);
}

interface Search {
  readonly start: string;
  readonly base: string;
  readonly ending: string;
  readonly signal: AbortSignal;
  readonly isHit: (line: string) => boolean;
}

async function searchFiles({ start, base, ending, signal, isHit }: Search): Promise<string> {
  const hits: string[] = [];
  let files = 0;
  for await (const file of walk(start, base)) {
    signal.throwIfAborted();
    if (hits.length >= HITS_MAX || files >= FILES_MAX) {
      return `${hits.join("\n")}\n[more is not shown: ${hits.length} hits in ${files} files; search a smaller folder]`;
    }
    if (!file.endsWith(ending)) continue;
    files += 1;
    for (const [at, line] of (await linesOf(file)).entries()) {
      if (!isHit(line) || hits.length >= HITS_MAX) continue;
      hits.push(`${relative(base, file)}:${at + 1}: ${line.trim().slice(0, LINE_CHARS_MAX)}`);
    }
  }
  return hits.length === 0 ? `nothing found in ${files} files` : hits.join("\n");
}

/** The files below a folder in the order of their names, without stored sessions; links are not followed. */
async function* walk(start: string, base: string): AsyncGenerator<string> {
  if ((await lstat(start)).isFile()) {
    yield start;
    return;
  }
  const entries = await readdir(start, { withFileTypes: true });
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    if (entry.name.startsWith(".") || FOLDERS_SKIPPED.has(entry.name)) continue;
    const inside = join(start, entry.name);
    if (isStored(base, inside)) continue;
    if (entry.isDirectory()) yield* walk(inside, base);
    else if (entry.isFile()) yield inside;
  }
}

/** No lines of a file that is too large, binary, or unreadable. */
async function linesOf(file: string): Promise<readonly string[]> {
  const handle = await open(file, "r").catch(() => undefined);
  if (handle === undefined) return [];
  try {
    const { size } = await handle.stat();
    if (size > SEARCHED_BYTES_MAX) return [];
    const bytes = await handle.readFile();
    return bytes.includes(0) ? [] : bytes.toString("utf8").split("\n");
  } finally {
    await handle.close();
  }
}
