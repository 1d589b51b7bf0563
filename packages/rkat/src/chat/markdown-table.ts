import { addInline, type Inks } from "./markdown-inline.ts";
import { cellsOf, createWrappedText, type Ink, inInk, NO_INK } from "./wrapped-text.ts";

/** A table that is drawn when it is known how wide its columns are. */
export interface Table {
  /** Takes a row; answers with those that are no table after all, which are shown as they are written. */
  add(row: string): readonly string[];
  end(): readonly string[];
}

export interface TableScreen {
  write(text: string): void;
  readonly width: number;
  readonly margin: string;
  readonly inks: Inks;
}

/** After so many rows, or so much text, the columns are as wide as they are: what follows is shown as it comes. */
const ROWS_MAX = 200;
const CHARS_MAX = 64_000;

interface Cell {
  readonly text: string;
  readonly shown: string;
  readonly cells: number;
}

interface Columns {
  readonly head: readonly Cell[];
  readonly widths: readonly number[];
  readonly isRight: readonly boolean[];
}

export function createTable(screen: TableScreen): Table {
  const { inks, margin } = screen;
  let rows: string[] = [];
  let chars = 0;
  let columns: Columns | undefined;
  let isFirst = true;
  const line = (text: string): void => screen.write(`${margin}${text.trimEnd()}\n`);
  const room = screen.width - cellsOf(margin);
  const draw = (row: readonly Cell[], { head, widths, isRight }: Columns): void => {
    const isFitting = row.every(({ cells }, at) => cells <= (widths[at] ?? 0));
    if (isFitting && widthOf(widths) <= room) line(inColumns(row, { widths, isRight, inks }));
    else {
      if (!isFirst) line(inInk("─", inks.tag));
      record(row, head);
    }
    isFirst = false;
  };
  /** Where columns do not fit beside each other: each cell on lines of its own, after the name of its column. */
  const record = (row: readonly Cell[], head: readonly Cell[]): void => {
    for (const [at, { text }] of row.entries()) {
      if (text === "") continue;
      const lines = createWrappedText({ write: screen.write, width: () => screen.width });
      lines.begin(margin, `${margin}  `);
      const name = head[at]?.text ?? "";
      const reading = { inks, before: "", isWhole: true, depth: 0 };
      if (name !== "") {
        addInline(name, lines, { ...reading, ink: inks.strong });
        lines.add(": ", NO_INK);
      }
      addInline(text, lines, { ...reading, ink: NO_INK });
      lines.end();
    }
  };
  const settle = (): void => {
    const [first = "", second = "", ...others] = rows;
    const read = (row: string): readonly Cell[] => cellsIn(row).map((cell) => cellOf(cell, inks, NO_INK));
    const head = cellsIn(first).map((cell) => cellOf(cell, inks, inks.strong));
    const body = others.map(read);
    const widths: number[] = [];
    for (const row of [head, ...body])
      for (const [at, { cells }] of row.entries()) widths[at] = Math.max(1, widths[at] ?? 0, cells);
    const isRight = cellsIn(second).map((cell) => /^-+:$/.test(cell));
    columns = { head, widths, isRight };
    rows = [];
    if (widthOf(widths) <= room) {
      line(inColumns(head, { widths, isRight, inks }));
      line(inInk(widths.map((one) => "─".repeat(one)).join("─┼─"), inks.tag));
    } else if (body.length === 0) record(head, []);
    for (const row of body) draw(row, columns);
  };
  return {
    add: (row) => {
      if (columns !== undefined) {
        draw(
          cellsIn(row).map((cell) => cellOf(cell, inks, NO_INK)),
          columns,
        );
        return [];
      }
      rows.push(row);
      chars += row.length;
      if (rows.length === 2 && !isLine(row)) return rows.splice(0);
      if (rows.length > ROWS_MAX || chars > CHARS_MAX) settle();
      return [];
    },
    end: () => {
      if (rows.length === 1) return rows.splice(0);
      if (rows.length > 0) settle();
      return [];
    },
  };
}

/** The row that says that those around it are a table. */
function isLine(row: string): boolean {
  return cellsIn(row).every((cell) => /^:?-+:?$/.test(cell));
}

function widthOf(widths: readonly number[]): number {
  return widths.reduce((sum, one) => sum + one + 3, -3);
}

function inColumns(
  row: readonly Cell[],
  { widths, isRight, inks }: { widths: readonly number[]; isRight: readonly boolean[]; inks: Inks },
): string {
  return widths
    .map((cellsMax, at) => {
      const { shown, cells } = row[at] ?? { shown: "", cells: 0 };
      const space = " ".repeat(cellsMax - cells);
      return isRight[at] === true ? space + shown : shown + space;
    })
    .join(inInk(" │ ", inks.tag));
}

/** A cell as it looks, and how wide that is. */
function cellOf(text: string, inks: Inks, ink: Ink): Cell {
  let shown = "";
  let cells = 0;
  const add = (part: string, own: Ink): void => {
    shown += inInk(part, own);
    cells += cellsOf(part);
  };
  addInline(text, { add, breakLine: () => add(" ", ink) }, { inks, ink, before: "", isWhole: true, depth: 0 });
  return { text, shown, cells };
}

function cellsIn(row: string): readonly string[] {
  const inner = row
    .trim()
    .replace(/^\|/, "")
    .replace(/(?<!\\)\|$/, "");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}
