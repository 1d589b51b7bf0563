import { describe, expect, it } from "vitest";
import { createPlanModel, handing, type Plan, planned } from "../../../../test/support/plan-model.ts";
import { configWith, listen } from "../../../../test/support/runtime.ts";
import { createVirtualClock } from "../../../../test/support/virtual-clock.ts";
import { grammarFaults } from "../compaction/grammar.ts";
import type { AgentEvent, AgentEventOf } from "../contract/event.ts";
import { createInMemoryStore, createRuntime, type RuntimeOptions } from "../create-runtime.ts";
import type { SubAgent } from "../ports/sub-agent.ts";
import type { Tool } from "../ports/tool.ts";

const LOOK: Tool = { name: "look", description: "look", inputSchema: { type: "object" }, execute: () => "a heron" };

function setUp(options: RuntimeOptions = {}) {
  const model = createPlanModel();
  const store = createInMemoryStore();
  const runtime = createRuntime({
    model,
    store,
    clock: createVirtualClock(),
    env: {},
    toolPreset: "safe",
    tools: [LOOK],
    ...options,
  });
  return { runtime, model, store };
}

type Made = ReturnType<typeof setUp>;

/** Runs a plan in a session that may hand out tasks. */
async function run({ runtime }: Made, plan: Plan, input: object = {}) {
  const events: AgentEvent[] = [];
  const listener = ({ event }: { event: AgentEvent }) => void events.push(event);
  const asked = { prompt: planned(plan), enable_agents: true, ...input };
  const result = await runtime.dispatch("createSession", asked, { listener });
  return { events, result, session_id: result.session_id };
}

const ofType = <T extends AgentEvent["type"]>(events: readonly AgentEvent[], type: T) =>
  events.filter((event): event is AgentEventOf<T> => event.type === type);
const results = (events: readonly AgentEvent[]) =>
  ofType(events, "tool_execution_completed").map(({ result }) => result);
const namesAt = ({ model }: Made, at: number) => model.requests[at]?.tools.map(({ name }) => name) ?? [];
const settingsOf = async ({ store }: Made, id: string) => {
  const [first] = await store.log.read(id, 1, 1);
  return first?.body.kind === "session_created" ? first.body.settings : undefined;
};

const childIn = async ({ store }: Made, parent: string) => {
  const [row] = await store.sessions.page({ labels: { parent }, max: 1 });
  return row?.session_id ?? "";
};

describe("the tool agent", () => {
  it("[O1] is there where a session asks for it, and for no session without tools", async () => {
    const made = setUp();
    const { runtime } = made;
    await run(made, [{ text: "hi" }], { enable_agents: undefined });
    await run(made, [{ text: "hi" }]);
    await run(made, [{ text: "hi" }], { tool_filter: { Deny: ["agent"] } });
    expect([0, 1, 2].map((at) => namesAt(made, at).includes("agent"))).toEqual([false, true, false]);
    const none = run(made, [{ text: "hi" }], { tool_preset: "none" });
    await expect(none).rejects.toMatchObject({ code: "INVALID_PARAMS", message: /^enable_agents: a session without/ });
    const closed = setUp({ ceiling: "none", toolPreset: "none" });
    const beyond = run(closed, [{ text: "hi" }]);
    await expect(beyond).rejects.toMatchObject({ code: "PERMISSION_DENIED", message: /^enable_agents: / });
    const mob = runtime.dispatch("createSession", { prompt: "x", enable_mob: true });
    await expect(mob).rejects.toMatchObject({ code: "CAPABILITY_UNAVAILABLE" });
    const off = await run(made, [{ text: "hi" }], { enable_agents: false, enable_mob: false });
    const on = {
      session_id: off.session_id,
      prompt: planned([{ text: "hi" }]),
      change_settings: { enable_agents: true },
    };
    await runtime.dispatch("startTurn", on);
    expect([3, 4].map((at) => namesAt(made, at).includes("agent"))).toEqual([false, true]);
    const again = { session_id: off.session_id, prompt: "[]", enable_agents: false };
    await expect(runtime.dispatch("startTurn", again)).rejects.toMatchObject({ code: "INVALID_PARAMS" });
  });

  it("[O1] runs a task in a session of its own and gives its report, with where the rest is", async () => {
    const made = setUp();
    const task = [{ calls: [{ name: "look" }] }, { text: "There is a heron." }];
    const { events, result, session_id } = await run(made, [{ calls: [handing(task)] }, { text: "Done." }], {
      labels: { team: "birds" },
      permissions: { deny: ["shell"] },
    });
    const [started] = ofType(events, "sub_agent_started");
    const child = started?.child_id ?? "";
    expect(results(events)).toEqual([
      `There is a heron.\n\n[sub-agent general, session ${child}, completed, 2 model calls, 30 tokens]`,
    ]);
    expect(result).toMatchObject({ text: "Done.", usage: { total_tokens: 30 }, tool_calls: 1 });
    expect(result).toMatchObject({ delegated: { usage: { input_tokens: 20, output_tokens: 10 }, tool_calls: 1 } });
    const call = { parent: session_id, parent_call: started?.call_id ?? "", agent: "general" };
    expect(await settingsOf(made, child)).toMatchObject({
      system_prompt: expect.stringMatching(/^You do one task/),
      labels: { team: "birds", ...call },
      permissions: { deny: ["shell"] },
      sub_agent: { ...call, depth: 1 },
    });
    // What the child was shown is its task, and nothing of its parent's.
    expect(made.model.requests[1]?.messages.map(({ role }) => role)).toEqual(["system", "user"]);
    const read = await made.runtime.dispatch("readSession", { session_id });
    expect(read).toMatchObject({ total_tokens: 30, delegated: { tool_calls: 1 } });
    const { total } = await made.runtime.dispatch("readUsage", { by: "model" });
    expect(total).toMatchObject({ calls: 4, usage: { input_tokens: 40, output_tokens: 20 } });
  });

  it("[O1] gives an agent its prompt, fewer tools and its own bounds, and never more than its parent has", async () => {
    const scout: SubAgent = {
      name: "scout",
      description: "looks around",
      prompt: "You look around.",
      tools: ["look", "shell", "datetime"],
      maxTurns: 1,
    };
    const made = setUp({ subAgents: [scout] });
    const plan = [{ calls: [handing([{ calls: [{ name: "look" }] }], { agent: "scout" })] }, { text: "Done." }];
    const { events } = await run(made, plan, { tool_filter: { Deny: ["datetime"] } });
    expect(namesAt(made, 1)).toEqual(["look"]);
    expect(made.model.requests[1]?.messages[0]).toMatchObject({ role: "system", content: "You look around." });
    expect(made.model.requests[0]?.tools.find(({ name }) => name === "agent")?.description).toMatch(
      /- general: .*\n- scout: looks around$/,
    );
    const child = ofType(events, "sub_agent_completed")[0];
    expect(child).toMatchObject({ status: "failed", agent: "scout", tool_calls: 1 });
    expect(results(events)[0]).toMatch(
      /^it stopped short: turn_limit_reached\n\n\[sub-agent scout, .* failed, 1 model call, 15 tokens\]$/,
    );
    expect(ofType(events, "tool_execution_completed")[0]).toMatchObject({ is_error: true });
  });

  it("[O1] lets a child begin with what its parent was shown, as any provider accepts it", async () => {
    const twin: SubAgent = { name: "twin", description: "knows all", prompt: "You are a twin.", inherit: "fork" };
    const made = setUp({ subAgents: [twin] });
    const plan = [
      { calls: [{ name: "look" }] },
      { text: "I ask.", calls: [handing([{ text: "I know." }], { agent: "twin" })] },
      { text: "Done." },
    ];
    await run(made, plan);
    const shown = made.model.requests[2]?.messages ?? [];
    expect(shown.map(({ role }) => role)).toEqual([
      "system",
      "user",
      "block_assistant",
      "tool_results",
      "block_assistant",
      "user",
    ]);
    expect(JSON.stringify(shown[3])).toContain("a heron");
    expect(grammarFaults(shown)).toEqual([]);
  });

  it("[O1] goes on with a child of the very session, and with no other", async () => {
    const made = setUp();
    const first = await run(made, [{ calls: [handing([{ text: "Begun." }])] }, { text: "Done." }]);
    const child = ofType(first.events, "sub_agent_started")[0]?.child_id ?? "";
    const other = await run(made, [
      { calls: [handing([{ text: "Mine." }], { session_id: child })] },
      { text: "Done." },
    ]);
    expect(results(other.events)).toEqual([`session_id: ${child} is no session of a task of this session`]);
    const on = [{ calls: [handing([{ text: "Further." }], { session_id: child })] }, { text: "Done." }];
    const { session_id } = first;
    await made.runtime.dispatch("startTurn", { session_id, prompt: planned(on) });
    const { messages } = await made.runtime.dispatch("readHistory", { session_id: child });
    expect(messages.map(({ role }) => role)).toEqual(["system", "user", "block_assistant", "user", "block_assistant"]);
    const read = await made.runtime.dispatch("readSession", { session_id });
    expect(read).toMatchObject({ delegated: { usage: { input_tokens: 20, output_tokens: 10 } } });
  });

  it("[O1] cuts a report that is too long, and says where all of it is", async () => {
    const made = setUp();
    const { events } = await run(made, [{ calls: [handing([{ text: "é".repeat(20_000) }])] }, { text: "Done." }]);
    const [result = ""] = results(events);
    expect(result).toMatch(
      /^é{8192}\n\[… 23616 of 40000 bytes left out here; the session has all of it …\]\n\n\[sub-agent/,
    );
  });

  it("[O1] holds a model that asks for more to depth, number and how many run at once", async () => {
    let [now, most] = [0, 0];
    const busy: Tool = {
      ...LOOK,
      name: "busy",
      execute: async () => {
        now += 1;
        most = Math.max(most, now);
        for (let round = 0; round < 20; round += 1) await new Promise((resolve) => setImmediate(resolve));
        now -= 1;
        return "";
      },
    };
    const made = setUp({ tools: [busy], config: configWith({ tools: { max_concurrent: 40 } }) });
    const leaf: Plan = [{ calls: [{ name: "busy" }] }, { text: "Leaf." }];
    const calls = Array.from({ length: 20 }, () => handing(leaf));
    const wide = await run(made, [{ calls }, { text: "Done." }]);
    expect(ofType(wide.events, "sub_agent_completed")).toHaveLength(16);
    expect(
      results(wide.events).filter((result) => result.startsWith("not run: a turn hands out 16 tasks")),
    ).toHaveLength(4);
    expect(most).toBe(4);
    const deep = handing([{ calls: [handing([{ calls: [handing(leaf)] }, { text: "Below." }])] }, { text: "Above." }]);
    const { events } = await run(made, [{ calls: [deep] }, { text: "Done." }]);
    const depths = ofType(events, "sub_agent_event").map(({ depth }) => depth);
    expect([...new Set(depths)].sort()).toEqual([1, 2]);
    const below = ofType(events, "sub_agent_event").filter(
      ({ depth, event }) => depth === 2 && event.type === "tool_execution_completed",
    );
    expect(below.map(({ event }) => event.result)).toEqual([expect.stringMatching(/^there is no tool "agent"/)]);
  });

  it("[O2] a session's budgets count what its sub-agents use, and a child has its share of what is left", async () => {
    const made = setUp();
    const plan = [
      { calls: [handing([{ calls: [{ name: "look" }] }, { text: "One." }])] },
      { calls: [handing([{ text: "Two." }])] },
      { text: "Done." },
    ];
    const limits = { max_tokens: 415, max_tool_calls: 9 };
    const { events, session_id } = await run(made, plan, { budget_limits: limits });
    const children = ofType(events, "sub_agent_started").map(({ child_id }) => child_id);
    const limitsOf = await Promise.all(children.map(async (id) => (await settingsOf(made, id))?.budget_limits));
    // A quarter of 415 less its own 15, and of the 9 calls less the one that asks; then less what was used since.
    expect(limitsOf).toEqual([
      { max_tokens: 100, max_tool_calls: 2 },
      { max_tokens: 88, max_tool_calls: 1 },
    ]);
    const { budgets } = await made.runtime.dispatch("readSession", { session_id });
    expect(budgets).toEqual([
      { type: "tokens", limit: 415, used: 90 },
      { type: "tool_calls", limit: 9, used: 3 },
    ]);
  });

  it("[O2] several that begin at once cannot use more than is left, and one for which nothing is left does not begin", async () => {
    const made = setUp();
    const spend: Plan = [...Array.from({ length: 50 }, () => ({ calls: [{ name: "look" }] })), { text: "Never." }];
    const calls = [1, 2, 3].map(() => handing(spend));
    const plan = [{ calls }, { calls: [handing(spend)] }, { text: "Done." }];
    const { result, events, session_id } = await run(made, plan, { budget_limits: { max_tokens: 135 } });
    // 120 were left for four: 30 each, which are two calls.
    expect(ofType(events, "sub_agent_completed").map(({ usage }) => usage.input_tokens + usage.output_tokens)).toEqual([
      30, 30, 30, 15,
    ]);
    expect(result).toMatchObject({ text: "", terminal_cause_kind: "budget_exhausted" });
    const poor = await run(made, [{ calls: [handing(spend)] }, { text: "Done." }], {
      budget_limits: { max_tokens: 18 },
    });
    expect(results(poor.events)).toEqual(["not run: the token budget of this session is exhausted"]);
    const { budgets } = await made.runtime.dispatch("readSession", { session_id });
    expect(budgets).toEqual([{ type: "tokens", limit: 135, used: 135 }]);
  });

  it("[O3] tells what happens in a child, no deltas and no more than can be read", async () => {
    const long_winded: SubAgent = { name: "long", description: "long", prompt: "You go on.", maxTurns: 400 };
    const made = setUp({ subAgents: [long_winded] });
    const long: Plan = [...Array.from({ length: 300 }, () => ({ calls: [{ name: "look" }] })), { text: ["Do", "ne."] }];
    const { events } = await run(made, [{ calls: [handing(long, { agent: "long" })] }, { text: "Done." }]);
    const reported = ofType(events, "sub_agent_event").map(({ event }) => event.type);
    expect(reported).toHaveLength(1_001);
    expect(reported.at(-1)).toBe("stream_truncated");
    expect(reported).not.toContain("text_delta");
    expect(ofType(events, "sub_agent_completed")).toHaveLength(1);
  });

  it("[O3] is interrupted with its parent, closes its own log, and can be gone on with", async () => {
    const hold: Tool = {
      ...LOOK,
      name: "hold",
      execute: (_, { signal }) =>
        new Promise<string>((resolve) => signal.addEventListener("abort", () => resolve("let go"))),
    };
    const made = setUp({ tools: [hold] });
    const { runtime, store } = made;
    const deep = handing([{ calls: [handing([{ calls: [{ name: "hold" }] }])] }]);
    const session = await runtime.createSession({ enableAgents: true });
    const stream = session.stream(planned([{ calls: [deep] }]));
    const received: AgentEvent[] = [];
    const ended = (async () => {
      for await (const event of stream) {
        received.push(event);
        const isHeld = event.type === "sub_agent_event" && event.event.name === "hold";
        if (isHeld && event.event.type === "tool_execution_started") await session.interrupt();
      }
    })();
    await expect(stream.result).rejects.toMatchObject({ code: "REQUEST_CANCELLED" });
    await ended;
    const [child] = ofType(received, "sub_agent_completed");
    expect(child).toMatchObject({
      status: "interrupted",
      usage: { input_tokens: 20, output_tokens: 10 },
      tool_calls: 2,
    });
    const { sessions } = await runtime.dispatch("listSessions", {});
    expect(sessions.map(({ state }) => state)).toEqual(["idle", "idle", "idle"]);
    const [result] = results(received);
    expect(result).toMatch(/^it was interrupted; agent with its session_id continues it\n\n\[sub-agent general/);
    const on = [{ calls: [handing([{ text: "Further." }], { session_id: child?.child_id ?? "" })] }, { text: "Done." }];
    const { events } = await listen(session.stream(planned(on)));
    expect(results(events)[0]).toMatch(/^Further\./);
    const kinds = (await store.log.read(session.id, 1, 100)).map(({ body }) => body.kind);
    expect(kinds.filter((kind) => kind.startsWith("child_"))).toEqual([
      "child_opened",
      "child_closed",
      "child_opened",
      "child_closed",
    ]);
  });

  it("[O3] a child that does not let go in time is left behind, named, and counted by the next turn", async () => {
    const released = Promise.withResolvers<string>();
    const stubborn: Tool = { ...LOOK, name: "stubborn", execute: () => released.promise };
    const made = setUp({ tools: [stubborn] });
    const session = await made.runtime.createSession({ enableAgents: true });
    const stream = session.stream(planned([{ calls: [handing([{ calls: [{ name: "stubborn" }] }])] }]));
    const received: AgentEvent[] = [];
    const ended = (async () => {
      for await (const event of stream) {
        received.push(event);
        const isHeld = event.type === "sub_agent_event" && event.event.type === "tool_execution_started";
        if (isHeld) await session.interrupt();
      }
    })();
    await expect(stream.result).rejects.toMatchObject({ code: "REQUEST_CANCELLED" });
    await ended;
    const child = ofType(received, "sub_agent_started")[0]?.child_id ?? "";
    expect(results(received)[0]).toContain(`session ${child}`);
    const { result } = await listen(session.stream(planned([{ text: "Back." }])));
    expect(result).toMatchObject({ text: "Back.", delegated: { usage: { inputTokens: 10, outputTokens: 5 } } });
    const read = await made.runtime.dispatch("readSession", { session_id: child });
    expect(read).toMatchObject({ state: "idle", total_tokens: 15 });
    released.resolve("at last");
  });

  it("[O3] waits for a person's word in its child, tells whoever listens to the parent, and goes on with the answer", async () => {
    const wipe: Tool = { ...LOOK, name: "wipe", needsApproval: true, execute: () => "wiped" };
    const made = setUp({ tools: [wipe] });
    const { runtime } = made;
    const session = await runtime.createSession({ enableAgents: true });
    const plan = [{ calls: [handing([{ calls: [{ name: "wipe" }] }, { text: "Wiped." }])] }, { text: "Done." }];
    const stream = session.stream(planned(plan));
    const received: AgentEvent[] = [];
    for await (const event of stream) {
      received.push(event);
      if (event.type !== "sub_agent_event" || event.event.type !== "tool_approval_requested") continue;
      const { approvals } = await runtime.listApprovals();
      expect(approvals).toMatchObject([{ sessionId: event.child_id, approvalId: event.event.approval_id }]);
      const { sessionId: session_id, approvalId: approval_id } = approvals[0] ?? { session_id: "", approval_id: "" };
      await runtime.dispatch("answerApproval", { session_id, approval_id, decision: "allow" });
    }
    expect((await stream.result).text).toBe("Done.");
    expect(results(received)[0]).toMatch(
      /^Wiped\.\n\n\[sub-agent general, session .*, completed, 2 model calls, 30 tokens\]$/,
    );
    const asked = { prompt: planned(plan), enable_agents: true };
    const alone = await runtime.dispatch("createSession", asked, { unattended: "nobody is here" });
    const { messages } = await runtime.dispatch("readHistory", { session_id: await childIn(made, alone.session_id) });
    expect(JSON.stringify(messages)).toContain("nobody is here");
  });

  it("[I2] [O3] ends with its parent's turn where the approver's answer cannot be used", async () => {
    const wipe: Tool = { ...LOOK, name: "wipe", needsApproval: true, execute: () => "wiped" };
    const { runtime } = setUp({ tools: [wipe] });
    const session = await runtime.createSession({ enableAgents: true });
    const plan = [{ calls: [handing([{ calls: [{ name: "wipe" }] }, { text: "Wiped." }])] }, { text: "Done." }];
    const turn = session.turn(planned(plan), { onApproval: async () => "yes" });
    await expect(turn).rejects.toMatchObject({ message: expect.stringMatching(/^onApproval returned yes: decision/) });
    expect((await runtime.listApprovals()).approvals).toEqual([]);
    expect(await session.turn(planned([{ text: "Back." }]))).toMatchObject({ text: "Back." });
  });
});
