import type { SeqRange } from "../contract/compaction.ts";

/** Something that has a seq. */
export interface Numbered {
  readonly seq: number;
}

/** Messages as ranges of seqs: exactly these, in this order. */
export function rangesOf(placed: readonly Numbered[], transcript: readonly Numbered[]): SeqRange[] {
  // A notice that came while tools ran stands after their results with a smaller seq, so ranges follow the seqs, not
  // the places: a range may hold no seq that is not asked for.
  if (placed.length === 0) return [];
  const ranks = ranksIn(transcript);
  const ranges: SeqRange[] = [];
  for (const { seq } of placed) {
    const last = ranges.at(-1);
    if (last !== undefined && (ranks.get(seq) ?? -1) === (ranks.get(last.to_seq) ?? -1) + 1) last.to_seq = seq;
    else ranges.push({ from_seq: seq, to_seq: seq });
  }
  return ranges;
}

const ranked = new WeakMap<
  readonly Numbered[],
  { readonly length: number; readonly ranks: ReadonlyMap<number, number> }
>();

/** Where each seq stands among all; a compaction asks several times about the same transcript. */
function ranksIn(transcript: readonly Numbered[]): ReadonlyMap<number, number> {
  const { length } = transcript;
  const known = ranked.get(transcript);
  if (known?.length === length) return known.ranks;
  const seqs = transcript.map(({ seq }) => seq).sort((a, b) => a - b);
  const ranks = new Map(seqs.map((seq, rank) => [seq, rank]));
  ranked.set(transcript, { length, ranks });
  return ranks;
}
