import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { runBlock } from "./support/run-block.ts";

const page = readFileSync(join(import.meta.dirname, "../docs/inbox.md"), "utf8");

describe("docs/inbox.md", () => {
  const blocks = [...page.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(([, text = ""]) => text);

  it.each([
    ["[Q1] has an example of a busy session that runs as written", 0, "both answered"],
    ["[Q3] has an example of a goal that runs as written", 1, "reached after 1 turn"],
    ["[Q4] has an example of two sessions that runs as written", 2, "bob reviews code\npeer_message_sent by ada"],
  ])("%s", { timeout: 90_000 }, async (_, at, expected) => {
    const { code, output } = await runBlock("ts", blocks[at] ?? "");
    expect(code, output).toBe(0);
    expect(output).toContain(expected);
  });
});
