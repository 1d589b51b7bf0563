import { AsyncLocalStorage } from "node:async_hooks";
import { context, ROOT_CONTEXT, trace } from "@opentelemetry/api";
import { describe, expect, it } from "vitest";
import { configWith, scriptedRuntime } from "../../../../test/support/runtime.ts";
import { answer, chat, failing, type Script, tool, toolOf, traced, turn } from "../../../../test/support/span-trees.ts";
import { openTracing, type SpanTree } from "../../../../test/support/tracing.ts";
import type { RuntimeOptions } from "../create-runtime.ts";
import type { ModelClient } from "../ports/model.ts";

describe("spans of a turn", () => {
  it("[G9] a plain turn is invoke_agent with one chat in it", async () => {
    const usage = { input_tokens: 30, output_tokens: 7, cache_read_tokens: 20, cache_creation_tokens: 4 };
    const { runtime, spanTrees } = traced([{ text: "Hello.", usage }]);
    await runtime.createSession("Hi.");
    expect(spanTrees()).toEqual([
      turn({ ...answer("end_turn", 30, 7), "rkat.turn.model_calls": 1, "rkat.turn.tool_calls": 0 }, [
        chat({
          ...answer("end_turn", 30, 7),
          "gen_ai.usage.cache_read.input_tokens": 20,
          "gen_ai.usage.cache_write.input_tokens": 4,
        }),
      ]),
    ]);
  });

  it("[G9] a chat says where it was asked and what the provider calls its answer, and a first chunk where one came", async () => {
    const tracing = openTracing();
    let calls = 0;
    const model: ModelClient = {
      provider: "gemini",
      modelId: "asked",
      contextWindow: undefined,
      url: "https://user:secret@models.example:8443/v1?key=secret",
      async *stream() {
        calls += 1;
        if (calls === 1) yield { type: "failed", failure: { kind: "overloaded", message: "busy" } };
        else {
          yield { type: "text_delta", delta: "Hello." };
          const response = { id: "resp-1", model: "asked-2026" };
          yield { type: "finish", stopReason: "end_turn", usage: { input_tokens: 1, output_tokens: 1 }, response };
        }
      },
    };
    const { runtime } = scriptedRuntime([], { model, telemetry: { tracer: tracing.tracer } });
    await runtime.createSession("Hi.");
    const [turned] = tracing.spanTrees();
    expect(turned?.attributes["gen_ai.provider.name"]).toBe("gcp.gemini");
    const server = { "server.address": "models.example", "server.port": 8_443 };
    const response = { "gen_ai.response.id": "resp-1", "gen_ai.response.model": "asked-2026" };
    expect(turned?.children.map(({ attributes }) => attributes)).toMatchObject([server, { ...server, ...response }]);
    expect(tracing.text()).not.toContain("secret");
    const chunks = tracing.text().match(/time_to_first_chunk/g) ?? [];
    expect(chunks).toHaveLength(1);
  });

  it("[G9] tools that run at once are siblings, and one that fails says of which class", async () => {
    const tools = [
      toolOf("sum", async () => "4"),
      toolOf("throws", () => {
        throw new RangeError("out of range");
      }),
      toolOf("refuses", () => ({ content: "no", isError: true })),
    ];
    const calls = [{ name: "sum" }, { name: "throws" }, { name: "refuses" }, { name: "unknown" }];
    const { runtime, spanTrees } = traced([{ calls }, { text: "Done." }], { tools });
    await runtime.createSession("Go.");
    expect(spanTrees()).toEqual([
      turn({ ...answer("end_turn", 20, 10), "rkat.turn.model_calls": 2, "rkat.turn.tool_calls": 4 }, [
        chat(answer("tool_use")),
        tool("sum", "call-1-1"),
        tool("throws", "call-1-2", { status: "error", attributes: { "error.type": "RangeError" } }),
        tool("refuses", "call-1-3", { status: "error", attributes: { "error.type": "tool_error" } }),
        chat(answer("end_turn")),
      ]),
    ]);
  });

  it("[G9] a tool that ignores the end of its time is over when the turn goes on without it", async () => {
    const tools = [{ ...toolOf("sleeps", () => new Promise<string>(() => {})), timeoutMs: 1_000 }];
    const { runtime, spanTrees } = traced([{ calls: [{ name: "sleeps" }] }, { text: "Done." }], { tools });
    await runtime.createSession("Go.");
    expect(spanTrees()[0]?.children).toEqual([
      chat(answer("tool_use")),
      tool("sleeps", "call-1-1", { status: "error", attributes: { "error.type": "timeout" } }),
      chat(answer("end_turn")),
    ]);
  });

  it("[G9] every attempt is a chat of its own, and the next one says why there is one", async () => {
    const steps = [failing("overloaded", 529), { ends: "silent" as const }, { text: " " }, { text: "Hello." }];
    const { runtime, spanTrees } = traced(steps);
    await runtime.createSession("Hi.");
    const retry = (attempt: number, reason: string, delay: number) => ({
      "rkat.chat.attempt": attempt,
      "rkat.retry.reason": reason,
      "rkat.retry.delay_ms": delay,
    });
    expect(spanTrees()[0]?.children).toEqual([
      chat({ "http.response.status_code": 529, "error.type": "overloaded" }, "error"),
      chat({ ...retry(2, "overloaded", 500), "error.type": "stalled" }, "error"),
      chat({ ...retry(3, "stalled", 1_000), ...answer("end_turn"), "error.type": "empty_response" }, "error"),
      chat({ ...retry(4, "empty_response", 2_000), ...answer("end_turn") }),
    ]);
  });

  it("[G9] a turn that the provider fails has the code of its error", async () => {
    const { runtime, spanTrees } = traced([failing("auth", 401)]);
    await expect(runtime.createSession("Hi.")).rejects.toMatchObject({ code: "PROVIDER_ERROR" });
    const failed = {
      "rkat.turn.cause": "llm_failure",
      "rkat.turn.error_class": "auth",
      "error.type": "PROVIDER_ERROR",
    };
    expect(spanTrees()).toEqual([
      turn(
        { "gen_ai.usage.input_tokens": 0, "gen_ai.usage.output_tokens": 0, ...failed },
        [chat({ "http.response.status_code": 401, "error.type": "auth" }, "error")],
        "error",
      ),
    ]);
  });

  it("[G9] a model that throws, or ends in the middle, has failed", async () => {
    const config = configWith({ retry: { max_retries: 1 } });
    const { runtime, spanTrees } = traced([{ ends: { throws: new TypeError("x") } }, { ends: "cut" }], { config });
    await expect(runtime.createSession("Hi.")).rejects.toMatchObject({ code: "PROVIDER_ERROR" });
    expect(spanTrees()[0]?.children.map(({ attributes }) => attributes["error.type"])).toEqual([
      "TypeError",
      "malformed_stream",
    ]);
  });

  it("[G9] a turn that a budget ends is no failure and says which end it came to", async () => {
    const tools = [toolOf("sum", async () => "4")];
    const { runtime, spanTrees } = traced([{ calls: [{ name: "sum" }] }], { tools });
    await runtime.createSession("Go.", { budgetLimits: { max_tokens: 12 } });
    expect(spanTrees()).toEqual([
      turn(
        {
          ...answer("tool_use"),
          "rkat.turn.model_calls": 1,
          "rkat.turn.tool_calls": 0,
          "rkat.turn.cause": "budget_exhausted",
        },
        [chat(answer("tool_use"))],
      ),
    ]);
  });

  it("[G9] an interrupt ends what runs", async () => {
    const interrupt = new AbortController();
    const tools = [
      toolOf("waits", () => {
        interrupt.abort();
        return new Promise<string>(() => {});
      }),
    ];
    const { runtime, spanTrees } = traced([{ calls: [{ name: "waits" }] }], { tools });
    const running = runtime.createSession("Go.", { signal: interrupt.signal });
    await expect(running).rejects.toMatchObject({ code: "REQUEST_CANCELLED" });
    expect(spanTrees()).toEqual([
      turn(
        { ...answer("tool_use"), "rkat.turn.error_class": "cancelled", "error.type": "REQUEST_CANCELLED" },
        [
          chat(answer("tool_use")),
          tool("waits", "call-1-1", { status: "error", attributes: { "error.type": "interrupted" } }),
        ],
        "error",
      ),
    ]);
  });

  it("[G9] an interrupt ends a model that says nothing", async () => {
    const { runtime, spanTrees } = traced([{ text: "Well", ends: "silent" }]);
    const stream = runtime.createSessionStreaming("Hi.");
    for await (const event of stream) {
      if (event.type === "text_delta") await runtime.close();
    }
    await expect(stream.result).rejects.toMatchObject({ code: "REQUEST_CANCELLED" });
    expect(spanTrees()[0]?.children).toEqual([chat({ "error.type": "interrupted" }, "error")]);
  });

  it("[G9] asking for structured output is a chat that wants JSON", async () => {
    const { runtime, spanTrees } = traced([{ text: "Four." }, { text: '{"sum": 4}' }]);
    const outputSchema = { type: "object", properties: { sum: { type: "number" } }, required: ["sum"] };
    const session = await runtime.createSession("2 + 2?", { outputSchema });
    expect(session.lastResult?.structuredOutput).toEqual({ sum: 4 });
    expect(spanTrees()).toEqual([
      turn(
        {
          "gen_ai.output.type": "json",
          ...answer("end_turn", 20, 10),
          "rkat.turn.model_calls": 1,
          "rkat.turn.tool_calls": 0,
        },
        [chat(answer("end_turn")), chat({ "gen_ai.output.type": "json", ...answer("end_turn") })],
      ),
    ]);
  });
});

describe("where spans belong", () => {
  it("[G9] a turn is part of the trace its caller names", async () => {
    const { runtime, tracer, spanTrees } = traced([{ text: "Hello." }, { text: "Again." }]);
    const outer = tracer.startSpan("outer");
    const { traceId, spanId } = outer.spanContext();
    const call = { traceparent: `00-${traceId}-${spanId}-01` };
    const { session_id } = await runtime.dispatch("createSession", { prompt: "Hi." }, call);
    await runtime.dispatch("startTurn", { session_id, prompt: "Hi." }, { traceparent: "nonsense" });
    outer.end();
    expect(spanTrees().map(({ name, children }) => [name, children.map((child) => child.name)])).toEqual([
      ["outer", ["invoke_agent"]],
      ["invoke_agent", ["chat scripted"]],
    ]);
  });

  it("[G9] a turn that a tool runs is part of the tool, without the application's help", async () => {
    const inner: RuntimeOptions["tools"] = [
      toolOf("delegate", async () => {
        const { lastResult } = await runtime.createSession("You do it.", { tools: [] });
        return lastResult?.text ?? "";
      }),
    ];
    const steps = [{ calls: [{ name: "delegate" }] }, { text: "Inner." }, { text: "Outer." }];
    const { runtime, spanTrees } = traced(steps, { tools: inner });
    await runtime.createSession("Go.");
    const namesOf = ({ name, children }: SpanTree): unknown[] => [name, ...children.map(namesOf)];
    expect(spanTrees().map(namesOf)).toEqual([
      [
        "invoke_agent",
        ["chat scripted"],
        ["execute_tool delegate", ["invoke_agent", ["chat scripted"]]],
        ["chat scripted"],
      ],
    ]);
  });

  it("[G9] without a tracer of its own a runtime uses the provider the application has registered", async () => {
    const { provider, spanTrees } = openTracing();
    trace.setGlobalTracerProvider(provider);
    try {
      const { runtime } = traced([{ text: "Hello." }], { telemetry: true });
      await runtime.createSession("Hi.");
      expect(spanTrees().map(({ name }) => name)).toEqual(["invoke_agent"]);
    } finally {
      trace.disable();
    }
  });

  it("[G9] code that runs in a tool, or sends a model's request, finds its span active", async () => {
    const kept = new AsyncLocalStorage<ReturnType<typeof context.active>>();
    context.setGlobalContextManager({
      active: () => kept.getStore() ?? ROOT_CONTEXT,
      with: (inside, work, self, ...args) => kept.run(inside, () => work.call(self, ...args)),
      bind: (_inside, target) => target,
      enable() {
        return this;
      },
      disable() {
        return this;
      },
    });
    try {
      const spanName = () => {
        const span = trace.getActiveSpan();
        return span !== undefined && "name" in span ? span.name : undefined;
      };
      const active: unknown[] = [];
      const tools = [toolOf("looks", async () => String(active.push(await Promise.resolve(spanName()))))];
      const script: Script = (_request, index) => {
        active.push(spanName());
        return index === 0 ? { calls: [{ name: "looks" }] } : { text: "Done." };
      };
      const { runtime, tracer, spanTrees } = traced(script, { tools });
      const outer = tracer.startSpan("outer");
      await context.with(trace.setSpan(ROOT_CONTEXT, outer), () => runtime.createSession("Go."));
      outer.end();
      expect(active).toEqual(["chat scripted", "execute_tool looks", "chat scripted"]);
      expect(spanTrees().map(({ name, children }) => [name, children.length])).toEqual([["outer", 1]]);
    } finally {
      context.disable();
    }
  });
});
