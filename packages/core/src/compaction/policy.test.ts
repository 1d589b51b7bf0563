import { describe, expect, it } from "vitest";
import { answer as answerOf, calls as call, results, says, user } from "../../../../test/support/planted-histories.ts";
import type { Message } from "../contract/message.ts";
import type { CompactionContext } from "../ports/compactor.ts";
import { type BoundaryFacts, DefaultCompactor, judgeBoundary, thresholdFor } from "./policy.ts";

const compactor = new DefaultCompactor({ autoCompactThreshold: 5_000 });
const facts = (given: Partial<BoundaryFacts>): BoundaryFacts => ({
  lastInputTokens: 0,
  messageCount: 10,
  estimatedHistoryTokens: 0,
  lastCompactionBoundaryIndex: undefined,
  sessionBoundaryIndex: 10,
  contextWindow: 10_000,
  toolTokens: 0,
  outputTokens: 0,
  requestBytes: 0,
  minTurnsBetweenCompactions: 3,
  ...given,
});
const judge = (given: Partial<BoundaryFacts>) => judgeBoundary(facts(given), compactor);

describe("the judgement at a boundary", () => {
  it("[C3] [R4] takes the threshold asked for, else most of the window, and without a price at most 100,000", () => {
    expect(thresholdFor(150_000, 1_000_000, false)).toBe(150_000);
    expect(thresholdFor(undefined, 1_000_000, true)).toBe(800_000);
    expect(thresholdFor(undefined, 1_000_000, false)).toBe(100_000);
    expect(thresholdFor(undefined, 64_000, false)).toBe(51_200);
    expect(thresholdFor(undefined, undefined, true)).toBe(100_000);
  });

  it("[C3] counts tools and the answer's reserve, and the bytes of the request", () => {
    const roomy = new DefaultCompactor({ autoCompactThreshold: 9_500 });
    const roomyFacts = facts({ estimatedHistoryTokens: 7_000, toolTokens: 999, outputTokens: 16_000 });
    expect(judgeBoundary(roomyFacts, roomy)).toBe("not_due");
    expect(judgeBoundary({ ...roomyFacts, toolTokens: 1_000 }, roomy)).toBe("full");
    expect(judge({ requestBytes: 15 * 1_024 * 1_024 })).toBe("not_due");
    expect(judge({ requestBytes: 17 * 1_024 * 1_024 })).toBe("full");
  });

  it("[C2] waits between compactions, also when the forecast or the bytes say otherwise", () => {
    const guarded = { lastCompactionBoundaryIndex: 8, toolTokens: 4_000, requestBytes: 1e9 };
    expect(judge({ ...guarded, estimatedHistoryTokens: 5_999 })).toBe("not_due");
    expect(judge({ ...guarded, estimatedHistoryTokens: 5_999, lastCompactionBoundaryIndex: 7 })).toBe("full");
  });

  it("[C4] does not wait when the context no longer fits", () => {
    expect(judge({ lastCompactionBoundaryIndex: 10, estimatedHistoryTokens: 9_000, toolTokens: 1_000 })).toBe(
      "overflow",
    );
    expect(judge({ lastCompactionBoundaryIndex: 10, lastInputTokens: 1e9 })).toBe("not_due");
    expect(judge({ sessionBoundaryIndex: 0, lastInputTokens: 1e9 })).toBe("not_due");
  });
});

const at = (context: Partial<CompactionContext>): CompactionContext => ({
  lastInputTokens: 0,
  messageCount: 10,
  estimatedHistoryTokens: 0,
  lastCompactionBoundaryIndex: undefined,
  sessionBoundaryIndex: 10,
  ...context,
});

const PROMPT = [
  "You are performing a CONTEXT COMPACTION. Your job is to create a handoff summary so work can continue seamlessly.",
  "",
  "Include:",
  "- Current progress and key decisions made",
  "- Important context, constraints, or user preferences discovered",
  "- What remains to be done (clear next steps)",
  "- Any critical data, file paths, examples, or references needed to continue",
  "- Tool call patterns that worked or failed",
  "",
  "Be concise and structured. Prioritize information the next context needs to act, not narrate.",
].join("\n");
const PREFIX =
  "[Context compacted] A previous context produced the following summary of work so far. The current tool and session state is preserved. Use this summary to continue without duplicating work:";

const answer = (text: string): Message => answerOf(says(text));
const calls = (...ids: string[]): Message => answerOf(...ids.map((id) => call(id)));
const system: Message = { role: "system", content: "Be brief.", created_at: "" };
const notice: Message = { role: "system_notice", kind: "instructions", body: "Mind the gap.", created_at: "" };

describe("the default compactor", () => {
  it("[C1] has the defaults 100,000, 4, 4,096 and 3", () => {
    const compactor = new DefaultCompactor();
    expect(compactor.shouldCompact(at({ lastInputTokens: 99_999 }))).toBe(false);
    expect(compactor.shouldCompact(at({ lastInputTokens: 100_000 }))).toBe(true);
    expect(compactor.shouldCompact(at({ lastInputTokens: 100_000, lastCompactionBoundaryIndex: 8 }))).toBe(false);
    expect(compactor.shouldCompact(at({ lastInputTokens: 100_000, lastCompactionBoundaryIndex: 7 }))).toBe(true);
    expect(compactor.maxSummaryTokens()).toBe(4_096);
    const turns = Array.from({ length: 6 }, (_, index) => [user(`ask ${index}`), answer(`answer ${index}`)]);
    expect(compactor.rebuildHistory(turns.flat(), "s").discarded).toEqual(turns.slice(0, 2).flat());
  });

  it("[C2] never compacts at the first boundary", () => {
    expect(new DefaultCompactor().shouldCompact(at({ sessionBoundaryIndex: 0, lastInputTokens: 1e9 }))).toBe(false);
  });

  it("[C3] is due by either count, at the threshold and above it", () => {
    const compactor = new DefaultCompactor({ autoCompactThreshold: 500 });
    expect(compactor.shouldCompact(at({ lastInputTokens: 499, estimatedHistoryTokens: 499 }))).toBe(false);
    expect(compactor.shouldCompact(at({ estimatedHistoryTokens: 500 }))).toBe(true);
    expect(compactor.shouldCompact(at({ lastInputTokens: 500 }))).toBe(true);
  });

  it("[C5] asks with the fixed prompt and introduces the summary with the fixed prefix", () => {
    const compactor = new DefaultCompactor({ recentTurnBudget: 1 });
    expect(compactor.compactionPrompt()).toBe(PROMPT);
    const { messages } = compactor.rebuildHistory([user("a"), answer("b"), user("c")], "All is well.");
    expect(messages[0]).toMatchObject({ role: "user", content: `${PREFIX}\n\nAll is well.` });
  });

  it("[C6] keeps the system message, the summary and the last whole turns; the rest is discarded in order", () => {
    const old = [user("1"), calls("x"), results("x"), answer("done")];
    const kept = [user("2"), calls("y", "z"), results("y", "z"), calls("w"), results("w"), answer("so"), user("3")];
    const { messages, discarded } = new DefaultCompactor({ recentTurnBudget: 2 }).rebuildHistory(
      [system, ...old, ...kept],
      "s",
    );
    expect(messages[0]).toBe(system);
    expect(messages.slice(2)).toEqual(kept);
    expect(discarded).toEqual(old);
  });

  it("[C6] glues a notice to the user message it was put before", () => {
    const { messages, discarded } = new DefaultCompactor({ recentTurnBudget: 1 }).rebuildHistory(
      [user("1"), answer("one"), notice, user("2"), answer("two"), notice],
      "s",
    );
    expect(messages.slice(1)).toEqual([notice, user("2"), answer("two"), notice]);
    expect(discarded).toEqual([user("1"), answer("one")]);
  });

  it("[C7] supersedes the earlier summary, which is no turn and never discarded content", () => {
    const compactor = new DefaultCompactor({ recentTurnBudget: 1 });
    const first = compactor.rebuildHistory([system, user("1"), answer("one"), user("2"), answer("two")], "first");
    const again = compactor.rebuildHistory([...first.messages, user("3")], "second");
    expect(again.messages).toEqual([system, expect.objectContaining({ content: `${PREFIX}\n\nsecond` }), user("3")]);
    expect(again.discarded).toEqual([user("2"), answer("two")]);
    // Pasted by a user it is something the user said.
    const pasted = user(`${PREFIX}\n\nsomething`);
    expect(compactor.rebuildHistory([pasted, answer("?"), user("3")], "s").discarded).toEqual([pasted, answer("?")]);
  });
});
