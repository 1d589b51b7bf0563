import type { SeqRange } from "../../../contract/compaction.ts";
import type { Message } from "../../../contract/message.ts";
import { counted, grouped } from "../plain-text.ts";

const RANGES_SHOWN_MAX = 8;

/** `2–17, 21`: the seqs of ranges, as many as a line can hold. */
export function rangesText(ranges: readonly SeqRange[]): string {
  const shown = ranges.slice(0, RANGES_SHOWN_MAX).map(({ from_seq, to_seq }) => span(from_seq, to_seq));
  const more = ranges.length - shown.length;
  return `${shown.join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

/** `12 messages: seqs 2–31, turns 1–6`; without a transcript, the seqs alone. */
export function placeText(
  ranges: readonly SeqRange[],
  transcript: readonly (Message & { readonly seq: number })[] | undefined,
): string {
  if (ranges.length === 0) return "nothing";
  const seqs = `seqs ${rangesText(ranges)}`;
  if (transcript === undefined) return seqs;
  const turns = new Set<number>();
  let turn = 0;
  let messages = 0;
  for (const { role, seq } of transcript) {
    if (role === "user") turn += 1;
    if (!ranges.some(({ from_seq, to_seq }) => from_seq <= seq && seq <= to_seq)) continue;
    messages += 1;
    turns.add(Math.max(turn, 1));
  }
  const numbers = rangesText(runsOf([...turns]));
  return `${counted(messages, "message")}: ${seqs}, ${turns.size === 1 ? "turn" : "turns"} ${numbers}`;
}

/** Rising numbers as ranges of neighbours. */
function runsOf(numbers: readonly number[]): readonly SeqRange[] {
  const runs: SeqRange[] = [];
  for (const number of numbers) {
    const last = runs.at(-1);
    if (last !== undefined && last.to_seq === number - 1) last.to_seq = number;
    else runs.push({ from_seq: number, to_seq: number });
  }
  return runs;
}

function span(from: number, to: number): string {
  return from === to ? grouped(from) : `${grouped(from)}–${grouped(to)}`;
}
