/** A generated page: where it comes from, its title, then its parts. */
export function page(title: string, source: string, parts: readonly string[]): string {
  const notice = `<!-- Generated from ${source} by \`npm run docs\`; edit that file, not this one. -->`;
  return `${[notice, `# ${title}`, ...parts].join("\n\n")}\n`;
}

export function code(text: string): string {
  return `\`${text}\``;
}

/** Columns are padded as the formatter pads them, or it would change what was generated. */
export function markdownTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = [head, ...rows].map((row) => row.map((cell) => cell.replaceAll("|", "\\|")));
  const widths = head.map((_, column) => Math.max(3, ...cells.map((row) => row[column]?.length ?? 0)));
  const lines = cells.map((row) => `| ${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(" | ")} |`);
  const rule = `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`;
  return [...lines.slice(0, 1), rule, ...lines.slice(1)].join("\n");
}
