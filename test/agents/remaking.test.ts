import type { Agents } from "@rkat/core/agents/agents";
import type { Caller } from "@rkat/core/contract/caller";
import { describe, expect, it } from "vitest";
import { agentsWith } from "../support/agents.ts";

const WINDOWS = { immediate: 2, recent: 2 };
const memory = (n: number): string => `Server SRV-${100 + n} listens at port ${8_000 + n}.`;
const sentencesOf = (texts: readonly string[]): readonly string[] => texts.flatMap((text) => text.split(/(?<=\.) /));
const whole = (texts: readonly string[]): string => sentencesOf(texts).join(" ");
/** Half of what there was: the quality of what is made of it again and again falls step by step. */
const half = (texts: readonly string[]): string => {
  const sentences = sentencesOf(texts);
  return sentences.slice(Math.ceil(sentences.length / 2)).join(" ");
};

interface Scripted {
  /** The long-term summary made anew; each of its steps is given the texts of the step. */
  readonly anew: (texts: readonly string[]) => string;
  readonly roomBytes?: number;
  readonly spentToday?: number;
}

/** An agent whose long-term summary is made of a half of what it was; short-term summaries say everything. */
function degrading({ anew, ...given }: Scripted) {
  const lines: string[] = [];
  const remakings: (readonly string[])[] = [];
  let [calls, compactions] = [0, 0];
  const agents = agentsWith({
    ...given,
    windows: WINDOWS,
    lines,
    summarise: async (texts) => {
      calls += 1;
      // The first compaction has no long-term summary.
      const call = compactions === 0 ? calls + 1 : calls;
      if (call > 2) remakings.push(texts);
      return { summary: call === 1 ? half(texts) : call === 2 ? whole(texts) : anew(texts), by: "model" };
    },
  });
  const live = async (from: number, to: number, caller?: Caller): Promise<void> => {
    for (let n = from; n <= to; n += 1) {
      calls = 0;
      await agents.operations.remember({ agent: "ada", content: memory(n) }, caller === undefined ? {} : { caller });
      while ((await statusOf(agents)).compaction_running) await new Promise(setImmediate);
      ({ compactions } = await statusOf(agents));
    }
  };
  return { agents, lines, remakings, live };
}

const statusOf = ({ operations }: Agents) => operations.readAgentStatus({ agent: "ada" }, {});
const receiptOf = ({ operations }: Agents) => operations.readAgentReceipt({ agent: "ada" }, {});
async function qualitiesOf({ operations }: Agents) {
  const { summaries } = await operations.readAgentHistory({ agent: "ada", limit: 50 }, {});
  return summaries
    .toReversed()
    .flatMap(({ tier, quality, remaking }) => (tier === "longterm" ? [[quality?.quality, remaking?.outcome]] : []));
}

describe("a long-term summary that keeps less and less", () => {
  it("[E3] is made anew of the short-term summaries in the log, oldest first, and says again what they say", async () => {
    const { agents, lines, remakings, live } = degrading({ anew: whole });
    await live(1, 9);
    expect(await qualitiesOf(agents)).toEqual([
      [expect.closeTo(1 / 3), undefined],
      [1, "remade"],
    ]);
    expect(remakings).toEqual([[whole([1, 2, 3].map(memory)), whole([4, 5].map(memory))]]);
    const { longterm, quality, remaking } = await receiptOf(agents);
    expect(longterm?.summary).toBe(whole([1, 2, 3, 4, 5].map(memory)));
    expect(longterm?.receipt).toMatchObject({ total: 10, in_summary: 10, lost: 0 });
    expect(quality).toMatchObject({ sources: 10, kept: 10, attainable: 10, invented: 0 });
    expect(remaking).toEqual({
      ...{ outcome: "remade", quality_before: expect.any(Number), summaries: 2, specifics: 10 },
      ...{ kept_before: 2, kept_remade: 10, steps: 1 },
    });
    expect(lines).toContain(
      "[Memory] ada: Long-term summary made anew of 2 short-term summaries (2 specifics before, 10 now)",
    );
    // It falls again with what is made of it, and is made anew again.
    await live(10, 15);
    expect((await qualitiesOf(agents)).map(([, outcome]) => outcome)).toContain("remade");
    expect((await receiptOf(agents)).longterm?.receipt).toMatchObject({ lost: 0 });
    await agents.close();
  });

  it("[E3] stays where made anew it would say no more, and is then left alone for eight compactions", async () => {
    const { agents, remakings, live } = degrading({ anew: (texts) => sentencesOf(texts).at(-1) ?? "" });
    await live(1, 31);
    const outcomes = (await qualitiesOf(agents)).map(([, outcome]) => outcome ?? "-").join(" ");
    expect(outcomes).toMatch(/^(?:- |not_needed )*not_better(?: -){8} (?:not_better|not_needed)/);
    expect(remakings.length).toBeLessThanOrEqual(2);
    expect((await statusOf(agents)).last_error).toBe(undefined);
    await agents.close();
  });

  it.each([
    [
      "fails",
      (): string => {
        throw new Error("the model is overloaded");
      },
      "the model is overloaded",
    ],
    [
      "invents everything",
      () => "See KRAKEN-77 at /opt/kraken.yaml.",
      "nothing in the summary is supported by its source",
    ],
  ])("[E8] stays when making it anew %s, and the compaction is made all the same", async (_name, anew, reason) => {
    const { agents, live } = degrading({ anew });
    await live(1, 9);
    const { remaking, longterm } = await receiptOf(agents);
    expect(remaking).toMatchObject({ outcome: "failed", reason, steps: 1 });
    expect(longterm?.summary).toBe(half([half([whole([1, 2, 3].map(memory))]), whole([4, 5].map(memory))]));
    expect(await statusOf(agents)).toMatchObject({ compactions: 3 });
    await agents.close();
  });

  it("[I7] is not made anew for a token that has spent what it may", async () => {
    const caller: Caller = { name: "web", scopes: new Set(["run"]), labels: {}, maxCostPerDay: 1 };
    const { agents, remakings, live } = degrading({ anew: whole, spentToday: 1 });
    await live(1, 9, caller);
    expect((await receiptOf(agents)).remaking).toMatchObject({
      outcome: "failed",
      steps: 0,
      reason: "token web has spent the 1 dollars it may cost a day",
    });
    expect(remakings).toEqual([]);
    await agents.close();
  });

  it("[E3] is made anew in steps of the model's window, each with what those before came to, eight at most", async () => {
    const { agents, remakings, live } = degrading({ anew: whole, roomBytes: 150 });
    await live(1, 9);
    const [first, second] = [whole([1, 2, 3].map(memory)), whole([4, 5].map(memory))];
    expect(remakings).toEqual([[first], [first, second]]);
    expect((await receiptOf(agents)).remaking).toMatchObject({ outcome: "remade", steps: 2 });
    await agents.close();
  });
});
