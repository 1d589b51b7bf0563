import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { runBlock } from "./support/run-block.ts";

const page = readFileSync(join(import.meta.dirname, "../docs/inbox.md"), "utf8");

describe("docs/inbox.md", () => {
  it("[Q1] has an example that runs as written", async () => {
    const [, text = ""] = /^```ts\n([\s\S]*?)^```$/m.exec(page) ?? [];
    const { code, output } = await runBlock("ts", text);
    expect(code, output).toBe(0);
    expect(output).toContain("both answered");
  }, 90_000);
});
