import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { runBlock } from "../support/run-block.ts";

const page = readFileSync(join(import.meta.dirname, "../../docs/acp.md"), "utf8");
const blocks = [...page.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].map(([, language = "", text = ""]) => ({
  language,
  text,
}));

describe("docs/acp.md", () => {
  it("[K1] the quick start runs as written and prints what it says", async () => {
    const [shell, printed, ...configurations] = blocks;
    const { code, output } = await runBlock("sh", shell?.text ?? "");
    expect(code, output).toBe(0);
    for (const line of printed?.text.trim().split("\n") ?? []) expect(output).toContain(line);
    expect([shell?.language, printed?.language]).toEqual(["sh", "text"]);
    const servers = configurations.map(({ text }) => JSON.parse(text).agent_servers.rkat);
    expect(servers).toEqual([
      { type: "custom", command: "rkat", args: ["acp"], env: {} },
      { command: expect.stringMatching(/^\/.*\/rkat$/), args: ["acp"], env: {} },
    ]);
  }, 90_000);
});
