import { describe, expect, it } from "vitest";
import { configWith, listen, scriptedRuntime, typesOf } from "../../../../test/support/runtime.ts";
import { createVirtualClock } from "../../../../test/support/virtual-clock.ts";
import { COMPACTION_PROMPT, SUMMARY_PREFIX } from "../compaction/shown-messages.ts";
import { createInMemoryStore, createRuntime, type RuntimeOptions } from "../create-runtime.ts";
import type { ModelRequest } from "../ports/model.ts";
import { createScriptedModel, type ScriptedStep } from "../providers/scripted.ts";
import type { Session } from "../sessions/session-handle.ts";

const BIG = { autoCompactThreshold: 50_000, maxSummaryTokens: 200, recentTurnBudget: 1 };
const LINE = "All of this was said while the kettle boiled and the rain went on. ".repeat(6);
const CASCADE = configWith({ compaction: { strategy: "cascade" } });
const TASK = "Summarize these memories in 2-3 sentences:";
const CUE = "SUMMARY:";

const promptIn = ({ messages }: ModelRequest): string => {
  const last = messages.at(-1);
  return last?.role === "user" ? String(last.content) : "";
};
const isForLongterm = (request: ModelRequest): boolean => promptIn(request).startsWith(TASK);
const isForRecent = (request: ModelRequest): boolean => promptIn(request).startsWith(COMPACTION_PROMPT);

/** What there is of `fact 1, fact 2, …` in a text, as a sentence. */
const factsIn = (text: string): string => `They noted ${[...new Set(text.match(/fact \d+/g))].join(", ")}.`;

/** Sums up by the facts that stand in what it is shown. */
function answer(request: ModelRequest): ScriptedStep {
  const usage = { input_tokens: 100, output_tokens: 7 };
  if (isForLongterm(request)) return { text: `Sure! ${factsIn(promptIn(request))}\n\nI hope this helps!`, usage };
  if (isForRecent(request)) return { text: factsIn(JSON.stringify(request.messages)), usage };
  return { text: `Noted. ${LINE}` };
}

async function noted(script: (request: ModelRequest) => ScriptedStep = answer, options: RuntimeOptions = {}) {
  const { runtime, model } = scriptedRuntime(script, {
    store: createInMemoryStore(),
    systemPrompt: "Keep notes.",
    config: CASCADE,
    compaction: BIG,
    ...options,
  });
  const session = await runtime.createSession(`This is fact 1. ${LINE}`);
  await session.turn(`This is fact 2. ${LINE}`);
  const asked = () => model.requests.filter((request) => isForLongterm(request) || isForRecent(request));
  return { runtime, session, asked };
}

/** Two more facts, then a compaction: of four turns three go. */
async function goOn(session: Session, round: number) {
  for (const fact of [2 * round + 1, 2 * round + 2]) await session.turn(`This is fact ${fact}. ${LINE}`);
  return session.compact();
}

describe("compacting by cascade", () => {
  it("[E9] folds the recent past into the older one, time and again, and writes the recent one anew", async () => {
    const { session, asked } = await noted();
    const calls: number[] = [];
    const summaries: string[] = [];
    for (let round = 0; round < 5; round += 1) {
      const before = asked().length;
      const { compaction, reason } = round === 0 ? await session.compact() : await goOn(session, round);
      expect(reason).toBeUndefined();
      expect(compaction).toMatchObject({ strategy: "cascade", summaryBy: "model", notes: [] });
      const count = asked().length - before;
      expect(compaction?.usage).toEqual({ inputTokens: 100 * count, outputTokens: 7 * count });
      expect(compaction?.summaryTokens).toBe(7 * count);
      calls.push(count);
      summaries.push(compaction?.summary ?? "");
    }
    expect(calls).toEqual([1, 2, 2, 2, 2]);
    expect(summaries[0]).toBe("## Recent Past (Summary)\nThey noted fact 1.");
    expect(summaries[1]).toBe(
      "## Older Memories (Summary)\nThey noted fact 1.\n\n## Recent Past (Summary)\nThey noted fact 2, fact 3.",
    );
    expect(summaries[4]).toBe(
      "## Older Memories (Summary)\nThey noted fact 1, fact 2, fact 3, fact 4, fact 5, fact 6, fact 7.\n\n" +
        "## Recent Past (Summary)\nThey noted fact 8, fact 9.",
    );
    const { messages } = await session.context();
    expect(messages[1]).toMatchObject({ role: "user", content: `${SUMMARY_PREFIX}\n\n${summaries[4]}` });
    const compactions = await session.compactions();
    expect(compactions.map(({ superseded }) => superseded)).toEqual([
      undefined,
      ...compactions.slice(0, 4).map(({ compactionId: compaction_id }) => compaction_id),
    ]);
    for (const { receipt } of compactions) {
      const { total, inSummary: in_summary, inTail: in_tail, pinned, recoverable, lost } = receipt;
      expect(in_summary + in_tail + pinned + recoverable + lost).toBe(total);
      expect({ lost, invented: receipt.invented }).toEqual({ lost: 0, invented: [] });
    }
  });

  it("[E9] asks for the older past in the words for memories, and for the recent one without it", async () => {
    const { session, asked } = await noted();
    await session.compact();
    await goOn(session, 1);
    const [first, longterm, recent] = asked();
    expect(first).toMatchObject({ maxOutputTokens: 200, tools: [] });
    expect(longterm).toMatchObject({ maxOutputTokens: 100, tools: [], messages: { length: 1 } });
    expect(longterm && promptIn(longterm)).toBe(`${TASK}\n\nThey noted fact 1.\n\n${CUE}\n`);
    expect(recent).toMatchObject({ maxOutputTokens: 100, tools: [] });
    expect(recent?.messages[0]).toMatchObject({ role: "system", content: "Keep notes." });
    expect(recent?.messages[1]).toMatchObject({ content: expect.stringContaining("fact 2.") });
    expect(JSON.stringify(recent?.messages)).not.toMatch(/Context compacted|fact 1|fact 4/);
    await goOn(session, 2);
    const third = asked()[3];
    expect(third && promptIn(third)).toBe(`${TASK}\n\nThey noted fact 1.\nThey noted fact 2, fact 3.\n\n${CUE}\n`);
  });

  it("[E9] undoing the last gives back the context byte for byte, and it can be made again", async () => {
    const { session } = await noted();
    await session.compact();
    for (let round = 1; round < 4; round += 1) await goOn(session, round);
    for (const fact of [9, 10]) await session.turn(`This is fact ${fact}. ${LINE}`);
    const before = await session.context();
    const { compaction } = await session.compact();
    expect((await session.context()).sha256).not.toBe(before.sha256);
    expect(await session.undoCompaction(compaction?.compactionId ?? "")).toEqual([compaction?.compactionId]);
    expect(JSON.stringify(await session.context())).toBe(JSON.stringify(before));
    expect((await session.compact()).compaction?.summary).toBe(compaction?.summary);
    const { expanded } = await session.expandCompaction((await session.compactions()).at(-1)?.compactionId ?? "");
    expect(expanded.length).toBeGreaterThan(0);
  });

  const failures: readonly (readonly [string, ScriptedStep, "longterm" | "recent"])[] = [
    ["its second call fails", { ends: { failure: { kind: "invalid_request", message: "no" } } }, "recent"],
    ["its first call fails", { ends: { failure: { kind: "invalid_request", message: "no" } } }, "longterm"],
    ["its second answer is empty", { text: " " }, "recent"],
    ["its second answer is a heading", { text: "## Recent Past (Summary)" }, "recent"],
    ["its first answer is a loop", { text: "I do not know. ".repeat(99) }, "longterm"],
    ["its first answer is talk", { text: "Sure! As an AI language model, I have no memories." }, "longterm"],
    ["nobody said what the older past says", { text: "Build 98765 fell." }, "longterm"],
    ["nobody said what the recent past says", { text: "Build 98765 fell." }, "recent"],
  ];
  it.each(failures)("[E9] changes nothing when %s", async (_name, step, which) => {
    let isBroken = false;
    const { session } = await noted((request) =>
      isBroken && (which === "longterm" ? isForLongterm(request) : isForRecent(request)) ? step : answer(request),
    );
    await session.compact();
    for (const fact of [3, 4]) await session.turn(`This is fact ${fact}. ${LINE}`);
    const [before, compactions] = [await session.context(), await session.compactions()];
    isBroken = true;
    expect(await session.compact()).toEqual({ compacted: false, reason: expect.any(String) });
    expect(await session.context()).toEqual(before);
    expect(await session.compactions()).toEqual(compactions);
    isBroken = false;
    expect((await session.compact()).compaction?.summary).toContain("They noted fact 2, fact 3.");
  });

  it("[E9] counts what a call cost whose answer was of no use", async () => {
    let isBroken = false;
    const { session } = await noted((request) =>
      isBroken && isForRecent(request)
        ? { text: "", usage: { input_tokens: 1_000, output_tokens: 0 } }
        : answer(request),
    );
    await session.compact();
    for (const fact of [3, 4]) await session.turn(`This is fact ${fact}. ${LINE}`);
    const before = session.lastResult?.usage.inputTokens ?? 0;
    isBroken = true;
    await session.compact();
    const { usage } = await session.turn("And now?");
    expect(usage.inputTokens - before).toBe(100 + 1_000 + 10);
  });

  it("[E9] on overflow extracts the section the model cannot write, and keeps the other", async () => {
    let isFull = false;
    const script = (request: ModelRequest): ScriptedStep => {
      if (isFull && isForRecent(request)) return { ends: { failure: { kind: "auth", message: "no key" } } };
      return answer(request);
    };
    const model = createScriptedModel(script, { contextWindow: 4_000 });
    const { session } = await noted(script, { model, compaction: BIG });
    await session.compact();
    for (let fact = 3; fact < 9; fact += 1) await session.turn(`This is fact ${fact}. ${LINE}`);
    isFull = true;
    const { events } = await listen(session.stream(`This is fact 9. ${LINE.repeat(30)}`));
    expect(typesOf(events)).toContain("compaction_completed");
    const compaction = (await session.compactions()).at(-1);
    expect(compaction).toMatchObject({ trigger: "overflow", strategy: "cascade", summaryBy: "model" });
    expect(compaction?.summary).toMatch(
      /^## Older Memories \(Summary\)\nThey noted fact 1\.\n\n## Recent Past \(Summary\)\n\(This summary was made without/,
    );
    expect(compaction?.notes.join()).toContain("so the summary is extractive");
  });

  it("[E9] previews what both calls would cost, and asks nobody", async () => {
    const { session, asked } = await noted();
    const first = await session.compact({ preview: true });
    expect(first.compaction).toMatchObject({ strategy: "cascade", cost: { maxOutputTokens: 200 } });
    await session.compact();
    for (const fact of [3, 4]) await session.turn(`This is fact ${fact}. ${LINE}`);
    const before = await session.context();
    const count = asked().length;
    const { compaction } = await session.compact({ preview: true });
    expect(asked()).toHaveLength(count);
    expect(await session.context()).toEqual(before);
    const done = await session.compact();
    expect(done.compaction).toMatchObject({ discarded: compaction?.discarded, kept: compaction?.kept });
    const sent = asked().slice(count);
    const bytes = sent.reduce((sum, { messages }) => sum + JSON.stringify(messages).length, 0);
    const cost = compaction?.cost?.inputTokens ?? 0;
    expect(cost).toBeGreaterThan(bytes / 8);
    expect(cost).toBeLessThanOrEqual(bytes / 4);
  });

  it("[E9] leaves pinned messages where they are and out of the summary", async () => {
    const { session, asked } = await noted();
    const { messages } = await session.history();
    const seq = messages.find(({ role }) => role === "user")?.seq ?? 0;
    await session.pin(seq);
    await session.compact();
    await goOn(session, 1);
    expect((await session.context()).messages.map((message) => message.seq)).toContain(seq);
    expect(asked().some((request) => JSON.stringify(request.messages).includes("fact 1."))).toBe(false);
  });

  it("[E9] shows exchanges of a turn that goes on as a text, which every provider takes", async () => {
    const look = {
      name: "look",
      description: "Looks.",
      inputSchema: { type: "object", properties: {} },
      execute: () => `It says fact 7. ${LINE}`,
    } as const;
    let looks = 0;
    const { session, asked } = await noted(
      (request) => {
        if (isForLongterm(request) || isForRecent(request)) return answer(request);
        looks += 1;
        return looks < 9 ? { calls: [{ name: "look" }] } : { text: "Done." };
      },
      { tools: [look], compaction: { ...BIG, autoCompactThreshold: 900, recentTurnBudget: 4 } },
    );
    expect((await session.compactions()).length).toBeGreaterThan(1);
    const recent = asked().filter(isForRecent);
    for (const { messages } of recent)
      expect(messages.find(({ role }) => role !== "system")?.role).not.toBe("block_assistant");
    expect(JSON.stringify(recent[0]?.messages)).toContain("Result of look: It says fact 7.");
  });

  it("[E9] takes over from another strategy, and hands over to it", async () => {
    // One clock: another would give ids anew.
    const shared = { store: createInMemoryStore(), clock: createVirtualClock(), compaction: BIG };
    const { session } = await noted(answer, { ...shared, config: configWith({}) });
    const { compaction } = await session.compact();
    expect(compaction).toMatchObject({ strategy: "summary", summary: expect.stringMatching(/^They noted fact 1/) });
    const cascading = scriptedRuntime(answer, { ...shared, config: CASCADE }).runtime.session(session.id);
    expect((await goOn(cascading, 1)).compaction?.summary).toBe(
      "## Older Memories (Summary)\nThey noted fact 1, fact 2.\n\n## Recent Past (Summary)\nThey noted fact 2, fact 3.",
    );
    const plain = scriptedRuntime(answer, shared).runtime.session(session.id);
    expect((await goOn(plain, 2)).compaction).toMatchObject({
      strategy: "summary",
      summary: "They noted fact 1, fact 2, fact 3, fact 4, fact 5, fact 6.",
    });
  });

  it("[E9] a curator writes the whole summary; a compactor of one's own is refused", async () => {
    const { session, asked } = await noted(answer, {
      compaction: { ...BIG, curator: ({ previousSummary }) => `Kept: fact 1 (${previousSummary ?? "nothing"})` },
    });
    await session.compact();
    const { compaction } = await goOn(session, 1);
    expect(compaction).toMatchObject({ strategy: "cascade", summaryBy: "curator" });
    expect(compaction?.summary).toBe("Kept: fact 1 (Kept: fact 1 (nothing))");
    expect(asked()).toEqual([]);
    const compactor = {
      shouldCompact: () => false,
      compactionPrompt: () => "",
      maxSummaryTokens: () => 1,
      prepareForSummarization: () => [],
      rebuildHistory: () => ({ messages: [], discarded: [] }),
    };
    expect(() => createRuntime({ config: CASCADE, compaction: { compactor } })).toThrow(
      `compaction.strategy: "cascade" is not for a compactor of one's own; leave one of the two out`,
    );
  });

  it("[E9] works with the offline model, which keeps a rule through it", async () => {
    const store = createInMemoryStore();
    const runtime = createRuntime({ model: "offline", env: {}, store, config: CASCADE, compaction: BIG });
    const session = await runtime.createSession(`Remember: never open the north gate 77. ${LINE}`);
    for (let round = 0; round < 5; round += 1) {
      for (const turn of [1, 2]) await session.turn(`In round ${round}.${turn} we walked to the garden. ${LINE}`);
      expect(await session.compact()).toMatchObject({ compacted: true });
    }
    expect((await session.compactions()).at(-1)?.summary).toContain("never open the north gate 77");
  });
});
