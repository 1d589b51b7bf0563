import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Figures, SimulatedRun, Simulation } from "@rkat/core/contract/wire/simulation";
import { keptPage } from "rkat/session-page";
import { expect, it, onTestFinished } from "vitest";
import { expectAccessible, openPage, withBrowser } from "../support/browser.ts";

const HOSTILE = '</script><img src=x onerror="alert(1)">';

const figures: Figures = {
  calls: 3,
  input_tokens: 60_000,
  cached_tokens: 20_000,
  output_tokens: 900,
  summary_calls: 1,
  summary_input_tokens: 9_000,
  summary_output_tokens: 400,
  cost: { turns: 0.4, summaries: 0.1, total: 0.5 },
  compactions: 1,
  evictions: 1,
  failed: 0,
  summaries: 1,
  waited: 1,
  waited_share: 0.3333,
  largest_context: 30_000,
  specifics: { total: 10, in_summary: 4, in_tail: 1, pinned: 0, recoverable: 5, lost: 0 },
  probes: { total: 4, in_context: 1, asked: 3, found: 2 },
  as_recorded: 2,
};

function simulation(): Simulation {
  const run = (policy: string): SimulatedRun => ({
    ...figures,
    log: HOSTILE,
    policy,
    context: [10_000, 30_000, 20_000],
    marks: [
      { call: 2, kind: "compaction" },
      { call: 1, kind: "eviction" },
      { call: 2, kind: "failed" },
    ],
  });
  return {
    summaries: "offline",
    policies: [
      { name: "small", settings: { auto_compact_threshold: 30_000 } },
      { name: HOSTILE, settings: {} },
    ],
    logs: [
      { name: HOSTILE, model: "claude", calls: 3, turns: 1, is_priced: true, notes: ["approvals are left out (1)"] },
    ],
    runs: [run("small"), run(HOSTILE)],
    sums: [
      { ...figures, policy: "small" },
      { ...figures, policy: HOSTILE },
    ],
  };
}

withBrowser("the page of a simulation", () => {
  it("[J4] shows a line a policy with its marks, and bars of money, and asks nobody for anything", async () => {
    const folder = mkdtempSync(join(tmpdir(), "rkat-simulation-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const file = join(folder, "report.html");
    writeFileSync(file, await keptPage("kept-simulation", simulation()));
    const page = await openPage(`file://${file}`);
    await page.waitForSelector(".sim-chart");
    expect(await page.title()).toBe("Compaction policies · rkat");
    const count = (selector: string): Promise<number> => page.locator(selector).count();
    expect(await count(".sim-chart polyline")).toBe(2);
    expect(await count(".sim-chart circle.sim-mark")).toBe(2);
    expect(await count(".sim-chart polygon.sim-mark")).toBe(2);
    expect(await count(".sim-cross")).toBe(2);
    expect(await count(".sim-bars li")).toBe(2);
    expect(await count("img")).toBe(0);
    expect(await page.locator("h2").last().textContent()).toBe(HOSTILE);
    await expectAccessible(page);
  });
});
