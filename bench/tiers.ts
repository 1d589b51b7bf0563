import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { defaultConfig } from "@rkat/core/config/settings";
import { createInMemoryStore, createRuntime } from "@rkat/core/create-runtime";
import { openRuntime } from "@rkat/node/open-runtime";
import { median, publish } from "./report.ts";
import { factIn, memoryText, type PlantedFact } from "./tiers-life.ts";

// What an agent still knows of facts that were said once, after 200, 1,000 and 10,000 memories, by tier, with summaries made
// without a model; and what a memory costs, early in a life and late.

const AGES = [200, 1_000, 10_000];
const FACTS_ASKED_MAX = 200;
/** Whole rounds of compaction, so that each window pays for as many. */
const WINDOW = 256;
const EARLY = 101;
const LIVES = 5;

const retention = [];
for (const age of AGES) retention.push(await retentionAt(age));
const costs = [];
for (let life = 0; life < LIVES; life += 1) costs.push(await costsOfLife(AGES.at(-1) ?? 0));
const early = median(costs.map(({ early: cpu }) => cpu));
const late = median(costs.map(({ late: cpu }) => cpu));
const growth = median(costs.map(({ early: before, late: after }) => after / before));

await publish({
  name: "tiers",
  tables: [
    [
      ["memories", "facts asked for", "word for word", "in a summary", "by recall, first hit", "by recall, first five"],
      ...retention.map(({ age, facts, ...shares }) => [
        String(age),
        String(facts),
        ...[shares.immediate, shares.summary, shares.first, shares.recalled].map((found) => percent(found, facts)),
      ]),
    ],
    [
      [
        "CPU ms a memory, on disk with files and compactions",
        "memories 101 to 356",
        "the last 256 of 10,000",
        "growth",
      ],
      ["median of the lives", early.toFixed(2), late.toFixed(2), growth.toFixed(2)],
    ],
  ],
  targets: [
    { what: "CPU per added memory, 10,000 over 100", value: growth, max: 1.3 },
    {
      what: "facts asked for that recall does not find",
      value: retention.reduce((lost, { facts, recalled }) => lost + facts - recalled, 0),
      max: 0,
    },
  ],
  measured: { retention, costs },
});

function percent(found: number, of: number): string {
  return `${((100 * found) / of).toFixed(1)} %`;
}

async function retentionAt(age: number) {
  const runtime = createRuntime({ store: createInMemoryStore(), memory: {}, model: "offline", env: {} });
  const ada = runtime.agent("ada");
  for (let memory = 1; memory <= age; memory += 1) await ada.remember(memoryText(memory));
  while ((await ada.status()).compactionRunning) await new Promise(setImmediate);
  const planted = Array.from({ length: age }, (_, at) => factIn(at + 1)).filter((fact) => fact !== undefined);
  // Spread over the whole life.
  const step = Math.max(1, Math.floor(planted.length / FACTS_ASKED_MAX));
  const asked = planted.filter((_, at) => at % step === 0);
  const { longtermSummary: longterm_summary = "", recentSummary: recent_summary = "", immediate } = await ada.context();
  const shown = immediate.map(({ content }) => content).join("\n");
  const count = (isThere: (fact: PlantedFact) => boolean): number => asked.filter(isThere).length;
  const ranks = await Promise.all(
    asked.map(async ({ question, answer }) => {
      const { results } = await ada.recall(question, { limit: 5 });
      return results.findIndex(({ content }) => content.includes(answer));
    }),
  );
  await runtime.close();
  return {
    age,
    facts: asked.length,
    immediate: count(({ answer }) => shown.includes(answer)),
    summary: count(({ answer }) => `${longterm_summary}\n${recent_summary}`.includes(answer)),
    first: ranks.filter((rank) => rank === 0).length,
    recalled: ranks.filter((rank) => rank >= 0).length,
  };
}

async function costsOfLife(age: number): Promise<{ early: number; late: number }> {
  const folder = mkdtempSync(join(tmpdir(), "rkat-tiers-"));
  try {
    // Without embeddings, which are made behind and by another thread.
    const config = { ...defaultConfig(), features: ["session-store" as const] };
    const runtime = await openRuntime({ stateFolder: folder, model: "offline", env: {}, config });
    const ada = runtime.agent("ada");
    const cpu = { early: 0, late: 0 };
    let begun = process.cpuUsage();
    for (let memory = 1; memory <= age; memory += 1) {
      if (memory === EARLY || memory === age - WINDOW + 1) begun = process.cpuUsage();
      const { compactionDue: compaction_due } = await ada.remember(memoryText(memory));
      while (compaction_due && (await ada.status()).compactionRunning) await new Promise(setImmediate);
      const spent = process.cpuUsage(begun);
      const ms = (spent.user + spent.system) / 1_000 / WINDOW;
      if (memory === EARLY + WINDOW - 1) cpu.early = ms;
      if (memory === age) cpu.late = ms;
    }
    await runtime.close();
    return cpu;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
