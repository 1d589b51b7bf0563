import { foldAgent } from "@rkat/core/agent-memory/tiers";
import { agentId } from "@rkat/core/agents/agent-log";
import type { Agents } from "@rkat/core/agents/agents";
import type { AgentEntryBody } from "@rkat/core/contract/agent";
import { createStoreInMemory } from "@rkat/core/stores/in-memory";
import { describe, expect, it } from "vitest";
import { agentsWith, countingSummariser } from "../support/agents.ts";
import { byEffort } from "../support/effort.ts";

const MEMORIES = byEffort({ usual: 3_000, full: 10_000 });
const DUE = Array.from({ length: Math.floor((MEMORIES - 129) / 64) + 1 }, (_, at) => 129 + at * 64);

/** Every compaction of an agent's log, in its order. */
async function compactionsOf({ store }: Agents, name: string) {
  const entries = await store.log.read(agentId(name), 1, Number.MAX_SAFE_INTEGER);
  return entries.flatMap(({ body }): Extract<AgentEntryBody, { kind: "tiers_compacted" }>[] =>
    body.kind === "tiers_compacted" ? [body] : [],
  );
}

/** Waits for a compaction that began, by joining it. */
async function settle({ operations }: Agents, agent: string): Promise<void> {
  while ((await operations.readAgentStatus({ agent }, {})).compaction_running) await new Promise(setImmediate);
}

/** Each of its compactions writes two receipts. */
const TIMEOUT_MS = 120_000;

describe(`a life of ${MEMORIES} memories`, { timeout: TIMEOUT_MS }, () => {
  it("[E1] [E2] [E3] is compacted at the counts of the rule, and every memory is in exactly one tier all along", async () => {
    const { calls, summarise } = countingSummariser();
    const agents = agentsWith({ summarise });
    const { operations } = agents;
    for (let number = 1; number <= MEMORIES; number += 1) {
      const { count, compaction_due } = await operations.remember({ agent: "ada", content: `Memory ${number}.` }, {});
      expect(count).toBe(number);
      expect(compaction_due).toBe(DUE.includes(number));
      if (compaction_due) await settle(agents, "ada");
      const { immediate } = await operations.readAgentContext({ agent: "ada" }, {});
      const status = await operations.readAgentStatus({ agent: "ada" }, {});
      const { recent_range: recent, longterm_range: longterm } = status;
      // One unbroken chain from the first memory to the newest.
      if (longterm !== undefined) expect(longterm.from_seq).toBe(1);
      if (recent !== undefined) expect(recent.from_seq).toBe((longterm?.to_seq ?? 0) + 1);
      const first = (recent?.to_seq ?? 0) + 1;
      expect(immediate.length).toBe(number - first + 1);
      expect([immediate[0]?.seq, immediate.at(-1)?.seq]).toEqual([first, number]);
      expect(immediate.at(-1)?.content).toBe(`Memory ${number}.`);
      expect(immediate.length).toBeGreaterThanOrEqual(Math.min(number, 64));
    }
    const compactions = await compactionsOf(agents, "ada");
    expect(compactions.map(({ at_count }) => at_count)).toEqual(DUE);
    // One call for the first, a pair for every other: the older summaries first, then the memories. This summariser keeps
    // little, so that some are made anew.
    const anew = compactions.reduce((sum, { remaking }) => sum + (remaking?.steps ?? 0), 0);
    expect(calls.length).toBe(1 + 2 * (DUE.length - 1) + anew);
    expect(calls[0]).toEqual(Array.from({ length: 65 }, (_, at) => `Memory ${at + 1}.`));
    const [first, second] = compactions;
    expect(calls[1]).toEqual([first?.recent.summary]);
    expect(calls[3]).toEqual([second?.longterm?.summary, second?.recent.summary]);
    expect(calls[2]).toEqual(Array.from({ length: 64 }, (_, at) => `Memory ${at + 66}.`));
    await agents.close();
  });

  it("[E8] ends the same when memories pour in while it is compacted", async () => {
    const { summarise } = countingSummariser();
    const slow = agentsWith({
      summarise: async (...given) => {
        for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate);
        return summarise(...given);
      },
    });
    const adding = Array.from({ length: 2_000 }, (_, at) =>
      slow.operations.remember({ agent: "ada", content: `Memory ${at + 1}.` }, {}),
    );
    const counts = (await Promise.all(adding)).map(({ count }) => count);
    expect(counts).toEqual(counts.map((_, at) => at + 1));
    const status = async () => slow.operations.readAgentStatus({ agent: "ada" }, {});
    await settle(slow, "ada");
    expect((await status()).compaction_due).toBe(false);
    expect((await compactionsOf(slow, "ada")).map(({ at_count }) => at_count)).toEqual(
      DUE.filter((count) => count <= 2_000),
    );
    await slow.close();
  });

  it("[E8] loses nothing when every third summary fails, and the tiers stay consistent", async () => {
    const { summarise } = countingSummariser();
    let calls = 0;
    const store = createStoreInMemory({ foldRow: foldAgent });
    const agents = agentsWith({
      store,
      summarise: async (...given) => {
        calls += 1;
        if (calls % 3 === 0) throw new Error("the model is overloaded");
        return summarise(...given);
      },
    });
    const { operations } = agents;
    let failures = 0;
    for (let number = 1; number <= 1_000; number += 1) {
      const before = await operations.readAgentStatus({ agent: "ada" }, {});
      await operations.remember({ agent: "ada", content: `Memory ${number}.` }, {});
      await settle(agents, "ada");
      const after = await operations.readAgentStatus({ agent: "ada" }, {});
      if (after.last_error !== undefined) {
        failures += 1;
        expect(after.last_error).toBe("the model is overloaded");
        expect([after.recent_summary, after.longterm_summary]).toEqual([
          before.recent_summary,
          before.longterm_summary,
        ]);
      }
      const { immediate } = await operations.readAgentContext({ agent: "ada" }, {});
      expect(immediate.map(({ seq }) => seq)).toEqual(
        Array.from(
          { length: number - (after.recent_range?.to_seq ?? 0) },
          (_, at) => (after.recent_range?.to_seq ?? 0) + 1 + at,
        ),
      );
      if (after.longterm_range !== undefined) {
        expect([after.longterm_range.from_seq, after.longterm_range.to_seq + 1]).toEqual([
          1,
          after.recent_range?.from_seq,
        ]);
      }
    }
    expect(failures).toBeGreaterThan(5);
    const compactions = await compactionsOf(agents, "ada");
    // A late one is tried at the next memory, so it is at most two late, and the next is due a window after it.
    for (const [at, { at_count }] of compactions.entries()) {
      const due = at === 0 ? 129 : (compactions[at - 1]?.at_count ?? 0) + 64;
      expect(at_count - due).toBeGreaterThanOrEqual(0);
      expect(at_count - due).toBeLessThanOrEqual(2);
    }
    await agents.close();
  });

  it("[E8] two compactions of one agent at once are one", async () => {
    const { calls, summarise } = countingSummariser();
    const agents = agentsWith({ summarise });
    for (let number = 1; number <= 100; number += 1) {
      await agents.operations.remember({ agent: "ada", content: `Memory ${number}.` }, {});
    }
    const both = await Promise.all([1, 2].map(() => agents.operations.compactAgent({ agent: "ada" }, {})));
    expect(both[0]).toEqual({ compacted: true, recent_summary: "Memory 1. Memory 36." });
    expect(both[1]).toEqual(both[0]);
    expect(calls.length).toBe(1);
    await agents.close();
  });

  it("[E7] tells what it does in lines", async () => {
    const lines: string[] = [];
    const agents = agentsWith({ ...countingSummariser(), lines });
    for (let number = 1; number <= 193; number += 1) {
      const { compaction_due } = await agents.operations.remember({ agent: "Ada", content: `Memory ${number}.` }, {});
      if (compaction_due) await settle(agents, "Ada");
    }
    expect(lines).toEqual([
      "[Memory] Ada: Starting compaction (129 memories, 64 immediate, 64 recent)",
      expect.stringMatching(/^\[Memory\] Ada: Short-term summary updated \(\d+ chars\)$/),
      "[Memory] Ada: Compaction complete (first summary)",
      "[Memory] Ada: Starting compaction (193 memories, 64 immediate, 64 recent)",
      expect.stringMatching(/^\[Memory\] Ada: Long-term summary updated \(\d+ chars\)$/),
      expect.stringMatching(/^\[Memory\] Ada: Short-term summary updated \(\d+ chars\)$/),
      "[Memory] Ada: Compaction complete (waterfall)",
    ]);
    await agents.close();
  });
});
