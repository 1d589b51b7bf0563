import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { runBlock } from "./support/run-block.ts";

const page = readFileSync(join(import.meta.dirname, "../docs/inbox.md"), "utf8");

const blocks = [...page.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(([, text]) => text);

describe("docs/inbox.md", () => {
  it("[Q1] has an example that runs as written", async () => {
    const { code, output } = await runBlock("ts", blocks[0] ?? "");
    expect(code, output).toBe(0);
    expect(output).toContain("both answered");
  }, 90_000);

  it("[Q3] has an example of a goal that runs as written", async () => {
    const { code, output } = await runBlock("ts", blocks[1] ?? "");
    expect(code, output).toBe(0);
    expect(output).toContain("reached after 1 turn");
  }, 90_000);
});
