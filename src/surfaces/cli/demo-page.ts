import { setTimeout as sleep } from "node:timers/promises";
import { withoutControls } from "../wire/terminal-text.ts";
import { createPaint, type Io, type Paint } from "./io.ts";

/** Writes the demo at a pace one can follow, in a column that fits the terminal. */
export interface Page {
  readonly paint: Paint;
  readonly columns: number;
  line(text?: string): Promise<void>;
  /** Writes a text in as many lines as it needs, indented; `brush` paints each. */
  paragraph(text: string, indent: number, brush?: (line: string) => string): Promise<void>;
  /** Begins a line with who speaks; what is said follows with `say`. */
  speaker(name: string): void;
  /** Adds to the line, wrapped between words. */
  say(words: string): Promise<void>;
  endLine(): void;
}

const COLUMNS_MAX = 80;
const COLUMNS_MIN = 40;
const SPEAKER_COLUMNS = 10;
const WORD_MS = 15;
const LINE_MS = 250;

export function createPage(io: Io, isPaced: boolean): Page {
  const paint = createPaint(io.stdout, io.env);
  const columns = Math.min(COLUMNS_MAX, Math.max(COLUMNS_MIN, io.stdout.columns ?? COLUMNS_MAX));
  const pause = async (ms: number): Promise<void> => {
    if (isPaced) await sleep(ms, undefined, { signal: io.interrupt });
    else io.interrupt.throwIfAborted();
  };
  let column = 0;
  const breakLine = (): void => {
    io.stdout.write(`\n${" ".repeat(SPEAKER_COLUMNS)}`);
    column = SPEAKER_COLUMNS;
  };
  const put = (word: string): void => {
    if (word === "\n") {
      breakLine();
      return;
    }
    if (column + word.length > columns && column > SPEAKER_COLUMNS) breakLine();
    const shown = column === SPEAKER_COLUMNS ? word.trimStart() : word;
    io.stdout.write(shown);
    column += shown.length;
  };
  const endLine = (): void => {
    if (column > 0) io.stdout.write("\n");
    column = 0;
  };
  const line = async (text = ""): Promise<void> => {
    endLine();
    io.stdout.write(`${text}\n`);
    await pause(text === "" ? 0 : LINE_MS);
  };
  return {
    paint,
    columns,
    endLine,
    line,
    paragraph: async (text, indent, brush = (each) => each) => {
      for (const each of wrapped(text, columns - indent)) await line(brush(`${" ".repeat(indent)}${each}`));
    },
    speaker: (name) => {
      endLine();
      io.stdout.write(paint.bold(`  ${name}`.padEnd(SPEAKER_COLUMNS)));
      column = SPEAKER_COLUMNS;
    },
    say: async (words) => {
      for (const word of withoutControls(words).match(/\n|[^\S\n]+\S*|\S+/gu) ?? []) put(word);
      await pause(WORD_MS);
    },
  };
}

/** The lines of a text, broken between words; a word that is longer than a line has one of its own. */
function wrapped(text: string, width: number): readonly string[] {
  const lines: string[] = [];
  for (const word of text.split(/\s+/)) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= width) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}
