import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Message } from "@rkat/core/contract/message";
import { createInMemoryStore, createRuntime } from "@rkat/core/create-runtime";
import type { ModelRequest } from "@rkat/core/ports/model";
import type { Tool } from "@rkat/core/ports/tool";
import { createScriptedModel, type ScriptedStep } from "@rkat/core/providers/scripted";
import { estimateTokens } from "@rkat/core/turn/tokens";
import { afterAll, describe, expect, it } from "vitest";

const WINDOW = 16_000;
const FILES = 40;
const LINES = 120;
const folder = mkdtempSync(join(tmpdir(), "rkat-forty-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
for (let file = 1; file <= FILES; file += 1) {
  const lines = Array.from({ length: LINES }, (_, line) => `line ${line} of a long file about herons`);
  writeFileSync(join(folder, `${file}.txt`), [...lines, `mark-${file}-${(file * 7_919) % 1_000}`].join("\n"));
}

const READ: Tool = {
  name: "read_file",
  description: "Reads a file.",
  inputSchema: { type: "object", properties: { file: { type: "number" } }, required: ["file"] },
  execute: ({ file }) => readFileSync(join(folder, `${Number(file)}.txt`), "utf8"),
};

const marksIn = (messages: readonly Message[]): readonly string[] => [
  ...new Set(
    messages
      .filter(({ role }) => role === "tool_results")
      .flatMap((one) => JSON.stringify(one).match(/mark-\d+-\d+/g) ?? []),
  ),
];

/** A model that reads a file after the other, unless it may hand them to others: then to three of them. */
function answer({ messages, tools }: ModelRequest): ScriptedStep {
  if (estimateTokens(messages) > WINDOW) {
    return { ends: { failure: { kind: "context_exceeded", message: `more than ${WINDOW} tokens` } } };
  }
  const asked = messages.findLast(({ role }) => role === "user");
  const [, from = 0, to = 0] = /files (\d+) to (\d+)/.exec(JSON.stringify(asked))?.map(Number) ?? [];
  const calls = messages.filter(({ role }) => role === "block_assistant").length;
  const mayHand = tools.some(({ name }) => name === "agent") && to - from + 1 === FILES;
  if (mayHand && calls === 0) {
    const ranges = [
      [1, 14],
      [15, 27],
      [28, 40],
    ] as const;
    return {
      calls: ranges.map(([a, b]) => ({ name: "agent", args: { task: `List the marks of files ${a} to ${b}.` } })),
    };
  }
  if (!mayHand && from + calls <= to) return { calls: [{ name: "read_file", args: { file: from + calls } }] };
  return { text: marksIn(messages).join(" ") };
}

function setUp() {
  const model = createScriptedModel(answer, { contextWindow: WINDOW });
  const runtime = createRuntime({ model, store: createInMemoryStore(), env: {}, toolPreset: "safe", tools: [READ] });
  return { model, runtime };
}

const PROMPT = `List the marks of files 1 to ${FILES}.`;

describe("a task over forty files", () => {
  it("[O1] overflows a window of 16,000 tokens alone, and is done by three sub-agents whose files its context never holds", async () => {
    const alone = setUp();
    const overflown = alone.runtime.dispatch("createSession", { prompt: PROMPT });
    await expect(overflown).rejects.toMatchObject({ code: "PROVIDER_ERROR", message: /more than 16000 tokens/ });
    const { model, runtime } = setUp();
    const { session_id, ...result } = await runtime.dispatch("createSession", { prompt: PROMPT, enable_agents: true });
    const expected = Array.from({ length: FILES }, (_, at) => `mark-${at + 1}-${((at + 1) * 7_919) % 1_000}`);
    expect(result).toMatchObject({
      text: expected.join(" "),
      turns: 2,
      tool_calls: 3,
      delegated: { tool_calls: FILES },
    });
    const context = await runtime.dispatch("readContext", { session_id });
    expect(JSON.stringify(context)).not.toContain("about herons");
    const own = model.requests.filter(({ messages }) => JSON.stringify(messages[0]).includes(PROMPT));
    const sizes = own.map(({ messages }) => estimateTokens(messages));
    expect(own).toHaveLength(2);
    expect(Math.max(...sizes)).toBeLessThan(1_500);
    const all = model.requests.map(({ messages }) => estimateTokens(messages));
    expect(Math.max(...all)).toBeGreaterThan(WINDOW / 2);
  });
});
