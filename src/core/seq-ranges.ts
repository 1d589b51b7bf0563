import type { SeqRange } from "../contract/compaction.ts";

export interface Numbered {
  readonly seq: number;
}

/** Converts messages to ranges of exactly their seqs, in order. */
export function rangesOf(placed: readonly Numbered[], transcript: readonly Numbered[]): SeqRange[] {
  // A notice that arrived while tools ran follows their results with a smaller seq. So ranges follow seqs, not
  // positions: a range contains no other seq.
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

/** The rank of each seq, cached: a compaction asks several times about the same transcript. */
function ranksIn(transcript: readonly Numbered[]): ReadonlyMap<number, number> {
  const { length } = transcript;
  const known = ranked.get(transcript);
  if (known?.length === length) return known.ranks;
  const seqs = transcript.map(({ seq }) => seq).sort((a, b) => a - b);
  const ranks = new Map(seqs.map((seq, rank) => [seq, rank]));
  ranked.set(transcript, { length, ranks });
  return ranks;
}
