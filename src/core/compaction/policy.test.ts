import { describe, expect, it } from "vitest";
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
  it("[C3] takes the threshold asked for, else most of the window, else 100,000", () => {
    expect(thresholdFor(100_000, 1_000_000)).toBe(100_000);
    expect(thresholdFor(undefined, 1_000_000)).toBe(800_000);
    expect(thresholdFor(undefined, undefined)).toBe(100_000);
  });

  it("[C3] counts tools and the answer's reserve, and the bytes of the request", () => {
    const roomy = new DefaultCompactor({ autoCompactThreshold: 9_500 });
    const roomyFacts = facts({ estimatedHistoryTokens: 7_000, toolTokens: 999, outputTokens: 16_000 });
    expect(judgeBoundary(roomyFacts, roomy)).toBe("not_due");
    expect(judgeBoundary({ ...roomyFacts, toolTokens: 1_000 }, roomy)).toBe("due");
    expect(judge({ requestBytes: 15 * 1_024 * 1_024 })).toBe("not_due");
    expect(judge({ requestBytes: 17 * 1_024 * 1_024 })).toBe("due");
  });

  it("[C2] waits between compactions, also when the forecast or the bytes say otherwise", () => {
    const guarded = { lastCompactionBoundaryIndex: 8, toolTokens: 4_000, requestBytes: 1e9 };
    expect(judge({ ...guarded, estimatedHistoryTokens: 5_999 })).toBe("not_due");
    expect(judge({ ...guarded, estimatedHistoryTokens: 5_999, lastCompactionBoundaryIndex: 7 })).toBe("due");
  });

  it("[C4] does not wait when the context no longer fits", () => {
    expect(judge({ lastCompactionBoundaryIndex: 10, estimatedHistoryTokens: 9_000, toolTokens: 1_000 })).toBe(
      "overflow",
    );
    expect(judge({ lastCompactionBoundaryIndex: 10, lastInputTokens: 1e9 })).toBe("not_due");
    expect(judge({ sessionBoundaryIndex: 0, lastInputTokens: 1e9 })).toBe("not_due");
  });
});
