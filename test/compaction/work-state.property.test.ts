import { COMPACTION_PROMPT } from "@rkat/core/compaction/shown-messages";
import type { Message } from "@rkat/core/contract/message";
import { createInMemoryStore } from "@rkat/core/create-runtime";
import type { Tool } from "@rkat/core/ports/tool";
import type { ScriptedStep } from "@rkat/core/providers/scripted";
import { describe, expect, it } from "vitest";
import { createRandom } from "../crash/random.ts";
import { byEffort } from "../support/effort.ts";
import { scriptedRuntime } from "../support/runtime.ts";
import { testSeed } from "../support/seed.ts";
import { below, pick } from "./chances.ts";
import { expectedFrom } from "./expected-work.ts";

const HISTORIES = byEffort({ quick: 4, usual: 20, full: 200 });
const COMPACTIONS = byEffort({ quick: 25, usual: 100, full: 100 });

const tool = (name: string, execute: Tool["execute"]): Tool => ({
  name,
  description: name,
  inputSchema: { type: "object" },
  execute,
});

/** Tools with the shapes of the built-in ones, and an editor and a shell of MCP servers. */
const TOOLS: readonly Tool[] = [
  tool("shell", ({ code = 0 }) => JSON.stringify({ exit_code: code, stdout: "Zeile – 行", stderr: "" })),
  tool("remote__run", ({ code = 0 }) => JSON.stringify({ exit_code: code })),
  tool("box__exec", ({ code = 0 }) => ({ content: "two herons", isError: code !== 0 })),
  tool("task_create", ({ id, subject }) => JSON.stringify({ id, subject, status: "pending" })),
  tool("task_update", ({ id, subject, status }) => JSON.stringify({ id, subject, status })),
  tool("apply_patch", ({ path }) => `M ${path}`),
  tool("files__write_file", () => "ok"),
  tool("read_file", () => "text"),
  tool("tickets__create_issue", ({ code = 0 }) => ({ content: "Ticket 7443", isError: code !== 0 })),
  tool("pager", () => "paged"),
  { ...tool("weather", () => "rain"), effects: "none" },
];

const isSummaryCall = (messages: readonly Message[]): boolean => {
  const last = messages.at(-1);
  return last?.role === "user" && String(last.content).startsWith(COMPACTION_PROMPT);
};

function open(steps: ScriptedStep[], compaction: object) {
  const store = createInMemoryStore();
  const opened = scriptedRuntime(
    ({ messages }) => (isSummaryCall(messages) ? { text: "They worked." } : (steps.shift() ?? { text: "Done." })),
    { store, toolPreset: "none", tools: TOOLS, compaction: { recentTurnBudget: 1, ...compaction } },
  );
  return { ...opened, store };
}

describe("the state of the work of any session", () => {
  it(`[R1] equals an independent computation from the log, within its bound: ${HISTORIES} histories, ${COMPACTIONS} compactions each`, async () => {
    const seed = testSeed();
    for (let history = 0; history < HISTORIES; history += 1) {
      const random = createRandom(seed + history);
      const steps: ScriptedStep[] = [];
      const { runtime, store } = open(steps, { workStateTokens: 600 });
      let ids = 0;
      const step = (): ScriptedStep => {
        ids += 1;
        const n = below(random, 30);
        const subject = `${pick(random, ["Count", "Zähle", "数一数"])} herons ${n}`;
        const made: { name: string; args: Record<string, unknown> } = pick(random, [
          { name: "shell", args: { command: `npm run "s${n}"`, code: below(random, 3) } },
          { name: "remote__run", args: { command: `make t${n}`, code: below(random, 2) } },
          { name: "box__exec", args: { command: `count ${n}`, code: below(random, 2) } },
          { name: "task_create", args: { id: `${n}`, subject } },
          { name: "task_update", args: { id: `${n}`, subject, status: pick(random, ["completed", "in_progress"]) } },
          { name: "apply_patch", args: { path: `src/ä${n}.ts` } },
          { name: "files__write_file", args: { path: `docs/${n}.md`, content: "x" } },
          { name: "read_file", args: { path: `docs/${n}.md` } },
          { name: "tickets__create_issue", args: { subject, ...(n % 3 === 0 ? { code: 1 } : {}) } },
          { name: "pager", args: { subject } },
          { name: "weather", args: { subject } },
        ]) ?? { name: "read_file", args: {} };
        return { calls: [{ id: `c${ids}`, ...made }] };
      };
      const session = await runtime.createSession("Begin.");
      for (let time = 0; time < COMPACTIONS; time += 1) {
        steps.push(...Array.from({ length: below(random, 4) }, step));
        await session.turn(`Go on ${time}. ${"The heron stood in the reeds. ".repeat(20)}`.trim());
        steps.push(...Array.from({ length: below(random, 2) }, step));
        await session.turn(`And ${time}.`);
        expect(await session.compact()).toMatchObject({ compacted: true });
        const expected = expectedFrom(await store.log.read(session.id, 1, Number.MAX_SAFE_INTEGER));
        const last = (await session.compactions()).at(-1);
        const lines = last?.workState?.lines.map(({ text }) => text) ?? [];
        const label = `seed ${seed + history}, compaction ${time}`;
        expect(
          lines.filter((line) => !expected.has(line)),
          label,
        ).toEqual([]);
        expect(lines.length + (last?.workState?.leftOut ?? 0), label).toBe(expected.size);
        const { kinds } = await session.context();
        expect(kinds.find(({ kind }) => kind === "work_state")?.tokens ?? 0, label).toBeLessThanOrEqual(600);
      }
      await runtime.close();
    }
  }, 600_000);
});

/** An agent that does the first of its tasks that it does not see as done, a task a turn. */
async function redone(compaction: object): Promise<number> {
  const tasks = Array.from({ length: 20 }, (_, at) => `npm run step-${at}`);
  const ran: string[] = [];
  let ids = 0;
  const seen = (messages: readonly Message[]): string => JSON.stringify(messages);
  const { runtime } = scriptedRuntime(
    ({ messages }) => {
      if (isSummaryCall(messages)) return { text: "Some steps were run." };
      if (messages.at(-1)?.role === "tool_results") return { text: "Done." };
      const next = tasks.find(
        (task) => !seen(messages).includes(`${task}\\"`) && !seen(messages).includes(`"${task}"`),
      );
      if (next === undefined) return { text: "All is done." };
      ran.push(next);
      ids += 1;
      return { calls: [{ id: `c${ids}`, name: "shell", args: { command: next, code: 0 } }] };
    },
    {
      store: createInMemoryStore(),
      toolPreset: "none",
      tools: TOOLS,
      compaction: { recentTurnBudget: 1, ...compaction },
    },
  );
  const session = await runtime.createSession("Do all steps.");
  for (let time = 0; time < 50; time += 1) {
    await session.turn(`Go on. ${"The heron stood in the reeds. ".repeat(20)}`);
    await session.compact();
  }
  await runtime.close();
  return ran.length - new Set(ran).size;
}

describe("an agent that redoes what it does not see as done", () => {
  it("[R1] redoes none of 20 tasks in 50 compactions, and most of its work with a summary alone", async () => {
    expect(await redone({ workStateTokens: 600 })).toBe(0);
    expect(await redone({ workStateTokens: 0 })).toBeGreaterThan(20);
  });
});
