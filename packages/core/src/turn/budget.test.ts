import { describe, expect, it } from "vitest";
import { configWith, listen, scriptedRuntime, typesOf } from "../../../../test/support/runtime.ts";
import { CreateSession } from "../contract/session.ts";
import { createInMemoryStore } from "../create-runtime.ts";
import type { Tool } from "../ports/tool.ts";
import { readBudget } from "./budget.ts";

const step: Tool = { name: "step", description: "Steps.", inputSchema: { type: "object" }, execute: () => "stepped" };
const usage = { input_tokens: 300, output_tokens: 100 };

describe("budgets", () => {
  it("[B1] accepts every spelling of a duration", async () => {
    const spellings = [
      { max_duration: "30s" },
      { max_duration: "0.5m" },
      { max_duration: { secs: 29, nanos: 1_000_000_000 } },
      { max_duration_secs: 30 },
      { max_duration_ms: 30_000 },
    ];
    for (const budgetLimits of spellings) {
      const store = createInMemoryStore();
      const { runtime } = scriptedRuntime([{ text: "ok" }], { store });
      const { id } = await runtime.createSession("Go.", { budgetLimits });
      const [created] = await store.log.read(id, 1, 1);
      expect(created?.body).toMatchObject({ settings: { budget_limits: { max_duration_ms: 30_000 } } });
    }
  });

  it("[B1] refuses what is not a duration, naming the field", async () => {
    const { runtime } = scriptedRuntime([]);
    await expect(runtime.createSession("Go.", { budgetLimits: { maxDuration: "soon" } })).rejects.toMatchObject({
      code: "INVALID_PARAMS",
      message: expect.stringMatching(/^budgetLimits\.maxDuration: .*30s/),
    });
  });

  it("[B1] [H1] refuses limits that limit nothing, contradict each other or are misspelt, naming them", async () => {
    const { runtime, model } = scriptedRuntime([]);
    const longer = "write a duration longer than zero, like 30s";
    const whole = "write a whole number above 0";
    const wrong: [object, string][] = [
      [{ max_duration: "0s" }, `budget_limits.max_duration: ${longer}`],
      [{ max_duration: { secs: 0 } }, `budget_limits.max_duration: ${longer}`],
      [{ max_duration_ms: 0 }, `budget_limits.max_duration_ms: ${whole}`],
      [{ max_duration_ms: 1.5 }, `budget_limits.max_duration_ms: ${whole}`],
      [{ max_duration_secs: 0 }, "budget_limits.max_duration_secs: write a number of seconds above 0"],
      [{ max_duration_secs: 1e300 }, "budget_limits.max_duration_secs: write a number of seconds above 0"],
      [{ max_tokens: 0 }, `budget_limits.max_tokens: ${whole}`],
      [{ max_tokens: "many" }, `budget_limits.max_tokens: ${whole}`],
      [{ max_tool_calls: -1 }, "budget_limits.max_tool_calls: write a whole number of at least 0"],
      [
        { max_duration: "30s", max_duration_ms: 1_000 },
        "budget_limits.max_duration: max_duration and max_duration_ms say different things, so give one of them",
      ],
      [
        { max_tokenz: 5 },
        "budget_limits: max_tokenz is no limit; write max_tokens, max_tool_calls, max_cost, max_duration, max_duration_secs or max_duration_ms",
      ],
    ];
    for (const [budget_limits, message] of wrong) {
      const refused = runtime.dispatch("createSession", { prompt: "Go.", budget_limits });
      await expect(refused).rejects.toMatchObject({ code: "INVALID_PARAMS", message });
    }
    expect(model.requests).toEqual([]);
  });

  it("[B1] spellings that agree are one limit, in whole milliseconds", async () => {
    const agreeing: [object, number][] = [
      [{ max_duration: "30s", max_duration_ms: 30_000, max_duration_secs: 30 }, 30_000],
      [{ max_duration_secs: 1e-9 }, 1],
      [{ max_duration_secs: 30.1 }, 30_100],
    ];
    for (const [budget_limits, max_duration_ms] of agreeing) {
      expect(CreateSession.parse({ prompt: "Go.", budget_limits }).budget_limits).toEqual({ max_duration_ms });
    }
  });

  it("[B2] [B3] warns once past 80 %, keeps the answer that crosses the limit, and ends gracefully", async () => {
    const { runtime } = scriptedRuntime(
      (_, index) => ({ text: `answer ${index}`, usage, ...(index < 2 ? { calls: [{ name: "step" }] } : {}) }),
      { tools: [step] },
    );
    const { events, result } = await listen(
      runtime.createSessionStreaming("Go.", { budgetLimits: { max_tokens: 1_000 } }),
    );
    expect(events.filter((event) => event.type === "budget_warning")).toEqual([
      { type: "budget_warning", budget_type: "tokens", used: 800, limit: 1_000, percent: 80 },
    ]);
    expect(result).toMatchObject({ text: "answer 2", terminalCauseKind: "budget_exhausted", turns: 3 });
    expect(typesOf(events).indexOf("budget_warning")).toBeLessThan(typesOf(events).lastIndexOf("turn_started"));
    expect(events.at(-1)).toMatchObject({ type: "run_completed", terminal_cause_kind: "budget_exhausted" });
  });

  it("[B2] the threshold is configurable and percent is 0–100", async () => {
    const config = configWith({ agent: { budget_warning_threshold: 0.3 } });
    const { runtime } = scriptedRuntime([{ text: "ok", usage }], { config });
    const { events } = await listen(runtime.createSessionStreaming("Go.", { budgetLimits: { max_tokens: 1_000 } }));
    expect(events).toContainEqual({
      type: "budget_warning",
      budget_type: "tokens",
      used: 400,
      limit: 1_000,
      percent: 40,
    });
  });

  it("[B3] calls of an answer that used up the tokens are closed, not run, and the session stays usable", async () => {
    let runs = 0;
    const counting = { ...step, execute: () => String(++runs) };
    const store = createInMemoryStore();
    const { runtime } = scriptedRuntime([{ text: "thinking", usage, calls: [{ name: "step" }] }], {
      store,
      tools: [counting],
    });
    const session = await runtime.createSession("Go.", { budgetLimits: { max_tokens: 400 } });
    expect(session.lastResult).toMatchObject({ text: "thinking", terminalCauseKind: "budget_exhausted" });
    expect(runs).toBe(0);
    expect((await session.history()).messages.at(-1)).toMatchObject({
      results: [{ content: "not run: the token budget of this session is exhausted", is_error: true }],
    });
    const again = await session.turn("And?");
    expect(again).toMatchObject({ text: "", turns: 0, terminalCauseKind: "budget_exhausted" });
  });

  it("[B3] never runs more tools than max_tool_calls, within a batch as well", async () => {
    let runs = 0;
    const counting = { ...step, execute: () => String(++runs) };
    const calls = [{ name: "step" }, { name: "step" }, { name: "step" }];
    const { runtime } = scriptedRuntime([{ calls }], { tools: [counting] });
    const { events, result } = await listen(
      runtime.createSessionStreaming("Go.", { budgetLimits: { max_tool_calls: 2 } }),
    );
    expect(runs).toBe(2);
    expect(result).toMatchObject({ terminalCauseKind: "budget_exhausted", toolCalls: 2 });
    expect(events).toContainEqual({
      type: "budget_warning",
      budget_type: "tool_calls",
      used: 2,
      limit: 2,
      percent: 100,
    });
  });

  it("[B1] used tokens and tool calls count over the session's turns, the clock does not", async () => {
    const { runtime, clock } = scriptedRuntime(() => ({ text: "ok", usage }));
    const session = await runtime.createSession("One.", { budgetLimits: { max_tokens: 800, max_duration: "10s" } });
    clock.advance(60_000);
    expect(session.lastResult?.terminalCauseKind).toBeUndefined();
    expect((await session.turn("Two.")).terminalCauseKind).toBe("budget_exhausted");
  });

  it("[B2] the warning for time comes when it is due, also in the middle of a call or a tool", async () => {
    const stuck: Tool = { ...step, execute: () => new Promise(() => {}) };
    const scripts = [[{ text: "so far", ends: "silent" as const }], [{ calls: [{ name: "step" }] }]];
    for (const script of scripts) {
      const { runtime } = scriptedRuntime(script, { tools: [stuck] });
      const { events } = await listen(runtime.createSessionStreaming("Go.", { budgetLimits: { max_duration: "10s" } }));
      expect(events.filter((event) => event.type === "budget_warning")).toEqual([
        { type: "budget_warning", budget_type: "time", used: 8, limit: 10, percent: 80 },
      ]);
      const types = typesOf(events);
      expect(types.indexOf("budget_warning")).toBeLessThan(types.indexOf("run_completed"));
    }
  });

  it("[B3] time that runs out while the model talks ends the turn with the text so far", async () => {
    const { runtime } = scriptedRuntime([{ text: "so far", ends: "silent" }]);
    const { events, result } = await listen(
      runtime.createSessionStreaming("Go.", { budgetLimits: { max_duration: "5s" } }),
    );
    expect(result).toMatchObject({ text: "so far", terminalCauseKind: "time_budget_exceeded" });
    expect(events).toContainEqual({ type: "budget_warning", budget_type: "time", used: 4, limit: 5, percent: 80 });
  });

  it("[B3] what a call that was cut took is estimated, told as that, and counted", async () => {
    const store = createInMemoryStore();
    const { runtime } = scriptedRuntime([{ text: "so far and no further", ends: "silent" }], { store });
    const limits = { max_duration: "5s", max_tokens: 40 };
    const session = await runtime.createSession("Go. ".repeat(40), { budgetLimits: limits });
    const { usage: reported } = session.lastResult ?? {};
    expect(reported).toMatchObject({ estimated: true, outputTokens: 6 });
    expect(reported?.inputTokens).toBeGreaterThanOrEqual(40);
    expect(await runtime.readSession(session.id)).toMatchObject({ totalTokens: reported?.totalTokens });
    expect(await session.turn("Go on.")).toMatchObject({ turns: 0, terminalCauseKind: "budget_exhausted" });
  });

  it("[B3] so is what an interrupted call took, and an attempt that timed out; a refusal takes nothing", async () => {
    const store = createInMemoryStore();
    const failure = { kind: "auth" as const, message: "no key" };
    const steps = [{ text: "so", ends: "silent" as const }, { text: "ok" }, { ends: { failure } }];
    const config = configWith({ retry: { call_timeout_ms: 1_000 } });
    const { runtime } = scriptedRuntime([...steps, { text: "so far", ends: "silent" }], { store, config });
    const session = await runtime.createSession("Go.");
    const first = session.lastResult?.usage;
    expect(first).toMatchObject({ estimated: true, outputTokens: 6 });
    expect(first?.inputTokens).toBeGreaterThan(10);
    await expect(session.turn("Refused.")).rejects.toMatchObject({ code: "PROVIDER_ERROR" });
    const { totalTokens: total_tokens } = await runtime.readSession(session.id);
    expect(total_tokens).toBe(first?.totalTokens);
    const stream = session.stream("Stop.");
    for await (const event of stream) if (event.type === "text_delta") await session.interrupt();
    await expect(stream.result).rejects.toMatchObject({ code: "REQUEST_CANCELLED" });
    expect((await runtime.readSession(session.id)).totalTokens).toBeGreaterThan(total_tokens);
  });

  it("[B3] time that runs out in a tool stops the tool and ends gracefully", async () => {
    const stuck: Tool = { ...step, execute: () => new Promise(() => {}) };
    const { runtime } = scriptedRuntime([{ calls: [{ name: "step" }] }], { tools: [stuck] });
    const session = await runtime.createSession("Go.", { budgetLimits: { max_duration: "5s" } });
    expect(session.lastResult).toMatchObject({ terminalCauseKind: "time_budget_exceeded", toolCalls: 1 });
  });

  it("[B4] time that runs out in a backoff wait with nothing to return is BUDGET_EXHAUSTED", async () => {
    const failure = { kind: "rate_limited" as const, message: "slow down", retryAfterMs: 60_000 };
    const { runtime, model } = scriptedRuntime(() => ({ ends: { failure } }));
    const { events, error } = await listen(
      runtime.createSessionStreaming("Go.", { budgetLimits: { max_duration: "5s" } }),
    );
    expect(error).toMatchObject({ code: "BUDGET_EXHAUSTED" });
    expect(model.requests).toHaveLength(1);
    expect(events.find((event) => event.type === "retrying")).toMatchObject({
      delay_ms: 5_000,
      retry: { plan: { budget_capped: true, retry_after_hint_ms: 60_000 } },
    });
    expect(events.at(-1)).toMatchObject({
      type: "run_failed",
      error_class: "budget",
      terminal_cause_kind: "time_budget_exceeded",
    });
  });

  it.each([
    [1_000, 800, { used: 1, limit: 1, percent: 80 }],
    [300, 300, { used: 1, limit: 1, percent: 100 }],
    [10_000, 8_200, { used: 9, limit: 10, percent: 82 }],
  ])(
    "[B2] warns of a time budget of %d ms in whole seconds, a second that has begun among them",
    (limit, used, reported) => {
      const spent = { usage: { input_tokens: 0, output_tokens: 0 }, toolCalls: 0, elapsedMs: used };
      const { warnings } = readBudget({ max_duration_ms: limit }, spent, { at: 0.8, given: new Set() });
      expect(warnings).toEqual([{ type: "budget_warning", budget_type: "time", ...reported }]);
    },
  );
});
