import { piecesOf } from "@rkat/core/grounding/exactness";
import { indexTexts } from "@rkat/core/grounding/occurrence";
import { type Specific, specificsOf } from "@rkat/core/grounding/specifics";
import { describe, expect, it } from "vitest";
import { type GeneratedTwin, generateTwins } from "./generated-twins.ts";

const NOT_KEPT_SHARE_MAX = 0.01;
const yieldToEventLoop = () => undefined;

const specificsIn = (text: string): Promise<readonly Specific[]> =>
  specificsOf(
    [{ seq: 1, message: { role: "user", content: text, created_at: "2026-01-05T10:30:00.000Z" } }],
    yieldToEventLoop,
  );

/** What of a text is not kept in another one. */
async function missingIn(standing: string, specifics: readonly Specific[]): Promise<readonly Specific[]> {
  const index = indexTexts(piecesOf(standing), yieldToEventLoop);
  const held = await Promise.all(specifics.map(index.has));
  return specifics.filter((_, at) => !held[at]);
}

interface Judged {
  readonly pairs: number;
  readonly checks: number;
  readonly falselyKept: readonly string[];
  readonly falselyMissing: readonly string[];
}

/** Every specific of each sentence: with what differs in none of them where only the twin stands, else in all. */
async function judge(twins: readonly GeneratedTwin[]): Promise<Judged> {
  const falselyKept: string[] = [];
  const falselyMissing: string[] = [];
  let checks = 0;
  for (const { own, sentence, twin, kept, language, kind } of twins) {
    const specifics = await specificsIn(sentence);
    const differing = specifics.filter(({ text }) => text.includes(own.replaceAll(/[“”„«»「」『』"`]/gu, "").trim()));
    if (differing.length === 0) throw new Error(`nothing of "${sentence}" is accounted for`);
    const missing = await missingIn(twin, differing);
    for (const one of differing) {
      if (!missing.includes(one)) falselyKept.push(`${language} ${kind} ${one.kind}: ${one.text} | ${twin}`);
    }
    for (const standing of kept) {
      checks += specifics.length;
      for (const one of await missingIn(standing, specifics)) {
        falselyMissing.push(`${language} ${kind} ${one.kind}: ${one.text} | ${standing}`);
      }
    }
  }
  return { pairs: twins.length, checks, falselyKept, falselyMissing };
}

describe("a receipt held against near-twins", () => {
  it.each(["tuned", "held-out"] as const)("[J5] of which none is taken for the other (%s)", async (set) => {
    const { pairs, checks, falselyKept, falselyMissing } = await judge(generateTwins(set));
    expect(pairs).toBe(set === "tuned" ? 315 : 185);
    expect(falselyKept).toEqual([]);
    const share = falselyMissing.length / checks;
    expect(share, falselyMissing.join("\n")).toBeLessThanOrEqual(NOT_KEPT_SHARE_MAX);
  });
});
