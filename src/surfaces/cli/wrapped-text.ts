import stringWidth from "string-width";

/** Marks a text for the eye. */
export type Brush = (text: string) => string;

/** Text on a terminal that is wrapped at words. What was written stays: nothing goes back. */
export interface WrappedText {
  /** Begins a line after this; lines it goes on with begin with the other. */
  begin(first: string, further: string): void;
  /** Adds text; a word is written once what follows shows that it is one. */
  add(text: string, brush: Brush): void;
  /** Goes on with another line. */
  breakLine(): void;
  /** Writes what is left, and ends the line. */
  end(): void;
}

/** Characters that are written without spaces between words: a line may be broken at any of them. */
const UNSPACED =
  "\\u2e80-\\u303e\\u3041-\\u33ff\\u3400-\\u4dbf\\u4e00-\\u9fff\\ua000-\\ua4cf\\uf900-\\ufaff\\uff01-\\uff60";
const PIECES = new RegExp(`[ \\t\\n]+|[${UNSPACED}]|[^ \\t\\n${UNSPACED}]+`, "g");
const APART = new RegExp(`^[${UNSPACED}]`);
const PLAIN = /^[\x20-\x7e]*$/;

/** How many cells of a terminal a text takes. */
export function cellsOf(text: string): number {
  return PLAIN.test(text) ? text.length : stringWidth(text);
}

const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" });

export function createWrappedText(to: { write(text: string): void; width(): number }): WrappedText {
  let further = "";
  let indent = 0;
  let column = 0;
  let word: { readonly text: string; readonly brush: Brush }[] = [];
  let wordCells = 0;
  let hasSpace = false;
  let hasBreak = false;
  const nextLine = (): void => {
    to.write(`\n${further}`);
    indent = cellsOf(plain(further));
    column = indent;
    hasSpace = false;
    hasBreak = false;
  };
  /** A word that fits no line is broken where the line ends. */
  const writeBroken = (text: string, brush: Brush): void => {
    let part = "";
    for (const { segment } of graphemes.segment(text)) {
      const cells = cellsOf(segment);
      if (column > indent && column + cells > to.width()) {
        to.write(brush(part));
        part = "";
        nextLine();
      }
      part += segment;
      column += cells;
    }
    to.write(brush(part));
  };
  const flush = (): void => {
    if (word.length === 0) return;
    if (hasBreak) nextLine();
    const gap = hasSpace && column > indent ? 1 : 0;
    const isWhole = wordCells <= to.width() - indent;
    if (isWhole && column > indent && column + gap + wordCells > to.width()) nextLine();
    else if (gap > 0) {
      to.write(" ");
      column += 1;
    }
    for (const { text, brush } of word) {
      if (isWhole) {
        to.write(brush(text));
        column += cellsOf(text);
      } else writeBroken(text, brush);
    }
    word = [];
    wordCells = 0;
    hasSpace = false;
  };
  return {
    begin: (first, rest) => {
      to.write(first);
      further = rest;
      indent = cellsOf(plain(first));
      column = indent;
      hasSpace = false;
      hasBreak = false;
    },
    add: (text, brush) => {
      for (const [piece] of text.matchAll(PIECES)) {
        const isSpace = /^[ \t\n]/.test(piece);
        const isApart = APART.test(piece);
        if (isSpace || isApart) flush();
        if (isSpace) {
          hasSpace = true;
          continue;
        }
        word.push({ text: piece, brush });
        wordCells += isApart ? 2 : cellsOf(piece);
        if (isApart) flush();
      }
    },
    breakLine: () => {
      flush();
      // Where nothing follows there is no other line.
      hasBreak = true;
    },
    end: () => {
      flush();
      to.write("\n");
    },
  };
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: the marks of our own brushes are taken off to measure.
const MARKS = /\u001b\[[\d;]*m/g;

function plain(text: string): string {
  return text.replace(MARKS, "");
}
