import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { runBlock } from "./support/run-block.ts";

const page = readFileSync(join(import.meta.dirname, "../docs/openai.md"), "utf8");
const openai = join(import.meta.dirname, "../node_modules/openai");

it("[K1] docs/openai.md: its quick start runs as written", async () => {
  const [sh = "", ts = ""] = [...page.matchAll(/^```(?:sh|ts)\n([\s\S]*?)^```$/gm)].map(([, block = ""]) => block);
  const client = `ln -s ${openai} node_modules/openai\ncat > client.ts <<'END'\n${ts}END\n`;
  const { code, output } = await runBlock("sh", `${client}${sh}node client.ts\n`);
  expect(code, output).toBe(0);
  expect(output).toContain('"object":"response"');
  expect(output).toContain("Ada");
}, 90_000);
