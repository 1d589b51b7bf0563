import { withoutControls } from "@rkat/core/text/terminal-text";
import { counted } from "../io.ts";
import type { Cursor } from "./screen.ts";
import { cellsOf } from "./wrapped-text.ts";

/** A text that is being typed, and where in it the cursor stands. Signs are what a person takes for one. */
export interface LineBuffer {
  readonly isEmpty: boolean;
  /** Whether the cursor stands at the very end. */
  readonly isAtEnd: boolean;
  /** The text as it is meant, with all that was pasted. */
  text(): string;
  /** The text as it is shown: a word stands for each long paste. */
  shown(): string;
  /** What stands before the cursor, as it is shown. */
  before(): string;
  set(text: string): void;
  insert(text: string): void;
  /** Inserts what may be long; then a word stands for it. */
  paste(text: string): void;
  /** Moves by signs, words, or to the ends of the line or of the text. */
  move(to: Motion): void;
  /** Takes out what lies between the cursor and there; `yank` puts it in again. */
  erase(to: Motion): void;
  /** Replaces what stands before the cursor from a place on. */
  replaceBefore(from: number, text: string): void;
  yank(): void;
  /** Exchanges the two signs before the cursor. */
  transpose(): void;
  /** Moves by rows as they are shown; false where there is none. */
  moveRow(by: -1 | 1, cells: number): boolean;
  /** The rows of the text, each of at most so many cells, and where the cursor is. */
  layOut(cells: number): { readonly rows: readonly string[]; readonly cursor: Cursor };
}

export type Motion = "left" | "right" | "word-left" | "word-right" | "line-start" | "line-end" | "start" | "end";

/** A longer paste is shown as one word, so that the line stays editable. */
const PASTED_LINES_MAX = 10;
const PASTED_CHARS_MAX = 2_000;
/** More than a prompt can hold. */
const TEXT_CHARS_MAX = 8 * 1024 * 1024;

const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" });

export function createLineBuffer(): LineBuffer {
  let signs: string[] = [];
  let at = 0;
  let erased: readonly string[] = [];
  /** What was pasted, by the word that stands for it. */
  const pasted = new Map<string, string>();
  const put = (added: readonly string[]): void => {
    signs = [...signs.slice(0, at), ...added, ...signs.slice(at)];
    at += added.length;
  };
  const insert = (text: string): void => {
    // Not by their lengths: they would be added up at every key.
    if (signs.length + text.length > TEXT_CHARS_MAX) return;
    // A mark that combines belongs to the sign before it.
    const before = signs[at - 1] ?? "";
    const isWhole = before === "" || pasted.has(before);
    if (!isWhole) {
      signs.splice(at - 1, 1);
      at -= 1;
    }
    put(signsOf(isWhole ? text : before + text));
  };
  const paste = (given: string): void => {
    const text = withoutControls(given.replace(/\r\n?/g, "\n"));
    if (signs.length + text.length > TEXT_CHARS_MAX) return;
    const lines = text.replace(/\n$/, "").split("\n").length;
    if (lines <= PASTED_LINES_MAX && text.length <= PASTED_CHARS_MAX) {
      insert(text);
      return;
    }
    const word = `[pasted ${pasted.size + 1}: ${counted(lines, "line")}]`;
    pasted.set(word, text);
    put([word]);
  };
  const target = (to: Motion): number => {
    switch (to) {
      case "left":
        return Math.max(0, at - 1);
      case "right":
        return Math.min(signs.length, at + 1);
      case "word-left": {
        let to = at;
        while (to > 0 && !isWord(signs[to - 1])) to -= 1;
        while (to > 0 && isWord(signs[to - 1])) to -= 1;
        return to;
      }
      case "word-right": {
        let to = at;
        while (to < signs.length && !isWord(signs[to])) to += 1;
        while (to < signs.length && isWord(signs[to])) to += 1;
        return to;
      }
      case "line-start":
        return at === 0 ? 0 : signs.lastIndexOf("\n", at - 1) + 1;
      case "line-end": {
        const end = signs.indexOf("\n", at);
        return end < 0 ? signs.length : end;
      }
      case "start":
        return 0;
      case "end":
        return signs.length;
    }
  };
  const layOut = (cells: number): Layout => layOutSigns(signs, at, Math.max(2, cells));
  return {
    get isEmpty() {
      return signs.length === 0;
    },
    get isAtEnd() {
      return at === signs.length;
    },
    text: () => signs.map((sign) => pasted.get(sign) ?? sign).join(""),
    shown: () => signs.join(""),
    before: () => signs.slice(0, at).join(""),
    set: (text) => {
      signs = [];
      at = 0;
      paste(text);
    },
    insert,
    paste,
    move: (to) => {
      at = target(to);
    },
    erase: (to) => {
      const end = target(to);
      const [first, last] = end < at ? [end, at] : [at, end];
      if (first === last) return;
      if (to !== "left" && to !== "right") erased = signs.slice(first, last);
      signs = [...signs.slice(0, first), ...signs.slice(last)];
      at = first;
    },
    replaceBefore: (from, text) => {
      let chars = 0;
      const first = signs.findIndex((sign) => {
        chars += sign.length;
        return chars > from;
      });
      const after = signs.slice(at);
      signs = signs.slice(0, first < 0 ? at : Math.min(first, at));
      at = signs.length;
      put(signsOf(text));
      signs = [...signs, ...after];
    },
    yank: () => put(erased),
    transpose: () => {
      const end = Math.min(signs.length, at + 1);
      const [first, second] = [signs[end - 2], signs[end - 1]];
      if (first === undefined || second === undefined) return;
      signs.splice(end - 2, 2, second, first);
      at = end;
    },
    moveRow: (by, cells) => {
      const { cursor, starts } = layOut(cells);
      const row = cursor.row + by;
      const start = starts[row];
      if (start === undefined) return false;
      const end = (starts[row + 1] ?? signs.length + 1) - 1;
      let to = start;
      for (let column = 0; to < end && column < cursor.column; to += 1) column += cellsOf(displayed(signs[to] ?? ""));
      at = to;
      return true;
    },
    layOut,
  };
}

interface Layout {
  readonly rows: readonly string[];
  readonly cursor: Cursor;
  /** With which sign each row begins. */
  readonly starts: readonly number[];
}

function layOutSigns(signs: readonly string[], at: number, cells: number): Layout {
  const starts = rowStarts(signs, cells);
  const rows = starts.map((start, row) => {
    const inRow = signs.slice(start, starts[row + 1]);
    return inRow.map((sign) => (sign === "\n" ? "" : displayed(sign))).join("");
  });
  const row = starts.findLastIndex((start) => start <= at);
  const before = signs.slice(starts[row], at);
  const column = before.reduce((sum, sign) => sum + cellsOf(displayed(sign)), 0);
  return { rows, cursor: { row, column }, starts };
}

/** Where rows begin: after a line's end, and where the next word has no room. */
function rowStarts(signs: readonly string[], cells: number): readonly number[] {
  const starts = [0];
  let column = 0;
  /** Where the word begins that may go to the next row, and how much of the row it takes. */
  let word = { start: 0, column: 0 };
  for (const [index, sign] of signs.entries()) {
    if (sign === "\n") {
      starts.push(index + 1);
      column = 0;
      word = { start: index + 1, column: 0 };
      continue;
    }
    const width = cellsOf(displayed(sign));
    while (column + width > cells - 1 && column > 0) {
      const isWord = word.column > 0 && sign !== " ";
      starts.push(isWord ? word.start : index);
      column = isWord ? column - word.column : 0;
      word = { start: isWord ? word.start : index, column: 0 };
    }
    column += width;
    if (sign === " ") word = { start: index + 1, column };
  }
  return starts;
}

/** A tab is as wide as it looks in code. */
function displayed(sign: string): string {
  return sign === "\t" ? "    " : sign;
}

function signsOf(text: string): string[] {
  return Array.from(graphemes.segment(text), ({ segment }) => segment).flatMap((sign) =>
    sign === "\r\n" ? ["\n"] : [sign],
  );
}

function isWord(sign: string | undefined): boolean {
  return sign !== undefined && /^[\p{L}\p{N}_]/u.test(sign);
}
