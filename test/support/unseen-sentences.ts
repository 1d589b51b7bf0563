import { readFileSync } from "node:fs";
import { ground } from "@rkat/core/compaction/ground";
import type { ModelClient, ModelRequest } from "@rkat/core/ports/model";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import type { Asking } from "@rkat/core/turn/model-call";
import { z } from "zod";
import { compactionCorpus } from "./corpus.ts";

const Unseen = z.record(z.string(), z.strictObject({ honest: z.array(z.string()), invented: z.array(z.string()) }));

/** Sentences about conversations of the corpus that no rule of groundedness was written with. */
function unseenSentences(): z.infer<typeof Unseen> {
  return Unseen.parse(JSON.parse(readFileSync(new URL("../corpus/unseen-sentences.json", import.meta.url), "utf8")));
}

/** What became of sentences in a summary. */
interface Fate {
  readonly sentences: number;
  readonly cut: number;
  readonly unverified: number;
}

export interface UnseenReading {
  readonly honest: Fate;
  readonly invented: Fate;
}

/** Holds a summary of every conversation, made of all its unseen sentences, against it; with a model, that judges it. */
export async function measureUnseen(
  askingFor: (model: ModelClient) => Asking,
  judging?: ModelClient,
): Promise<UnseenReading> {
  const reading = { honest: NONE, invented: NONE };
  const model = judging ?? createScriptedModel(() => ({ text: "nobody asks" }));
  const compacting = { cutInvented: true, judge: judging && ("model" as const), strategy: "summary" };
  for (const [name, labelled] of Object.entries(unseenSentences())) {
    const source = compactionCorpus().find((one) => one.name === name)?.messages ?? [];
    const summary = [...labelled.honest, ...labelled.invented].map((sentence) => `- ${sentence}`).join("\n");
    const usage = { input_tokens: 0, output_tokens: 0 };
    const written = { ok: true, summary, by: "model", tokens: 0, usage, notes: [] } as const;
    const grounded = await ground({ compacting, asking: askingFor(model), source }, written);
    if (!grounded.ok) throw new Error(`${name}: ${grounded.error}`);
    for (const kind of ["honest", "invented"] as const) {
      const { sentences, cut, unverified } = reading[kind];
      const own = labelled[kind];
      reading[kind] = {
        sentences: sentences + own.length,
        cut: cut + own.filter((sentence) => !grounded.summary.includes(sentence)).length,
        unverified: unverified + own.filter((sentence) => isListed(sentence, grounded.unverified)).length,
      };
    }
  }
  return reading;
}

const NONE: Fate = { sentences: 0, cut: 0, unverified: 0 };

/** A sentence of the fixture may be two of a summary. */
function isListed(sentence: string, unverified: readonly string[]): boolean {
  return unverified.some((one) => sentence.includes(one));
}

/** The sentences a judge is asked about, in the order of their numbers. */
export function judgedSentences({ messages }: ModelRequest): readonly string[] {
  const last = messages.at(-1);
  const content = last?.role === "user" ? String(last.content) : "";
  return [...content.matchAll(/^\d+: (".*")$/gmu)].map(([, sentence = ""]) => String(JSON.parse(sentence)));
}

/** A judge that knows which of the unseen sentences are honest. */
export function labellingModel(): ModelClient {
  const invented = Object.values(unseenSentences()).flatMap((labelled) => labelled.invented);
  return createScriptedModel((request) => ({
    text: judgedSentences(request)
      .map(
        (sentence, at) => `${at + 1}: ${invented.some((one) => one.includes(sentence)) ? "contradicted" : "supported"}`,
      )
      .join("\n"),
    usage: { input_tokens: 100, output_tokens: 10 },
  }));
}
