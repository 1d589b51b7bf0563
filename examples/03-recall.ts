// Memory: what compactions took out of a context is found again, by words and by meaning, in any later session.
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openRuntime } from "rkat";

const stateFolder = await mkdtemp(join(tmpdir(), "rkat-recall-"));
const open = () =>
  openRuntime({
    stateFolder,
    model: "offline",
    // Far below what a real session needs, so that early turns leave the context at once.
    compaction: { autoCompactThreshold: 3_000, maxSummaryTokens: 100, recentTurnBudget: 2 },
  });

// A long talk; its beginning leaves the context.
const first = await open();
const session = await first.createSession("I take my coffee black, and my sister Mara is allergic to walnuts.");
for (let day = 1; day <= 20; day += 1)
  await session.turn(`Day ${day}: ${"we walked along the river and talked. ".repeat(12)}`);
assert((await session.compactions()).length > 0);
await first.close();

// Another process, another session: the same project remembers.
const second = await open();
const { results, mode } = await second.searchMemory("what must I not bake for her?", { limit: 3 });
console.log(
  mode,
  results.map(({ score, content }) => `${score} ${content}`),
);
assert(results.some(({ content }) => content.includes("walnuts")));
const [exact] = (await second.searchMemory("my sister Mara is allergic to walnuts", { limit: 1 })).results;
assert.equal(exact?.turn, 1);
await second.close();
await rm(stateFolder, { recursive: true });
