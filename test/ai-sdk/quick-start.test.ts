import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createCompaction } from "@rkat/core/ai-sdk";
import { generateText, isStepCount, wrapLanguageModel } from "ai";
import { expect, it } from "vitest";
import { batchReader, LOOP } from "./scripted-agent.ts";

const page = readFileSync(join(import.meta.dirname, "../../docs/ai-sdk.md"), "utf8");

it("[G9] docs/ai-sdk.md: its quick start runs as written", async () => {
  const code = /```ts\n([\s\S]*?)```/.exec(page)?.[1] ?? "";
  expect(code.match(/^import .*$/gm)).toEqual([
    'import { generateText, isStepCount, wrapLanguageModel } from "ai";',
    'import { createCompaction } from "rkat/ai-sdk";',
  ]);
  const said: string[] = [];
  const given = {
    generateText,
    isStepCount,
    wrapLanguageModel,
    createCompaction,
    model: batchReader(40).model,
    tools: LOOP.tools,
    console: { log: (line: string) => said.push(line) },
  };
  const run = new Function(...Object.keys(given), `return (async () => {${code.replaceAll(/^import .*$/gm, "")}})()`);
  await run(...Object.values(given));
  expect(said[0]).toMatch(/^\d+ → \d+ tokens, \d+ facts lost$/);
  expect(said.at(-1)).toBe("All batches are read.");
});
