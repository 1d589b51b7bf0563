import { describe, expect, it } from "vitest";
import { configWith, listen, scriptedRuntime } from "../../../../test/support/runtime.ts";
import { createRuntime } from "../create-runtime.ts";
import type { FailureKind, ModelFailure } from "../ports/model.ts";
import { createScriptedModel, type ScriptedStep } from "../providers/scripted.ts";
import { isRetryable, planRetry } from "./retry.ts";

const policy = { maxRetries: 3, initialDelayMs: 500, maxDelayMs: 30_000, multiplier: 2, retryAfterMaxMs: 600_000 };
const failing = (failure: ModelFailure): ScriptedStep => ({ ends: { failure } });
const overloaded: ModelFailure = { kind: "overloaded", message: "overloaded" };

describe("retries", () => {
  it("[B4] back off exponentially, with jitter, up to a bound", () => {
    const delayOf = (attempt: number, random: number) =>
      planRetry(policy, { attempt, failure: overloaded, provider: "p", remainingMs: Number.POSITIVE_INFINITY, random })
        .delay_ms;
    expect([1, 2, 3, 4].map((attempt) => delayOf(attempt, 0.5))).toEqual([500, 1_000, 2_000, 4_000]);
    expect([delayOf(1, 0), delayOf(1, 1)]).toEqual([450, 550]);
    expect(delayOf(20, 0.5)).toBe(30_000);
  });

  it("[B4] announce every attempt before waiting, and succeed when the model does", async () => {
    const { runtime, clock } = scriptedRuntime([failing(overloaded), failing(overloaded), { text: "there" }]);
    const startedMs = clock.now();
    const { events, result } = await listen(runtime.createSessionStreaming("Go."));
    expect(result?.text).toBe("there");
    expect(events.filter((event) => event.type === "retrying")).toMatchObject([
      { attempt: 1, max_attempts: 3, error: "overloaded", delay_ms: 500 },
      { attempt: 2, max_attempts: 3, error: "overloaded", delay_ms: 1_000 },
    ]);
    expect(clock.now() - startedMs).toBe(1_500);
    expect(result?.usage.totalTokens).toBe(15);
  });

  it("[B4] wait as long as Retry-After says when that is longer", async () => {
    const { runtime } = scriptedRuntime([
      failing({ kind: "rate_limited", message: "429", retryAfterMs: 4_000 }),
      { text: "ok" },
    ]);
    const { events } = await listen(runtime.createSessionStreaming("Go."));
    expect(events.find((event) => event.type === "retrying")).toMatchObject({
      delay_ms: 4_000,
      retry: { failure: { kind: "rate_limited", retry_after_ms: 4_000 }, plan: { rate_limit_floor_applied: false } },
    });
  });

  it("[B4] fail at once when Retry-After asks for longer than retry.retry_after_max, and say for how long", async () => {
    const failure: ModelFailure = { kind: "rate_limited", message: "429", retryAfterMs: 86_400_000 };
    const { runtime, model, clock } = scriptedRuntime(() => failing(failure));
    const startedMs = clock.now();
    await expect(runtime.createSession("Go.")).rejects.toMatchObject({
      code: "PROVIDER_ERROR",
      message: "429",
      details: { reason: { reason_type: "llm_rate_limited", retry_after_ms: 86_400_000 } },
    });
    expect(model.requests).toHaveLength(1);
    expect(clock.now()).toBe(startedMs);
    const patient = scriptedRuntime([failing(failure), { text: "a day later" }], {
      config: configWith({ retry: { retry_after_max_ms: 86_400_000 } }),
    });
    expect((await patient.runtime.createSession("Go.")).text).toBe("a day later");
  });

  it("[B4] end after max_retries with cause retry_exhausted", async () => {
    const { runtime, model } = scriptedRuntime(() => failing(overloaded));
    const { events, error } = await listen(runtime.createSessionStreaming("Go."));
    expect(model.requests).toHaveLength(4);
    expect(error).toMatchObject({ code: "PROVIDER_ERROR", details: { terminal_cause_kind: "retry_exhausted" } });
    expect(events.at(-1)).toMatchObject({ type: "run_failed", terminal_cause_kind: "retry_exhausted" });
  });

  it("[B4] an empty answer is asked for again", async () => {
    const { runtime } = scriptedRuntime([{ text: "" }, { text: "something" }]);
    expect((await runtime.createSession("Go.")).text).toBe("something");
  });

  it("[B4] an interrupt ends the wait at once", async () => {
    const { runtime, model } = scriptedRuntime(() => failing({ ...overloaded, retryAfterMs: 300_000 }));
    const controller = new AbortController();
    const stream = runtime.createSessionStreaming("Go.", { signal: controller.signal });
    for await (const event of stream) if (event.type === "retrying") controller.abort();
    await expect(stream.result).rejects.toMatchObject({ code: "REQUEST_CANCELLED" });
    expect(model.requests).toHaveLength(1);
  });

  it("[B5] a call that takes too long and a stream that is silent are tried again", async () => {
    const config = configWith({ retry: { call_timeout_ms: 60_000, stall_timeout_ms: 10_000 } });
    const { runtime } = scriptedRuntime([{ text: "a", ends: "silent" }, { text: "b" }], { config });
    const { events, result } = await listen(runtime.createSessionStreaming("Go."));
    expect(result?.text).toBe("b");
    expect(events.find((event) => event.type === "retrying")).toMatchObject({
      error: "the model's stream was silent for 10000 ms",
      retry: { failure: { kind: "stalled" } },
    });
    const short = configWith({ retry: { call_timeout_ms: 5_000 } });
    const other = scriptedRuntime([{ ends: "silent" }, { text: "b" }], { config: short });
    const { events: timed } = await listen(other.runtime.createSessionStreaming("Go."));
    expect(timed.find((event) => event.type === "retrying")).toMatchObject({
      retry: { failure: { kind: "call_timeout" } },
    });
  });

  it("[B5] wrong requests, wrong keys, missing models and filtered content are not tried again", async () => {
    const kinds: FailureKind[] = ["invalid_request", "auth", "model_not_found", "content_filtered", "context_exceeded"];
    for (const kind of kinds) {
      const { runtime, model } = scriptedRuntime(() => failing({ kind, message: kind }));
      await expect(runtime.createSession("Go.")).rejects.toMatchObject({
        code: "PROVIDER_ERROR",
        message: expect.stringMatching(new RegExp(`^${kind}(?:; the context is about .* compaction is off: .*)?$`)),
      });
      expect(model.requests).toHaveLength(1);
    }
  });

  it("[C4] a window that is smaller than it is known as is told so, with where to say it", async () => {
    const step = failing({ kind: "context_exceeded", message: "prompt is too long" });
    const model = createScriptedModel(() => step, { contextWindow: 100_000 });
    await expect(createRuntime({ model, env: {} }).createSession("Hello.")).rejects.toThrow(
      /^prompt is too long; the context is about \d+ tokens, of which .*: set context_window under \[models\.[\w-]+\] to what the model has, which is less than the 100000 it is taken for$/,
    );
  });

  it("[B5] a filtered answer keeps its text and is not tried again", async () => {
    const { runtime, model } = scriptedRuntime([{ text: "I would", stopReason: "content_filter" }]);
    await expect(runtime.createSession("Go.")).rejects.toMatchObject({
      code: "PROVIDER_ERROR",
      details: { error_class: "content_filtered" },
    });
    expect(model.requests).toHaveLength(1);
  });

  it("[B5] unknown failures get the same bounded retries", () => {
    expect(isRetryable("unknown")).toBe(true);
  });
});
