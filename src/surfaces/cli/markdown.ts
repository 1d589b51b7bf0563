import { withoutControls } from "../wire/terminal-text.ts";
import type { Paint } from "./io.ts";
import { addInline, settledLength } from "./markdown-inline.ts";
import { cellsOf, createWrappedText, type WrappedText } from "./wrapped-text.ts";

/** Markdown as it is streamed, shown as it comes. What was written stays, so that it can be scrolled and copied. */
export interface MarkdownStream {
  push(piece: string): void;
  /** Writes what is left; the next piece begins anew. */
  end(): void;
}

export interface MarkdownScreen {
  write(text: string): void;
  /** Cells of a line, as they are now. */
  width(): number;
  readonly paint: Paint;
}

const WIDTH_MIN = 20;
/** Longer lines are hard to follow with the eye. */
const WIDTH_MAX = 100;

export function createMarkdownStream(to: MarkdownScreen): MarkdownStream {
  const { paint } = to;
  // One write a piece: a terminal draws each of them.
  let drawn = "";
  const screen = {
    write: (text: string): void => {
      drawn += text;
    },
    width: to.width,
  };
  const draw = (): void => {
    if (drawn !== "") to.write(drawn);
    drawn = "";
  };
  const width = (): number => Math.min(WIDTH_MAX, Math.max(WIDTH_MIN, screen.width()));
  const text = createWrappedText({ write: screen.write, width });
  /** The line that is not whole yet, or what of it is not shown. */
  let rest = "";
  let block: "none" | "text" | "code" | "table" = "none";
  let fence = { mark: "", indent: 0 };
  let rows: string[] = [];
  let isAfterGap = true;
  /** Whether the beginning of the line that is not whole is shown. */
  let isBegun = false;

  const closeText = (): void => {
    if (block === "text") text.end();
    block = "none";
  };
  const gap = (): void => {
    if (!isAfterGap) screen.write("\n");
    isAfterGap = true;
  };
  const closeTable = (): void => {
    if (block !== "table") return;
    block = "none";
    for (const line of tableLines(rows, { width: width(), paint })) screen.write(`${line}\n`);
    rows = [];
    isAfterGap = false;
  };
  const openText = (line: string): string => {
    const { first, further, body } = openingOf(line, paint);
    text.begin(first, further);
    block = "text";
    isAfterGap = false;
    return body;
  };
  const endOfLine = (line: string): void => {
    if (block === "code") {
      codeLine(line);
      return;
    }
    if (isBegun) {
      addInline(line, text, paint);
      isBegun = false;
      endOrGoOn(line);
      return;
    }
    const kind = kindOf(line);
    if (block === "table" && kind !== "table") closeTable();
    switch (kind) {
      case "blank":
        closeText();
        gap();
        return;
      case "fence": {
        closeText();
        const { indent, mark, name } = fenceOf(line) ?? { indent: 0, mark: "", name: "" };
        fence = { mark, indent };
        block = "code";
        gap();
        const label = name.trim().split(/\s/)[0] ?? "";
        if (label !== "") screen.write(`${paint.dim(label)}\n`);
        isAfterGap = false;
        return;
      }
      case "heading": {
        closeText();
        gap();
        const { level, words } = headingOf(line) ?? { level: 1, words: line };
        text.begin("", "");
        addInline(
          words,
          { ...text, add: (word, brush) => text.add(word, (one) => headed(level, brush(one), paint)) },
          paint,
        );
        text.end();
        isAfterGap = false;
        return;
      }
      case "rule":
        closeText();
        screen.write(`${paint.dim("─".repeat(Math.min(width(), 40)))}\n`);
        isAfterGap = false;
        return;
      case "table":
        closeText();
        block = "table";
        rows.push(line);
        if (rows.length >= ROWS_MAX) closeTable();
        return;
      case "item":
      case "quote":
        closeText();
        addInline(openText(line), text, paint);
        endOrGoOn(line);
        return;
      case "text":
        if (block === "text") text.add(" ", asItIs);
        addInline(block === "text" ? line.trim() : openText(line), text, paint);
        endOrGoOn(line);
    }
  };
  /** Two spaces at its end break a line. */
  const endOrGoOn = (line: string): void => {
    if (/ {2}$/.test(line)) text.breakLine();
    else text.add(" ", asItIs);
  };
  const codeLine = (line: string): void => {
    const bare = line.trim();
    const isEnd = bare.startsWith(fence.mark) && bare === (bare[0] ?? "").repeat(bare.length);
    if (isEnd) {
      block = "none";
      return;
    }
    const spaces = line.length - line.trimStart().length;
    screen.write(`${paint.green(line.slice(Math.min(fence.indent, spaces)))}\n`);
    isAfterGap = false;
  };
  /** Shows as much of a line that goes on as nothing to come can change. */
  const showBeginning = (): void => {
    if (block === "code" || block === "table") return;
    if (!isBegun) {
      if (!isSureOf(rest)) return;
      const kind = kindOf(rest);
      if (kind === "text" && block === "text") {
        text.add(" ", asItIs);
        rest = rest.trimStart();
      } else if (kind === "text" || kind === "item" || kind === "quote") {
        closeText();
        rest = openText(rest);
      } else return;
      isBegun = true;
    }
    const settled = settledLength(rest);
    if (settled === 0) return;
    addInline(rest.slice(0, settled), text, paint);
    rest = rest.slice(settled);
  };
  return {
    push: (piece) => {
      const lines = (rest + withoutControls(piece)).replaceAll("\t", "    ").split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) endOfLine(line);
      // Only a space ends a word, and with it what can be told of it.
      if (rest !== "" && (lines.length > 0 || piece.includes(" "))) showBeginning();
      draw();
    },
    end: () => {
      if (rest !== "") endOfLine(rest);
      rest = "";
      isBegun = false;
      closeTable();
      closeText();
      block = "none";
      isAfterGap = true;
      draw();
    },
  };
}

const asItIs = (text: string): string => text;

const ITEM = /^( *)([-*+]|\d{1,9}[.)]) +(\[[ xX]\] )?(?=\S)/;
const ROWS_MAX = 200;

type Kind = "blank" | "fence" | "heading" | "rule" | "table" | "item" | "quote" | "text";

function kindOf(line: string): Kind {
  if (line.trim() === "") return "blank";
  if (fenceOf(line) !== undefined) return "fence";
  if (headingOf(line) !== undefined) return "heading";
  if (isRule(line)) return "rule";
  if (/^ {0,3}\|/.test(line)) return "table";
  if (/^ {0,3}>/.test(line)) return "quote";
  return ITEM.test(line) ? "item" : "text";
}

// Each in as many steps as the line has signs: a model may write a line of nothing else.

/** Where code begins, or ends. */
function fenceOf(line: string): { indent: number; mark: string; name: string } | undefined {
  const bare = line.trimStart();
  const [sign = ""] = bare;
  if (sign !== "`" && sign !== "~") return undefined;
  let run = 1;
  while (bare[run] === sign) run += 1;
  const name = bare.slice(run);
  if (run < 3 || (sign === "`" && name.includes("`"))) return undefined;
  return { indent: line.length - bare.length, mark: sign.repeat(run), name };
}

function headingOf(line: string): { level: number; words: string } | undefined {
  const [whole = "", marks = ""] = /^ {0,3}(#{1,6})(?= |$)/.exec(line) ?? [];
  if (marks === "") return undefined;
  const words = line.slice(whole.length).trim();
  let end = words.length;
  while (words[end - 1] === "#") end -= 1;
  const isClosed = end === 0 || words[end - 1] === " ";
  return { level: marks.length, words: isClosed ? words.slice(0, end).trimEnd() : words };
}

function isRule(line: string): boolean {
  const signs = line.replaceAll(" ", "");
  const [sign = ""] = signs;
  return signs.length >= 3 && "-*_".includes(sign) && signs === sign.repeat(signs.length);
}

/** Whether what a line is can be told by its beginning. */
function isSureOf(beginning: string): boolean {
  const [sign = ""] = beginning.trimStart();
  if (sign === "") return false;
  if (/[#|`~=_]/.test(sign)) return false;
  // Of an item it must be seen whether it is one of a list to be ticked off.
  if (/^ *(?:[-*+]|\d{1,9}[.)]) +\[.{0,2}$/.test(beginning)) return false;
  if (/[-*+>\d]/.test(sign))
    return ITEM.test(beginning) || /^ {0,3}> ?\S/.test(beginning) || /^ *\d+[^\d.) ]/.test(beginning);
  return true;
}

function openingOf(line: string, paint: Paint): { first: string; further: string; body: string } {
  const quote = /^ {0,3}(?:> ?)+/.exec(line);
  if (quote !== null) {
    const bar = paint.dim("│ ".repeat(quote[0].split(">").length - 1));
    return { first: bar, further: bar, body: line.slice(quote[0].length) };
  }
  const item = ITEM.exec(line);
  if (item === null) return { first: "", further: "", body: line.trimStart() };
  const [whole, spaces = "", mark = "", box] = item;
  const sign = /^\d/.test(mark) ? mark : box === undefined ? "•" : box[1] === " " ? "☐" : "☑";
  const first = `${spaces}${sign} `;
  return { first, further: " ".repeat(cellsOf(first)), body: line.slice(whole.length) };
}

function headed(level: number, text: string, paint: Paint): string {
  return level <= 2 ? paint.bold(paint.underline(text)) : paint.bold(text);
}

/** A table in columns; as it is where the second row is no line, or it is wider than the screen. */
function tableLines(rows: readonly string[], { width, paint }: { width: number; paint: Paint }): readonly string[] {
  const cells = rows.map(cellsIn);
  const isTable = cells[1]?.every((cell) => /^:?-+:?$/.test(cell)) ?? false;
  if (!isTable) return rows;
  const said = cells.filter((_, index) => index !== 1).map((row) => row.map((cell) => looksOf(cell, paint)));
  const columns = Math.max(...said.map((row) => row.length));
  const widths = Array.from({ length: columns }, (_, at) => Math.max(1, ...said.map((row) => row[at]?.cells ?? 0)));
  const total = widths.reduce((sum, one) => sum + one + 3, 0);
  if (total > width) return asRecords(said, paint);
  const lineOf = (row: readonly Looks[], mark: (text: string) => string): string =>
    widths
      .map((cellsMax, at) => `${mark(row[at]?.text ?? "")}${" ".repeat(cellsMax - (row[at]?.cells ?? 0))}`)
      .join(paint.dim(" │ "))
      .trimEnd();
  const [head = [], ...body] = said;
  const rule = paint.dim(widths.map((one) => "─".repeat(one)).join("─┼─"));
  return [lineOf(head, paint.bold), rule, ...body.map((row) => lineOf(row, asItIs))];
}

interface Looks {
  readonly text: string;
  readonly cells: number;
}

/** A cell as it looks, and how wide that is. */
function looksOf(cell: string, paint: Paint): Looks {
  let shown = "";
  let bare = "";
  const line: WrappedText = {
    begin: () => {},
    add: (text, brush) => {
      shown += brush(text);
      bare += text;
    },
    breakLine: () => {},
    end: () => {},
  };
  addInline(cell, line, paint);
  return { text: shown, cells: cellsOf(bare) };
}

/** Where columns do not fit beside each other: each row as lines of its own, by the names of the columns. */
function asRecords([head = [], ...body]: readonly (readonly Looks[])[], paint: Paint): readonly string[] {
  return body.flatMap((row, index) => [
    ...(index === 0 ? [] : [paint.dim("─")]),
    ...row.map(({ text }, at) => `${paint.bold(head[at]?.text ?? "")}: ${text}`),
  ]);
}

function cellsIn(row: string): readonly string[] {
  const inner = row.trim().replace(/^\|/, "").replace(/\|$/, "");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}
