import { runCompaction } from "@rkat/core/compaction/run-compaction";
import type { Receipt } from "@rkat/core/contract/compaction";
import { checkSummary, cutInvented } from "@rkat/core/grounding/groundedness";
import { createScriptedModel, type ScriptedStep } from "@rkat/core/providers/scripted";
import { type CompactionCase, compactionCorpus } from "../test/support/corpus.ts";
import { askingFor, composeFor, foldHistory } from "./compaction-stage.ts";

/** Where the specifics of a context are after a compaction. */
export type Kept = Pick<Receipt, "total" | "in_summary" | "in_tail" | "recoverable" | "lost">;

/** What became of one conversation of the corpus. */
export interface CorpusReading {
  readonly name: string;
  readonly extractive: Kept;
  /** The sum over its honest summaries. */
  readonly honest: Kept;
  readonly honestSummaries: number;
  /** Honest summaries that are not what they were once what is taken for invented is cut. */
  readonly falseCuts: number;
  readonly planted: number;
  /** Planted pieces that are gone from the summary once what is invented is cut. */
  readonly caught: number;
  /** Planted pieces that stand in a sentence that is listed as unverified. */
  readonly listed: number;
  /** Sentences of planted summaries that are cut although nothing was planted in them. */
  readonly innocentCuts: number;
}

/** Compacts every conversation of the corpus with every summary there is of it. */
export async function measureCorpus(): Promise<readonly CorpusReading[]> {
  const readings: CorpusReading[] = [];
  for (const one of compactionCorpus()) readings.push(await measureCase(one));
  return readings;
}

/** The model cannot take the request, so that the summary is made of sentences of the conversation. */
const EXTRACT: ScriptedStep = { ends: { failure: { kind: "context_exceeded", message: "too long" } } };

async function measureCase(one: CompactionCase): Promise<CorpusReading> {
  const honest: Kept[] = [];
  for (const text of one.honest) honest.push(await compactWith(one, { text }));
  let falseCuts = 0;
  for (const summary of one.honest) {
    const { invented } = await checkSummary(summary, one.messages, () => undefined);
    if (cutInvented(summary, invented) !== summary) falseCuts += 1;
  }
  return {
    name: one.name,
    extractive: await compactWith(one, EXTRACT),
    honest: honest.reduce(addKept),
    honestSummaries: honest.length,
    falseCuts,
    ...(await judgePlanted(one)),
  };
}

async function compactWith({ name, messages }: CompactionCase, step: ScriptedStep): Promise<Kept> {
  const { state, append } = await foldHistory(messages.filter(({ role }) => role !== "system"));
  const model = createScriptedModel(() => step);
  const outcome = await runCompaction({
    state,
    compacting: composeFor({}, undefined),
    asking: askingFor(model, append),
    trigger: "manual",
    append,
  });
  if (!outcome.compacted) throw new Error(`${name} was not compacted: ${outcome.reason}`);
  const { receipt } = state.compactions.at(-1)?.body ?? {};
  if (receipt === undefined) throw new Error(`${name} has no receipt`);
  const { total, in_summary, in_tail, recoverable, lost } = receipt;
  return { total, in_summary, in_tail, recoverable, lost };
}

async function judgePlanted({ planted, messages }: CompactionCase) {
  let pieces = 0;
  let caught = 0;
  let listed = 0;
  let innocentCuts = 0;
  for (const { summary, invented } of planted) {
    const { invented: found, unverified } = await checkSummary(summary, messages, () => undefined);
    const left = cutInvented(summary, found);
    pieces += invented.length;
    const standing = invented.filter((piece) => left.includes(piece));
    caught += invented.length - standing.length;
    listed += standing.filter((piece) => unverified.some((sentence) => sentence.includes(piece))).length;
    const sentences = new Set(found.map(({ sentence }) => sentence));
    innocentCuts += [...sentences].filter((sentence) => !invented.some((piece) => sentence.includes(piece))).length;
  }
  return { planted: pieces, caught, listed, innocentCuts };
}

export function addKept(a: Kept, b: Kept): Kept {
  return {
    total: a.total + b.total,
    in_summary: a.in_summary + b.in_summary,
    in_tail: a.in_tail + b.in_tail,
    recoverable: a.recoverable + b.recoverable,
    lost: a.lost + b.lost,
  };
}
