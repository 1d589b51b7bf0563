import { RuntimeError } from "../../contract/error.ts";

/** One line of a hunk: kept, added or removed. */
export interface HunkLine {
  readonly mark: " " | "+" | "-";
  readonly text: string;
}

/** A place in a file and what becomes of it; `anchors` are lines to step past, one after the other, to get there. */
export interface Hunk {
  readonly anchors: readonly string[];
  readonly lines: readonly HunkLine[];
  readonly isAtEnd: boolean;
}

export type FilePatch =
  | { readonly kind: "add"; readonly path: string; readonly lines: readonly string[] }
  | { readonly kind: "delete"; readonly path: string }
  | {
      readonly kind: "update";
      readonly path: string;
      readonly moveTo: string | undefined;
      readonly hunks: readonly Hunk[];
    };

/** Files one patch may change. */
export const PATCH_FILES_MAX = 200;

const BEGIN = "*** Begin Patch";
const END = "*** End Patch";
const END_OF_FILE = "*** End of File";
const FILE_HEADER = /^\*\*\* (Add|Delete|Update) File: (.*)$/;
const MOVE_HEADER = /^\*\*\* Move to: (.*)$/;

/** Reads a whole patch; rejects with INVALID_PARAMS and the line at the first thing that is not one. */
export function parsePatch(patch: string): readonly FilePatch[] {
  const lines = createLineReader(patch.trim().split(/\r?\n/));
  if (lines.peek()?.trimEnd() !== BEGIN) lines.refuse(`a patch starts with "${BEGIN}"`);
  lines.take();
  const files: FilePatch[] = [];
  while (lines.peek()?.trimEnd() !== END) {
    if (files.length >= PATCH_FILES_MAX) lines.refuse(`a patch changes at most ${PATCH_FILES_MAX} files`);
    files.push(parseFile(lines));
  }
  lines.take();
  if (lines.peek() !== undefined) lines.refuse(`nothing may follow "${END}"`);
  if (files.length === 0) throw new RuntimeError("INVALID_PARAMS", "the patch changes no file");
  return files;
}

interface LineReader {
  peek(): string | undefined;
  take(): string;
  refuse(problem: string): never;
}

function createLineReader(lines: readonly string[]): LineReader {
  let next = 0;
  return {
    peek: () => lines[next],
    take: () => {
      next += 1;
      return lines[next - 1] ?? "";
    },
    refuse: (problem) => {
      const found =
        lines[next] === undefined ? "the patch ends" : `found ${JSON.stringify(lines[next]?.slice(0, 200))}`;
      throw new RuntimeError("INVALID_PARAMS", `line ${next + 1} of the patch: ${problem}, but ${found}`);
    },
  };
}

function parseFile(lines: LineReader): FilePatch {
  const [, verb, rawPath = ""] = FILE_HEADER.exec(lines.peek() ?? "") ?? [];
  const path = rawPath.trim();
  if (verb === undefined || path === "") {
    lines.refuse(`expected "*** Add File: path", "*** Delete File: path", "*** Update File: path" or "${END}"`);
  }
  lines.take();
  if (verb === "Delete") return { kind: "delete", path };
  if (verb === "Add") return { kind: "add", path, lines: parseAddedLines(lines) };
  return parseUpdate(path, lines);
}

function parseAddedLines(lines: LineReader): readonly string[] {
  const added: string[] = [];
  while (!isHeader(lines.peek())) {
    if (!lines.peek()?.startsWith("+")) lines.refuse('every line of an added file starts with "+"');
    added.push(lines.take().slice(1));
  }
  return added;
}

function parseUpdate(path: string, lines: LineReader): FilePatch {
  const move = MOVE_HEADER.exec(lines.peek() ?? "");
  const moveTo = move?.[1]?.trim();
  if (moveTo === "") lines.refuse('expected "*** Move to: path"');
  if (move !== null) lines.take();
  const hunks: Hunk[] = [];
  while (!isHeader(lines.peek())) hunks.push(parseHunk(lines));
  if (hunks.length === 0 && moveTo === undefined) lines.refuse(`the update of ${path} needs at least one hunk`);
  return { kind: "update", path, moveTo, hunks };
}

function parseHunk(lines: LineReader): Hunk {
  const anchors: string[] = [];
  while (lines.peek()?.startsWith("@@")) {
    const anchor = lines.take().slice(2).replace(/^ /, "");
    if (anchor.trim() !== "") anchors.push(anchor);
  }
  const body: HunkLine[] = [];
  while (!isHeader(lines.peek()) && !lines.peek()?.startsWith("@@")) {
    if (lines.peek()?.trimEnd() === END_OF_FILE) break;
    body.push(parseHunkLine(lines));
  }
  if (body.length === 0) lines.refuse('a hunk has at least one line that starts with " ", "+" or "-"');
  const isAtEnd = lines.peek()?.trimEnd() === END_OF_FILE;
  if (isAtEnd) lines.take();
  return { anchors, lines: body, isAtEnd };
}

function parseHunkLine(lines: LineReader): HunkLine {
  const line = lines.peek() ?? "";
  const mark = line.charAt(0);
  // Models drop the lone space of an empty context line.
  if (line === "") {
    lines.take();
    return { mark: " ", text: "" };
  }
  if (mark !== " " && mark !== "+" && mark !== "-") lines.refuse('a line of a hunk starts with " ", "+" or "-"');
  return { mark, text: lines.take().slice(1) };
}

function isHeader(line: string | undefined): boolean {
  return line === undefined || (line.startsWith("*** ") && line.trimEnd() !== END_OF_FILE);
}
