import { generateText, streamText, ToolLoopAgent, wrapLanguageModel } from "ai";
import { describe, expect, it } from "vitest";
import { type CompactionReport, createCompaction } from "../../src/ai-sdk.ts";
import { batchReader, LOOP, tokensOf, WINDOW } from "./scripted-agent.ts";

const STEPS = 300;

describe("[G9] an agent of the AI SDK with a window of 8,000 tokens and 300 steps", () => {
  it("goes on by the middleware, and nothing it sends is too long", async () => {
    const { model, asked } = batchReader(STEPS);
    const reports: CompactionReport[] = [];
    const { middleware } = createCompaction({ contextWindow: WINDOW, onCompaction: (report) => void reports.push(report) });
    const { text, steps } = await generateText({ ...LOOP, model: wrapLanguageModel({ model, middleware }) });
    expect(text).toBe("All batches are read.");
    expect(steps).toHaveLength(STEPS + 1);
    expect(Math.max(...asked.map(({ prompt }) => tokensOf(prompt)))).toBeLessThanOrEqual(WINDOW);
    console.log(reports.length, reports.filter((r) => !r.ok), asked.filter((a) => a.isSummary).length, reports.slice(-1));
  });
});
