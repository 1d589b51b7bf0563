import { describe, expect, it } from "vitest";
import { configWith, listen, scriptedRuntime } from "../../../../test/support/runtime.ts";
import { createVirtualClock } from "../../../../test/support/virtual-clock.ts";
import type { Caller } from "../contract/caller.ts";
import { createInMemoryStore, createRuntime } from "../create-runtime.ts";
import type { RowQuery, SessionRow } from "../ports/store.ts";
import { createScriptedModel } from "../providers/scripted.ts";
import { createUsageSums } from "./usage.ts";

/** Ten tokens in and five out are a dime. */
const PRICE = { input: 5_000, output: 10_000 };
const config = configWith({ prices: { scripted: PRICE } });
const usd = (amount: number) => ({ amount, currency: "USD" });
const caller = (name: string, labels: Readonly<Record<string, string>> = {}): Caller => ({
  name,
  scopes: new Set(["read", "run"]),
  labels,
});
const DAY_MS = 86_400_000;

describe("what things cost", () => {
  it("[I7] stands with each call in the log, and later prices do not change it", async () => {
    const store = createInMemoryStore();
    const { runtime } = scriptedRuntime([{ text: "one" }, { text: "two" }], { store, config });
    const session = await runtime.createSession("One.");
    await runtime.dispatch("patchConfig", { patch: { prices: { scripted: { input: 0, output: 0 } } } });
    await session.turn("Two.");
    const entries = await store.log.read(session.id, 1, 100);
    const costs = entries.flatMap(({ body }) => (body.kind === "assistant" ? [body.usage?.cost] : []));
    expect(costs).toEqual([usd(0.1), usd(0)]);
    expect(session.lastResult).toMatchObject({ turnCost: usd(0), usage: { cost: usd(0.1) } });
    expect(await runtime.readSession(session.id)).toMatchObject({ cost: usd(0.1), usage: { cost: usd(0.1) } });
  });

  it("[I7] counts compactions, what is asked again, and the extraction of a result", async () => {
    const store = createInMemoryStore();
    const schema = { type: "object", properties: { n: { type: "number" } }, required: ["n"] };
    const script = [
      { text: "prose" },
      { text: "no JSON either" },
      { text: '{"n": 1}' },
      { ends: { failure: { kind: "overloaded" as const, message: "later" } } },
      { text: "half", ends: "cut" as const },
      { text: '{"n": 2}' },
      { text: "A summary: prose." },
    ];
    const options = { store, config, compaction: { recentTurnBudget: 1 } };
    const { runtime } = scriptedRuntime(script, options);
    const session = await runtime.createSession(`One: ${"prose, ".repeat(500)}`, { outputSchema: schema });
    expect(session.lastResult).toMatchObject({
      structuredOutput: { n: 1 },
      turnCost: usd(0.3),
      usage: { cost: usd(0.3) },
    });
    await runtime.dispatch("startTurn", { session_id: session.id, prompt: "Two." });
    const entries = await store.log.read(session.id, 1, 1_000);
    const cut = entries.flatMap(({ body }) => (body.kind === "call_failed" ? [body.usage] : []));
    expect(cut).toMatchObject([{ estimated: true, cost: { currency: "USD" } }]);
    const before = (await runtime.readSession(session.id)).cost?.amount ?? 0;
    const { compaction } = await runtime.dispatch("compactSession", { session_id: session.id });
    expect(compaction?.usage.cost).toEqual(usd(0.1));
    const after = (await runtime.readSession(session.id)).cost?.amount ?? 0;
    expect(Math.round((after - before) * 1e9)).toBe(1e8);
  });

  it("[I7] is told of a turn that fails, too", async () => {
    const { runtime } = scriptedRuntime([{ calls: [{ name: "none" }] }, { ends: { failure: FATAL } }], { config });
    const { events } = await listen(runtime.createSessionStreaming("Go."));
    expect(events.at(-1)).toMatchObject({ type: "run_failed", turn_cost: usd(0.1) });
  });

  it("[I7] a log of before costs were kept stays as it is: absent is absent, and a sum with it is partial", async () => {
    const store = createInMemoryStore();
    const old = scriptedRuntime([{ text: "one" }], { store });
    const { id } = await old.runtime.createSession("One.");
    expect(await old.runtime.readSession(id)).not.toHaveProperty("cost");
    const { runtime } = scriptedRuntime([{ text: "two" }], { store, config });
    const result = await runtime.dispatch("startTurn", { session_id: id, prompt: "Two." });
    expect(result).toMatchObject({ turn_cost: usd(0.1), usage: { cost: { ...usd(0.1), partial: true } } });
  });
});

const FATAL = { kind: "invalid_request" as const, message: "no" };

describe("max_cost", () => {
  it("[I7] [B2] [B3] warns once past 80 %, keeps the answer that crosses it, closes its calls, and ends", async () => {
    const script = (_: unknown, index: number) => ({ text: `answer ${index}`, calls: [{ name: "step" }] });
    const { runtime, model } = scriptedRuntime(script, { config });
    const { events, result } = await listen(
      runtime.createSessionStreaming("Go.", { budgetLimits: { max_cost: 0.25 } }),
    );
    expect(result).toMatchObject({ text: "answer 2", terminalCauseKind: "budget_exhausted", turnCost: usd(0.3) });
    expect(model.requests.length).toBe(3);
    expect(events.filter(({ type }) => type === "budget_warning")).toEqual([
      { type: "budget_warning", budget_type: "cost", used: 200_000, limit: 250_000, percent: 80 },
    ]);
    const results = events.flatMap((event) => (event.type === "tool_execution_completed" ? [event.result] : []));
    expect(results.at(-1)).toBe("not run: the cost budget of this session is exhausted");
  });

  it("[I7] is a default of the configuration, and holds for the extraction of a result", async () => {
    const limited = configWith({ prices: { scripted: PRICE }, budget: { max_cost: 0.15 } });
    const { runtime } = scriptedRuntime([{ text: "prose" }, { text: "prose" }], { config: limited });
    const session = await runtime.createSession("Go.", { outputSchema: { type: "object" } });
    expect(session.lastResult).toMatchObject({
      extractionError: { reason: "the cost budget is exhausted" },
      terminalCauseKind: "budget_exhausted",
    });
  });

  it("[I7] is refused where no price is known, at creation and by a turn with another model, naming the key", async () => {
    const { runtime, model } = scriptedRuntime([{ text: "ok" }], { config });
    const limits = { budget_limits: { max_cost: 1 } };
    const { session_id } = await runtime.dispatch("createSession", { prompt: "Go.", ...limits });
    const refused = runtime.dispatch("startTurn", { session_id, prompt: "Go.", model: "ollama/llama3.2" });
    await expect(refused).rejects.toMatchObject({
      code: "INVALID_PARAMS",
      message:
        'budget_limits.max_cost: no price of ollama/llama3.2 is known; set input and output under [prices."ollama/llama3.2"] of the configuration, or leave it out',
    });
    const unpriced = scriptedRuntime([]);
    await expect(unpriced.runtime.dispatch("createSession", { prompt: "Go.", ...limits })).rejects.toMatchObject({
      code: "INVALID_PARAMS",
      message: expect.stringContaining("set input and output under [prices.scripted]"),
    });
    expect([model.requests.length, unpriced.model.requests.length]).toEqual([1, 0]);
  });

  it("[I7] [H1] is refused as anything but an amount above nothing", async () => {
    const { runtime } = scriptedRuntime([], { config });
    for (const max_cost of [0, -1, "5", Number.POSITIVE_INFINITY]) {
      const refused = runtime.dispatch("createSession", { prompt: "Go.", budget_limits: { max_cost } });
      await expect(refused).rejects.toMatchObject({
        message: "budget_limits.max_cost: write an amount of US dollars above 0, like 0.5",
      });
    }
  });
});

describe("readUsage", () => {
  const setUp = async () => {
    const clock = createVirtualClock(Date.UTC(2026, 10, 14));
    const store = createInMemoryStore({ now: clock.now });
    const { runtime } = scriptedRuntime(() => ({ text: "ok" }), { store, config, clock });
    const run = async (labels: object, by: string | undefined) =>
      runtime.dispatch("createSession", { prompt: "Go.", labels }, by === undefined ? {} : { caller: caller(by) });
    await run({ team: "a", env: "dev" }, undefined);
    clock.advance(2 * DAY_MS);
    await run({ team: "a" }, "web");
    const { session_id } = await run({ team: "b" }, "web");
    await runtime.dispatch("startTurn", { session_id, prompt: "On." }, { caller: caller("ci") });
    return { store, clock, runtime };
  };
  const keys = (report: { groups: readonly { key: string; calls: number }[] }) =>
    report.groups.map(({ key, calls }) => [key, calls]);

  it("[I7] sums calls, tokens and cost by model, label, day and token", async () => {
    const { runtime } = await setUp();
    const whole = {
      calls: 4,
      usage: { input_tokens: 40, output_tokens: 20, cost: usd(0.4) },
    };
    expect(await runtime.dispatch("readUsage", {})).toEqual({
      by: "model",
      groups: [{ key: "scripted", ...whole }],
      total: whole,
    });
    const by = async (what: string, more: object = {}) => runtime.dispatch("readUsage", { by: what, ...more });
    expect(keys(await by("label"))).toEqual([
      ["team=a", 2],
      ["team=b", 2],
      ["env=dev", 1],
    ]);
    expect(keys(await by("day"))).toEqual([
      ["2026-11-14", 1],
      ["2026-11-16", 3],
    ]);
    expect(keys(await by("token"))).toEqual([
      ["web", 2],
      ["", 1],
      ["ci", 1],
    ]);
    expect(await by("day", { since: "1d" })).toMatchObject({ since: "2026-11-15", total: { calls: 3 } });
    expect(await by("day", { since: "2026-11-14", labels: { team: "a" } })).toMatchObject({ total: { calls: 2 } });
  });

  it("[I7] shows whoever may see some labels only what is theirs", async () => {
    const { runtime } = await setUp();
    const report = await runtime.dispatch("readUsage", { by: "label" }, { caller: caller("web", { team: "b" }) });
    expect(keys(report)).toEqual([["team=b", 2]]);
    const beyond = await runtime.dispatch(
      "readUsage",
      { labels: { team: "a" } },
      { caller: caller("web", { team: "b" }) },
    );
    expect(beyond.total.calls).toBe(0);
  });

  it("[I7] says what a name has spent since a moment", async () => {
    const { store, clock } = await setUp();
    const sums = createUsageSums({ store, clock, agents: async () => undefined });
    expect(await sums.spentBy("web", clock.now())).toEqual(usd(0.2));
    expect(await sums.spentBy("web", clock.now() + DAY_MS)).toEqual(usd(0));
    expect(await sums.spentBy("nobody", 0)).toEqual(usd(0));
  });

  it("[I7] looks again only at what has changed since it was asked what a name has spent", async () => {
    const store = createInMemoryStore();
    const { runtime, clock } = scriptedRuntime(() => ({ text: "ok" }), { store, config });
    const asked: RowQuery[] = [];
    const page = (query: RowQuery) => {
      asked.push(query);
      return store.sessions.page(query);
    };
    const watched = { ...store, sessions: { ...store.sessions, page } };
    const sums = createUsageSums({ store: watched, clock, agents: async () => undefined });
    const ask = () => sums.spentBy("web", clock.now());
    const first = await runtime.dispatch("createSession", { prompt: "One." }, { caller: caller("web") });
    await clock.advance(60 * 60_000);
    await runtime.dispatch("createSession", { prompt: "Two." }, { caller: caller("web") });
    expect(await ask()).toEqual(usd(0.2));
    const { session_id } = first;
    await runtime.dispatch("startTurn", { session_id, prompt: "More." }, { caller: caller("web") });
    expect(await ask()).toEqual(usd(0.3));
    expect(await ask()).toEqual(usd(0.3));
    const [all = 0, ...later] = asked.map(({ updatedSinceMs = 0 }) => updatedSinceMs);
    expect(all).toBe(Date.parse(new Date(clock.now()).toISOString().slice(0, 10)));
    expect(later.every((since) => since > clock.now() - 60 * 60_000)).toBe(true);
  });

  it("[I7] says that what a name has spent is not all known, where it is not", async () => {
    const store = createInMemoryStore();
    const { runtime, clock } = scriptedRuntime([{ text: "ok" }], { store });
    await runtime.dispatch("createSession", { prompt: "Go." }, { caller: caller("web") });
    const sums = createUsageSums({ store, clock, agents: async () => undefined });
    expect(await sums.spentBy("web", 0)).toEqual({ ...usd(0), partial: true });
  });

  it("[I7] reads the log of a session whose row is of before sums were kept", async () => {
    const { store, clock } = await setUp();
    const withoutSums = ({ spent: _, ...row }: SessionRow): SessionRow => row;
    let reads = 0;
    const old = {
      ...store,
      sessions: {
        ...store.sessions,
        page: async (query: RowQuery) => (await store.sessions.page(query)).map(withoutSums),
      },
      log: {
        ...store.log,
        read: (...asked: Parameters<typeof store.log.read>) => {
          reads += 1;
          return store.log.read(...asked);
        },
      },
    };
    const sums = createUsageSums({ store: old, clock, agents: async () => undefined });
    const report = await sums.readUsage({ by: "day" }, {});
    expect(keys(report)).toEqual([
      ["2026-11-14", 1],
      ["2026-11-16", 3],
    ]);
    await sums.readUsage({ by: "model" }, {});
    expect(reads).toBe(3);
  });

  it("[I7] counts what agents' summaries took, and who had them made", async () => {
    const model = createScriptedModel(() => ({ text: "A heron stood in the pond." }));
    const settled = configWith({
      prices: { scripted: PRICE },
      agent_memory: { immediate_window: 1, recent_window: 1 },
    });
    const runtime = createRuntime({ model, config: settled, env: {}, store: createInMemoryStore() });
    for (const content of ["One.", "Two.", "Three."]) {
      await runtime.dispatch("remember", { agent: "ada", content }, { caller: caller("web") });
    }
    await runtime.dispatch("compactAgent", { agent: "ada" }, { caller: caller("web") });
    const calls = model.requests.length;
    expect(calls).toBeGreaterThan(0);
    const { groups, total } = await runtime.dispatch("readUsage", { by: "token" });
    expect(groups.map(({ key }) => key)).toEqual(["web"]);
    expect(total.usage).toEqual({
      input_tokens: 10 * calls,
      output_tokens: 5 * calls,
      cost: usd(Math.round(1e8 * calls) / 1e9),
    });
    expect((await runtime.dispatch("readUsage", { by: "model", labels: { team: "a" } })).groups).toEqual([]);
    await runtime.close();
  });
});
