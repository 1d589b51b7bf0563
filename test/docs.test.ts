import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { generatePages } from "../docs/generate.ts";

const docs = join(import.meta.dirname, "..", "docs");

describe("generated pages", () => {
  it.each(Object.entries(generatePages()))("docs/%s says what the contract says", async (name, generated) => {
    const onDisk = await readFile(join(docs, name), "utf8").catch(() => "");
    expect(onDisk === generated, `docs/${name} is out of date: run \`npm run docs\` and commit the result`).toBe(true);
  });
});

it("README.md quotes figures that docs/measured.md has", () => {
  const read = (path: string) => readFileSync(join(docs, "..", path), "utf8");
  const [, quoted = ""] = /^## Measured\n([\s\S]*?)^## /m.exec(read("README.md")) ?? [];
  const figures = quoted.match(/\d[\d.,]*(?:×|M\b)?|\d+ ms/g) ?? [];
  expect(figures.length).toBeGreaterThan(3);
  const table = read("docs/measured.md");
  expect(figures.filter((figure) => !table.includes(figure))).toEqual([]);
});
