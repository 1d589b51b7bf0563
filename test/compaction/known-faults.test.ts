import { grammarFaults } from "@rkat/core/compaction/grammar";
import { DefaultCompactor } from "@rkat/core/compaction/policy";
import { isSummary, summaryMessage } from "@rkat/core/compaction/shown-messages";
import { createInMemoryStore } from "@rkat/core/create-runtime";
import type { Compactor } from "@rkat/core/ports/compactor";
import type { Session } from "@rkat/core/sessions/session-handle";
import { describe, expect, it } from "vitest";
import { scriptedRuntime } from "../support/runtime.ts";
import { createCompactingModel, look } from "./compacting-model.ts";

const MANUAL = { recentTurnBudget: 1, maxSummaryTokens: 100 };
const said = (turn: number): string => `turn ${turn}: ${"and then? ".repeat(40)}`;

async function talk(session: Session, turns: number): Promise<void> {
  for (let turn = 1; turn <= turns; turn += 1) await session.turn(said(turn));
}

describe("found by the property tests, each failed when it was written", () => {
  it("[C18] a message that is pinned on top of two compactions stays when the second is undone", async () => {
    const { runtime } = scriptedRuntime([], {
      model: createCompactingModel(async () => {}),
      store: createInMemoryStore(),
      tools: [look],
      compaction: MANUAL,
    });
    const session = await runtime.createSession(said(0));
    await talk(session, 4);
    await session.compact();
    await talk(session, 4);
    const { compaction } = await session.compact();
    const seq = (await session.history()).messages.find(({ role }) => role === "user")?.seq ?? 0;
    await session.pin(seq);
    await session.undoCompaction(compaction?.compactionId ?? "");
    expect((await session.context()).messages.map((message) => message.seq)).toContain(seq);
  });

  it("[C14] a pin brings nothing back that a provider would not take", async () => {
    const compactor = keepsAnswersOnly();
    const { runtime } = scriptedRuntime([], {
      model: createCompactingModel(async () => {}),
      store: createInMemoryStore(),
      tools: [look],
      compaction: { compactor },
    });
    const session = await runtime.createSession(said(0));
    await talk(session, 6);
    await session.compact();
    const seq = (await session.history()).messages.find(({ role }) => role === "tool_results")?.seq ?? 0;
    await session.pin(seq).catch(() => {});
    expect(grammarFaults((await session.context()).messages)).toEqual([]);
  });

  it("[C13] expands what a server has numbered anew in every answer, as it stood before", async () => {
    const { runtime } = scriptedRuntime(
      ({ messages, tools }) => {
        if (tools.length === 0) return { text: "They talked about turns." };
        return messages.at(-1)?.role === "user" ? { calls: [{ id: "call_0", name: "look" }] } : { text: "done" };
      },
      { store: createInMemoryStore(), tools: [look], compaction: { ...MANUAL, cutInvented: false } },
    );
    const session = await runtime.createSession(said(0));
    await talk(session, 4);
    const { compaction } = await session.compact();
    const { expanded } = await session.expandCompaction(compaction?.compactionId ?? "");
    expect(expanded).not.toEqual([]);
  });
});

/** A compactor of somebody who knows no grammar. */
function keepsAnswersOnly(): Compactor {
  const base = new DefaultCompactor(MANUAL);
  return {
    shouldCompact: () => false,
    compactionPrompt: () => base.compactionPrompt(),
    maxSummaryTokens: () => base.maxSummaryTokens(),
    prepareForSummarization: (messages) => base.prepareForSummarization(messages),
    rebuildHistory: (messages, summary) => {
      const stands = summaryMessage({ summary, created_at: messages[0]?.created_at ?? "", compaction_id: "" });
      const own = messages.filter((message) => message.role !== "system" && !isSummary(message));
      return {
        messages: [
          ...messages.filter(({ role }) => role === "system"),
          stands,
          ...own.filter(({ role }) => role === "block_assistant"),
        ],
        discarded: own.filter(({ role }) => role !== "block_assistant"),
      };
    },
  };
}
