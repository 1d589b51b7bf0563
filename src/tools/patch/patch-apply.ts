import { RuntimeError } from "../../contract/error.ts";
import type { Hunk, HunkLine } from "./patch-parse.ts";
import { joinLines, splitLines, type TextLine } from "./text-lines.ts";

/** Line comparisons one file may cost: long runs of equal lines make a search quadratic. */
const COMPARISONS_MAX = 50_000_000;

/** How alike two lines must be, strictest first; a looser rule is tried only where a stricter one finds no place. */
const MATCH_RULES: readonly ((line: string) => string)[] = [
  (line) => line,
  (line) => line.trimEnd(),
  (line) => line.trim(),
];

/** The text after its hunks, applied in order; rejects with the file and the first line that was not found. */
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

/** Writes a hunk's outcome and answers with the first line of the file that it left alone. */
function rewrite(hunk: readonly HunkLine[], { from, at, to, newline }: Rewrite): number {
  let next = at;
  for (const { mark, text } of hunk) {
    switch (mark) {
      case "+":
        to.push({ text, newline });
        break;
      case " ":
        // The file's own line, not the patch's: where only whitespace differed, context must not change it.
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

/** Finds the places of one file's hunks. */
function createFinder(path: string, lines: readonly string[]) {
  const normalized = MATCH_RULES.map((rule) => lines.map(rule));
  let comparisons = 0;

  /** How many of the wanted lines are found from `at` on. */
  const matchLength = (rule: number, wanted: readonly string[], at: number): number => {
    const have = normalized[rule] ?? [];
    let length = 0;
    while (length < wanted.length && have[at + length] === wanted[length]) length += 1;
    comparisons += length + 1;
    if (comparisons <= COMPARISONS_MAX) return length;
    throw new RuntimeError("INVALID_PARAMS", `${path}: the lines repeat too often to find the hunk's place`);
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
    /** Where a hunk's first line stands, at or after `from`. */
    place: (hunk: Hunk, from: number): number => {
      const old = hunk.lines.filter(({ mark }) => mark !== "+").map(({ text }) => text);
      let start = from;
      for (const anchor of hunk.anchors) start = find([anchor], start, lines.length - 1) + 1;
      // Only added lines: they go right after their anchor, or, without one, to the end.
      if (old.length === 0) return hunk.anchors.length === 0 || hunk.isAtEnd ? lines.length : start;
      if (!hunk.isAtEnd) return find(old, start, lines.length - 1);
      const only = Math.max(start, lines.length - old.length);
      return find(old, only, only);
    },
  };
}

function notFound(path: string, line: string): RuntimeError {
  return new RuntimeError("INVALID_PARAMS", `${path}: this line was not found: ${JSON.stringify(line.slice(0, 200))}`);
}
