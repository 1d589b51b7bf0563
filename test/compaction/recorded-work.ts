import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { COMPACTION_PROMPT } from "@rkat/core/compaction/shown-messages";
import type { JsonObject } from "@rkat/core/contract/session";
import { createInMemoryStore } from "@rkat/core/create-runtime";
import type { Tool } from "@rkat/core/ports/tool";
import type { ScriptedStep } from "@rkat/core/providers/scripted";
import { type RecordedTurn, readRecordedLog, scriptOf } from "@rkat/core/replay/replay-script";
import { describe, expect, it } from "vitest";
import { scriptedRuntime } from "../support/runtime.ts";
import { expectedFrom } from "./expected-work.ts";

const FOLDER = join(import.meta.dirname, "../../bench/logs");
const TIMEOUT_MS = 1_800_000;

/** Work that the recorded logs lack: a ticket, a sub-agent, patches and tasks, in three languages. */
const MORE: readonly ((n: number) => { name: string; args: JsonObject })[] = [
  (n) => ({ name: "tickets__create_issue", args: { subject: `Zähle die Reiher am Ufer ${n % 40}` } }),
  (n) => ({ name: "agent", args: { agent: "otter", task: `川を数える ${n % 30}` } }),
  (n) => ({ name: "apply_patch", args: { path: `src/ufer-${n % 50}.ts` } }),
  (n) => ({ name: "task_create", args: { id: `${n % 25}`, subject: `葦を描く ${n % 25}` } }),
  (n) => ({
    name: "task_update",
    args: { id: `${(n * 3) % 25}`, subject: `葦を描く ${(n * 3) % 25}`, status: "completed" },
  }),
  (n) => ({ name: "shell", args: { command: `npm run prüfe-${n % 20}`, code: n % 3 } }),
];

const outputOf = (name: string, args: JsonObject, n: number): string => {
  if (name === "agent") return `The river was counted.\n\n[sub-agent otter, session s-${n}, 120 tokens, 2 tool calls]`;
  if (name === "apply_patch") return `M ${args.path}`;
  if (name === "shell") return JSON.stringify({ exit_code: args.code, stdout: "", stderr: "" });
  return JSON.stringify({ status: "pending", ...args });
};

/** Compacts each of the first recorded logs so many times, spread over its turns, and compares every work state. */
export function describeRecordedWork(logs: number, compactions: number): void {
  describe(`the state of the work of ${logs} recorded logs`, () => {
    for (const file of globSync("*.jsonl", { cwd: FOLDER }).sort().slice(0, logs)) {
      it(
        `[R1] equals an independent computation after each of ${compactions} chained compactions: ${file}`,
        () => compactRecorded(file, compactions),
        TIMEOUT_MS,
      );
    }
  });
}

async function compactRecorded(file: string, compactions: number): Promise<void> {
  const recorded = scriptOf(readRecordedLog(readFileSync(join(FOLDER, file), "utf8"), file), file);
  const turns = recorded.steps.flatMap((step) => (step.kind === "turn" ? [step.turn] : []));
  const steps: ScriptedStep[] = [];
  const outputs = new Map<string, { content: string; isError: boolean }>();
  const names = new Set([...recorded.tools, ...MORE.map((make) => make(0).name)]);
  const tools = [...names].map((name): Tool => {
    const execute: Tool["execute"] = (_, { toolUseId }) => outputs.get(toolUseId) ?? "";
    return { name, description: name, inputSchema: { type: "object" }, execute };
  });
  const store = createInMemoryStore();
  const { runtime } = scriptedRuntime(
    ({ messages }) => {
      const last = messages.at(-1);
      const isSummary = last?.role === "user" && String(last.content).startsWith(COMPACTION_PROMPT);
      return isSummary ? { text: "They worked." } : (steps.shift() ?? { text: "Done." });
    },
    { store, toolPreset: "none", tools, compaction: { recentTurnBudget: 1, workStateTokens: 600 } },
  );
  const session = await runtime.createSession("Begin.");
  const replay = async ({ prompt, answers }: RecordedTurn, at: number): Promise<void> => {
    for (const [index, { blocks, results }] of answers.entries()) {
      const calls = blocks.flatMap((block) => {
        if (block.block_type !== "tool_use") return [];
        const { id, name, args } = block.data;
        const { content = "", is_error = false } = results?.byId.get(id) ?? {};
        outputs.set(`${at}-${index}-${id}`, { content: String(content), isError: is_error });
        return [{ id: `${at}-${index}-${id}`, name, args }];
      });
      const text = blocks.flatMap((block) => (block.block_type === "text" ? [block.data.text] : [])).join("\n");
      steps.push({ ...(text === "" ? {} : { text }), ...(calls.length === 0 ? {} : { calls }) });
    }
    await session.turn(String(prompt));
  };
  for (let time = 0, done = 0; time < compactions; time += 1) {
    for (; done < ((time + 1) * turns.length) / compactions - 1e-9; done += 1) {
      const turn = turns[done];
      if (turn !== undefined) await replay(turn, done);
    }
    const { name, args } = MORE[time % MORE.length]?.(time) ?? { name: "", args: {} };
    outputs.set(`more-${time}`, { content: outputOf(name, args, time), isError: false });
    steps.push({ calls: [{ id: `more-${time}`, name, args }] });
    await session.turn(`Und weiter ${time}. ${"The heron stood in the reeds. ".repeat(30)}`.trim());
    await session.turn(`次は ${time}?`);
    expect(await session.compact()).toMatchObject({ compacted: true });
    const expected = expectedFrom(await store.log.read(session.id, 1, Number.MAX_SAFE_INTEGER));
    const { workState: work } = (await session.compactions()).at(-1) ?? {};
    const lines = work?.lines.map(({ text }) => text) ?? [];
    expect(lines.filter((line) => !expected.has(line))).toEqual([]);
    expect(lines.length + (work?.leftOut ?? 0)).toBe(expected.size);
    const { kinds } = await session.context();
    expect(kinds.find(({ kind }) => kind === "work_state")?.tokens).toBeLessThanOrEqual(600);
  }
  await runtime.close();
}
