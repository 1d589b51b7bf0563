import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRuntime } from "@rkat/core/create-runtime";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { describe, expect, it, onTestFinished } from "vitest";

const SUM = "export const sum = (a, b) => a - b;\n";
const MAX = "export const max = (a, b) => (a < b ? a : b);\n";
const TITLE = "export const title = (text) => text;\n";
const TEST = (name: string, call: string, value: string) =>
  `import assert from "node:assert";\nimport { test } from "node:test";\nimport { ${name} } from "../${name}.mjs";\ntest("${name}", () => assert.equal(${call}, ${value}));\n`;

/** A small repository with three failing tests, each of which one command mends. */
async function createRepository(): Promise<string> {
  const root = await mkdtemp(join(tmpdir(), "rkat-goal-"));
  onTestFinished(() => rm(root, { recursive: true, force: true }));
  await mkdir(join(root, "test"));
  const files = {
    "sum.mjs": SUM,
    "max.mjs": MAX,
    "title.mjs": TITLE,
    "test/sum.test.mjs": TEST("sum", "sum(2, 3)", "5"),
    "test/max.test.mjs": TEST("max", "max(2, 3)", "3"),
    "test/title.test.mjs": TEST("title", 'title("a")', '"A"'),
  };
  for (const [path, text] of Object.entries(files)) await writeFile(join(root, path), text);
  return root;
}

const FIXES = [
  "sed -i.bak 's/a - b/a + b/' sum.mjs",
  "sed -i.bak 's/a < b/a > b/' max.mjs",
  "sed -i.bak 's/=> text/=> text.toUpperCase()/' title.mjs",
];
const CHECK = { until: { command: "node --test test/*.test.mjs" } };

describe("a goal on a repository", () => {
  it("[Q3] is reached in three turns by a model that mends one failing test a turn, and then stops", async () => {
    const projectRoot = await createRepository();
    let turn = 0;
    const model = createScriptedModel(({ messages }) =>
      messages.at(-1)?.role === "tool_results"
        ? { text: "One test more passes." }
        : { calls: [{ name: "shell", args: { command: FIXES[turn++] } }] },
    );
    const runtime = createRuntime({ model, projectRoot, toolPreset: "full" });
    const session = await runtime.createSession();
    const { goal } = await session.turn("Make the tests pass.", { goal: CHECK });
    expect(goal).toMatchObject({ phase: "reached", turns: 3, reason: "exit code 0" });
    expect(model.requests).toHaveLength(6);
    expect(await readFile(join(projectRoot, "title.mjs"), "utf8")).toContain("toUpperCase");
    await runtime.close();
  }, 60_000);

  it("[Q3] stops a model that does nothing, and says so", async () => {
    const projectRoot = await createRepository();
    const model = createScriptedModel(() => ({ text: "All tests pass now." }));
    const runtime = createRuntime({ model, projectRoot, toolPreset: "full" });
    const session = await runtime.createSession();
    const { goal } = await session.turn("Make the tests pass.", { goal: CHECK });
    expect(goal).toMatchObject({ phase: "no_progress", turns: 3 });
    expect(goal?.reason).toBe("nothing has changed in 3 turns: exit code 1");
    await runtime.close();
  }, 60_000);
});
