/** Rows of text in aligned columns; the first row is the heading, and all columns but the first are numbers. */
export function formatTable(rows: readonly (readonly string[])[]): string {
  const [heading = []] = rows;
  const widths = heading.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const lines = rows.map((row) =>
    row
      .map((cell, column) => (column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0)))
      .join("  "),
  );
  const rule = widths.map((width) => "-".repeat(width)).join("  ");
  return [lines[0], rule, ...lines.slice(1)].join("\n");
}
