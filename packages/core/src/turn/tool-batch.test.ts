import { describe, expect, it } from "vitest";
import { configWith, listen, scriptedRuntime } from "../../../../test/support/runtime.ts";
import { createInMemoryStore } from "../create-runtime.ts";
import type { Tool } from "../ports/tool.ts";

function toolOf(execute: Tool["execute"], more: Partial<Tool> = {}): Tool {
  return { name: "act", description: "Acts.", inputSchema: { type: "object" }, execute, ...more };
}

/** The results the model was shown after calling `act` (or another tool) once. */
async function resultsOf(tools: readonly Tool[], call = { name: "act", args: {} }, config = configWith({})) {
  const { runtime, model } = scriptedRuntime([{ calls: [call] }, { text: "ok" }], { tools, config });
  const { events, result } = await listen(runtime.createSessionStreaming("Act."));
  expect(result?.text).toBe("ok");
  const message = model.requests[1]?.messages.at(-1);
  return { results: message?.role === "tool_results" ? message.results : [], events, runtime };
}

describe("tool calls", () => {
  it("[A5] a tool that throws gives an error result and the turn goes on", async () => {
    const { results } = await resultsOf([
      toolOf(() => {
        throw new Error("no such row");
      }),
    ]);
    expect(results).toEqual([{ tool_use_id: "call-1-1", content: "no such row", is_error: true }]);
  });

  it("[A5] a tool that returns nothing has nothing to say, which is no failure", async () => {
    const { results } = await resultsOf([toolOf(() => undefined)]);
    expect(results).toEqual([{ tool_use_id: "call-1-1", content: "", is_error: false }]);
  });

  it("[A5] a tool that returns what no tool may gives an error result that says what it may", async () => {
    const circle: Record<string, unknown> = {};
    circle.circle = circle;
    const odd: unknown[] = [
      circle,
      5n,
      () => "later",
      new Map([["a", 1]]),
      new Error("no such row"),
      { content: [null] },
      { content: "fine", isError: "yes" },
      { content: [{ type: "weird" }] },
    ];
    for (const returned of odd) {
      const { results } = await resultsOf([toolOf(() => returned)]);
      expect(results).toEqual([
        {
          tool_use_id: "call-1-1",
          content:
            "act returned what is no tool output; a tool may return a text, nothing, a value of JSON, or {content, isError}, where content is a text or a list of content blocks",
          is_error: true,
        },
      ]);
    }
  });

  it("[A5] a tool that returns another value of JSON gives the model that JSON", async () => {
    const block = { type: "text" as const, text: "a heron" };
    const written: [unknown, unknown][] = [
      [{ city: "Oslo", celsius: 7 }, '{"city":"Oslo","celsius":7}'],
      [["a", null, 1], '["a",null,1]'],
      [[], "[]"],
      [{}, "{}"],
      [5, "5"],
      [false, "false"],
      [null, "null"],
      [new Date(0), '"1970-01-01T00:00:00.000Z"'],
      // A page has a content as well, and is not the content of a result.
      [{ title: "Herons", content: "They stand." }, '{"title":"Herons","content":"They stand."}'],
      [{ content: 5, unit: "kg" }, '{"content":5,"unit":"kg"}'],
      [[block], [block]],
      [{ content: [block], structuredContent: { bird: "heron" } }, [block]],
    ];
    for (const [returned, content] of written) {
      const { results } = await resultsOf([toolOf(() => returned)]);
      expect(results).toEqual([{ tool_use_id: "call-1-1", content, is_error: false }]);
    }
    const failed = toolOf(() => ({ content: "no such row", isError: true, code: 5 }));
    expect((await resultsOf([failed])).results).toMatchObject([{ content: "no such row", is_error: true }]);
  });

  it("[A5] two tools of one name are refused, for a runtime and for a session; a session's own replaces the runtime's", async () => {
    const [one, other] = [toolOf(() => "one"), toolOf(() => "other")];
    const refused = { code: "INVALID_PARAMS", message: "tools.1: there are two tools named act; rename one of them" };
    expect(() => scriptedRuntime([], { tools: [one, other] })).toThrow(expect.objectContaining(refused));
    const { runtime, model } = scriptedRuntime([{ calls: [{ name: "act" }] }, { text: "ok" }], { tools: [one] });
    await expect(runtime.createSession("Act.", { tools: [other, one] })).rejects.toMatchObject(refused);
    await runtime.createSession("Act.", { tools: [other] });
    expect(model.requests[1]?.messages.at(-1)).toMatchObject({ results: [{ content: "other" }] });
  });

  it("[A5] whatever a tool throws, the model is told and the turn goes on", async () => {
    const thrown: [unknown, string][] = [
      [Object.create(null), "something was thrown that cannot be shown"],
      ["a text", "a text"],
      [undefined, "undefined"],
    ];
    for (const [value, content] of thrown) {
      const tool = toolOf(() => {
        throw value;
      });
      expect((await resultsOf([tool])).results).toEqual([{ tool_use_id: "call-1-1", content, is_error: true }]);
    }
  });

  it("[A5] a tool that changes its arguments does not change what the model asked for", async () => {
    const tool = toolOf((args) => {
      args.city = "Bergen";
      return "ok";
    });
    const { events } = await resultsOf([tool], { name: "act", args: { city: "Oslo" } });
    expect(events).toContainEqual({ type: "tool_call_requested", id: "call-1-1", name: "act", args: { city: "Oslo" } });
  });

  it("[A5] an unknown tool is answered with those there are", async () => {
    const { results } = await resultsOf([toolOf(() => "")], { name: "atc", args: {} });
    expect(results).toMatchObject([{ content: 'there is no tool "atc"; available: act', is_error: true }]);
  });

  it("[A5] arguments that do not fit the schema are named, and the tool is not run", async () => {
    let runs = 0;
    const inputSchema = { type: "object", properties: { count: { type: "integer" } }, additionalProperties: false };
    const tool = toolOf(() => String(++runs), { inputSchema });
    const { results } = await resultsOf([tool], { name: "act", args: { count: "three", cuont: 1 } });
    expect(results).toMatchObject([
      {
        content:
          'the arguments of act are wrong: count is a string, expected integer; the value has the unknown property "cuont"',
        is_error: true,
      },
    ]);
    expect(runs).toBe(0);
  });

  it("[A5] arguments that were not JSON reach the model as an error, with what it sent kept", async () => {
    const { runtime, model } = scriptedRuntime([{ text: "ok" }], { tools: [toolOf(() => "ran")] });
    const broken: typeof model.stream = async function* (request, signal) {
      if (request.messages.at(-1)?.role === "tool_results") return yield* model.stream(request, signal);
      const data = { id: "c1", name: "act", args: { raw_arguments: '{"a":' }, args_error: "they are not JSON" };
      yield { type: "block", block: { block_type: "tool_use", data } };
      yield { type: "finish", stopReason: "tool_use", usage: { input_tokens: 1, output_tokens: 1 } };
    };
    const own = scriptedRuntime([], { model: { ...model, stream: broken }, tools: [toolOf(() => "ran")] });
    await own.runtime.createSession("Act.");
    expect(model.requests[0]?.messages.at(-1)).toMatchObject({
      results: [{ content: "the arguments of act were not usable: they are not JSON", is_error: true }],
    });
    await runtime.close();
  });

  it("[A5] a tool that is too slow is stopped, told of, and answered as uncertain", async () => {
    let wasAborted = false;
    const tool = toolOf(
      (_, { signal }) =>
        new Promise((resolve) => {
          signal.addEventListener("abort", () => {
            wasAborted = true;
            resolve("too late");
          });
        }),
      { timeoutMs: 1_000 },
    );
    const { results, events } = await resultsOf([tool]);
    expect(results[0]?.content).toBe(
      "act did not finish within 1000 ms and was stopped; it may or may not have taken effect",
    );
    expect(wasAborted).toBe(true);
    expect(events).toContainEqual({
      type: "tool_execution_timed_out",
      id: "call-1-1",
      name: "act",
      timeout_ms: 1_000,
    });
  });

  it("[A5] a tool that ignores its signal is left behind", async () => {
    const { results } = await resultsOf([toolOf(() => new Promise(() => {}), { timeoutMs: 1_000 })]);
    expect(results).toMatchObject([{ is_error: true }]);
  });

  it("[A5] [H5] output over the limit is cut to head and tail around a reference to the whole", async () => {
    const config = configWith({ tools: { output_bytes_max: 1_024 } });
    const full = `begin ${"ä".repeat(5_000)} end`;
    const { results, runtime } = await resultsOf([toolOf(() => full)], undefined, config);
    const shown = String(results[0]?.content);
    expect(shown.startsWith("begin ä")).toBe(true);
    expect(shown.endsWith("ä end")).toBe(true);
    expect(shown).not.toContain("\uFFFD");
    expect(Buffer.byteLength(shown)).toBeLessThan(1_024 + 200);
    const blobId = /blob (sha256:[0-9a-f]{64})/.exec(shown)?.[1] ?? "none";
    expect(Buffer.from((await runtime.readBlob(blobId)).data).toString()).toBe(full);
  });

  it("[H5] no more calls run at once than the limit says", async () => {
    let atOnce = 0;
    let most = 0;
    const tool = toolOf(async () => {
      most = Math.max(most, ++atOnce);
      await new Promise((resolve) => setImmediate(resolve));
      atOnce -= 1;
      return "done";
    });
    const calls = Array.from({ length: 20 }, () => ({ name: "act" }));
    const config = configWith({ tools: { max_concurrent: 3 } });
    const { runtime } = scriptedRuntime([{ calls }, { text: "ok" }], { tools: [tool], config });
    expect((await runtime.createSession("Act.")).lastResult?.toolCalls).toBe(20);
    expect(most).toBe(3);
  });

  it("[A6] an interrupt during tools keeps what finished and closes the rest", async () => {
    const store = createInMemoryStore();
    const quick = toolOf(() => "quick result", { name: "quick" });
    const started = Promise.withResolvers<void>();
    const slow = toolOf(
      () => {
        started.resolve();
        return new Promise(() => {});
      },
      { name: "slow" },
    );
    const { runtime } = scriptedRuntime([{ calls: [{ name: "quick" }, { name: "slow" }] }], {
      store,
      tools: [quick, slow],
    });
    const session = await runtime.createDeferredSession("Begin.");
    const turn = session.turn("Act.");
    await started.promise;
    await session.interrupt();
    await expect(turn).rejects.toMatchObject({ code: "REQUEST_CANCELLED" });
    expect((await session.history()).messages.at(-1)).toMatchObject({
      results: [
        { content: "quick result", is_error: false },
        { content: "interrupted: this call may or may not have taken effect", is_error: true },
      ],
    });
  });

  it("[H3] secrets in tool output are masked before anything keeps or tells them", async () => {
    const store = createInMemoryStore();
    const secret = "hunter2-hunter2-hunter2";
    const tools = [toolOf(() => `password: ${secret}, key: sk-ant-api03-abcdefghijklmnopqrstuvwx`)];
    const { runtime, model } = scriptedRuntime([{ calls: [{ name: "act" }] }, { text: "ok" }], {
      store,
      tools,
      env: { DB_PASSWORD: secret },
    });
    const stream = runtime.createSessionStreaming("Act.");
    const { events } = await listen(stream);
    const log = await store.log.read((await stream.session).id, 1, 100);
    for (const kept of [events, log, model.requests]) {
      expect(JSON.stringify(kept)).not.toMatch(/hunter2|sk-ant/);
      expect(JSON.stringify(kept)).toContain("password: [redacted], key: [redacted]");
    }
  });
});
