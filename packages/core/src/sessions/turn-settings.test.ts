import { describe, expect, it } from "vitest";
import { scriptedRuntime } from "../../../../test/support/runtime.ts";
import { createInMemoryStore } from "../create-runtime.ts";

const setUp = (...texts: readonly string[]) =>
  scriptedRuntime(
    texts.map((text) => ({ text })),
    { store: createInMemoryStore() },
  );

describe("what a turn changes outright", () => {
  it("[K1] other settings hold from then on, and null takes them away", async () => {
    const { runtime, model } = setUp("1.", "2.", "3.");
    const session = await runtime.createSession("A", { systemPrompt: "Be brief.", maxTokens: 9 });
    await session.turn("B", { changeSettings: { systemPrompt: "Be long.", maxTokens: 7 } });
    await session.turn("C", { changeSettings: { systemPrompt: null } });
    expect(model.requests.map(({ messages: [first], maxOutputTokens }) => [first?.role, maxOutputTokens])).toEqual([
      ["system", 9],
      ["system", 7],
      ["user", 7],
    ]);
    await expect(session.turn("D", { systemPrompt: "No." })).rejects.toThrow("Cannot override");
  });

  it("[K1] a turn after a seq is refused where something was said since", async () => {
    const { runtime } = setUp("1.", "2.");
    const session = await runtime.createSession("A");
    const { messages } = await session.history();
    const afterSeq = messages.at(-1)?.seq ?? 0;
    await session.turn("B", { afterSeq });
    await expect(session.turn("C", { afterSeq })).rejects.toThrow(/^afterSeq: session .* has gone on to \d+ since/);
    expect((await session.history()).messages).toHaveLength(4);
  });

  it("[K1] a session begins with what was said elsewhere, and refuses what no provider takes", async () => {
    const { runtime, model } = setUp("2.");
    const history = [
      { role: "user" as const, content: "A" },
      { role: "assistant" as const, content: "1." },
    ];
    await runtime.createSession("B", { history });
    expect(model.requests.at(0)?.messages.map(({ role }) => role)).toEqual(["user", "block_assistant", "user"]);
    const results = [{ tool_use_id: "x", content: "y", is_error: false }];
    const wrong = runtime.createSession("B", { history: [{ role: "tool_results", results }] });
    await expect(wrong).rejects.toThrow(/^history: message 0, tool_results: /);
    const system = runtime.createSession("B", { history: [{ role: "system", content: "Hi." }] });
    await expect(system).rejects.toThrow("history: write what the system says as systemPrompt");
    expect(await runtime.listSessions()).toHaveLength(1);
  });

  it("[K1] a history may use an id for a call of each answer: all but the newest go by another", async () => {
    const { runtime, model } = setUp("3.");
    const step = (answer: string) => [
      {
        role: "assistant" as const,
        content: answer,
        tool_calls: [{ id: "call_0", name: "look", args: { at: answer } }],
      },
      { role: "tool_results" as const, results: [{ tool_use_id: "call_0", content: answer, is_error: false }] },
    ];
    const history = [{ role: "user" as const, content: "A" }, ...step("1."), ...step("2.")];
    await runtime.createSession("B", { history });
    expect(model.requests.at(0)?.messages).toMatchObject([
      { role: "user" },
      { blocks: [{ data: { text: "1." } }, { data: { id: "call_0_1", args: { at: "1." } } }] },
      { results: [{ tool_use_id: "call_0_1", content: "1." }] },
      { blocks: [{ data: { text: "2." } }, { data: { id: "call_0", args: { at: "2." } } }] },
      { results: [{ tool_use_id: "call_0", content: "2." }] },
      { role: "user" },
    ]);
  });

  it("[K1] a history that only other providers would reject is taken", async () => {
    const { runtime } = setUp("2.");
    const session = await runtime.createSession("B", { history: [{ role: "assistant", content: "Hello." }] });
    expect((await session.history()).messages.map(({ role }) => role)).toEqual([
      "block_assistant",
      "user",
      "block_assistant",
    ]);
  });
});
