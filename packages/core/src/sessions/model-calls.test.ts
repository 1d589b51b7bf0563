import { describe, expect, it } from "vitest";
import { scriptedRuntime } from "../../../../test/support/runtime.ts";
import { COMPACTION_PROMPT } from "../compaction/shown-messages.ts";
import { createInMemoryStore } from "../create-runtime.ts";
import type { ModelRequest } from "../ports/model.ts";
import type { Tool } from "../ports/tool.ts";

const LINE = "All of this was said while the kettle boiled and the rain went on. ".repeat(4);
const COMPACTING = { autoCompactThreshold: 50_000, maxSummaryTokens: 200, recentTurnBudget: 2 };
const tool = (name: string, content: string): Tool => ({
  name,
  description: "Answers.",
  inputSchema: { type: "object" },
  execute: () => content,
});

function lastText({ messages }: ModelRequest): string {
  const last = messages.at(-1);
  return last?.role === "user" ? String(last.content) : "";
}

/** Calls the tool that its prompt begins with, and says something else of its own. */
function spoken() {
  return scriptedRuntime(
    (request) => {
      const asked = lastText(request);
      if (asked.startsWith(COMPACTION_PROMPT)) return { text: "They spoke of the rain." };
      const [, name] = /^call (\w+)/.exec(asked) ?? [];
      return name === undefined ? { text: `Noted. ${LINE}` } : { calls: [{ name }] };
    },
    {
      store: createInMemoryStore(),
      systemPrompt: "Keep notes.",
      compaction: COMPACTING,
      tools: [tool("look", `It rains. ${LINE}`), tool("memory_search", `[{"content":"It rained."}] ${LINE}`)],
    },
  );
}

describe("a session's model calls", () => {
  it("[C20] are counted with the tools they were made with, whatever tools the server has later", async () => {
    const store = createInMemoryStore();
    const { runtime: before } = scriptedRuntime([{ text: "Noted." }], { store, tools: [tool("look", "It rains.")] });
    const { id } = await before.createSession("Begin.");
    const [first] = (await before.dispatch("listModelCalls", { session_id: id })).calls;
    const tools = ["look", "list", "read", "write"].map((name) => tool(name, "Done."));
    const { runtime } = scriptedRuntime([{ text: "Noted." }], { store, tools });
    await runtime.dispatch("startTurn", { session_id: id, prompt: "Go on." });
    const { calls } = await runtime.dispatch("listModelCalls", { session_id: id });
    expect(first?.tool_tokens).toBeGreaterThan(0);
    expect(calls[0]).toEqual(first);
    expect(calls[1]?.tool_tokens).toBeGreaterThan(first?.tool_tokens ?? 0);
    const context = await runtime.dispatch("readContext", { session_id: id, at_seq: first?.seq });
    expect(context.tool_tokens).toBe(first?.tool_tokens);
  });

  it("[C20] each has the sizes that readContext tells of it, through pins, compactions, expansions and undoing", async () => {
    const { runtime } = spoken();
    const session = await runtime.createSession(`Begin. ${LINE}`);
    await session.turn("call look");
    await session.turn("call memory_search");
    const { messages } = await session.history();
    await session.pin(messages.find(({ role }) => role === "block_assistant")?.seq ?? 0);
    for (let turn = 0; turn < 4; turn += 1) await session.turn(`Turn ${turn}. ${LINE}`);
    const { compaction } = await session.compact();
    await session.turn("After.");
    await session.expandCompaction(compaction?.compactionId ?? "", { maxTokens: 1_000 });
    await session.turn("Expanded.");
    await session.undoCompaction(compaction?.compactionId ?? "");
    await session.turn("Undone.");
    const { calls, compactions, nextBeforeSeq: next_before_seq } = await session.modelCalls();
    expect(calls).toHaveLength(12);
    for (const call of calls) {
      const context = await session.context({ atSeq: call.seq });
      expect(call).toMatchObject({
        parts: context.kinds,
        tokens: context.estimatedTokens,
        toolTokens: context.toolTokens,
        threshold: context.autoCompactThreshold,
      });
      const turns = context.parts
        .filter(({ kind }) => kind === "turn")
        .reduce((sum, part) => sum + part.estimatedTokens, 0);
      const inTurns = call.parts.filter(({ kind }) => ["turn", "tool_output", "memory"].includes(kind));
      expect(inTurns.reduce((sum, { tokens }) => sum + tokens, 0)).toBe(turns);
    }
    const kinds = calls.map(({ parts }) => parts.map(({ kind }) => kind).join(" "));
    expect(kinds[0]).toBe("system turn");
    expect(kinds[2]).toBe("system turn tool_output");
    expect(kinds[4]).toBe("system turn tool_output memory");
    expect(kinds[5]).toBe("system turn pinned tool_output memory");
    expect(kinds[9]).toBe("system summary turn pinned");
    expect(kinds[10]).toContain("expanded");
    expect(kinds[11]).toBe(kinds[5]);
    expect(calls.map(({ turn }) => turn)).toEqual([1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 10]);
    expect(calls[0]).toMatchObject({ model: "scripted", usage: expect.anything(), at: expect.stringMatching(/Z$/) });
    const {
      seq,
      compactionId: compaction_id,
      tokensBefore: tokens_before,
      tokensAfter: tokens_after,
    } = compaction ?? {};
    expect(compactions).toEqual([
      {
        seq,
        trigger: "manual",
        compactionId: compaction_id,
        tokensBefore: tokens_before,
        tokensAfter: tokens_after,
        undone: true,
      },
    ]);
    expect(next_before_seq).toBeUndefined();
  });

  it("[C20] come in pages from the newest back, each call and each compaction in one of them", async () => {
    const { runtime } = spoken();
    const session = await runtime.createSession(`Begin. ${LINE}`);
    for (let turn = 0; turn < 9; turn += 1) {
      await session.turn(`Turn ${turn}. ${LINE}`);
      if (turn % 3 === 2) await session.compact();
    }
    const whole = await session.modelCalls();
    expect([whole.calls.length, whole.compactions.length]).toEqual([10, 3]);
    const pages = [await session.modelCalls({ limit: 3 })];
    for (let next = pages[0]?.nextBeforeSeq; next !== undefined; next = pages[0]?.nextBeforeSeq) {
      pages.unshift(await session.modelCalls({ limit: 3, beforeSeq: next }));
    }
    expect(pages.map(({ calls }) => calls.length)).toEqual([1, 3, 3, 3]);
    expect(pages.flatMap(({ calls }) => calls)).toEqual(whole.calls);
    expect(pages.flatMap(({ compactions }) => compactions)).toEqual(whole.compactions);
    expect(await session.modelCalls({ beforeSeq: 1 })).toEqual({ calls: [], compactions: [] });
  });

  it("[C20] are none of a session that has not run, and refused of one that is not there", async () => {
    const { runtime } = spoken();
    const session = await runtime.createSession();
    expect(await session.modelCalls()).toEqual({ calls: [], compactions: [] });
    const session_id = "00000000-0000-7000-8000-000000000000";
    await expect(runtime.dispatch("listModelCalls", { session_id })).rejects.toMatchObject({
      code: "SESSION_NOT_FOUND",
    });
    await expect(session.modelCalls({ limit: 0 })).rejects.toThrow("limit: write a whole number above 0");
  });
});
