import { describe, expect, it } from "vitest";
import { listen, scriptedRuntime, typesOf } from "../../../../test/support/runtime.ts";
import { createInMemoryStore, type RuntimeOptions } from "../create-runtime.ts";
import type { Tool } from "../ports/tool.ts";
import type { ScriptedStep } from "../providers/scripted.ts";

const LOOK = { name: "look", description: "Looks.", inputSchema: { type: "object" } };
const BOTH: ScriptedStep = {
  text: "I look and count.",
  calls: [
    { id: "c1", name: "look", args: { at: "pond" } },
    { id: "c2", name: "count", args: {} },
    { id: "c3", name: "look", args: { at: "reeds" } },
  ],
};
const ONE: ScriptedStep = { calls: [{ id: "c1", name: "look", args: { at: "pond" } }] };

/** A runtime with a tool of its own that remembers how often it ran. */
function setUp(steps: ScriptedStep[], options: RuntimeOptions = {}) {
  let counted = 0;
  const count: Tool = {
    name: "count",
    description: "Counts.",
    inputSchema: { type: "object" },
    execute: () => `counted ${++counted}`,
  };
  const store = createInMemoryStore();
  const one = scriptedRuntime(steps, { store, tools: [count], ...options });
  return { ...one, store, counted: () => counted };
}

const roles = (messages: readonly { role: string }[]) => messages.map(({ role }) => role);
const answer = (toolUseId: string, content: string) => ({ toolUseId, content });

describe("tools that whoever asks runs", () => {
  it("[K1] end the turn with their calls, and a turn with the results goes on", async () => {
    const { runtime, model } = setUp([BOTH, { text: "Two herons." }]);
    const stream = runtime.createSessionStreaming("Look.", { clientTools: [LOOK] });
    const { events, result } = await listen(stream);
    expect(result).toMatchObject({
      text: "I look and count.",
      pendingCalls: [
        { id: "c1", name: "look", args: { at: "pond" } },
        { id: "c3", name: "look", args: { at: "reeds" } },
      ],
    });
    expect(events.at(-1)).toMatchObject({ type: "run_completed", pending_calls: ["c1", "c3"] });
    const session = runtime.session(result?.sessionId ?? "");
    expect(await session.read()).toMatchObject({ state: "idle" });
    const toolResults = [answer("c3", "a second heron"), answer("c1", "a heron")];
    const further = await listen(session.stream("", { toolResults }));
    expect(further.result).toMatchObject({ text: "Two herons.", turns: 1, toolCalls: 2 });
    expect(further.result?.pendingCalls).toBeUndefined();
    expect(typesOf(further.events).slice(0, 2)).toEqual(["run_started", "tool_execution_completed"]);
    // In the order of the calls, each once, whoever ran it.
    expect(model.requests.at(-1)?.messages.at(-1)).toMatchObject({
      role: "tool_results",
      results: [
        { tool_use_id: "c1", content: "a heron", is_error: false },
        { tool_use_id: "c2", content: "counted 1", is_error: false },
        { tool_use_id: "c3", content: "a second heron", is_error: false },
      ],
    });
    expect(model.requests.at(-1)?.tools.map(({ name }) => name)).toEqual(["count", "look"]);
  });

  it("[K1] the user may say something to the results", async () => {
    const { runtime, model } = setUp([ONE, { text: "Yes." }]);
    const session = await runtime.createSession("Look.", { clientTools: [LOOK] });
    await session.turn("Is it large?", { toolResults: [answer("c1", "a heron")] });
    const { messages = [] } = model.requests.at(-1) ?? {};
    expect(roles(messages).slice(-3)).toEqual(["block_assistant", "tool_results", "user"]);
  });

  it("[K1] a session that goes on without results tells the model so, and keeps what ran here", async () => {
    const { runtime, model, counted } = setUp([BOTH, { text: "Then not." }]);
    const session = await runtime.createSession("Look.", { clientTools: [LOOK] });
    await session.turn("Never mind.");
    const sentence = "no result: the caller continued without one";
    expect(model.requests.at(-1)?.messages.at(-2)).toMatchObject({
      results: [{ content: sentence, is_error: true }, { content: "counted 1" }, { content: sentence, is_error: true }],
    });
    expect(counted()).toBe(1);
  });

  it("[K1] [F1] any process goes on, with the tools of before or with others", async () => {
    const { runtime, store } = setUp([BOTH]);
    const { id } = await runtime.createSession("Look.", { clientTools: [LOOK] });
    await runtime.close();
    const later = scriptedRuntime([ONE, { text: "Three." }], { store });
    const session = later.runtime.session(id);
    const again = await session.turn("", { toolResults: [answer("c1", "a heron"), answer("c3", "another")] });
    expect(again.pendingCalls).toEqual([{ id: "c1", name: "look", args: { at: "pond" } }]);
    const clientTools = [{ ...LOOK, name: "hear" }];
    await session.turn("", { toolResults: [answer("c1", "a third")], clientTools });
    expect(later.model.requests.map(({ tools }) => tools.map(({ name }) => name))).toEqual([["look"], ["hear"]]);
  });

  it("[K1] a fork of what ends with calls goes on with their results", async () => {
    const { runtime } = setUp([ONE, { text: "A heron." }]);
    const session = await runtime.createSession("Look.", { clientTools: [LOOK] });
    const fork = await session.fork(2);
    expect(await fork.turn("", { toolResults: [answer("c1", "a heron")] })).toMatchObject({ text: "A heron." });
  });

  it("[K1] [H1] results that are not the ones that wait are refused, and nothing happens", async () => {
    const { runtime } = setUp([BOTH, { text: "Done." }]);
    const session = await runtime.createSession("Look.", { clientTools: [LOOK] });
    const refused = async (...ids: readonly string[]) =>
      expect(session.turn("", { toolResults: ids.map((id) => answer(id, "x")) })).rejects;
    await (await refused("c1")).toThrow("toolResults: give those of all calls that wait at once; c3 is missing");
    await (await refused("c1", "c2", "c3")).toThrow("toolResults: no call c2 waits for a result, or it is there twice");
    await (await refused("c1", "c1")).toThrow("toolResults: no call c1 waits for a result, or it is there twice");
    await expect(session.turn("", { toolResults: [] })).rejects.toThrow("give the result of every call that waits");
    await expect(session.turn("")).rejects.toThrow("prompt: the prompt is empty");
    await session.turn("", { toolResults: [answer("c1", "x"), answer("c3", "y")] });
    await (await refused("c1", "c3")).toThrow("toolResults: no call of this session waits for a result");
  });

  it("[K1] what would come between a call and its result waits or is refused", async () => {
    const { runtime, model } = setUp([ONE, { text: "Done." }], { compaction: true });
    const session = await runtime.createSession("Look.", { clientTools: [LOOK] });
    const busy = "waits for the results of look; send them, or continue with a prompt";
    await expect(session.compact()).rejects.toThrow(busy);
    await expect(session.rewrite({ start: 0, end: 1 }, [{ role: "user", content: "Hear." }])).rejects.toThrow(busy);
    await session.inject("It is noon.");
    await session.turn("", { toolResults: [answer("c1", "a heron")] });
    expect(roles(model.requests.at(-1)?.messages ?? [])).toEqual([
      "user",
      "block_assistant",
      "tool_results",
      "system_notice",
    ]);
  });

  it("[K1] [B1] their calls count, and beyond the budget none is handed out", async () => {
    const { runtime } = setUp([BOTH, { text: "Only one." }]);
    const limits = { budgetLimits: { maxToolCalls: 1 } };
    const session = await runtime.createSession("Look.", { clientTools: [LOOK], ...limits });
    expect(session.lastResult?.pendingCalls).toHaveLength(1);
    const { toolCalls: tool_calls } = await session.turn("", { toolResults: [answer("c1", "a heron")] });
    expect(tool_calls).toBe(1);
    const { messages } = await session.history();
    const spent = "not run: the tool call budget of this session is exhausted";
    expect(messages.at(-1)).toMatchObject({
      results: [{ content: "a heron" }, { content: spent }, { content: spent }],
    });
  });

  it.each([
    [[{ ...LOOK, name: "" }], "clientTools.0.name"],
    [[LOOK, LOOK], "clientTools: two tools have the same name; rename one"],
    [[{ ...LOOK, inputSchema: { type: 7 } }], "the input schema of tool look is not a usable JSON schema"],
  ])("[K1] [H1] tools that cannot be offered are refused in a sentence", async (clientTools, sentence) => {
    const { runtime } = setUp([{ text: "Hi." }]);
    await expect(runtime.createSession("Look.", { clientTools })).rejects.toThrow(sentence);
    expect(await runtime.listSessions()).toEqual([]);
  });
});
