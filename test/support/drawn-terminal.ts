import stringWidth from "string-width";

/** What a terminal shows of what is written to it, with what has scrolled away. */
export interface DrawnTerminal {
  write(text: string): void;
  /** Its lines; those that it wrapped itself are one. */
  lines(): readonly string[];
  /** How many rows were wider than the terminal while it wrapped nothing. */
  cutRows(): number;
  cursor(): { readonly row: number; readonly column: number };
}

const ESCAPE = "\u001b";
const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" });

/** A terminal as far as a chat steers one: it writes, wraps, goes up and right, and clears below and to the right. */
export function createDrawnTerminal({
  columns,
  rows,
}: {
  readonly columns: number;
  readonly rows: number;
}): DrawnTerminal {
  let lines: Line[] = [newLine(false)];
  let [row, column] = [0, 0];
  let wraps = true;
  let cuts = 0;
  const top = (): number => Math.max(0, lines.length - rows);
  const breakLine = (isWrapped: boolean): void => {
    row += 1;
    if (row === lines.length) lines.push(newLine(isWrapped));
  };
  const put = (sign: string): void => {
    const width = stringWidth(sign);
    if (column + width > columns) {
      if (wraps) {
        breakLine(true);
        column = 0;
      } else {
        cuts += 1;
        column = columns - width;
      }
    }
    const cells = lines[row]?.cells ?? [];
    while (cells.length < column) cells.push(" ");
    cells.splice(column, width, sign, ...Array.from({ length: width - 1 }, () => ""));
    column += width;
  };
  const plain = (text: string): void => {
    for (const { segment } of graphemes.segment(text)) {
      if (segment.startsWith("\r")) column = 0;
      if (segment.endsWith("\n")) breakLine(false);
      else if (segment !== "\r") put(segment);
    }
  };
  const clearRight = (): void => {
    lines[row]?.cells.splice(column);
  };
  const steer = (name: string, by: string): void => {
    if (name === "A") row = Math.max(top(), row - Number(by || 1));
    else if (name === "C") column = Math.min(columns - 1, column + Number(by || 1));
    else if (name === "J") {
      clearRight();
      lines = lines.slice(0, row + 1);
    } else if (name === "K") clearRight();
    else if (by === "?7") wraps = name === "h";
  };
  return {
    write: (text) => {
      const [first = "", ...steered] = text.split(ESCAPE);
      plain(first);
      for (const part of steered) {
        const [whole = "", by = "", name = ""] = /^\[([?\d;]*)([A-Za-z])/.exec(part) ?? [];
        steer(name, by);
        // What is meant for the program around the terminal ends with a bell.
        plain(part.startsWith("]") ? part.slice(part.indexOf("\u0007") + 1) : part.slice(whole.length));
      }
    },
    lines: () => {
      const joined: string[] = [];
      for (const { cells, isWrapped } of lines) {
        if (isWrapped) joined.push(`${joined.pop() ?? ""}${cells.join("")}`);
        else joined.push(cells.join(""));
      }
      return joined;
    },
    cutRows: () => cuts,
    cursor: () => ({ row, column }),
  };
}

interface Line {
  readonly cells: string[];
  /** Whether it goes on with the one above. */
  readonly isWrapped: boolean;
}

function newLine(isWrapped: boolean): Line {
  return { cells: [], isWrapped };
}
