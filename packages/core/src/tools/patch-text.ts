import { invalid, type RuntimeError } from "../contract/error.ts";

/** One line of a hunk: kept, added or removed. */
interface HunkLine {
  readonly mark: " " | "+" | "-";
  readonly text: string;
}

/** A change at one place of a file; `anchors` are lines to find first, in order. */
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

export const PATCH_FILES_MAX = 200;

const BEGIN = "*** Begin Patch";
const END = "*** End Patch";
const END_OF_FILE = "*** End of File";
const FILE_HEADER = /^\*\*\* (Add|Delete|Update) File: (.*)$/;
const MOVE_HEADER = /^\*\*\* Move to: (.*)$/;

/** Parses a patch; rejects with INVALID_PARAMS and the first invalid line. */
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
  if (files.length === 0) throw invalid("the patch changes no file");
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
      throw invalid(`line ${next + 1} of the patch: ${problem}, but ${found}`);
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
  // Models drop the single space of an empty context line.
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

/** Line comparisons per file: long runs of equal lines make a search quadratic. */
const COMPARISONS_MAX = 50_000_000;

/** Comparison rules, strictest first; a looser one is tried only if the stricter one finds no place. */
const MATCH_RULES: readonly ((line: string) => string)[] = [
  (line) => line,
  (line) => line.trimEnd(),
  (line) => line.trim(),
];

/** Applies the hunks in order; rejects with the file and the first line that was not found. */
export function applyHunks(path: string, text: string, hunks: readonly Hunk[]): string {
  const file = splitLines(text);
  const finder = createFinder(
    path,
    file.lines.map((line) => line.text),
  );
  const result: TextLine[] = [];
  let copiedTo = 0;
  for (const hunk of hunks) {
    const at = finder.place(hunk, copiedTo);
    for (let line = copiedTo; line < at; line += 1) pushDefined(result, file.lines[line]);
    copiedTo = rewrite(hunk.lines, { from: file.lines, at, to: result, newline: file.newline });
  }
  for (let line = copiedTo; line < file.lines.length; line += 1) pushDefined(result, file.lines[line]);
  return joinLines({ ...file, lines: result });
}

interface Rewrite {
  readonly from: readonly TextLine[];
  readonly at: number;
  readonly to: TextLine[];
  readonly newline: string;
}

/** Writes a hunk's result and returns the next unchanged line. */
function rewrite(hunk: readonly HunkLine[], { from, at, to, newline }: Rewrite): number {
  let next = at;
  for (const { mark, text } of hunk) {
    switch (mark) {
      case "+":
        to.push({ text, newline });
        break;
      case " ":
        // The file's own line, not the patch's: context must not change whitespace.
        pushDefined(to, from[next]);
        next += 1;
        break;
      case "-":
        next += 1;
        break;
    }
  }
  return next;
}

function pushDefined(lines: TextLine[], line: TextLine | undefined): void {
  if (line !== undefined) lines.push(line);
}

function createFinder(path: string, lines: readonly string[]) {
  const normalized = MATCH_RULES.map((rule) => lines.map(rule));
  let comparisons = 0;

  /** How many of the wanted lines match from `at` on. */
  const matchLength = (rule: number, wanted: readonly string[], at: number): number => {
    const have = normalized[rule] ?? [];
    let length = 0;
    while (length < wanted.length && have[at + length] === wanted[length]) length += 1;
    comparisons += length + 1;
    if (comparisons <= COMPARISONS_MAX) return length;
    throw invalid(`${path}: the lines repeat too often to find the hunk's place`);
  };

  const find = (wanted: readonly string[], from: number, to: number): number => {
    let longest = 0;
    for (const [rule, normalize] of MATCH_RULES.entries()) {
      const target = wanted.map(normalize);
      for (let at = from; at <= to; at += 1) {
        const length = matchLength(rule, target, at);
        if (length === target.length) return at;
        longest = Math.max(longest, length);
      }
    }
    throw notFound(path, wanted[longest] ?? "");
  };

  return {
    /** Where a hunk starts, at or after `from`. */
    place: (hunk: Hunk, from: number): number => {
      const old = hunk.lines.filter(({ mark }) => mark !== "+").map(({ text }) => text);
      let start = from;
      for (const anchor of hunk.anchors) start = find([anchor], start, lines.length - 1) + 1;
      // Only added lines: they go right after their anchor, or to the end.
      if (old.length === 0) return hunk.anchors.length === 0 || hunk.isAtEnd ? lines.length : start;
      if (!hunk.isAtEnd) return find(old, start, lines.length - 1);
      const only = Math.max(start, lines.length - old.length);
      return find(old, only, only);
    },
  };
}

function notFound(path: string, line: string): RuntimeError {
  return invalid(`${path}: this line was not found: ${JSON.stringify(line.slice(0, 200))}`);
}

/** A text file in lines, with everything needed to write it back unchanged. */
interface TextLines {
  readonly byteOrderMark: string;
  readonly lines: readonly TextLine[];
  readonly endsWithNewline: boolean;
  readonly newline: string;
}

interface TextLine {
  readonly text: string;
  readonly newline: string;
}

/** `joinLines(splitLines(text))` is `text`. */
function splitLines(text: string): TextLines {
  const byteOrderMark = text.startsWith("\uFEFF") ? "\uFEFF" : "";
  const body = text.slice(byteOrderMark.length);
  const newline = /\r?\n/.exec(body)?.[0] ?? "\n";
  const pieces = body.split("\n");
  const unended = pieces.pop() ?? "";
  const ended = pieces.map((piece) =>
    piece.endsWith("\r") ? { text: piece.slice(0, -1), newline: "\r\n" } : { text: piece, newline: "\n" },
  );
  const lines = unended === "" ? ended : [...ended, { text: unended, newline }];
  return { byteOrderMark, lines, endsWithNewline: unended === "", newline };
}

function joinLines({ byteOrderMark, lines, endsWithNewline }: TextLines): string {
  const body = lines.map((line) => line.text + line.newline).join("");
  const surplus = endsWithNewline ? "" : (lines.at(-1)?.newline ?? "");
  return byteOrderMark + body.slice(0, body.length - surplus.length);
}
