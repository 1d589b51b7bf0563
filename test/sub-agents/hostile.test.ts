import type { AgentEvent } from "@rkat/core/contract/event";
import { createInMemoryStore, createRuntime, type RuntimeOptions } from "@rkat/core/create-runtime";
import type { Tool } from "@rkat/core/ports/tool";
import { describe, expect, it } from "vitest";
import { createPlanModel, handing, type Plan, planned } from "../support/plan-model.ts";
import { configWith } from "../support/runtime.ts";

function setUp(options: RuntimeOptions = {}) {
  const wiped: string[] = [];
  const wipe: Tool = {
    name: "wipe",
    description: "wipes",
    inputSchema: { type: "object" },
    execute: (_, { sessionId }) => {
      wiped.push(sessionId);
      return "wiped";
    },
  };
  const model = createPlanModel();
  const store = createInMemoryStore();
  const runtime = createRuntime({ model, store, env: process.env, toolPreset: "safe", tools: [wipe], ...options });
  const events: AgentEvent[] = [];
  const listener = ({ event }: { readonly event: AgentEvent }) => void events.push(event);
  const run = (plan: Plan, input: object = {}) =>
    runtime.dispatch("createSession", { prompt: planned(plan), enable_agents: true, ...input }, { listener });
  return { runtime, store, model, wiped, events, run };
}

describe("a model that would get around its bounds by sub-agents", () => {
  it("[O1] does not get around the hooks that its turn alone has", async () => {
    const runtime = { type: "command", command: "sh", args: ["-c", "echo not here >&2; exit 2"] };
    const guard = { id: "no-wipe", point: "pre_tool_execution", capability: "guardrail", tools: ["wipe"], runtime };
    const task = [{ calls: [{ name: "wipe" }] }, { text: "Wiped." }];
    const plan = [
      { calls: [{ name: "wipe" }, handing(task), handing([{ calls: [handing(task)] }])] },
      { text: "Done." },
    ];
    const made = setUp();
    await made.run(plan, { hooks_override: { entries: [{ ...guard, timeout_ms: 120_000 }] } });
    await made.runtime.close();
    expect(made.wiped).toEqual([]);
  });

  it("[O2] does not get around what its token may cost a day", async () => {
    // Each call costs 10 dollars; nobody knows what the other model costs.
    const config = configWith({ prices: { scripted: { input: 1_000_000, output: 0, as_of: "2026-03-01" } } });
    const scout = {
      name: "scout",
      description: "looks",
      prompt: "You look.",
      model: "nobody-knows",
      provider: "ollama",
    };
    const made = setUp({ config, subAgents: [scout] });
    const caller = { name: "web", scopes: new Set(["run"] as const), labels: {}, maxCostPerDay: 15 };
    const task = [{ text: "Said." }];
    const plan = [{ calls: [handing(task, { agent: "scout" })] }, { calls: [handing(task)] }, { text: "Done." }];
    const events: AgentEvent[] = [];
    const listener = ({ event }: { readonly event: AgentEvent }) => void events.push(event);
    await made.runtime.dispatch("createSession", { prompt: planned(plan), enable_agents: true }, { caller, listener });
    const results = events.flatMap((event) => (event.type === "tool_execution_completed" ? [event.result] : []));
    expect(results).toEqual([
      expect.stringMatching(/^budget_limits.max_cost: no price of ollama.nobody-knows is known/),
      expect.stringMatching(/^token web has spent the 15 dollars it may cost a day/),
    ]);
    expect((await made.store.sessions.page({ labels: { agent: "general" }, max: 1 })).length).toBe(0);
  });

  it("[O1] a fork of a sub-agent's session is whose who made it: no task, and not what people allowed the parent", async () => {
    const made = setUp();
    const { session_id: parent } = await made.run([{ calls: [handing([{ text: "Said." }])] }, { text: "Done." }], {
      labels: { team: "a" },
    });
    const [child] = await made.store.sessions.page({ labels: { parent }, max: 1 });
    const asked = { session_id: child?.session_id ?? "", message_index: 1 };
    const { session_id } = await made.runtime.dispatch("forkSession", asked);
    const [first] = await made.store.log.read(session_id, 1, 1);
    const settings = first?.body.kind === "session_created" ? first.body.settings : undefined;
    expect(settings).toMatchObject({ labels: { team: "a" } });
    expect(Object.keys(settings?.labels ?? {})).toEqual(["team"]);
    expect(settings).not.toHaveProperty("sub_agent");
    expect(await made.store.sessions.page({ labels: { parent }, max: 2 })).toHaveLength(1);
  });

  it("[O2] does not get around it either by a turn that waited for a person's word", async () => {
    const config = configWith({ prices: { scripted: { input: 1_000_000, output: 0, as_of: "2026-03-01" } } });
    const made = setUp({ config });
    const caller = { name: "web", scopes: new Set(["run"] as const), labels: {}, maxCostPerDay: 15 };
    const asked = Promise.withResolvers<Extract<AgentEvent, { type: "tool_approval_requested" }>>();
    const results: unknown[] = [];
    const listener = ({ event }: { readonly event: AgentEvent }) => {
      if (event.type === "tool_approval_requested") asked.resolve(event);
      if (event.type === "tool_execution_completed") results.push(event.result);
    };
    const plan = [{ calls: [{ name: "wipe" }] }, { calls: [handing([{ text: "Said." }])] }, { text: "Done." }];
    const input = { prompt: planned(plan), enable_agents: true, permissions: { ask: ["wipe"] } };
    const turn = made.runtime.dispatch("createSession", input, { caller, listener });
    const { session_id, approval_id } = await asked.promise;
    await made.runtime.dispatch("answerApproval", { session_id, approval_id, decision: "allow" });
    expect(await turn).toMatchObject({ text: "Done." });
    expect(results).toEqual(["wiped", expect.stringMatching(/^token web has spent the 15 dollars/)]);
  });
});
