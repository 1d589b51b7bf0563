import { type CompactionReport, createCompaction } from "@rkat/core/ai-sdk";
import { generateText, type ModelMessage, streamText, ToolLoopAgent, wrapLanguageModel } from "ai";
import { describe, expect, it } from "vitest";
import { batchReader, LOOP, tokensOf, WINDOW } from "./scripted-agent.ts";

const STEPS = 300;

function reporting() {
  const reports: CompactionReport[] = [];
  return { reports, onCompaction: (report: CompactionReport) => void reports.push(report) };
}

describe("[G9] an agent of the AI SDK with a window of 8,000 tokens", () => {
  it("runs 300 steps by the middleware, and nothing it sends is too long", async () => {
    const { model, asked } = batchReader(STEPS);
    const { reports, onCompaction } = reporting();
    const { middleware } = createCompaction({ contextWindow: WINDOW, onCompaction });
    const { text, steps } = await generateText({ ...LOOP, model: wrapLanguageModel({ model, middleware }) });
    expect(text).toBe("All batches are read.");
    expect(steps).toHaveLength(STEPS + 1);
    // The model throws where a prompt is too long, so the figure only says how close it came.
    expect(Math.max(...asked.map(({ prompt }) => tokensOf(prompt)))).toBeLessThan(WINDOW);
    expect(reports.every(({ ok }) => ok)).toBe(true);
    expect(reports.length).toBe(asked.filter(({ isSummary }) => isSummary).length);
    // What is being answered is never taken out.
    for (const { prompt, isSummary } of asked) {
      if (!isSummary) expect(JSON.stringify(prompt)).toContain("Never delete /data/keep.csv.");
    }
  });

  it("runs 300 steps by prepareStep, whose steps go on with what the last one was given", async () => {
    const { model, asked } = batchReader(STEPS);
    const { reports, onCompaction } = reporting();
    const { prepareStep } = createCompaction({ contextWindow: WINDOW, onCompaction });
    const { instructions, ...settings } = { ...LOOP, instructions: LOOP.system };
    const { prompt, system: _system, ...loop } = settings;
    const agent = new ToolLoopAgent({ ...loop, instructions, model, prepareStep });
    const { text, steps } = await agent.generate({ prompt });
    expect(text).toBe("All batches are read.");
    expect(steps).toHaveLength(STEPS + 1);
    expect(reports.every(({ ok }) => ok)).toBe(true);
    expect(reports.length).toBe(asked.filter(({ isSummary }) => isSummary).length);
    // Each summary takes the place of the one before it.
    const summaries = asked.map((one) => JSON.stringify(one.prompt).split("[Context compacted]").length - 1);
    expect(Math.max(...summaries)).toBe(1);
  });

  it("is streamed as well, and the loop gets what the model said", async () => {
    const { model, asked } = batchReader(40);
    const { reports, onCompaction } = reporting();
    const { middleware } = createCompaction({ contextWindow: WINDOW, onCompaction });
    const result = streamText({ ...LOOP, model: wrapLanguageModel({ model, middleware }) });
    expect(await result.text).toBe("All batches are read.");
    expect(await result.steps).toHaveLength(41);
    expect(reports.length).toBeGreaterThan(0);
    expect(asked.filter(({ isSummary }) => isSummary)).toHaveLength(reports.length);
  });

  it("is told by receipts where each fact is: in the summary, in what is kept, or nowhere", async () => {
    const files = (prompt: string) => [...new Set(prompt.match(/\/data\/batch-\d+\.csv/g) ?? [])];
    const summary = (prompt: string) => `Read: ${files(prompt).slice(0, 10).join(", ")}.`;
    const { model, asked } = batchReader(60, { summary });
    const checked = { in_summary: 0, in_tail: 0, lost: 0 };
    const { middleware } = createCompaction({
      contextWindow: WINDOW,
      onCompaction: (report) => {
        if (!report.ok) throw new Error(report.error);
        pending.push(report);
      },
    });
    const pending: Extract<CompactionReport, { ok: true }>[] = [];
    const seen = wrapLanguageModel({ model, middleware });
    const checking = wrapLanguageModel({
      model: seen,
      middleware: {
        specificationVersion: "v4",
        wrapGenerate: async ({ doGenerate }) => {
          const result = await doGenerate();
          const sent = JSON.stringify(asked.at(-1)?.prompt);
          for (const { receipt, summary: said } of pending.splice(0)) {
            expect(receipt.total).toBe(receipt.in_summary + receipt.in_tail + receipt.pinned + receipt.lost);
            for (const { text, status } of receipt.items.filter((item) => item.kind === "path")) {
              if (status === "in_summary") expect(said).toContain(text);
              if (status === "in_tail") expect(sent).toContain(text);
              if (status === "lost") expect(sent).not.toContain(text);
              if (status in checked) checked[status as keyof typeof checked] += 1;
            }
          }
          return result;
        },
      },
    });
    await generateText({ ...LOOP, model: checking });
    expect(checked.in_summary).toBeGreaterThan(10);
    expect(checked.lost).toBeGreaterThan(10);
  });

  it("finds again after a restart what was made, by a store, and asks for no summary twice", async () => {
    const stored = new Map<string, string>();
    const store = {
      get: (key: string) => stored.get(key),
      set: (key: string, value: string) => stored.set(key, value),
    };
    const before = batchReader(40);
    const first = createCompaction({ contextWindow: WINDOW, store });
    const { responseMessages } = await generateText({
      ...LOOP,
      model: wrapLanguageModel({ model: before.model, middleware: first.middleware }),
    });
    const made = before.asked.filter(({ isSummary }) => isSummary).length;
    expect(made).toBeGreaterThan(0);
    const messages: ModelMessage[] = [{ role: "user", content: LOOP.prompt }, ...responseMessages];
    const { prompt: _prompt, ...loop } = LOOP;
    for (const middleware of [first.middleware, createCompaction({ contextWindow: WINDOW, store }).middleware]) {
      const after = batchReader(0);
      const model = wrapLanguageModel({ model: after.model, middleware });
      await generateText({ ...loop, model, messages: [...messages, { role: "user", content: "Which was last?" }] });
      expect(after.asked.map(({ isSummary }) => isSummary)).toEqual([false]);
      expect(JSON.stringify(after.asked[0]?.prompt)).toContain("[Context compacted]");
    }
  });
});
