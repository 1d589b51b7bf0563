import { stripVTControlCharacters } from "node:util";
import type { Io, Output } from "../io.ts";
import { CLEAR_LINE } from "../progress.ts";
import { cellsOf } from "./wrapped-text.ts";

/** A terminal whose lowest rows are redrawn, below permanent output. */
export interface Screen {
  /** The process; what is written to its terminal stands above the rows that are drawn. */
  readonly io: Io;
  readonly columns: number;
  /** Draws the rows of a place; places are stacked in order. No row is wider than the terminal. */
  show(place: Place, rows: readonly string[], cursor?: Cursor): void;
  /** Writes permanent lines to the terminal itself. */
  print(text: string): void;
  /** Removes the rows until the returned function is called. */
  hide(): () => void;
  close(): void;
}

const PLACES = ["activity", "input", "status"] as const;
type Place = (typeof PLACES)[number];

/** Where the cursor stands within the rows of a place. */
export interface Cursor {
  readonly row: number;
  readonly column: number;
}

const CLEAR_BELOW = "\r\u001b[J";
/** More often than this the eye does not see it, and a terminal must draw it. */
const FRAME_MS = 25;
const COLUMNS_DEFAULT = 80;
const ROWS_DEFAULT = 24;

export function openScreen(given: Io): Screen {
  const { output } = given.stdin.terminal();
  const places = new Map<Place, { readonly rows: readonly string[]; readonly cursor: Cursor | undefined }>();
  const stdout = createLines();
  const stderr = createLines();
  let written = "";
  let drawn: Drawn = NOTHING_DRAWN;
  let drawnAtMs = 0;
  let waiting: NodeJS.Timeout | undefined;
  let hiders = 0;
  let isOpen = true;
  const columns = (): number => output.columns || COLUMNS_DEFAULT;

  const draw = (): void => {
    clearTimeout(waiting);
    waiting = undefined;
    // Another program has the terminal: what is written meanwhile waits.
    if (hiders > 0 && drawn.rows.length === 0) return;
    // A window may have changed before its signal came; rows that are counted wrongly stay for ever.
    if ("_refreshSize" in output && typeof output._refreshSize === "function") output._refreshSize();
    drawnAtMs = Date.now();
    const next = hiders > 0 ? NOTHING_DRAWN : layOut();
    if (written === "" && isSame(next, drawn)) return;
    output.write(`${erased(drawn, columns())}${written}${painted(next)}`);
    written = "";
    drawn = next;
  };
  const layOut = (): Drawn => {
    const rows = [...stdout.rest(columns()), ...stderr.rest(columns())];
    let cursor: Cursor | undefined;
    for (const name of PLACES) {
      const place = places.get(name);
      if (place === undefined) continue;
      if (place.cursor !== undefined) cursor = { ...place.cursor, row: place.cursor.row + rows.length };
      rows.push(...place.rows);
    }
    // What is above the terminal cannot be drawn over.
    const above = Math.max(0, rows.length - Math.max(1, (output.rows || ROWS_DEFAULT) - 1));
    const end = { row: rows.length - 1, column: widthOf(rows.at(-1) ?? "") };
    const { row, column } = cursor ?? end;
    // While something happens the cursor waits above it all: there it is found again, whatever became of the window.
    const isBusy = (places.get("activity")?.rows.length ?? 0) > 0;
    return {
      rows: rows.slice(above).map((one) => cut(one, columns())),
      cursor: isBusy ? { row: 0, column: 0 } : { row: Math.max(0, row - above), column },
      isBusy,
    };
  };
  const drawSoon = (): void => {
    if (waiting !== undefined) return;
    const dueMs = drawnAtMs + FRAME_MS - Date.now();
    if (dueMs <= 0) draw();
    else waiting = setTimeout(draw, dueMs);
  };
  const lined = (lines: Lines, stream: Output): Output => ({
    isTerminal: true,
    get columns() {
      return stream.columns;
    },
    write: (text) => {
      const whole = lines.add(typeof text === "string" ? text : new TextDecoder().decode(text));
      // Answers are wrapped already; notes on stderr are not.
      for (const line of whole) written += `${lines === stderr ? wrapped(line, columns()) : line}\r\n`;
      drawSoon();
    },
  });
  const resized = (): void => draw();
  output.on("resize", resized);
  return {
    io: {
      ...given,
      stdout: given.stdout.isTerminal ? lined(stdout, given.stdout) : given.stdout,
      stderr: given.stderr.isTerminal ? lined(stderr, given.stderr) : given.stderr,
    },
    get columns() {
      return columns();
    },
    show: (place, rows, cursor) => {
      // The status may be known only after the end.
      if (!isOpen) return;
      places.set(place, { rows, cursor });
      drawSoon();
    },
    print: (text) => {
      written += text;
      drawSoon();
    },
    hide: () => {
      hiders += 1;
      draw();
      return () => {
        hiders -= 1;
        draw();
      };
    },
    close: () => {
      isOpen = false;
      hiders = 0;
      places.clear();
      written += stdout.end() + stderr.end();
      draw();
      output.off("resize", resized);
    },
  };
}

interface Drawn {
  readonly rows: readonly string[];
  readonly cursor: Cursor;
  readonly isBusy: boolean;
}

const NOTHING_DRAWN: Drawn = { rows: [], cursor: { row: 0, column: 0 }, isBusy: false };
const CURSOR_OFF = "\u001b[?25l";
const CURSOR_ON = "\u001b[?25h";
// A row that is wider than the terminal has become is then cut there, and still one row.
const WRAP_OFF = "\u001b[?7l";
const WRAP_ON = "\u001b[?7h";

function isSame(one: Drawn, other: Drawn): boolean {
  return (
    one.rows.length === other.rows.length &&
    one.rows.every((row, at) => row === other.rows[at]) &&
    one.cursor.row === other.cursor.row &&
    one.cursor.column === other.cursor.column
  );
}

/** Goes to where the rows begin, and clears them. On a terminal that has become narrower each takes more lines. */
function erased({ rows, cursor, isBusy }: Drawn, columns: number): string {
  if (rows.length === 0) return "";
  const linesOf = (row: string): number => Math.max(1, Math.ceil(widthOf(row) / columns));
  const above = rows.slice(0, cursor.row).reduce((sum, row) => sum + linesOf(row), 0);
  const within = Math.floor(Math.min(cursor.column, Math.max(0, widthOf(rows[cursor.row] ?? "") - 1)) / columns);
  return `${isBusy ? CURSOR_ON : ""}${up(above + within)}${CLEAR_BELOW}`;
}

function painted({ rows, cursor, isBusy }: Drawn): string {
  if (rows.length === 0) return "";
  const right = cursor.column === 0 ? "" : `\u001b[${cursor.column}C`;
  const off = isBusy ? CURSOR_OFF : "";
  return `${off}${WRAP_OFF}${rows.join("\r\n")}${WRAP_ON}${up(rows.length - 1 - cursor.row)}\r${right}`;
}

function up(rows: number): string {
  return rows === 0 ? "" : `\u001b[${rows}A`;
}

function widthOf(row: string): number {
  return cellsOf(stripVTControlCharacters(row));
}

/** What is written to a stream: its whole lines are written for good, the rest is shown until it is one. */
interface Lines {
  /** Returns the lines that are whole now. */
  add(text: string): readonly string[];
  rest(columns: number): readonly string[];
  end(): string;
}

function createLines(): Lines {
  let rest = "";
  return {
    add: (text) => {
      const lines = text.split("\n");
      lines[0] = rest + lines[0];
      rest = lines.pop() ?? "";
      // Only then: a line may come in a million pieces.
      if (text.includes("\r")) rest = settled(rest);
      return lines.map(settled);
    },
    rest: (columns) => (rest === "" ? [] : [endOf(rest, columns)]),
    end: () => {
      const line = rest === "" ? "" : `${rest}\r\n`;
      rest = "";
      return line;
    },
  };
}

/** A line without what was cleared of it. */
function settled(line: string): string {
  const at = line.lastIndexOf(CLEAR_LINE);
  return at < 0 ? line : line.slice(at + CLEAR_LINE.length);
}

/** A sentence that continues below the edge of the terminal. Indented text is no sentence: there each break may matter. */
function wrapped(line: string, columns: number): string {
  if (line.length > WRAPPED_CHARS_MAX || line.startsWith(" ") || widthOf(line) <= columns) return line;
  let shown = "";
  let width = 0;
  for (const [at, word] of line.split(" ").entries()) {
    const cells = widthOf(word);
    const isFirst = at === 0;
    if (!isFirst && width + 1 + cells > columns) {
      shown += `\r\n${word}`;
      width = cells;
    } else {
      shown += isFirst ? word : ` ${word}`;
      width += cells + (isFirst ? 0 : 1);
    }
  }
  return shown;
}

/** Longer lines are no sentences. */
const WRAPPED_CHARS_MAX = 4_000;

/** A row that was made for a wider terminal. */
function cut(row: string, columns: number): string {
  return widthOf(row) <= columns ? row : fitted(stripVTControlCharacters(row), columns);
}

/** As much of the end of a line as a row has room for. */
function endOf(line: string, columns: number): string {
  const near = line.slice(-columns * LOOK_BACK);
  if (near.length === line.length && widthOf(line) <= columns) return line;
  const signs = [...stripVTControlCharacters(near)].slice(-columns);
  while (signs.length > 0 && cellsOf(signs.join("")) > columns) signs.shift();
  return signs.join("");
}

/** Signs of a line for each cell of it that are looked at: marks and combining signs take none. */
const LOOK_BACK = 8;

const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" });

/** A text in at most so many cells; an ellipsis marks a cut. */
export function fitted(text: string, cells: number): string {
  if (text.length <= cells && cellsOf(text) <= cells) return text;
  let shown = "";
  let width = 0;
  for (const { segment } of graphemes.segment(text.slice(0, cells * LOOK_BACK))) {
    const next = cellsOf(segment);
    if (width + next > cells - 1) return `${shown}…`;
    shown += segment;
    width += next;
  }
  return shown;
}
