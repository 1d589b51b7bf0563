import type { ContextPart, SeqRange } from "../contract/compaction.ts";
import type { Message } from "../contract/message.ts";
import type { CompactionResult } from "../ports/compactor.ts";
import { activeCompaction, isIn, type Numbered, type Placed, rangesOf, showTranscript } from "../state/context.ts";
import type { Pruned } from "../state/transcript-text.ts";
import type { WholeState } from "../state/whole-state.ts";
import { contentTokens, estimateTokens } from "../turn/tokens.ts";
import { isSummary, SUMMARY_PREFIX, turnsOf, withoutWorkState } from "./shown-messages.ts";

/** An item of a rebuilt context: a kept message or a new one. */
type PlanItem = { readonly kept: Placed } | { readonly summary: true } | { readonly message: Message };

/** The effect of a compaction on a context, without the system message. */
export interface Plan {
  readonly items: readonly PlanItem[];
  readonly discarded: readonly Placed[];
}

/**
 * Reads a rebuilt history as a plan. Kept messages are recognised by identity. Throws if kept and discarded messages do
 * not add up to the source: a message in neither could not be reported or undone. Only messages written by earlier
 * compactions may be missing.
 */
export function readPlan(source: Source, result: CompactionResult, summary: string): Plan {
  const { shown, isLogged } = source;
  const places = new Map(shown.map((placed, index) => [placed.message, index]));
  const left = new Set(shown.filter(({ message }) => message.role !== "system"));
  let newest = -1;
  const items = result.messages.flatMap((message): PlanItem[] => {
    if (message.role === "system") return [];
    const at = places.get(message) ?? -1;
    const placed = shown[at];
    if (placed === undefined) return [newItem(message, summary)];
    if (at <= newest) throw new Error("the compactor keeps messages twice or out of order");
    newest = at;
    left.delete(placed);
    return [isLogged(placed) ? { kept: placed } : { message }];
  });
  const discarded = result.discarded.map((message): Placed => {
    const placed = shown[places.get(message) ?? -1];
    if (placed !== undefined && left.delete(placed)) return placed;
    throw new Error("the compactor discards a message it also keeps, or one it was not given");
  });
  const missing = [...left].filter(isLogged).length;
  if (missing > 0) throw new Error(`the compactor neither keeps nor discards ${missing} of the messages`);
  return { items, discarded: discarded.filter(isLogged) };
}

export interface Source {
  /** The system message first. */
  readonly shown: readonly Placed[];
  /** Whether a message is from the log, not written by an earlier compaction. */
  isLogged(placed: Placed): boolean;
}

function newItem(message: Message, summary: string): PlanItem {
  const isSummary = message.role === "user" && message.content === `${SUMMARY_PREFIX}\n\n${summary}`;
  return isSummary ? { summary: true } : { message };
}

export function keepAll({ shown, isLogged }: Source): Plan {
  const said = shown.filter(({ message }) => message.role !== "system");
  return {
    items: said.map((placed) => (isLogged(placed) ? { kept: placed } : { message: placed.message })),
    discarded: [],
  };
}

/** The messages a plan keeps, oldest first. */
export function keptOf({ items }: Plan): readonly Placed[] {
  return items.flatMap((item) => ("kept" in item ? [item.kept] : []));
}

/** The same plan with more or fewer messages kept. */
export function replan(plan: Plan, source: readonly Placed[], isKept: (placed: Placed) => boolean): Plan {
  const order = new Map(source.map((placed, index) => [placed, index]));
  const orderOf = (placed: Placed): number => order.get(placed) ?? 0;
  const back = plan.discarded.filter(isKept).values();
  let next = back.next().value;
  const items: PlanItem[] = [];
  const flush = (before: number): void => {
    for (; next !== undefined && orderOf(next) < before; next = back.next().value) items.push({ kept: next });
  };
  const dropped: Placed[] = [];
  for (const item of plan.items) {
    if ("kept" in item) {
      flush(orderOf(item.kept));
      if (!isKept(item.kept)) {
        dropped.push(item.kept);
        continue;
      }
    }
    items.push(item);
  }
  flush(Number.POSITIVE_INFINITY);
  const discarded = [...plan.discarded.filter((placed) => !isKept(placed)), ...dropped];
  return { items, discarded: discarded.sort((a, b) => orderOf(a) - orderOf(b)) };
}

export function partsOf({ items }: Plan, transcript: readonly Placed[]): ContextPart[] {
  const parts: ContextPart[] = [];
  let run: Placed[] = [];
  const endRun = (): void => {
    parts.push(...rangesOf(run, transcript));
    run = [];
  };
  for (const item of items) {
    if ("kept" in item) {
      run.push(item.kept);
      continue;
    }
    endRun();
    parts.push("message" in item ? { message: withoutWork(item.message) } : item);
  }
  endRun();
  return parts;
}

/** A message of an earlier compaction: its state of the work is out of date. */
function withoutWork(message: Message): Message {
  if (!isSummary(message) || typeof message.content !== "string") return message;
  return { ...message, content: withoutWorkState(message.content) };
}

/** The messages an expansion brings back, and those it omits. */
export interface Expansion {
  readonly expanded: readonly SeqRange[];
  readonly leftOut: readonly SeqRange[];
  /** The size of the smallest omitted turn; 0 if none was omitted. */
  readonly smallestLeftOut: number;
}

/**
 * Chooses whole hidden turns to bring back, the newest first, as many as fit. Parts of a turn do not come back alone:
 * providers may reject a call without its question.
 */
export function planExpansion(state: WholeState, wanted: readonly SeqRange[], tokensMax: number): Expansion {
  const { transcript } = state;
  const messages = transcript.map(({ message }) => message);
  const hidden = hiddenIn(transcript, state.shown);
  // A message that only its pin shows comes back with its turn, so that it stays when the pin is removed.
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

/** Chooses the evicted outputs to show again: those of whole messages, the newest first, as many as fit. */
export function planReturn(
  { transcript }: Pick<WholeState, "transcript">,
  evicted: readonly Pruned[],
  tokensMax: number,
): Expansion & { readonly tokens: number } {
  const costs = new Map<number, number>();
  for (const { seq, tokens, content } of evicted) {
    costs.set(seq, (costs.get(seq) ?? 0) + tokens - contentTokens(content));
  }
  const back: Numbered[] = [];
  const left: Numbered[] = [];
  let tokens = 0;
  let smallestLeftOut = 0;
  for (const { seq } of transcript.filter((placed) => costs.has(placed.seq)).toReversed()) {
    const cost = costs.get(seq) ?? 0;
    const fits = tokens + cost <= tokensMax;
    if (fits) tokens += cost;
    else smallestLeftOut = smallestLeftOut === 0 ? cost : Math.min(smallestLeftOut, cost);
    (fits ? back : left).unshift({ seq });
  }
  return { expanded: rangesOf(back, transcript), leftOut: rangesOf(left, transcript), smallestLeftOut, tokens };
}

/** The context with these ranges expanded and these messages pinned. */
export function shownWith(
  { transcript, compactions, pins }: WholeState,
  more: { ranges?: readonly SeqRange[]; pin?: number },
): readonly Placed[] {
  const { ranges = [], pin } = more;
  const active = activeCompaction({ compactions });
  const expanded = compactions.map((one) =>
    one === active ? { ...one, expanded: [...one.expanded, ...ranges] } : one,
  );
  return showTranscript(transcript, expanded, pin === undefined ? pins : new Set([...pins, pin]));
}

function hiddenIn(transcript: readonly Placed[], shown: readonly Placed[]): ReadonlySet<Placed> {
  const seqs = new Set(shown.map(({ seq }) => seq));
  return new Set(transcript.filter(({ seq }) => !seqs.has(seq)));
}
