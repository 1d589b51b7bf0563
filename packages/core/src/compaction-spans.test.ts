import { describe, expect, it } from "vitest";
import { configWith } from "../../../test/support/runtime.ts";
import { answer, chat, failing, type Script, tool, traced } from "../../../test/support/span-trees.ts";
import type { SpanTree } from "../../../test/support/tracing.ts";
import { createInMemoryStore, type RuntimeOptions } from "./create-runtime.ts";

describe("spans of compactions and searches", () => {
  const LINE = "The rain went on and the kettle boiled for a second time. ".repeat(6);
  const compaction = { autoCompactThreshold: 1_600, maxSummaryTokens: 100, recentTurnBudget: 2 };
  const script: Script = ({ tools, messages }) => {
    if (tools.length === 0) return { text: "They talked about rain." };
    const isAsked = JSON.stringify(messages.at(-1)).includes("Recall");
    return isAsked
      ? { calls: [{ id: "recall-1", name: "memory_search", args: { query: "heron" } }] }
      : { text: "Noted." };
  };

  async function talked(more: RuntimeOptions = {}) {
    const opened = traced(script, { compaction, memory: {}, ...more });
    const session = await opened.runtime.createSession("The code of the safe is heron-7741.");
    for (let said = 1; said < 24 && (await session.compactions()).length === 0; said += 1) {
      await session.turn(`Turn ${said}. ${LINE}`);
    }
    return { ...opened, session };
  }

  it("[G9] a compaction is part of its turn, holds the call for its summary, and what follows sees it", async () => {
    const { spanTrees, session } = await talked();
    const [made] = await session.compactions();
    const [last, before] = spanTrees().toReversed();
    expect(last?.children).toEqual([
      {
        name: "compact",
        kind: "INTERNAL",
        status: "ok",
        attributes: {
          "gen_ai.operation.name": "compact",
          "gen_ai.conversation.id": session.id,
          "rkat.compaction.id": made?.compactionId,
          "rkat.compaction.trigger": "threshold",
          "rkat.compaction.strategy": "summary",
          "rkat.compaction.summary_by": "model",
          "rkat.compaction.messages_before": made?.messagesBefore,
          "rkat.compaction.messages_after": made?.messagesAfter,
          "rkat.compaction.tokens_before": made?.tokensBefore,
          "rkat.compaction.tokens_after": made?.tokensAfter,
          "rkat.compaction.summary_tokens": 5,
          "rkat.compaction.receipt.total": made?.receipt.total,
          "rkat.compaction.receipt.in_summary": made?.receipt.inSummary,
          "rkat.compaction.receipt.in_tail": made?.receipt.inTail,
          "rkat.compaction.receipt.pinned": 0,
          "rkat.compaction.receipt.recoverable": made?.receipt.recoverable,
          "rkat.compaction.receipt.found_by_search": made?.receipt.foundBySearch,
          "rkat.compaction.receipt.lost": 0,
          "rkat.compaction.receipt.invented": 0,
          "rkat.compaction.receipt.unverified": made?.receipt.unverified?.length,
        },
        children: [chat({ "gen_ai.request.max_tokens": 100, ...answer("end_turn") })],
      },
      chat({ "gen_ai.conversation.compacted": true, ...answer("end_turn") }),
    ]);
    expect(made?.receipt.total).toBeGreaterThan(0);
    expect(before?.children).toEqual([chat(answer("end_turn"))]);
  });

  it("[G9] a compaction that fails is told as such, and the turn is not", async () => {
    const vetoed = { ...compaction, beforeCompaction: () => "not now" };
    const opened = traced(script, { compaction: vetoed, memory: {} });
    const session = await opened.runtime.createSession("Hello.");
    for (let said = 1; said < 24; said += 1) await session.turn(`Turn ${said}. ${LINE}`);
    const [first] = opened.spanTrees().flatMap(({ children }) => children.filter(({ name }) => name === "compact"));
    expect(first).toEqual({
      name: "compact",
      kind: "INTERNAL",
      status: "error",
      attributes: {
        "gen_ai.operation.name": "compact",
        "gen_ai.conversation.id": session.id,
        "error.type": "compaction_failed",
      },
      children: [],
    });
    expect(new Set(opened.spanTrees().map(({ status }) => status))).toEqual(new Set(["ok"]));
  });

  it("[G9] a compaction by hand is a trace of its own", async () => {
    const { runtime, spanTrees } = traced(script, {
      compaction: { ...compaction, autoCompactThreshold: 50_000 },
      memory: {},
    });
    const session = await runtime.createSession("Hello.");
    for (let said = 1; said < 6; said += 1) await session.turn(`Turn ${said}. ${LINE}`);
    expect(await session.compact()).toMatchObject({ compacted: true });
    const [made] = spanTrees().toReversed();
    expect(made?.attributes).toMatchObject({ "rkat.compaction.trigger": "manual" });
    expect(made).toMatchObject({ name: "compact", status: "ok" });
    expect(made?.children).toEqual([chat({ "gen_ai.request.max_tokens": 100, ...answer("end_turn") })]);
  });

  it("[G9] a search is part of the tool that asked for it, and by itself a trace of its own", async () => {
    const { spanTrees, session, runtime } = await talked();
    const search = (results: number, reach: string): SpanTree => ({
      name: "search_memory",
      kind: "INTERNAL",
      status: "ok",
      attributes: {
        "gen_ai.operation.name": "search_memory",
        "rkat.memory.limit": 5,
        "rkat.memory.reach": reach,
        "gen_ai.memory.record.count": results,
        "rkat.memory.mode": "lexical",
      },
      children: [],
    });
    await session.turn("Recall the code.");
    const [asked] = spanTrees().toReversed();
    expect(asked?.children.filter(({ name }) => name !== "compact").slice(0, 2)).toEqual([
      chat({ "gen_ai.conversation.compacted": true, ...answer("tool_use") }),
      tool("memory_search", "recall-1", { children: [search(1, "discarded")] }),
    ]);
    const { results } = await runtime.searchMemory("heron", { everything: true });
    expect(results.length).toBeGreaterThan(0);
    expect(spanTrees().at(-1)).toEqual(search(results.length, "everything"));
  });

  it("[G9] a summary of an agent's memories is a chat of no conversation", async () => {
    const config = configWith({ agent_memory: { immediate_window: 1, recent_window: 1 } });
    const { runtime, spanTrees } = traced([failing("overloaded"), { text: "Ada saw a heron." }], {
      config,
      store: createInMemoryStore(),
    });
    for (const memory of ["A heron.", "A fox.", "A hare."]) await runtime.agent("ada").remember(memory);
    await runtime.agent("ada").compact();
    const plain = (attributes: SpanTree["attributes"], status = "ok"): SpanTree => {
      const { "gen_ai.conversation.id": _none, ...rest } = chat(attributes).attributes;
      return { ...chat(attributes, status), attributes: { ...rest, "gen_ai.request.max_tokens": 512 } };
    };
    expect(spanTrees()).toEqual([
      plain({ "error.type": "overloaded" }, "error"),
      plain({
        "rkat.chat.attempt": 2,
        "rkat.retry.reason": "overloaded",
        "rkat.retry.delay_ms": 500,
        ...answer("end_turn"),
      }),
    ]);
  });
});
