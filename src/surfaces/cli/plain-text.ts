import { withoutControls } from "../wire/terminal-text.ts";

/** One line of at most so many characters, for places where more would bury the rest. */
export function oneLine(text: string, charsMax: number): string {
  // Only the beginning is looked at: a tool may answer with megabytes.
  const line = withoutControls(text.slice(0, charsMax * 4))
    .replace(/\s+/g, " ")
    .trim();
  return line.length <= charsMax ? line : `${line.slice(0, charsMax - 1)}…`;
}

/** Pads each column to its widest cell; the last one is left ragged. A cell is one line that steers no terminal. */
export function alignColumns(given: readonly (readonly string[])[]): readonly string[] {
  const rows = given.map((row) => row.map((cell) => withoutControls(cell).replace(/[\n\t]/g, " ")));
  const widths: number[] = [];
  for (const row of rows) for (const [column, cell] of row.entries()) widths[column] = widen(widths[column], cell);
  return rows.map((row) =>
    row
      .map((cell, column) => (column === row.length - 1 ? cell : cell.padEnd(widths[column] ?? 0)))
      .join("  ")
      .trimEnd(),
  );
}

function widen(width: number | undefined, cell: string): number {
  return Math.max(width ?? 0, cell.length);
}

const NUMBER = new Intl.NumberFormat("en");

/** `1048576` as `1,048,576`. */
export function grouped(count: number): string {
  return NUMBER.format(count);
}

/** `1 message`, `2 messages`, `3 memories`. */
export function counted(count: number, noun: string): string {
  const plural = noun.endsWith("y") ? `${noun.slice(0, -1)}ies` : `${noun}s`;
  return `${grouped(count)} ${count === 1 ? noun : plural}`;
}

const UNITS = ["bytes", "KB", "MB", "GB", "TB"];

/** `3145728` as `3.1 MB`. */
export function bytesText(bytes: number): string {
  const power = bytes < 1_000 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log10(bytes) / 3));
  return `${power === 0 ? bytes : (bytes / 1_000 ** power).toFixed(1)} ${UNITS[power]}`;
}
