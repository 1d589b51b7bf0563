import type { Message } from "../../contract/message.ts";
import type { Clock } from "../../ports/clock.ts";
import { checkSummary, cutInvented, type Invented } from "../grounding/groundedness.ts";
import { withoutPromptLines } from "./tier-text.ts";

/** Two or three sentences take this much: whatever is short may be summed up in so many. */
export const SUMMARY_ROOM_CHARS = 400;

/** A summary that was held against its sources, without what it invents. */
export interface CheckedTier {
  readonly summary: string;
  readonly by: "model" | "extractive";
  readonly invented: readonly Invented[];
  readonly inventedCut: boolean;
  readonly unverified: readonly string[];
}

interface Checking {
  /** What the summary was made of. */
  readonly sources: readonly Message[];
  readonly sourceChars: number;
  readonly cutsInvented: boolean;
  readonly breathe: Clock["breathe"];
}

/** Holds a summary against its sources as a session's is; it rejects, in a sentence, one that is no use. */
export async function checkTier(
  { summary: written, by }: Pick<CheckedTier, "summary" | "by">,
  { sources, sourceChars, cutsInvented, breathe }: Checking,
): Promise<CheckedTier> {
  const summary = withoutPromptLines(written);
  if (summary === "") throw new Error("the summary is nothing but lines of the prompt");
  // Sentences of the sources invent nothing, and of one short memory they are all of it.
  if (by === "extractive") return { summary, by, invented: [], inventedCut: false, unverified: [] };
  if (summary.length > Math.max(sourceChars, SUMMARY_ROOM_CHARS)) {
    throw new Error(`the summary is not smaller than what it sums up (${summary.length} characters of ${sourceChars})`);
  }
  const { invented, unverified } = await checkSummary(summary, sources, breathe);
  if (invented.length === 0 || !cutsInvented) return { summary, by, invented, inventedCut: false, unverified };
  const kept = cutInvented(summary, invented).trim();
  if (kept === "") throw new Error("nothing in the summary is said by its source");
  const left = unverified.filter((sentence) => kept.includes(sentence));
  return { summary: kept, by, invented, inventedCut: true, unverified: left };
}
