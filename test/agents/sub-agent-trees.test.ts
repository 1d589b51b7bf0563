import type { AgentEvent } from "@rkat/core/contract/event";
import { createInMemoryStore, createRuntime } from "@rkat/core/create-runtime";
import type { Tool } from "@rkat/core/ports/tool";
import type { ScriptedStep } from "@rkat/core/providers/scripted";
import { describe, expect, it } from "vitest";
import { createRandom } from "../crash/random.ts";
import { byEffort } from "../support/effort.ts";
import { createPlanModel, handing, type Plan, planned } from "../support/plan-model.ts";
import { testSeed } from "../support/seed.ts";

const TREES = byEffort({ usual: 60, full: 3_000 });
const CALL_TOKENS_MAX = 40;
const DOLLARS_PER_TOKEN = 0.001;
const PRICES = { currency: "USD" as const, input: 1_000, output: 1_000 };
const LOOK: Tool = { name: "look", description: "look", inputSchema: { type: "object" }, execute: () => "a heron" };

type Random = () => number;
const upTo = (random: Random, most: number) => Math.floor(random() * (most + 1));

/** A plan of a few answers, which look at things and hand out tasks: plans of their own. */
function growPlan(random: Random, depth: number): Plan {
  const usage = () => ({ input_tokens: 1 + upTo(random, CALL_TOKENS_MAX - 2), output_tokens: 1 });
  const calls = (): NonNullable<ScriptedStep["calls"]> =>
    Array.from({ length: 1 + upTo(random, 4) }, () =>
      depth < 2 && random() < 0.6 ? handing(growPlan(random, depth + 1)) : { name: "look" },
    );
  const steps = Array.from({ length: 1 + upTo(random, 2) }, () => ({ calls: calls(), usage: usage() }));
  return [...steps, { text: "Done.", usage: usage() }];
}

describe("trees of sub-agents", { timeout: byEffort({ usual: 120_000, full: 3_000_000 }) }, () => {
  it(`[O2] ${TREES} at random: none uses more than its limit and a call of each that runs, and every sum is exact`, async () => {
    const seed = testSeed();
    const random = createRandom(seed);
    let [stopped, deep] = [0, 0];
    for (let tree = 0; tree < TREES; tree += 1) {
      const model = { ...createPlanModel(), prices: PRICES };
      const runtime = createRuntime({
        model,
        store: createInMemoryStore(),
        env: {},
        toolPreset: "safe",
        tools: [LOOK],
      });
      const limits = {
        max_tokens: 50 + upTo(random, 2_000),
        max_tool_calls: upTo(random, 60),
        max_cost: (50 + upTo(random, 2_000)) * DOLLARS_PER_TOKEN,
      };
      let [running, most] = [1, 1];
      const listener = ({ event }: { event: AgentEvent }) => {
        const { type } = event.type === "sub_agent_event" ? event.event : event;
        if (type === "sub_agent_started") running += 1;
        if (type === "sub_agent_completed") running -= 1;
        most = Math.max(most, running);
        if (event.type === "sub_agent_event" && event.depth > 1) deep += 1;
      };
      const asked = { prompt: planned(growPlan(random, 0)), enable_agents: true, budget_limits: limits };
      const { session_id } = await runtime.dispatch("createSession", asked, { listener });
      const { sessions } = await runtime.dispatch("listSessions", {});
      const read = await Promise.all(sessions.map((one) => runtime.dispatch("readSession", one)));
      const tokens = read.reduce((sum, one) => sum + one.total_tokens, 0);
      const calls = read.reduce(
        (sum, one) => sum + (one.budgets?.find(({ type }) => type === "tool_calls")?.used ?? 0),
        0,
      );
      const delegatedCalls = read.reduce((sum, one) => sum + (one.delegated?.tool_calls ?? 0), 0);
      const root = read.find((one) => one.session_id === session_id);
      const reported = { seed, tree, limits, most };
      expect({ ...reported, budgets: root?.budgets }).toEqual({
        ...reported,
        budgets: [
          { type: "tokens", limit: limits.max_tokens, used: tokens },
          { type: "tool_calls", limit: limits.max_tool_calls, used: calls - delegatedCalls },
          { type: "cost", limit: limits.max_cost, used: expect.closeTo(tokens * DOLLARS_PER_TOKEN, 9) },
        ],
      });
      const spare = CALL_TOKENS_MAX * most;
      const least = Math.min(limits.max_tokens, limits.max_cost / DOLLARS_PER_TOKEN);
      expect({ ...reported, isWithin: tokens <= least + spare, tokens }).toMatchObject({ isWithin: true });
      expect({ ...reported, isWithin: calls - delegatedCalls <= limits.max_tool_calls, calls }).toMatchObject({
        isWithin: true,
      });
      if (tokens >= least) stopped += 1;
      await runtime.close();
    }
    // Otherwise no limit was ever met, or no tree was one.
    expect({ seed, stopped: stopped > 0, deep: deep > 0 }).toEqual({ seed, stopped: true, deep: true });
  });
});
