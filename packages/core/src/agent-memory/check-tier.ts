import type { LongtermQuality } from "../contract/agent.ts";
import type { Message } from "../contract/message.ts";
import { piecesOf } from "../grounding/exactness.ts";
import { checkSummary, cutInvented, type Invented } from "../grounding/groundedness.ts";
import { indexTexts } from "../grounding/occurrence.ts";
import type { Specific } from "../grounding/specifics.ts";
import type { Clock } from "../ports/clock.ts";
import { sentencesIn } from "../text/sentences.ts";
import { extractTier, withoutPromptLines } from "./tier-text.ts";

/** The length of two or three sentences: a short text may be summarised in this much. */
const SUMMARY_ROOM_CHARS = 400;

/** A summary checked against its sources, without invented content. */
export interface CheckedTier {
  readonly summary: string;
  readonly by: "model" | "extractive";
  readonly invented: readonly Invented[];
  readonly inventedCut: boolean;
  readonly unverified: readonly string[];
  readonly doubtful: readonly string[];
}

interface Checking {
  readonly sources: readonly Message[];
  readonly sourceChars: number;
  readonly cutsInvented: boolean;
  readonly yieldToEventLoop: Clock["yieldToEventLoop"];
}

/** Checks a summary against its sources; rejects an unusable one with a reason. */
export async function checkTier(
  { summary: written, by }: Pick<CheckedTier, "summary" | "by">,
  { sources, sourceChars, cutsInvented, yieldToEventLoop }: Checking,
): Promise<CheckedTier> {
  const summary = withoutPromptLines(written);
  if (summary === "") throw new Error("the summary only repeats the prompt");
  // Sentences of the sources invent nothing, and of one short memory they are all of it.
  if (by === "extractive") return { summary, by, invented: [], inventedCut: false, unverified: [], doubtful: [] };
  if (summary.length > Math.max(sourceChars, SUMMARY_ROOM_CHARS)) {
    throw new Error(`the summary is not shorter than its source (${summary.length} characters of ${sourceChars})`);
  }
  const { invented, unverified, doubtful } = await checkSummary(summary, sources, yieldToEventLoop);
  if (invented.length === 0 || !cutsInvented)
    return { summary, by, invented, inventedCut: false, unverified, doubtful };
  const kept = cutInvented(summary, invented).trim();
  if (kept === "") throw new Error("nothing in the summary is supported by its source");
  const left = (sentences: readonly string[]): readonly string[] => sentences.filter((one) => kept.includes(one));
  return { summary: kept, by, invented, inventedCut: true, unverified: left(unverified), doubtful: left(doubtful) };
}

interface Measured {
  readonly made: CheckedTier;
  readonly texts: readonly string[];
  readonly specifics: readonly Specific[];
  /** The quality of the previous long-term summary among the sources. */
  readonly before: number;
  readonly yieldToEventLoop: Clock["yieldToEventLoop"];
}

/**
 * Measures a long-term summary against its sources. Attainable is what an extract of the same length keeps; for a short
 * summary, an extract of the length it could have had.
 */
export async function measureLongterm({
  made,
  texts,
  specifics,
  before,
  yieldToEventLoop,
}: Measured): Promise<LongtermQuality> {
  const sourceChars = lengthOf(texts);
  const kept = await countIn(made.summary, specifics, yieldToEventLoop);
  const room = Math.max(made.summary.length, Math.min(SUMMARY_ROOM_CHARS, sourceChars));
  const isOwnSentences = made.by === "extractive";
  const attainable = isOwnSentences ? kept : await countIn(extractTier(texts, room), specifics, yieldToEventLoop);
  const invented = inventedSentences(made);
  const sentences = Math.max(1, sentencesIn(made.summary).length);
  const step = keptShare({ kept, attainable }) * Math.max(0, 1 - invented / sentences);
  return {
    sources: specifics.length,
    kept,
    attainable,
    invented,
    shrinkage: rounded(made.summary.length / Math.max(1, sourceChars)),
    quality: rounded(before * step),
  };
}

function keptShare({ kept, attainable }: Pick<LongtermQuality, "kept" | "attainable">): number {
  return attainable === 0 ? 1 : Math.min(1, kept / attainable);
}

/** How many sentences with invented content remain. */
function inventedSentences({ invented, inventedCut }: CheckedTier): number {
  return inventedCut ? 0 : new Set(invented.map(({ sentence }) => sentence)).size;
}

async function countIn(
  text: string,
  specifics: readonly Specific[],
  yieldToEventLoop: Clock["yieldToEventLoop"],
): Promise<number> {
  const index = indexTexts(piecesOf(text), yieldToEventLoop);
  let count = 0;
  for (const specific of specifics) {
    await yieldToEventLoop();
    if (await index.has(specific)) count += 1;
  }
  return count;
}

export function lengthOf(texts: readonly string[]): number {
  return texts.reduce((sum, text) => sum + text.length, 0);
}

function rounded(value: number): number {
  return Math.round(value * 1_000) / 1_000;
}

/** Each once, at its last occurrence. */
export function distinct(specifics: readonly Specific[]): readonly Specific[] {
  const known = new Map<string, Specific>();
  for (const one of specifics) known.set(`${one.kind} ${one.text}`, one);
  return [...known.values()];
}

/** A rebuild takes at most this many steps; for longer histories each step covers more. */
const STEPS_MAX = 8;

/** Groups texts, oldest first, by size; a step summarises one group with the result of the previous step. */
export function stepsOf(
  texts: readonly string[],
  { bytesMax, bytesOf }: { readonly bytesMax: number; readonly bytesOf: (text: string) => number },
): readonly (readonly string[])[] {
  const steps: string[][] = [];
  let left = 0;
  for (const text of texts) {
    const bytes = bytesOf(text);
    const last = steps.at(-1);
    if (last !== undefined && bytes <= left) last.push(text);
    else steps.push([text]);
    left = (last !== undefined && bytes <= left ? left : bytesMax) - bytes;
  }
  if (steps.length <= STEPS_MAX) return steps;
  const size = Math.ceil(texts.length / STEPS_MAX);
  return Array.from({ length: Math.ceil(texts.length / size) }, (_, at) => texts.slice(at * size, (at + 1) * size));
}
