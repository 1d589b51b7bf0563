import { readdirSync, readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type Result, withResults } from "../bench/measured.ts";
import { filesOf, readKept } from "../bench/peers/page.ts";
import { PEERS } from "../bench/peers/peers.ts";
import { generatePages } from "../docs/generate.ts";
import { llmsFull, llmsIndex } from "../docs/llms.ts";

const docs = join(import.meta.dirname, "..", "docs");

describe("generated pages", () => {
  it.each(Object.entries(generatePages()))("docs/%s says what the contract says", async (name, generated) => {
    const onDisk = await readFile(join(docs, name), "utf8").catch(() => "");
    expect(onDisk === generated, `docs/${name} is out of date: run \`npm run docs\` and commit the result`).toBe(true);
  });
});

it("[V2] llms.txt names pages that exist, each with a note, and llms-full.txt has all of them", () => {
  const links = [...llmsIndex().matchAll(/^- \[(.+)\]\(docs\/([\w-]+\.md)\): (.*)$/gm)];
  expect(links.length).toBeGreaterThan(30);
  const full = llmsFull();
  for (const [, title = "", name = "", note = ""] of links) {
    expect(note, name).toMatch(/\w/);
    expect(readFileSync(join(docs, name), "utf8"), name).toContain(`# ${title}\n`);
    expect(full, name).toContain(`<!-- docs/${name} -->\n# ${title}\n`);
  }
  expect(full.match(/^<!-- docs\/.* -->$/gm)).toHaveLength(links.length);
  // It is shipped, and read by models.
  expect(Buffer.byteLength(full)).toBeLessThan(500_000);
});

it("README.md quotes figures that docs/measured.md has", () => {
  const read = (path: string) => readFileSync(join(docs, "..", path), "utf8");
  const [, quoted = ""] = /^## Measured\n([\s\S]*?)^## /m.exec(read("README.md")) ?? [];
  const figures = quoted.match(/\d[\d.,]*(?:×|M\b)?|\d+ ms/g) ?? [];
  expect(figures.length).toBeGreaterThan(3);
  const table = read("docs/measured.md");
  expect(figures.filter((figure) => !table.includes(figure))).toEqual([]);
});

it("docs/measured.md gets a section for each bench, and one that is there is replaced", () => {
  const machine = { node: "v24.0.0", arch: "arm64", cpus: 2, cpu: "N1" };
  const result = (name: string, value: number): Result => {
    return { name, at: "2026-11-18T10:00:00Z", commit: "abc1234", machine, targets: [{ what: "CPU", value, max: 2 }] };
  };
  const first = withResults("# Measured\n\nText.\n\n## Packages\n\nRows.\n", [result("load", 1.5)]);
  const page = withResults(first, [result("load", 1.25), result("start", 0.5)]);
  expect(page.match(/^## .*$/gm)).toEqual(["## Packages", "## load", "## start"]);
  expect(page).toContain("2026-11-18, commit abc1234, arm64, 2 × N1, Node v24.0.0.");
  expect(page).toMatch(/\| CPU +\| 1\.25 +\| ≤ 2\.00 +\|/);
  expect(page).not.toContain("1.50");
});

describe("[V1] the benchmarks beside other projects", () => {
  it("have a page and charts that are made of the kept result", async () => {
    const result = await readKept();
    const files = filesOf(result);
    for (const [path, text] of files) expect(readFileSync(join(docs, path), "utf8") === text, path).toBe(true);
    const page = files.get("compared-measured.md") ?? "";
    for (const { title, rows, missing, at } of result.tables) {
      expect(page).toContain(`## ${title}\n`);
      expect(page).toContain(at.slice(0, 10));
      for (const [name = ""] of [...rows, ...missing]) expect(page).toContain(name);
    }
    for (const { versions } of result.peers) expect(page).toContain(versions);
    const charts = [...files].filter(([path]) => path.endsWith(".svg"));
    expect(charts.length).toBeGreaterThan(0);
    for (const [path, text] of charts) expect(text, path).toContain("prefers-color-scheme:dark");
  });

  it("have a driver of the same shape for each project, with exact versions", () => {
    const drivers = join(docs, "../bench/peers/drivers");
    const names = readdirSync(drivers).filter((name) => !name.endsWith(".d.ts"));
    expect(names.sort()).toEqual(PEERS.map(({ name }) => `${name}.ts`).sort());
    for (const name of names) {
      // That it is what the type says is checked by the compiler.
      const exported = readFileSync(join(drivers, name), "utf8").match(/^export .*?=/gm);
      expect(exported, name).toEqual(["export const open: Open ="]);
    }
    const versions = PEERS.flatMap(({ packages }) => Object.values(packages));
    expect(versions.filter((version) => !/^\d+\.\d+\.\d+$/.test(version))).toEqual([]);
  });
});

it("a decision that was reversed names the later one that did", () => {
  for (const name of readdirSync(join(docs, "decisions"))) {
    const [, status] = /^Status: ([\s\S]*?)\n\n/m.exec(readFileSync(join(docs, "decisions", name), "utf8")) ?? [];
    if (status === undefined) continue;
    const [, later = ""] = /superseded\s+by \[(\d{4})\]\(\1-[\w-]+\.md\)/.exec(status) ?? [];
    expect({ name, isLater: later > name.slice(0, 4) }).toEqual({ name, isLater: true });
  }
});
