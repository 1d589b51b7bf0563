import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FACTS, FILLER, PREFERENCES } from "../recall-sample.ts";
import { type Contender, runJob } from "./contenders.ts";
import type { Said } from "./driver.ts";
import { openEmbeddingServer } from "./embeddings.ts";
import type { Found } from "./host.ts";
import type { Figures } from "./result.ts";

const COUNT = 5;
const CHARS_PER_TOKEN = 4;

const SETS = { facts: FACTS, preferences: PREFERENCES };

/** All that was said, once, in a memory; then the questions for what was planted, with the same vectors for all. */
export async function measureRecall(contenders: readonly Contender[]): Promise<Figures> {
  const asked = Object.entries(SETS).flatMap(([set, pairs]) =>
    pairs.map(([said, question]) => ({ set, said, question })),
  );
  const talks = [
    ...FILLER.map((talk) => talk.map((text, at): Said => ({ role: at % 2 === 0 ? "user" : "assistant", text }))),
    ...asked.map(({ said }): readonly Said[] => [
      { role: "user", text: said },
      { role: "assistant", text: "Noted." },
    ]),
  ];
  const rows: (readonly string[])[] = [];
  const missing: Figures["missing"][number][] = [];
  const server = await openEmbeddingServer();
  // Each project once, in its way to keep things if it has one.
  for (const contender of new Map(contenders.map((one) => [one.peer, one])).values()) {
    if (contender.recalls === undefined) {
      missing.push([contender.title, "it has no search of what was said"]);
      continue;
    }
    const folder = mkdtempSync(join(tmpdir(), "bench-peers-"));
    try {
      const questions = asked.map(({ question }) => question);
      const recall = { embeddings: server.setting, talks, questions, count: COUNT };
      const job = { baseUrl: server.setting.baseUrl, sessions: 1, turns: 1, warmUps: 0, recall };
      const { found = [] } = await runJob(contender, { ...job, ...(contender.keeps && { folder }) });
      rows.push([contender.title, contender.recalls, ...figuresOf(found, asked)]);
    } catch (error) {
      missing.push([contender.title, String(error)]);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }
  await server.close();
  return {
    name: "recall",
    title: "Finding again what was said",
    text:
      `${talks.length} talks of ${talks.flat().length} messages are put into a memory, ${asked.length} of them with a fact or a preference that ` +
      "is said once. Each is then asked for in other words, of a preference without naming it. All search with the same vectors (gte-small, by " +
      `OpenAI's API), through their own interface. R@${COUNT} is the share that is among ${COUNT} messages. An answer by default is what the ` +
      `project gives a model that asks for nothing else; its tokens are those of the texts, at ${CHARS_PER_TOKEN} characters. The set was ` +
      "written for rkat's own bench (`bench/recall-sample.ts`); the floor is the angle of each vector with that of the question.",
    columns: [
      "",
      "by",
      ...Object.keys(SETS).map((set) => `R@${COUNT}, ${set}, %`),
      "found in an answer by default, %",
      "tokens of the answer",
      "found per 1000 tokens",
    ],
    rows,
    missing,
  };
}

function figuresOf(
  found: readonly Found[],
  asked: readonly { readonly set: string; readonly said: string }[],
): readonly string[] {
  const has = (texts: readonly string[] = [], said: string): boolean => texts.some((text) => text.includes(said));
  const share = (values: readonly boolean[]): number => values.filter((value) => value).length / values.length;
  const best = asked.map(({ set, said }, at) => ({ set, isFound: has(found[at]?.best.slice(0, COUNT), said) }));
  const given = share(asked.map(({ said }, at) => has(found[at]?.given, said)));
  const chars = found.reduce((sum, one) => sum + one.given.join("").length, 0);
  const tokens = chars / CHARS_PER_TOKEN / found.length;
  return [
    ...Object.keys(SETS).map((set) =>
      (100 * share(best.filter((one) => one.set === set).map(({ isFound }) => isFound))).toFixed(1),
    ),
    (100 * given).toFixed(1),
    tokens.toFixed(0),
    ((1_000 * given) / tokens).toFixed(2),
  ];
}
