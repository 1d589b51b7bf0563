import { describe, expect, it } from "vitest";
import { configWith, listen, scriptedRuntime, typesOf } from "../../../../test/support/runtime.ts";
import { createVirtualClock } from "../../../../test/support/virtual-clock.ts";
import { createInMemoryStore, createRuntime, type RuntimeOptions } from "../create-runtime.ts";
import type { Compactor } from "../ports/compactor.ts";
import type { ModelRequest } from "../ports/model.ts";
import { createScriptedModel, type ScriptedStep } from "../providers/scripted.ts";
import { DefaultCompactor } from "./policy.ts";
import { COMPACTION_PROMPT } from "./shown-messages.ts";

const PAGE = "The heron stood in the reeds and waited. ".repeat(20);
const isSummaryCall = ({ messages }: ModelRequest): boolean => {
  const last = messages.at(-1);
  return last?.role === "user" && String(last.content).startsWith(COMPACTION_PROMPT);
};
const tooLong: ScriptedStep = { ends: { failure: { kind: "context_exceeded", message: "prompt is too long" } } };

/** A model with a small window that refuses what is larger. */
function small(summary: ScriptedStep, options: RuntimeOptions = {}) {
  const window = 4_000;
  const model = createScriptedModel(
    (request) => {
      if (JSON.stringify(request.messages).length / 4 > window) return tooLong;
      return isSummaryCall(request) ? summary : { text: "Noted." };
    },
    { contextWindow: window },
  );
  const runtime = createRuntime({
    model,
    store: createInMemoryStore(),
    env: {},
    clock: createVirtualClock(),
    compaction: {},
    ...options,
  });
  return { runtime, model };
}

const IMPATIENT = configWith({ retry: { call_timeout_ms: 5_000 } });
const never = (): Promise<never> => new Promise(() => {});

describe("code of somebody else that never answers", () => {
  const COMPACTION = { recentTurnBudget: 1, minTurnsBetweenCompactions: 0 };
  const withTurns = async (options: RuntimeOptions) => {
    const { runtime } = small({ text: "They read of a heron that waited for its mate." }, options);
    const session = await runtime.createSession(PAGE);
    await session.turn("And then?");
    await session.turn("And then?");
    return session;
  };

  it("[C10] is not waited for longer than for a model: a judge, a hook before, a hook after", async () => {
    const late = "it did not answer within 5000 ms";
    const judged = await withTurns({ config: IMPATIENT, compaction: { ...COMPACTION, judge: { judge: never } } });
    expect((await judged.compact()).compaction?.notes).toContain(`the judge failed: ${late}`);
    const asked = await withTurns({ config: IMPATIENT, compaction: { ...COMPACTION, beforeCompaction: never } });
    expect(await asked.compact()).toMatchObject({
      compacted: false,
      reason: `the hook before compaction failed: ${late}`,
    });
    const reported = await withTurns({ config: IMPATIENT, compaction: { ...COMPACTION, afterCompaction: never } });
    expect(await reported.compact()).toMatchObject({ compacted: true });
  });

  it("[C10] is left behind by an interrupt", async () => {
    let signal: AbortSignal | undefined;
    const curator = (source: { readonly signal: AbortSignal }) => {
      signal = source.signal;
      void session.interrupt();
      return never();
    };
    const session = await withTurns({ compaction: { ...COMPACTION, curator } });
    await session.compact().catch(() => {});
    expect(signal?.aborted).toBe(true);
    expect(await session.turn("Are you there?")).toMatchObject({ text: "Noted." });
  });
});

describe("a session that is full", () => {
  const useless: readonly (readonly [string, ScriptedStep, RuntimeOptions?])[] = [
    ["an empty summary", { text: "" }],
    ["a summary of nothing but an invisible space", { text: "\u200b" }],
    ["a summary of inventions", { text: "Deployed /opt/kraken/9917.yaml to https://kraken.example/77." }],
    ["a summary that is too long", { text: PAGE.repeat(40) }],
    ["a curator that returns nothing", { text: "x" }, { compaction: { curator: () => undefined as never } }],
    [
      "a curator that throws",
      { text: "x" },
      {
        compaction: {
          curator: () => {
            throw new Error("no");
          },
        },
      },
    ],
    ["a curator that never answers", { text: "x" }, { config: IMPATIENT, compaction: { curator: never } }],
  ];
  for (const [name, summary, options] of useless) {
    it(`[C4] [C12] goes on with an extractive summary after ${name}`, async () => {
      const { runtime } = small(summary, options);
      const session = await runtime.createSession(PAGE.repeat(4));
      for (let turn = 0; turn < 12; turn += 1) await session.turn(`${turn} ${PAGE.repeat(4)}`);
      expect((await session.compactions()).some(({ summaryBy: summary_by }) => summary_by === "extractive")).toBe(true);
    });
  }

  it("[C4] is recovered in a turn that may make one call alone", async () => {
    let isRefused = false;
    const { runtime } = scriptedRuntime(
      (request) => {
        if (isSummaryCall(request)) return { text: "They read about a heron." };
        if (request.messages.length < 5 || isRefused) return { text: "Noted." };
        isRefused = true;
        return tooLong;
      },
      { store: createInMemoryStore(), compaction: { recentTurnBudget: 1 } },
    );
    const session = await runtime.createSession(PAGE, { maxTurns: 1 });
    await session.turn(PAGE);
    const { result } = await listen(session.stream(PAGE));
    expect(isRefused).toBe(true);
    expect(result).toMatchObject({ text: "Noted.", turns: 2 });
  });
});

describe("a compactor of somebody else", () => {
  const base = new DefaultCompactor({ recentTurnBudget: 1, autoCompactThreshold: 300, minTurnsBetweenCompactions: 0 });
  const own = (given: Partial<Compactor>): Compactor => ({
    shouldCompact: (context) => base.shouldCompact(context),
    compactionPrompt: () => base.compactionPrompt(),
    maxSummaryTokens: () => 50,
    prepareForSummarization: (messages) => base.prepareForSummarization(messages),
    rebuildHistory: (messages, summary) => base.rebuildHistory(messages, summary),
    ...given,
  });
  const fail = (): never => {
    throw new Error("no idea");
  };
  const broken: Readonly<Record<string, Partial<Compactor>>> = {
    "throws when it is asked whether": { shouldCompact: fail },
    "has no prompt": { compactionPrompt: fail },
    "cannot prepare": { prepareForSummarization: fail },
    "prepares nothing": { prepareForSummarization: () => undefined as never },
    "cannot rebuild": { rebuildHistory: fail },
    "has no limit": { maxSummaryTokens: fail },
    "takes everything out": {
      rebuildHistory: (messages) => ({ messages: [], discarded: messages.filter(({ role }) => role !== "system") }),
    },
  };
  for (const [how, given] of Object.entries(broken)) {
    it(`[C10] that ${how} fails the compaction and not the turn`, async () => {
      const { runtime } = scriptedRuntime((request) => ({ text: isSummaryCall(request) ? "A heron." : "Noted." }), {
        store: createInMemoryStore(),
        compaction: { compactor: own(given) },
      });
      const session = await runtime.createSession(PAGE);
      const { events, result } = await listen(session.stream(PAGE));
      expect(result?.text).toBe("Noted.");
      expect(typesOf(events)).toContain("compaction_failed");
      expect((await session.context()).messages).toEqual((await session.history()).messages);
    });
  }

  it("[C13] cannot change what was said", async () => {
    const spoil: Compactor["rebuildHistory"] = (messages, summary) => {
      for (const message of messages) if (message.role === "user") message.content = "HACKED";
      return base.rebuildHistory(messages, summary);
    };
    const { runtime } = scriptedRuntime((request) => ({ text: isSummaryCall(request) ? "A heron." : "Noted." }), {
      store: createInMemoryStore(),
      compaction: { compactor: own({ rebuildHistory: spoil }) },
    });
    const session = await runtime.createSession(PAGE);
    await session.turn(PAGE);
    expect(await session.compactions()).toHaveLength(1);
    expect(JSON.stringify([await session.context(), await session.history()])).not.toContain("HACKED");
  });

  it("[C18] a hook that returns nothing in particular is no veto", async () => {
    const { runtime } = scriptedRuntime((request) => ({ text: isSummaryCall(request) ? "A heron." : "Noted." }), {
      store: createInMemoryStore(),
      compaction: { recentTurnBudget: 1, beforeCompaction: () => null as never },
    });
    const session = await runtime.createSession(PAGE);
    await session.turn(PAGE);
    expect(await session.compact()).toMatchObject({ compacted: true });
  });
});

describe("limits that do not go together", () => {
  it("[C17] a summary as long as the window is refused where the model is known", async () => {
    const { runtime } = small({ text: "x" }, { compaction: { maxSummaryTokens: 3_900 } });
    await expect(runtime.createSession("x")).rejects.toMatchObject({ code: "COMPACTION_THRESHOLD_UNREACHABLE" });
  });

  it("[C8] a count that lies does not make a context larger", async () => {
    const { runtime } = scriptedRuntime(
      (request) => ({
        text: isSummaryCall(request) ? PAGE : "Yes.",
        usage: { input_tokens: 90_000, output_tokens: 1 },
      }),
      { store: createInMemoryStore(), compaction: { autoCompactThreshold: 50_000, recentTurnBudget: 1 } },
    );
    const session = await runtime.createSession("1");
    for (let turn = 2; turn < 6; turn += 1) await session.turn(String(turn));
    for (const { tokensBefore: tokens_before, tokensAfter: tokens_after } of await session.compactions()) {
      expect(tokens_after).toBeLessThan(tokens_before);
    }
  });
});
