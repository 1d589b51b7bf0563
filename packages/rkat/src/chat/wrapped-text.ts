import stringWidth from "string-width";

/** What is written before and after a text, to set it apart. */
export interface Ink {
  readonly open: string;
  readonly close: string;
}

export const NO_INK: Ink = { open: "", close: "" };

/** The ink of a brush, once: a brush that is asked for every word costs more than the word. */
export function inkOf(brush: (text: string) => string): Ink {
  const [open = "", close = ""] = brush("\0").split("\0");
  return { open, close };
}

/** Both: the inner one within the other. */
export function inked(outer: Ink, inner: Ink): Ink {
  return { open: outer.open + inner.open, close: inner.close + outer.close };
}

export function inInk(text: string, { open, close }: Ink): string {
  return open + text + close;
}

/** Where text goes, a piece in its ink at a time. */
export interface TextSink {
  add(text: string, ink: Ink): void;
  breakLine(): void;
}

/** Text on a terminal that is wrapped at words. What was written stays: nothing goes back. */
export interface WrappedText extends TextSink {
  /** The prefix of the first line and of the following lines. Both may have their own inks. */
  begin(first: string, further: string): void;
  /** Resets the colours, so that later output is not coloured. */
  rest(): void;
  /** Writes what is left, and ends the line. */
  end(): void;
}

/** Letters of one cell, as most words have no others. */
const NARROW =
  /^[\x20-\x7e\u00a1-\u00ac\u00ae-\u02ff\u0370-\u0373\u0388-\u0482\u05d0-\u05ea\u0621-\u063a\u0641-\u064a\u2010-\u2015\u2018-\u2022\u2026\u2190-\u2193\u2500-\u257f\u2610\u2611]*$/;

/** Letters of two, as all of a text that is written without spaces. */
const WIDE =
  /^[\u2e80-\u2e99\u2e9b-\u2ef3\u2f00-\u2fd5\u3001-\u3029\u3041-\u3096\u309b-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uff01-\uff60]+$/;

export function cellsOf(text: string): number {
  if (NARROW.test(text)) return text.length;
  if (WIDE.test(text)) return 2 * text.length;
  if (text.length > KNOWN_CHARS_MAX) return stringWidth(text);
  const known = knownCells.get(text);
  if (known !== undefined) return known;
  const cells = stringWidth(text);
  if (knownCells.size >= KNOWN_MAX) knownCells.clear();
  knownCells.set(text, cells);
  return cells;
}

/** Of signs that come again, which take long to be measured. */
const knownCells = new Map<string, number>();
const KNOWN_MAX = 1_000;
const KNOWN_CHARS_MAX = 32;

/** Whether it is written without spaces between words: a line may be broken before and after it. */
function isUnspaced(code: number): boolean {
  if (code < 0x2e80 || code > 0xff60) return false;
  return (code <= 0xa4cf && code !== 0x303f && code !== 0x3040) || (code >= 0xf900 && code <= 0xfaff) || code >= 0xff01;
}

/** Signs that end a sentence or a bracket, or stand on another: no line begins with them. */
const CLOSING =
  "、。，．：；？！）」』】〉》〕］｝ー々ぁぃぅぇぉっゃゅょァィゥェォッャュョ\u302a\u302b\u302c\u302d\u3099\u309a";
const WORD_CHARS_MAX = 1_000;

const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" });

interface Part {
  text: string;
  readonly ink: Ink;
}

export function createWrappedText(to: { write(text: string): void; width(): number }): WrappedText {
  let width = to.width();
  let further = "";
  let indent = 0;
  let column = 0;
  let ink = NO_INK;
  /** The word that may continue, and whether its beginning is written since it fits no line. */
  let word: Part[] = [];
  let wordChars = 0;
  let isBroken = false;
  let isApart = false;
  let hasSpace = false;
  let hasBreak = false;
  const take = (next: Ink): void => {
    if (next.open === ink.open) return;
    to.write(ink.close + next.open);
    ink = next;
  };
  const nextLine = (): void => {
    take(NO_INK);
    to.write(`\n${further}`);
    indent = cellsOf(bare(further));
    column = indent;
    hasSpace = false;
    hasBreak = false;
  };
  const put = (text: string, cells: number): void => {
    to.write(text);
    column += cells;
  };
  /** A word that fits no line is broken where the line ends. */
  const putBroken = (text: string): void => {
    if (NARROW.test(text)) {
      for (let at = 0; at < text.length; ) {
        if (column >= width && column > indent) nextLineIn(ink);
        const part = text.slice(at, at + Math.max(1, width - column));
        put(part, part.length);
        at += part.length;
      }
      return;
    }
    const signs = text.length === 1 ? [{ segment: text }] : graphemes.segment(text);
    for (const { segment } of signs) {
      const cells = cellsOf(segment);
      if (column > indent && column + cells > width) nextLineIn(ink);
      put(segment, cells);
    }
  };
  const nextLineIn = (same: Ink): void => {
    nextLine();
    take(same);
  };
  const writeWord = (cells: number): void => {
    const isWhole = !isBroken && cells <= width - indent;
    if (!isBroken) {
      if (hasBreak) nextLine();
      const gap = hasSpace && column > indent ? 1 : 0;
      // Of a word that fits no line there must be room for a sign.
      if (column > indent && column + gap + (isWhole ? cells : 1) > width) nextLine();
      else if (gap > 0) {
        // The gap within what is underlined is so, too.
        if (ink.open !== (word[0]?.ink.open ?? "")) take(NO_INK);
        put(" ", 1);
      }
      hasSpace = false;
    }
    for (const { text, ink: own } of word) {
      take(own);
      if (isWhole) put(text, 0);
      else putBroken(text);
    }
    if (isWhole) column += cells;
    word = [];
    wordChars = 0;
  };
  const cellsOfWord = (): number => word.reduce((sum, { text }) => sum + cellsOf(text), 0);
  const flush = (): void => {
    if (word.length > 0) writeWord(cellsOfWord());
    isBroken = false;
    isApart = false;
  };
  const grow = (text: string, own: Ink): void => {
    const last = word.at(-1);
    if (last !== undefined && last.ink.open === own.open) last.text += text;
    else word.push({ text, ink: own });
    wordChars += text.length;
    if (wordChars <= width - indent && !isBroken) return;
    // No more than a line of it is kept, nor signs without an end that take no cell.
    const cells = cellsOfWord();
    if (cells <= width - indent && !isBroken && wordChars <= WORD_CHARS_MAX) return;
    writeWord(cells);
    isBroken = true;
  };
  return {
    begin: (first, rest) => {
      width = to.width();
      to.write(first);
      further = rest;
      indent = cellsOf(bare(first));
      column = indent;
      hasSpace = false;
      hasBreak = false;
    },
    add: (text, own) => {
      width = to.width();
      let from = 0;
      const growTo = (end: number): void => {
        if (end <= from) return;
        if (isApart) flush();
        const part = text.slice(from, end);
        grow(part, own);
      };
      for (let at = 0; at < text.length; at += 1) {
        const code = text.charCodeAt(at);
        if (code === 0x20 || code === 0x0a || code === 0x09) {
          growTo(at);
          flush();
          hasSpace = true;
          from = at + 1;
        } else if (isUnspaced(code)) {
          growTo(at);
          const sign = text[at] ?? "";
          if (!CLOSING.includes(sign)) flush();
          grow(sign, own);
          isApart = true;
          from = at + 1;
        }
      }
      growTo(text.length);
    },
    breakLine: () => {
      flush();
      // Where nothing follows there is no other line.
      hasBreak = true;
    },
    rest: () => take(NO_INK),
    end: () => {
      flush();
      take(NO_INK);
      to.write("\n");
    },
  };
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: the marks of our own inks are taken off to measure.
const MARKS = /\u001b\[[\d;]*m/g;

function bare(text: string): string {
  return text.includes("\u001b") ? text.replace(MARKS, "") : text;
}
