import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { runBlock } from "./support/run-block.ts";

const page = readFileSync(join(import.meta.dirname, "../docs/ui-chat.md"), "utf8");
const ai = join(import.meta.dirname, "../node_modules/ai");

it("[K1] docs/ui-chat.md: its quick start runs as written", async () => {
  const [sh = "", ts = ""] = [...page.matchAll(/^```(?:sh|ts)\n([\s\S]*?)^```$/gm)].map(([, block = ""]) => block);
  const client = `ln -s ${ai} node_modules/ai\ncat > client.ts <<'END'\n${ts}END\n`;
  const { code, output } = await runBlock("sh", `${client}${sh}node client.ts\n`);
  expect(code, output).toBe(0);
  expect(output).toContain('data: {"type":"start"');
  expect(output).toMatch(/"text":"[^"]*Ada/);
}, 90_000);
