import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { runBlock } from "./support/run-block.ts";

interface Section {
  readonly title: string;
  readonly blocks: readonly { readonly language: string; readonly text: string }[];
}

const page = readFileSync(join(import.meta.dirname, "../docs/quick-start.md"), "utf8");
const sections: readonly Section[] = page
  .split(/^## /m)
  .slice(1)
  .map((text) => ({
    title: text.slice(0, text.indexOf("\n")),
    blocks: [...text.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].map(([, language = "", block = ""]) => ({
      language,
      text: block,
    })),
  }));

describe("docs/quick-start.md", () => {
  it("[G5] [G6] has a block for every way in", () => {
    const languages = sections.map(({ blocks }) => blocks[0]?.language);
    expect(languages).toEqual(["sh", "ts", "sh", "sh", "sh", "ts", "python"]);
  });

  it.each(sections)(
    "[G5] [G6] $title: runs as written and prints what it says",
    async ({ blocks }) => {
      const [block, printed] = blocks;
      const { code, output } = await runBlock(block?.language ?? "", block?.text ?? "");
      expect(code, output).toBe(0);
      for (const line of printed?.text.trim().split("\n") ?? []) expect(output).toContain(line);
      expect(printed?.language).toBe("text");
    },
    90_000,
  );
});

describe.each([
  ["[S3] docs/sdk.md", "sdk.md"],
  ["[V2] docs/cookbook.md", "cookbook.md"],
])("%s", (_title, name) => {
  const text = readFileSync(join(import.meta.dirname, "../docs", name), "utf8");
  const programs = [
    ...text.matchAll(/^## (.*)\n(?:(?!^## )[\s\S])*?^```ts\n([\s\S]*?)^```\n+```text\n([\s\S]*?)^```$/gm),
  ];

  it("has programs that say what they print", () => {
    expect(programs).toHaveLength(text.match(/^```ts$/gm)?.length ?? 0);
  });

  it.each(programs.map(([, title = "", ts = "", printed = ""]) => ({ title, ts, printed })))(
    "$title: runs as written and prints what it says",
    async ({ ts, printed }) => {
      expect(await runBlock("ts", ts)).toEqual({ code: 0, output: printed });
    },
    90_000,
  );
});

it("[I1] docs/permissions.md: its example of onApproval runs as written and prints what it says", async () => {
  const permissions = readFileSync(join(import.meta.dirname, "../docs/permissions.md"), "utf8");
  const [, ts = "", printed = ""] = /^```ts\n([\s\S]*?)^```\n+```text\n([\s\S]*?)^```$/m.exec(permissions) ?? [];
  expect(await runBlock("ts", ts)).toEqual({ code: 0, output: printed });
});

it("[G5] README.md: the commands that need no key run without one, and print what they found", async () => {
  const readme = readFileSync(join(import.meta.dirname, "../README.md"), "utf8");
  const [, sh = ""] = /^Without a key.*\n\n```sh\n([\s\S]*?)^```$/m.exec(readme) ?? [];
  // The command is on the path here, and npx takes longer than it.
  const { code, output } = await runBlock("sh", `unset RKAT_MODEL\n${sh.replaceAll("npx ", "")}`);
  expect(code, output).toBe(0);
  for (const found of ["Noted: the staging port is 4711", "4711”", "The staging port is", "ada has 1 memory"]) {
    expect(output).toContain(found);
  }
}, 90_000);

it("[V2] docs/tutorial.md: its commands run as written once rkat is installed, and say what the page says", async () => {
  const tutorial = readFileSync(join(import.meta.dirname, "../docs/tutorial.md"), "utf8");
  const blocks = [...tutorial.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, sh = ""]) => sh);
  const [talk = "", look = ""] = blocks;
  const sh = `${talk.slice(talk.indexOf("export "))}${look}`.replaceAll("npx ", "");
  const { code, output } = await runBlock("sh", sh);
  expect(code, output).toBe(0);
  for (const found of ["4711", "Not compacted: nothing to remove", "The staging port is"])
    expect(output).toContain(found);
}, 90_000);
