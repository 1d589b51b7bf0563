import { describe, expect, it } from "vitest";
import { listen, scriptedRuntime, typesOf } from "../../../../test/support/runtime.ts";
import { createVirtualClock } from "../../../../test/support/virtual-clock.ts";
import type { AgentEvent } from "../contract/event.ts";
import type { Message } from "../contract/message.ts";
import { createInMemoryStore, createRuntime, type RuntimeOptions } from "../create-runtime.ts";
import type { ModelFailure, ModelRequest } from "../ports/model.ts";
import type { Tool } from "../ports/tool.ts";
import { createScriptedModel, type ScriptedStep } from "../providers/scripted.ts";
import { COMPACTION_PROMPT, SUMMARY_PREFIX } from "./shown-messages.ts";

const PAGE = "The heron stood in the reeds and waited. ".repeat(20); // about 200 tokens
const SMALL = { autoCompactThreshold: 1_000, maxSummaryTokens: 100, recentTurnBudget: 2 };

const tool = (name: string, output: string): Tool => ({
  name,
  description: "Looks.",
  inputSchema: { type: "object", properties: {} },
  execute: () => output,
});

const isSummaryCall = ({ messages }: ModelRequest): boolean => {
  const last = messages.at(-1);
  return last?.role === "user" && String(last.content).startsWith(COMPACTION_PROMPT);
};

/** Answers every prompt with a page, and every request for a summary with what the test says. */
function paging(summary: ScriptedStep | ((request: ModelRequest) => ScriptedStep)) {
  return (request: ModelRequest): ScriptedStep => {
    if (!isSummaryCall(request)) return { text: `Page: ${PAGE}`, usage: { input_tokens: 10, output_tokens: 5 } };
    return typeof summary === "function" ? summary(request) : summary;
  };
}

const WRITTEN: ScriptedStep = {
  text: ["They read about ", "a heron."],
  usage: { input_tokens: 700, output_tokens: 33 },
};

function reader(summary: Parameters<typeof paging>[0] = WRITTEN, options: RuntimeOptions = {}) {
  return scriptedRuntime(paging(summary), {
    store: createInMemoryStore(),
    systemPrompt: "Be brief.",
    compaction: SMALL,
    ...options,
  });
}

/** Runs turns until one of them compacts; resolves with that turn's events. */
async function untilCompaction(runtime: ReturnType<typeof reader>["runtime"], turnsMax = 12) {
  const session = await runtime.createSession("Read page 0.");
  for (let page = 1; page <= turnsMax; page += 1) {
    const { events } = await listen(session.stream(`Read page ${page}.`));
    if (events.some((event) => event.type.startsWith("compaction"))) return { session, events, page };
  }
  throw new Error("it never compacted");
}

const pick = (events: readonly AgentEvent[]) => events.filter((event) => event.type.startsWith("compaction"));

describe("one compaction, step by step", () => {
  it("[C11] is announced before the first call of the turn, and told when it is done", async () => {
    const { runtime } = reader();
    const { events, session } = await untilCompaction(runtime);
    expect(typesOf(events).slice(0, 4)).toEqual([
      "run_started",
      "compaction_started",
      "compaction_completed",
      "turn_started",
    ]);
    const [compaction] = await session.compactions();
    expect(pick(events)).toEqual([
      {
        type: "compaction_started",
        compaction_id: compaction?.compactionId,
        input_tokens: 10,
        estimated_history_tokens: compaction?.tokensBefore,
        message_count: compaction?.messagesBefore,
      },
      {
        type: "compaction_completed",
        summary_tokens: 33,
        messages_before: compaction?.messagesBefore,
        messages_after: 5,
      },
    ]);
  });

  it("[C5] asks with the history and the prompt, no tools, the summary's limit, and nothing leaks", async () => {
    const { runtime, model } = reader(WRITTEN, { tools: [tool("look", "")] });
    const { events } = await untilCompaction(runtime);
    const request = model.requests.find(isSummaryCall);
    expect(request).toMatchObject({ tools: [], maxOutputTokens: 100 });
    expect(request?.messages[0]).toMatchObject({ role: "system", content: "Be brief." });
    expect(request?.messages[1]).toMatchObject({ role: "user", content: "Read page 0." });
    expect(request?.messages.at(-1)).toMatchObject({ role: "user", content: COMPACTION_PROMPT });
    expect(JSON.stringify(events.filter((event) => event.type === "text_delta"))).not.toContain("heron.");
  });

  it("[C6] [C7] the next call sees system, summary and the last turns; the second summary replaces the first", async () => {
    const { runtime, model } = reader();
    const { session, page } = await untilCompaction(runtime);
    const shown = model.requests.at(-1)?.messages ?? [];
    expect(shown.map((message) => message.role)).toEqual(["system", "user", "user", "block_assistant", "user"]);
    expect(shown[1]).toMatchObject({ content: `${SUMMARY_PREFIX}\n\nThey read about a heron.` });
    expect(shown[4]).toMatchObject({ content: `Read page ${page}.` });
    for (let more = 0; more < 6; more += 1) await session.turn("Go on.");
    const [first, second] = await session.compactions();
    expect(second).toMatchObject({ superseded: first?.compactionId });
    expect(second?.discarded[0]?.fromSeq).toBe(first?.kept[0]?.fromSeq);
    const { messages } = await session.context();
    expect(messages.filter((message) => JSON.stringify(message).includes("[Context compacted]"))).toHaveLength(1);
    const summaryRequest = model.requests.findLast(isSummaryCall);
    expect(JSON.stringify(summaryRequest?.messages[1])).toContain("They read about a heron.");
  });

  it("[C5] counts the summary's use for the session and its budget", async () => {
    const { runtime } = reader();
    const { session, page } = await untilCompaction(runtime);
    expect(session.lastResult?.usage).toMatchObject({
      inputTokens: 10 * (page + 1) + 700,
      outputTokens: 5 * (page + 1) + 33,
    });
  });

  it("[C11] takes the last input tokens for gone, so it is not due at once", async () => {
    const { runtime, model } = scriptedRuntime(
      (request) =>
        isSummaryCall(request) ? WRITTEN : { text: "Yes.", usage: { input_tokens: 5_000, output_tokens: 1 } },
      { store: createInMemoryStore(), compaction: { ...SMALL, minTurnsBetweenCompactions: 0 } },
    );
    const session = await runtime.createSession(PAGE);
    await session.turn(PAGE);
    await session.turn("3");
    expect(await session.compactions()).toHaveLength(1);
    expect(model.requests.filter(isSummaryCall)).toHaveLength(1);
  });

  it("[C2] checks between tool batches, too, and keeps the running turn whole", async () => {
    const look = tool("look", PAGE.repeat(3));
    const { runtime } = scriptedRuntime(
      (request) => {
        if (isSummaryCall(request)) return WRITTEN;
        const last = request.messages.at(-1);
        if (last?.role === "user" && last.content === "Look.") return { calls: [{ name: "look" }, { name: "look" }] };
        return { text: "Yes." };
      },
      { store: createInMemoryStore(), compaction: { ...SMALL, recentTurnBudget: 1 }, tools: [look] },
    );
    const session = await runtime.createSession(PAGE);
    const { events } = await listen(session.stream("Look."));
    expect(typesOf(events).filter((type) => /^(turn_started|tool_result|compaction)/.test(type))).toEqual([
      "turn_started",
      "tool_result_received",
      "tool_result_received",
      "compaction_started",
      "compaction_completed",
      "turn_started",
    ]);
    const { messages } = await session.context();
    expect(messages.map((message) => message.role)).toEqual([
      "user",
      "user",
      "block_assistant",
      "tool_results",
      "block_assistant",
    ]);
  });

  it("[C2] keeps its distance across a restart, and counts a failed attempt", async () => {
    const store = createInMemoryStore();
    const failure: ModelFailure = { kind: "invalid_request", message: "no" };
    const { runtime } = reader({ ends: { failure } }, { store });
    const { session, events } = await untilCompaction(runtime);
    expect(pick(events).map((event) => event.type)).toEqual(["compaction_started", "compaction_failed"]);
    const info = await runtime.readSession(session.id);
    const index = info.sessionCompactionCadence?.sessionBoundaryIndex ?? 0;
    expect(info.sessionCompactionCadence).toEqual({
      sessionBoundaryIndex: index,
      lastCompactionAttemptBoundaryIndex: index - 1,
    });
    const other = reader(WRITTEN, { store }).runtime.session(session.id);
    const kinds: string[] = [];
    for (let turn = 0; turn < 3; turn += 1) {
      const { events: received } = await listen(other.stream("Go on."));
      kinds.push(
        pick(received)
          .map((event) => event.type)
          .join(),
      );
    }
    expect(kinds).toEqual(["", "", "compaction_started,compaction_completed"]);
  });
});

describe("a compaction that fails", () => {
  const failures: readonly (readonly [string, ScriptedStep, RegExp])[] = [
    ["the model's error", { ends: { failure: { kind: "invalid_request", message: "bad request" } } }, /^bad request$/],
    ["an empty summary", { text: "  " }, /^LLM returned empty summary$/],
    ["a summary that is no shorter", { text: PAGE.repeat(30) }, /^the result would not be smaller/],
    [
      "a summary of inventions",
      { text: "Deployed /opt/kraken/9917.yaml to https://kraken.example/77." },
      /^nothing in the summary/,
    ],
  ];
  for (const [name, summary, error] of failures) {
    it(`[C10] ${name}: told, nothing changed, the turn goes on`, async () => {
      const { runtime } = reader(summary);
      const { session, events } = await untilCompaction(runtime);
      const [, failed] = pick(events);
      expect(failed).toEqual({ type: "compaction_failed", error: expect.stringMatching(error) });
      expect(events.at(-1)).toMatchObject({ type: "run_completed" });
      expect(await session.compactions()).toEqual([]);
      const [context, history] = await Promise.all([session.context(), session.history()]);
      expect(context.messages).toEqual(history.messages);
    });
  }

  it("[C10] counts what a refused summary cost", async () => {
    const { runtime } = reader({ text: "", usage: { input_tokens: 400, output_tokens: 1 } });
    const { session, page } = await untilCompaction(runtime);
    expect(session.lastResult?.usage.inputTokens).toBe(10 * (page + 1) + 400);
  });

  it("[C5] is tried again after a transient failure, and tells the retry", async () => {
    let attempts = 0;
    const { runtime } = reader(() => {
      attempts += 1;
      return attempts === 1 ? { ends: { failure: { kind: "overloaded", message: "busy" } } } : WRITTEN;
    });
    const { events } = await untilCompaction(runtime);
    expect(typesOf(events).slice(1, 4)).toEqual(["compaction_started", "retrying", "compaction_completed"]);
  });

  it("[C8] asks no model for a summary that could not be shorter than what it replaces", async () => {
    const { runtime, model } = scriptedRuntime((request) => (isSummaryCall(request) ? WRITTEN : { text: "Yes." }), {
      store: createInMemoryStore(),
      compaction: { ...SMALL, recentTurnBudget: 1 },
    });
    const session = await runtime.createSession("Hello.");
    await session.turn(PAGE.repeat(6));
    expect(await session.compact()).toMatchObject({ compacted: false, reason: expect.stringContaining("shorter") });
    expect(model.requests.filter(isSummaryCall)).toEqual([]);
  });

  it("[C8] says nothing and counts nothing when there is nothing to take out", async () => {
    const { runtime } = reader(WRITTEN, { compaction: { ...SMALL, recentTurnBudget: 50 } });
    const session = await runtime.createSession("Read page 0.");
    for (let page = 1; page < 10; page += 1) {
      const { events } = await listen(session.stream("Read on."));
      expect(pick(events)).toEqual([]);
    }
    const { sessionCompactionCadence: session_compaction_cadence } = await runtime.readSession(session.id);
    expect(session_compaction_cadence).toEqual({ sessionBoundaryIndex: 10 });
  });
});

/** A session whose model has a small window and refuses what is larger, as providers do. */
function windowed(
  contextWindow: number,
  options: RuntimeOptions & {
    summary?: ScriptedStep;
    onCall?: (request: ModelRequest) => ScriptedStep | undefined;
  } = {},
) {
  const { summary = WRITTEN, onCall = () => undefined, ...rest } = options;
  const sizeOf = (messages: readonly Message[]): number => JSON.stringify(messages).length / 4;
  const model = createScriptedModel(
    (request) => {
      if (sizeOf(request.messages) > contextWindow) {
        return { ends: { failure: { kind: "context_exceeded", message: "prompt is too long" } } };
      }
      if (isSummaryCall(request)) return summary;
      return onCall(request) ?? { text: `Page: ${PAGE}` };
    },
    { contextWindow },
  );
  const store = createInMemoryStore();
  const runtime = createRuntime({ model, store, env: {}, clock: createVirtualClock(), compaction: true, ...rest });
  return { model, runtime };
}

describe("a context that does not fit", () => {
  it("[C4] is compacted when the provider says so, and the call is made again", async () => {
    let isTooLong = true;
    const { runtime } = windowed(100_000, {
      compaction: { recentTurnBudget: 1 },
      onCall: ({ messages }) => {
        if (messages.length < 6 || !isTooLong) return undefined;
        isTooLong = false;
        return { ends: { failure: { kind: "context_exceeded", message: "prompt is too long" } } };
      },
    });
    const session = await runtime.createSession("1");
    await session.turn("2");
    await session.turn("3");
    const { events } = await listen(session.stream("4"));
    expect(typesOf(events).filter((type) => !/delta|complete$/.test(type))).toEqual([
      "run_started",
      "turn_started",
      "compaction_started",
      "compaction_completed",
      "turn_started",
      "turn_completed",
      "run_completed",
    ]);
    expect(await session.compactions()).toMatchObject([{ trigger: "overflow", messagesAfter: 2 }]);
  });

  it("[C4] [C9] one enormous message of the user: the turn says what fills the window, the session goes on", async () => {
    const { runtime } = windowed(4_000);
    const session = await runtime.createSession("Hello.");
    await session.turn("Read.");
    const { error } = await listen(session.stream(PAGE.repeat(100)));
    expect(error).toMatchObject({
      code: "PROVIDER_ERROR",
      message: expect.stringMatching(
        /^prompt is too long; the context is about \d+ tokens of the model's 4000, of which the user message at seq \d+ takes \d+, and nothing more can be removed: send it in parts$/,
      ),
    });
    const { events } = await listen(session.stream("Was that too much?"));
    expect(events.at(-1)).toMatchObject({ type: "run_completed" });
    const [compaction] = await session.compactions();
    expect(compaction?.trigger).toBe("overflow");
    expect((await session.context()).estimatedTokens).toBeLessThan(4_000);
  });

  it("[C8] one enormous tool result: shown as a reference that says where it is", async () => {
    const read = tool("read", PAGE.repeat(60));
    const { runtime } = windowed(6_000, {
      tools: [read],
      onCall: ({ messages }) => (messages.at(-1)?.role === "user" ? { calls: [{ name: "read" }] } : undefined),
    });
    const session = await runtime.createSession("Read it.");
    expect(session.text).toContain("Page:");
    const [compaction] = await session.compactions();
    expect(compaction).toMatchObject({ trigger: "overflow", summaryBy: "none", summary: "", discarded: [] });
    const { messages } = await session.context();
    expect(JSON.stringify(messages)).toMatch(
      /the whole result of read \(about 12,\d+ tokens\) is in the log at seq \d+/,
    );
    expect(JSON.stringify(await session.history())).toContain(PAGE.repeat(60).slice(0, 40_000));
  });

  it("[C8] one turn of many tool calls: its oldest exchanges make room, what was asked stays", async () => {
    const read = tool("read", PAGE);
    let called = 0;
    const { runtime } = windowed(6_000, {
      tools: [read],
      onCall: () => {
        called += 1;
        return called < 60 ? { text: `Step ${called}.`, calls: [{ name: "read" }] } : { text: "Read all." };
      },
    });
    const session = await runtime.createSession("Read everything there is about herons.");
    expect(session.text).toBe("Read all.");
    const compactions = await session.compactions();
    expect(compactions.length).toBeGreaterThan(1);
    const { messages } = await session.context();
    expect(messages[1]).toMatchObject({ role: "user", content: "Read everything there is about herons." });
  });

  it("[C12] a summariser that cannot take the request gives way to an extractive summary that says so", async () => {
    const tooLong: ScriptedStep = { ends: { failure: { kind: "context_exceeded", message: "too long for me" } } };
    const { runtime } = reader(tooLong);
    const { session } = await untilCompaction(runtime);
    const [compaction] = await session.compactions();
    expect(compaction).toMatchObject({
      summaryBy: "extractive",
      summary: expect.stringMatching(/^\(This summary was made without a model/),
    });
    expect(compaction?.notes).toEqual([
      "the model could not summarise (too long for me), so the summary is extractive",
    ]);
  });

  it("[C12] a provider that is down fails a compaction, unless the window is full", async () => {
    const down: ScriptedStep = { ends: { failure: { kind: "server_error", message: "down" } } };
    const calm = await untilCompaction(reader(down).runtime);
    expect(pick(calm.events).at(-1)).toEqual({ type: "compaction_failed", error: "down" });
    const { runtime } = windowed(3_000, { summary: down });
    const full = await untilCompaction(runtime, 40);
    const last = (await listen(full.session.stream(PAGE.repeat(6)))).events;
    expect(last.at(-1)).toMatchObject({ type: "run_completed" });
    expect(await full.session.compactions()).toMatchObject([{ summaryBy: "extractive", trigger: "overflow" }]);
  });

  it("[C9] a summary request never exceeds the window of the model that is asked for it", async () => {
    const { runtime, model } = windowed(3_000);
    const session = await runtime.createSession("Hello.");
    for (let turn = 0; turn < 30; turn += 1) await session.turn(`${turn} ${PAGE.repeat(turn % 5)}`);
    const requests = model.requests.filter(isSummaryCall);
    expect(requests.length).toBeGreaterThan(3);
    for (const { messages } of requests) expect(JSON.stringify(messages).length / 4).toBeLessThan(3_000);
  });
});
