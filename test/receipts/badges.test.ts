import { blocksOf } from "@rkat/core/grounding/cut-sentences";
import { checkSummary } from "@rkat/core/grounding/groundedness";
import { describe, expect, it } from "vitest";
import { compactionCorpus } from "../support/corpus.ts";
import { listedOf, readSummaries } from "./changed-summaries.ts";

const BADGES_SHARE_MAX = 0.03;
const OPPOSED_SHARE_MIN = 0.8;

describe("a badge on a sentence of a summary", () => {
  // The rules were written with every second conversation; the others only judge them.
  it.each([
    ["tuned", 0],
    ["held-out", 1],
  ] as const)("[R2] is rare where the summary is honest (%s)", async (_, half) => {
    let sentences = 0;
    const badges: string[] = [];
    for (const { messages, honest } of compactionCorpus().filter((_one, at) => at % 2 === half)) {
      for (const summary of honest) {
        const { invented, doubtful } = await checkSummary(summary, messages, () => undefined);
        badges.push(...invented.map(({ sentence }) => sentence), ...doubtful);
        sentences += blocksOf(summary).flatMap((block) => block.sentences).length;
      }
    }
    expect(sentences).toBeGreaterThan(100);
    expect(badges.length / sentences, badges.join("\n")).toBeLessThanOrEqual(BADGES_SHARE_MAX);
  });

  it("[R2] is on no sentence that the source has word for word, whatever list, emphasis or quotation it stands in", async () => {
    const summaries = readSummaries("kept-tuned").map((one) => ({ ...one, said: textOf(one.source) }));
    const listed = await Promise.all(
      summaries.flatMap(({ source, said }) =>
        [`- ${said}`, `**${said}**`, `3. ${said}`, `The user said: “${said}”`].map(
          async (summary) => (await checkSummary(summary, [source], () => undefined)).doubtful,
        ),
      ),
    );
    expect(listed.flat()).toEqual([]);
  });

  it.each(["tuned", "held-out"] as const)(
    "[R2] is on a sentence that says the opposite of its source (%s)",
    async (set) => {
      const listed = await Promise.all(readSummaries(`meaning-${set}`).map(listedOf));
      const badged = listed.filter(({ doubtful, invented }) => doubtful.length + invented.length > 0);
      expect(badged.length / listed.length).toBeGreaterThanOrEqual(OPPOSED_SHARE_MIN);
    },
  );
});

function textOf(message: Awaited<ReturnType<typeof readSummaries>>[number]["source"]): string {
  if (message.role === "user") return String(message.content);
  const [block] = message.role === "block_assistant" ? message.blocks : [];
  return block?.block_type === "text" ? block.data.text : "";
}
