import { createInMemoryStore, createRuntime } from "@rkat/core/create-runtime";
import { describe, expect, it } from "vitest";
import { createPlanModel, handing, planned } from "../support/plan-model.ts";
import { createVirtualClock } from "../support/virtual-clock.ts";

async function setUp() {
  const model = createPlanModel();
  const clock = createVirtualClock();
  const runtime = createRuntime({
    model,
    store: createInMemoryStore(),
    memory: {},
    clock,
    env: {},
    toolPreset: "safe",
  });
  const task = [{ text: "The kingfisher nests under the old bridge." }];
  const prompt = planned([{ calls: [handing(task)] }, { text: "Done." }]);
  const { session_id } = await runtime.dispatch("createSession", { prompt, enable_agents: true });
  const { sessions } = await runtime.dispatch("listSessions", { labels: { parent: session_id } });
  return { runtime, session_id, child: sessions[0]?.session_id ?? "" };
}

describe("the session of a sub-agent", () => {
  it("[O1] is searched in the project as any session", async () => {
    const { runtime, child } = await setUp();
    const { results } = await runtime.dispatch("searchHistory", { query: "where does the kingfisher nest" });
    expect(results.map((hit) => hit.session_id)).toContain(child);
  });

  it("[O1] is seen by whoever sees its parent, and sees no more than that one does", async () => {
    const { runtime } = await setUp();
    const caller = { name: "red", scopes: new Set(["run", "read", "approve"] as const), labels: { team: "red" } };
    const prompt = planned([{ calls: [handing([{ text: "Found." }])] }, { text: "Done." }]);
    const { session_id } = await runtime.dispatch("createSession", { prompt, enable_agents: true }, { caller });
    const { sessions } = await runtime.dispatch("listSessions", { labels: { parent: session_id } }, { caller });
    expect(sessions).toMatchObject([{ labels: { team: "red", parent: session_id, agent: "general" } }]);
    const { groups } = await runtime.dispatch("readUsage", { by: "token" });
    // Two calls of the parent and one of the child.
    expect(groups.find(({ key }) => key === "red")).toMatchObject({ calls: 3 });
    const other = { ...caller, name: "blue", labels: { team: "blue" } };
    expect(await runtime.dispatch("listSessions", {}, { caller: other })).toMatchObject({ sessions: [] });
  });

  it("[O1] is forked, carried elsewhere and forgotten as any session, and so is its parent", async () => {
    const { runtime, session_id, child } = await setUp();
    for (const one of [session_id, child]) {
      const { message_count } = await runtime.dispatch("readHistory", { session_id: one });
      const fork = { session_id: one, message_index: message_count };
      expect(await runtime.dispatch("forkSession", fork)).toMatchObject({ message_count });
      const { entries, last_seq } = await runtime.dispatch("exportSession", { session_id: one });
      const elsewhere = createRuntime({ model: createPlanModel(), store: createInMemoryStore(), env: {} });
      const imported = await elsewhere.dispatch("importSession", { source_session_id: one, last_seq, entries });
      const next = { session_id: imported.session_id, prompt: planned([{ text: "Here." }]) };
      expect(await elsewhere.dispatch("startTurn", next)).toMatchObject({ text: "Here." });
    }
    await runtime.dispatch("forget", { query_exact: "kingfisher" });
    for (const one of [session_id, child]) {
      const { messages } = await runtime.dispatch("readHistory", { session_id: one });
      expect(JSON.stringify(messages)).not.toContain("kingfisher");
      const page = await runtime.dispatch("listEvents", {
        scope: { type: "session", session_id: one },
        limit: 100,
      });
      expect(JSON.stringify(page)).not.toContain("kingfisher");
    }
    const read = await runtime.dispatch("readSession", { session_id });
    expect(read).toMatchObject({ delegated: { usage: { input_tokens: 10, output_tokens: 5 } } });
  });

  it("[O1] [N3] is guarded by the hooks of the turn that hands out its task, and its beginning is told as any", async () => {
    const created: string[] = [];
    const runtime = createRuntime({
      model: createPlanModel(),
      store: createInMemoryStore(),
      env: process.env,
      toolPreset: "safe",
      hooks: [{ id: "made", point: "session_created", run: ({ session_id }) => void created.push(session_id) }],
    });
    const look = { id: "look", name: "datetime", args: {} };
    const task = [{ calls: [look] }, { text: "Looked." }];
    const prompt = planned([{ calls: [handing(task)] }, { text: "Done." }]);
    const answer = { decision: { decision: "deny", reason_code: "policy_violation", message: "not now" } };
    const entry = {
      id: "no-clock",
      point: "pre_tool_execution",
      capability: "guardrail",
      tools: ["datetime"],
      timeout_ms: 120_000,
      runtime: { type: "command", command: "echo", args: [JSON.stringify(answer)] },
    };
    const input = { prompt, enable_agents: true, hooks_override: { entries: [entry] } };
    const { session_id } = await runtime.dispatch("createSession", input);
    const { sessions } = await runtime.dispatch("listSessions", { labels: { parent: session_id } });
    const child = sessions[0]?.session_id ?? "";
    const { messages } = await runtime.dispatch("readHistory", { session_id: child });
    expect(JSON.stringify(messages)).toContain("denied by hook no-clock: not now");
    expect(created).toEqual([session_id, child]);
  });
});
