import { describe, expect, it } from "vitest";
import { scriptedRuntime } from "../../test/support/runtime.ts";
import { createInMemoryStore } from "../runtime.ts";

const HISTORY = [
  { role: "user" as const, content: "Is the pond deep?" },
  { role: "assistant" as const, content: "Two metres." },
];
const CALL = { role: "assistant" as const, content: "", tool_calls: [{ id: "c1", name: "look", args: {} }] };

describe("a session that begins with a history", () => {
  it("[K1] shows the model what was said elsewhere, before its own first turn", async () => {
    const { runtime, model } = scriptedRuntime([{ text: "No." }]);
    await runtime.createSession("Is it wide?", { history: HISTORY, systemPrompt: "Be short." });
    expect(model.requests[0]?.messages).toMatchObject([
      { role: "system", content: "Be short." },
      { role: "user", content: "Is the pond deep?" },
      { role: "block_assistant", blocks: [{ data: { text: "Two metres." } }] },
      { role: "user", content: "Is it wide?" },
    ]);
  });

  it("[K1] takes the results of the calls it ends with", async () => {
    const { runtime, model } = scriptedRuntime([{ text: "A heron." }]);
    const history = [{ role: "user" as const, content: "Look." }, CALL];
    const { session_id } = await runtime.dispatch("createSession", { history, initial_turn: "deferred" });
    await runtime.session(session_id).turn("", { toolResults: [{ toolUseId: "c1", content: "a heron" }] });
    expect(model.requests[0]?.messages.at(-1)).toMatchObject({
      role: "tool_results",
      results: [{ content: "a heron" }],
    });
  });

  it("[K1] [H1] is refused in a sentence where no provider would take it, and nothing is made", async () => {
    const { runtime } = scriptedRuntime([], { store: createInMemoryStore() });
    const lost = { role: "tool_results" as const, results: [{ tool_use_id: "c9", content: "x", is_error: false }] };
    await expect(runtime.createSession("Hi.", { history: [...HISTORY, lost] })).rejects.toThrow(
      "history.2: no provider would take it",
    );
    const system = { role: "system" as const, content: "Be short." };
    await expect(runtime.createSession("Hi.", { history: [system] })).rejects.toThrow(
      "history.0: give the system message as systemPrompt",
    );
    expect(await runtime.listSessions()).toEqual([]);
  });
});

describe("a turn that names the event it follows", () => {
  it("[K1] runs where the session is there, and is refused where it has gone on", async () => {
    const { runtime } = scriptedRuntime([{ text: "One." }, { text: "Two." }], { store: createInMemoryStore() });
    const { id: session_id } = await runtime.createSession("1");
    const { cursor } = await runtime.dispatch("readEventCursor", { scope: { type: "session", session_id } });
    const turn = { session_id, prompt: "2", after_seq: cursor.sequence };
    expect(await runtime.dispatch("startTurn", turn)).toMatchObject({ text: "Two." });
    await expect(runtime.dispatch("startTurn", turn)).rejects.toMatchObject({ code: "SESSION_BUSY" });
    expect(await runtime.session(session_id).history()).toMatchObject({ message_count: 4 });
  });
});
