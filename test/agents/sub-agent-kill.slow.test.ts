import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import type { AgentEvent } from "@rkat/core/contract/event";
import { openRuntime, verifyStore } from "@rkat/node/open-runtime";
import { afterAll, describe, expect, it } from "vitest";
import { createRandom } from "../crash/random.ts";
import { byEffort } from "../support/effort.ts";
import { createPlanModel, handing, planned } from "../support/plan-model.ts";
import { testSeed } from "../support/seed.ts";
import { LOOK, WIPE } from "./handed-tree.ts";

const KILLS = byEffort({ usual: 8, full: 50 });
const TIMEOUT_MS = byEffort({ usual: 300_000, full: 3_000_000 });
const root = mkdtempSync(join(tmpdir(), "rkat-sub-agents-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const open = (stateFolder: string) =>
  openRuntime({ stateFolder, model: createPlanModel(), tools: [LOOK, WIPE], toolPreset: "safe", env: {} });
type Opened = Awaited<ReturnType<typeof open>>;

const env = { ...process.env, NODE_COMPILE_CACHE: join(root, "compiled") };
const start = (...words: readonly string[]) =>
  promisify(execFile)(process.execPath, [join(import.meta.dirname, "handing-process.ts"), ...words], { env });

/** Lets a process hand out tasks and kill itself at a call; how many calls it made where it was not killed. */
async function handOutAndDie(folder: string, dieAt: number, moment: string): Promise<number> {
  try {
    return Number((await start(folder, String(dieAt), moment)).stdout);
  } catch (error) {
    expect(error).toMatchObject({ signal: "SIGKILL" });
    return 0;
  }
}

/** What the budgets of a session say, and what all logs say that there are. */
async function sums(runtime: Opened, session_id: string) {
  const { sessions } = await runtime.dispatch("listSessions", {});
  const read = await Promise.all(sessions.map((one) => runtime.dispatch("readSession", one)));
  // Every log is readable from its first entry to its last.
  for (const one of sessions) await runtime.dispatch("readHistory", one);
  const budgets = read.find((one) => one.session_id === session_id)?.budgets ?? [];
  const used = (type: string) => budgets.find((budget) => budget.type === type)?.used;
  const callsOf = (one: (typeof read)[number]): number =>
    (one.budgets?.find(({ type }) => type === "tool_calls")?.used ?? 0) - (one.delegated?.tool_calls ?? 0);
  return {
    budget: { tokens: used("tokens"), calls: used("tool_calls") },
    logs: {
      tokens: read.reduce((sum, one) => sum + one.total_tokens, 0),
      calls: read.reduce((sum, one) => sum + callsOf(one), 0),
    },
    states: new Set(sessions.map(({ state }) => state)),
  };
}

describe("kill -9 of a process that hands out tasks", { timeout: TIMEOUT_MS }, () => {
  it(`[O2] at ${KILLS} of its calls: every log can be read and gone on with, and the budget is right to the token`, async () => {
    const seed = testSeed();
    const random = createRandom(seed);
    const calls = await handOutAndDie(join(root, "whole"), 0, "before");
    expect(calls).toBeGreaterThan(50);
    const met = { open: 0, resumed: 0 };
    for (let kill = 0; kill < KILLS; kill += 1) {
      const folder = join(root, `kill-${kill}`);
      const dieAt = 1 + Math.floor(random() * calls);
      const moment = random() < 0.5 ? "before" : "after";
      await handOutAndDie(folder, dieAt, moment);
      const reported = { seed, dieAt, moment };
      const runtime = await open(folder);
      const { sessions } = await runtime.dispatch("listSessions", { labels: { root: "1" } });
      const parent = sessions.find(({ labels }) => labels?.parent === undefined)?.session_id;
      if (parent === undefined) {
        await runtime.close();
        continue;
      }
      const before = await runtime.dispatch("readSession", { session_id: parent });
      const events: AgentEvent[] = [];
      const listener = ({ event }: { event: AgentEvent }) => void events.push(event);
      const next = { session_id: parent, prompt: planned([{ text: "Back." }]) };
      const { text } = await runtime.dispatch("startTurn", next, { listener });
      expect({ ...reported, text }).toEqual({ ...reported, text: "Back." });
      const after = await sums(runtime, parent);
      expect({ ...reported, ...after.budget }).toEqual({ ...reported, ...after.logs });
      const left = [...after.states].filter((state) => state !== "idle" && state !== "failed");
      expect({ ...reported, left }).toEqual({ ...reported, left: [] });
      const settled = events.flatMap((event) => (event.type === "sub_agent_completed" ? [event] : []));
      if (before.state === "interrupted" && settled.length > 0) met.open += 1;
      const [one] = settled;
      if (one !== undefined) {
        // The model was told where the task can be gone on with.
        const { messages } = await runtime.dispatch("readHistory", { session_id: parent });
        const named = `sub-agent general worked in session ${one.child_id}; call agent with this session_id to continue it`;
        expect({ ...reported, isNamed: JSON.stringify(messages).includes(named) }).toEqual({
          ...reported,
          isNamed: true,
        });
        const on = planned([
          { calls: [handing([{ text: "Further." }], { session_id: one.child_id })] },
          { text: "Over." },
        ]);
        const result = await runtime.dispatch("startTurn", { session_id: parent, prompt: on });
        expect({ ...reported, text: result.text }).toEqual({ ...reported, text: "Over." });
        const { messages: theirs } = await runtime.dispatch("readHistory", { session_id: one.child_id });
        expect(JSON.stringify(theirs.at(-1))).toContain("Further.");
        const last = await sums(runtime, parent);
        expect({ ...reported, ...last.budget }).toEqual({ ...reported, ...last.logs });
        met.resumed += 1;
      }
      await runtime.close();
      expect((await verifyStore(folder)).problems).toEqual([]);
      rmSync(folder, { recursive: true, force: true });
    }
    // Otherwise the kills have hit nothing that matters.
    expect({ seed, open: met.open > 0, resumed: met.resumed > 0 }).toEqual({ seed, open: true, resumed: true });
  });

  it("[O3] a question of a child is answered by another process, which goes on with it; the parent goes on here", async () => {
    const folder = join(root, "asking");
    const runtime = await open(folder);
    const task = [{ calls: [{ name: "wipe" }] }, { text: "Wiped." }];
    const session = await runtime.createSession({ enableAgents: true });
    const stream = session.stream(planned([{ calls: [handing(task)] }, { text: "Done." }]));
    const seen: AgentEvent[] = [];
    for await (const event of stream) {
      seen.push(event);
      if (event.type !== "sub_agent_event" || event.event.type !== "tool_approval_requested") continue;
      await start(folder, "0", "before", event.child_id, String(event.event.approval_id));
    }
    expect((await stream.result).text).toBe("Done.");
    const reported = seen.flatMap((event) => (event.type === "sub_agent_event" ? [event.event.type] : []));
    expect(reported).toContain("tool_approval_answered");
    expect(reported.at(-1)).toBe("run_completed");
    const result = seen.find((event) => event.type === "tool_execution_completed");
    expect(result).toMatchObject({ is_error: false, result: expect.stringMatching(/^Wiped\./) });
    const read = await runtime.dispatch("readSession", { session_id: session.id });
    expect(read).toMatchObject({ delegated: { usage: { input_tokens: 20, output_tokens: 10 }, tool_calls: 1 } });
    await runtime.close();
  });
});
