import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { formatTable } from "./table.ts";

const folder = join(import.meta.dirname, "../packages/server/dist/console");
const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((file) => file.isFile());
const rows = files.map(({ parentPath, name }) => {
  const bytes = readFileSync(join(parentPath, name));
  return { name, bytes: bytes.length, gzipped: gzipSync(bytes).length };
});
const sum = (of: (row: (typeof rows)[number]) => number) => rows.reduce((total, row) => total + of(row), 0);
const total = { name: "all", bytes: sum(({ bytes }) => bytes), gzipped: sum(({ gzipped }) => gzipped) };

console.log("What a browser fetches to show the console, in bytes\n");
console.log(
  formatTable([
    ["file", "plain", "gzipped"],
    ...[...rows, total].map(({ name, bytes, gzipped }) => [name, String(bytes), String(gzipped)]),
  ]),
);
