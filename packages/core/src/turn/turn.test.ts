import { describe, expect, it } from "vitest";
import { listen, scriptedRuntime, typesOf } from "../../../../test/support/runtime.ts";
import { AgentEvent } from "../contract/event.ts";
import { createInMemoryStore } from "../create-runtime.ts";
import type { Tool } from "../ports/tool.ts";

const echo: Tool = {
  name: "echo",
  description: "Says it back.",
  inputSchema: { type: "object", properties: { say: { type: "string" } }, required: ["say"] },
  execute: ({ say }) => String(say),
};

describe("a turn", () => {
  it("[A1] asks, runs the tools, asks again, and ends when the model stops", async () => {
    const { runtime, model } = scriptedRuntime(
      [{ calls: [{ name: "echo", args: { say: "hi" } }] }, { text: "It said hi." }],
      { tools: [echo] },
    );
    const session = await runtime.createSession("Say hi.");
    expect(session.lastResult).toEqual({
      sessionId: session.id,
      text: "It said hi.",
      turns: 2,
      toolCalls: 1,
      usage: { inputTokens: 20, outputTokens: 10, totalTokens: 30 },
    });
    expect(model.requests[1]?.messages.map((message) => message.role)).toEqual([
      "user",
      "block_assistant",
      "tool_results",
    ]);
  });

  it("[A1] runs calls of one answer at the same time and appends results in request order", async () => {
    const arrivals: string[] = [];
    const both = Promise.withResolvers<void>();
    const meet: Tool = {
      name: "meet",
      description: "Waits until both are here.",
      inputSchema: { type: "object" },
      execute: async ({ who }) => {
        if (arrivals.push(String(who)) === 2) both.resolve();
        await both.promise;
        return String(who);
      },
    };
    const { runtime, model } = scriptedRuntime(
      [
        {
          calls: [
            { name: "meet", args: { who: "first" } },
            { name: "meet", args: { who: "second" } },
          ],
        },
        { text: "met" },
      ],
      { tools: [meet] },
    );
    await runtime.createSession("Meet.");
    const results = model.requests[1]?.messages.at(-1);
    expect(results).toMatchObject({ role: "tool_results", results: [{ content: "first" }, { content: "second" }] });
  });

  it("[A1] stops after max_turns model calls with its cause, and the session goes on", async () => {
    const { runtime } = scriptedRuntime(
      (_, index) => (index < 3 ? { text: "again", calls: [{ name: "echo", args: { say: "x" } }] } : { text: "done" }),
      { tools: [echo] },
    );
    const session = await runtime.createSession("Loop.", { maxTurns: 3 });
    expect(session.lastResult).toMatchObject({
      terminalCauseKind: "turn_limit_reached",
      turns: 3,
      toolCalls: 3,
      text: "again",
    });
    expect((await session.turn("And now?")).text).toBe("done");
  });

  it("[A2] tells its events in the order of the contract, each fitting its schema", async () => {
    const { runtime } = scriptedRuntime(
      [
        { reasoning: { text: "hm" }, text: ["Let me ", "see."], calls: [{ name: "echo", args: { say: "hi" } }] },
        { text: "Done." },
      ],
      { tools: [echo] },
    );
    const { events } = await listen(runtime.createSessionStreaming("Go."));
    expect(typesOf(events)).toEqual([
      "run_started",
      "turn_started",
      "reasoning_delta",
      "text_delta",
      "text_delta",
      "reasoning_complete",
      "text_complete",
      "tool_call_requested",
      "tool_execution_started",
      "tool_execution_completed",
      "tool_result_received",
      "turn_started",
      "text_delta",
      "text_complete",
      "turn_completed",
      "run_completed",
    ]);
    expect(events.map((event) => AgentEvent.parse(event))).toEqual(events);
    expect(events.at(-1)).toMatchObject({ result: "Done.", usage: { input_tokens: 20, output_tokens: 10 } });
  });

  it("[A2] sends turn_completed only for the model's own end", async () => {
    const { runtime } = scriptedRuntime([{ calls: [{ name: "echo", args: { say: "x" } }] }], { tools: [echo] });
    const { events } = await listen(runtime.createSessionStreaming("Go.", { maxTurns: 1 }));
    expect(typesOf(events)).not.toContain("turn_completed");
    expect(events.at(-1)).toMatchObject({ type: "run_completed", terminal_cause_kind: "turn_limit_reached" });
  });

  it("[A4] keeps what was streamed before a failure, marked, and the session stays usable", async () => {
    const { runtime, model } = scriptedRuntime(
      [
        { text: ["The answer ", "is"], ends: { failure: { kind: "invalid_request", message: "bad request" } } },
        { text: "42" },
      ],
      { store: createInMemoryStore() },
    );
    const stream = runtime.createSessionStreaming("What is it?");
    const { events, error } = await listen(stream);
    expect(error).toMatchObject({ code: "PROVIDER_ERROR", message: "bad request" });
    expect(events.at(-1)).toMatchObject({ type: "run_failed", error_class: "llm", terminal_cause_kind: "llm_failure" });
    const id = (error as { details: { session_id: string } }).details.session_id;
    const session = runtime.session(id);
    expect((await session.history()).messages.at(-1)).toMatchObject({
      role: "block_assistant",
      stop_reason: "cancelled",
      blocks: [{ block_type: "text", data: { text: "The answer is" } }],
    });
    expect((await session.turn("Again, please.")).text).toBe("42");
    expect(model.requests).toHaveLength(2);
  });

  it("[A4] keeps the text of a failed attempt beside its retry, not in the context", async () => {
    const store = createInMemoryStore();
    const { runtime, model } = scriptedRuntime(
      [{ text: "half an ans", ends: { failure: { kind: "network", message: "reset" } } }, { text: "whole answer" }],
      { store },
    );
    const session = await runtime.createSession("Hm?");
    expect(session.text).toBe("whole answer");
    expect(JSON.stringify(model.requests[1]?.messages)).not.toContain("half an ans");
    const log = await store.log.read(session.id, 1, 100);
    expect(log.map(({ body }) => body)).toContainEqual(
      expect.objectContaining({ kind: "attempt_failed", partial_text: "half an ans" }),
    );
  });

  it("[A4] survives a model client that throws, ends early, or talks on after its end", async () => {
    const { runtime } = scriptedRuntime([
      { text: "a", ends: { throws: new Error("boom") } },
      { text: "b", ends: "cut" },
      { text: "c" },
    ]);
    const { events, result } = await listen(runtime.createSessionStreaming("Go."));
    expect(result?.text).toBe("c");
    expect(events.filter((event) => event.type === "retrying").map((event) => event.error)).toEqual([
      "boom",
      "the model's stream ended before the answer was finished",
    ]);
  });

  it("[A4] an interrupt keeps the text, ends the turn as cancelled, and frees the session", async () => {
    const { runtime } = scriptedRuntime([{ text: "so far", ends: "silent" }, { text: "next" }], {
      store: createInMemoryStore(),
    });
    const session = await runtime.createDeferredSession("Begin.");
    const stream = session.stream("Talk.");
    for await (const event of stream) if (event.type === "text_delta") await session.interrupt();
    await expect(stream.result).rejects.toMatchObject({ code: "REQUEST_CANCELLED" });
    expect((await session.history()).messages.at(-1)).toMatchObject({ stop_reason: "cancelled" });
    expect((await session.turn("Go on.")).text).toBe("next");
  });

  it("[A4] a signal of the caller's own stops the turn as well, also before it began", async () => {
    const { runtime } = scriptedRuntime([{ text: "never", ends: "silent" }]);
    const signal = AbortSignal.abort();
    await expect(runtime.createSession("Go.", { signal })).rejects.toMatchObject({ code: "REQUEST_CANCELLED" });
  });

  it("[A6] closes calls a crash left open instead of running them again", async () => {
    const store = createInMemoryStore();
    let runs = 0;
    const started = Promise.withResolvers<void>();
    const pay: Tool = {
      name: "pay",
      description: "Has an effect.",
      inputSchema: { type: "object" },
      execute: () => {
        runs += 1;
        started.resolve();
        return new Promise(() => {});
      },
    };
    const before = scriptedRuntime([{ calls: [{ id: "c1", name: "pay" }] }], { store, tools: [pay] });
    const session = await before.runtime.createDeferredSession("Pay the bill.");
    void session.turn("Now.").catch(() => {});
    await started.promise;
    // Another process finds the log as the crash left it.
    const found = createInMemoryStore();
    await found.log.append(session.id, 0, await store.log.read(session.id, 1, 100));
    const after = scriptedRuntime([{ text: "I do not know whether it was paid." }], { store: found, tools: [pay] });
    await after.runtime.session(session.id).turn("Did it work?");
    expect(runs).toBe(1);
    expect(after.model.requests[0]?.messages.slice(-2)).toMatchObject([
      {
        role: "tool_results",
        results: [
          {
            tool_use_id: "c1",
            is_error: true,
            content: "interrupted: this call may or may not have taken effect",
          },
        ],
      },
      { role: "user", content: "Did it work?" },
    ]);
  });

  it("an empty answer after something was said is an end, not a failure", async () => {
    const { runtime } = scriptedRuntime(
      [{ text: "Noted.", calls: [{ name: "echo", args: { say: "x" } }] }, { text: "" }],
      {
        tools: [echo],
      },
    );
    expect((await runtime.createSession("Note it.")).text).toBe("Noted.");
  });
});
