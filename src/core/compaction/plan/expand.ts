import type { SeqRange } from "../../../contract/compaction.ts";
import type { SessionState } from "../../session/session-state.ts";
import { isIn, type Placed, showTranscript } from "../../session/shown.ts";
import { estimateTokens } from "../../tokens.ts";
import { rangesOf } from "./plan.ts";
import { turnsOf } from "./turns.ts";

/** What an expansion brings back, and what of the asked-for it leaves out. */
export interface Expansion {
  readonly expanded: readonly SeqRange[];
  readonly leftOut: readonly SeqRange[];
  /** What the smallest of the turns that were left out takes; 0 when none was. */
  readonly smallestLeftOut: number;
}

/**
 * Chooses what comes back into the context: whole turns of the ranges that are not shown, the newest first, as many as
 * fit. Parts of a turn are not brought back alone: a call without its question is one no provider may accept.
 */
export function planExpansion(state: SessionState, wanted: readonly SeqRange[], tokensMax: number): Expansion {
  const { transcript } = state;
  const messages = transcript.map(({ message }) => message);
  const hidden = hiddenIn(transcript, state.shown);
  // A message that only a pin shows comes back with its turn, so that it stays when the pin goes.
  const hiddenUnpinned = hiddenIn(transcript, showTranscript(transcript, state.compactions, new Set()));
  const back: Placed[] = [];
  const left: Placed[] = [];
  let tokens = 0;
  let smallestLeftOut = 0;
  for (const { start, end } of turnsOf(messages, messages[0]?.role === "system" ? 1 : 0).toReversed()) {
    const turn = transcript.slice(start, end).filter((placed) => hiddenUnpinned.has(placed));
    const unseen = turn.filter((placed) => hidden.has(placed));
    if (!unseen.some(({ seq }) => isIn(wanted, seq))) continue;
    const cost = estimateTokens(unseen.map(({ message }) => message));
    const fits = tokens + cost <= tokensMax;
    if (fits) tokens += cost;
    else smallestLeftOut = smallestLeftOut === 0 ? cost : Math.min(smallestLeftOut, cost);
    if (fits) back.unshift(...turn);
    else left.unshift(...unseen);
  }
  return { expanded: rangesOf(back, transcript), leftOut: rangesOf(left, transcript), smallestLeftOut };
}

/** The context as it would be with these ranges back in it, and these messages pinned. */
export function shownWith(
  { transcript, compactions, pins }: SessionState,
  more: { ranges?: readonly SeqRange[]; pin?: number },
): readonly Placed[] {
  const { ranges = [], pin } = more;
  const standing = compactions.findLast((record) => !record.undone);
  const expanded = compactions.map((one) =>
    one === standing ? { ...one, expanded: [...one.expanded, ...ranges] } : one,
  );
  return showTranscript(transcript, expanded, pin === undefined ? pins : new Set([...pins, pin]));
}

function hiddenIn(transcript: readonly Placed[], shown: readonly Placed[]): ReadonlySet<Placed> {
  const seqs = new Set(shown.map(({ seq }) => seq));
  return new Set(transcript.filter(({ seq }) => !seqs.has(seq)));
}
