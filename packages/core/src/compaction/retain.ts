import type { CompactionTrigger } from "../contract/compaction.ts";
import type { CompactionResult } from "../ports/compactor.ts";
import { type Placed, withReferences } from "../state/context.ts";
import { findPrunable, type Pruned } from "../state/transcript-text.ts";
import { isReplaced } from "../turn/skills.ts";
import { estimateTokens } from "../turn/tokens.ts";
import { keptOf, type Plan, readPlan, replan, type Source } from "./plan.ts";
import { exchangesOf, pinnedIn, turnsOf } from "./shown-messages.ts";

/** What stays in the context, and how that differs from the compactor's choice. */
export interface Retained {
  readonly plan: Plan;
  readonly pruned: readonly Pruned[];
  readonly pinned: ReadonlySet<Placed>;
  /** Messages that stay only because of a pin. */
  readonly saved: ReadonlySet<Placed>;
  readonly notes: readonly string[];
}

interface Retaining {
  readonly source: Source;
  readonly draft: CompactionResult;
  readonly draftSummary: string;
  readonly pins: ReadonlySet<number>;
  readonly transcript: readonly Placed[];
  readonly trigger: CompactionTrigger;
  /** Results that the active compaction shows as references: they stay references. */
  readonly prunedBefore: readonly Pruned[];
  readonly prune: boolean;
  /** The target size if the context must be made to fit. */
  readonly tokensTarget: number;
  readonly summaryTokens: number;
}

/** Larger tool results become references once their turn is over. */
const PRUNE_TOKENS_MIN = 2_000;
/** The same if the context must be made to fit. */
const SQUEEZE_TOKENS_MIN = 400;
/** Removing less than this from running turns is not worth a summary. */
const SPLIT_SHARE_MIN = 0.25;
const SPLIT_TARGET_SHARE = 0.5;

/**
 * Decides what stays. The compactor's choice holds with three exceptions: pins stay; a context that does not fit keeps
 * fewer turns, then fewer tool exchanges, then references instead of results; and if no whole turn can go, the oldest
 * exchanges of long turns do.
 */
export function retain(retaining: Retaining): Retained {
  const { source, draft, draftSummary, pins } = retaining;
  // Looked up in the log: where results are shown as text, exchanges cannot be recognised.
  const seqs = new Set([...pinnedIn(retaining.transcript, pins)].map(({ seq }) => seq));
  const pinned = new Set(source.shown.filter((placed) => seqs.has(placed.seq) && source.isLogged(placed)));
  const drafted = readPlan(source, draft, draftSummary);
  const kept = new Set(keptOf(drafted));
  const plan = replan(drafted, source.shown, (placed) => kept.has(placed) || pinned.has(placed));
  const saved = new Set(drafted.discarded.filter((placed) => pinned.has(placed)));
  const shrunk = shrink(retaining, plan, pinned);
  return { ...shrunk, plan: withoutReplaced(shrunk.plan, source, pins), pinned, saved };
}

/** Replaced versions of AGENTS.md leave with any compaction, also from turns that stay. */
function withoutReplaced(plan: Plan, { shown }: Source, pins: ReadonlySet<number>): Plan {
  const kept = new Set(keptOf(plan));
  if (plan.discarded.length === 0 || ![...kept].some((placed) => isReplaced(placed, pins))) return plan;
  return replan(plan, shown, (placed) => kept.has(placed) && !isReplaced(placed, pins));
}

type Shrunk = Pick<Retained, "plan" | "pruned" | "notes">;

function shrink(retaining: Retaining, plan: Plan, pinned: ReadonlySet<Placed>): Shrunk {
  if (retaining.trigger === "overflow") return fit(retaining, plan, pinned);
  if (plan.discarded.length > 0) return { plan, pruned: prunedIn(retaining, plan, { pinned }), notes: [] };
  return split(retaining, plan, pinned);
}

function prunedIn(
  { prune, prunedBefore }: Retaining,
  plan: Plan,
  how: { pinned: ReadonlySet<Placed>; newestTurns?: number },
): readonly Pruned[] {
  // Pinned results stay whole.
  const kept = keptOf(plan).filter((placed) => !how.pinned.has(placed));
  const seqs = new Set(kept.map(({ seq }) => seq));
  const before = prunedBefore.filter(({ seq }) => seqs.has(seq));
  if (!prune) return before;
  const known = new Set(before.map(({ seq, tool_use_id }) => `${seq} ${tool_use_id}`));
  const found = findPrunable(kept, { tokensMin: PRUNE_TOKENS_MIN, keepTurns: how.newestTurns ?? 1 });
  return [...before, ...found.filter(({ seq, tool_use_id }) => !known.has(`${seq} ${tool_use_id}`))];
}

/** If no whole turn can go, removes the oldest exchanges, or at least the largest results that the model has read. */
function split(retaining: Retaining, plan: Plan, pinned: ReadonlySet<Placed>): Shrunk {
  const before = tokensOf(retaining, plan, []);
  const less = dropExchanges(retaining, plan, pinned, before * SPLIT_TARGET_SHARE);
  const gone = estimateTokens(less.discarded.map(({ message }) => message));
  if (gone >= before * SPLIT_SHARE_MIN) {
    const notes = [`left out ${exchangeCount(less)} older tool exchanges of turns that are kept`];
    return { plan: less, pruned: prunedIn(retaining, less, { pinned }), notes };
  }
  const seen = prunedIn(retaining, withoutNewestExchange(plan), { pinned, newestTurns: 0 });
  return { plan, pruned: seen, notes: seen.length === 0 ? [] : ["showed old tool results as references"] };
}

/** Makes the context fit: fewer turns, fewer exchanges, then references instead of results. */
function fit(retaining: Retaining, plan: Plan, pinned: ReadonlySet<Placed>): Shrunk {
  const { tokensTarget } = retaining;
  const notes: string[] = [];
  const fits = (next: Plan, pruned: readonly Pruned[]): boolean => tokensOf(retaining, next, pruned) <= tokensTarget;
  let pruned = prunedIn(retaining, plan, { pinned });
  if (fits(plan, pruned)) return { plan, pruned, notes };
  const turns = turnCount(plan);
  const fewer = dropTurns(retaining, plan, pinned, tokensTarget);
  if (turnCount(fewer) < turns) notes.push(`kept ${turnCount(fewer)} of the last ${turns} turns, to fit the model`);
  const less = fits(fewer, prunedIn(retaining, fewer, { pinned }))
    ? fewer
    : dropExchanges(retaining, fewer, pinned, tokensTarget);
  if (less !== fewer)
    notes.push(`left out ${exchangeCount(less) - exchangeCount(fewer)} older tool exchanges, to fit the model`);
  pruned = prunedIn(retaining, less, { pinned });
  if (fits(less, pruned)) return { plan: less, pruned, notes };
  const squeezed = findPrunable(
    keptOf(less).filter((placed) => !pinned.has(placed)),
    { tokensMin: SQUEEZE_TOKENS_MIN, keepTurns: 0 },
  );
  const known = new Set(pruned.map(({ seq, tool_use_id }) => `${seq} ${tool_use_id}`));
  pruned = [...pruned, ...squeezed.filter(({ seq, tool_use_id }) => !known.has(`${seq} ${tool_use_id}`))];
  if (pruned.length > known.size) notes.push("showed tool results as references, to fit the model");
  return { plan: less, pruned, notes };
}

function dropTurns({ source, ...rest }: Retaining, plan: Plan, pinned: ReadonlySet<Placed>, target: number): Plan {
  let less = plan;
  for (;;) {
    if (tokensOf({ source, ...rest }, less, prunedIn({ source, ...rest }, less, { pinned })) <= target) return less;
    const kept = keptOf(less);
    const turns = turnsOf(kept.map(({ message }) => message));
    // The newest turn holds the current prompt.
    const oldest = turns.slice(0, -1).find(({ start, end }) => kept.slice(start, end).some((one) => !pinned.has(one)));
    if (oldest === undefined) return less;
    const gone = new Set(kept.slice(oldest.start, oldest.end).filter((one) => !pinned.has(one)));
    const keeps = new Set(kept);
    less = replan(less, source.shown, (placed) => keeps.has(placed) && !gone.has(placed));
  }
}

function dropExchanges(retaining: Retaining, plan: Plan, pinned: ReadonlySet<Placed>, target: number): Plan {
  const kept = keptOf(plan);
  const messages = kept.map(({ message }) => message);
  const exchanges = exchangesOf(messages, { start: 0, end: messages.length });
  let excess = tokensOf(retaining, plan, []) - target;
  const gone = new Set<Placed>();
  const running = turnsOf(messages).at(-1)?.start ?? 0;
  const opening = exchanges.find(({ start }) => start >= running);
  // The model has not read the newest exchange yet.
  for (const { start, end } of exchanges.slice(0, -1)) {
    if (excess <= 0) break;
    const exchange = kept.slice(start, end);
    if (exchange.some((placed) => pinned.has(placed))) continue;
    // Anthropic requires the thinking that started a running turn until the turn ends.
    if (start === opening?.start && thinks(exchange[0])) continue;
    for (const placed of exchange) gone.add(placed);
    excess -= estimateTokens(exchange.map(({ message }) => message));
  }
  if (gone.size === 0) return plan;
  const keeps = new Set(kept);
  return replan(plan, retaining.source.shown, (placed) => keeps.has(placed) && !gone.has(placed));
}

function thinks(placed: Placed | undefined): boolean {
  const { message } = placed ?? {};
  if (message?.role !== "block_assistant") return false;
  return message.blocks.some((block) => block.block_type === "reasoning");
}

function withoutNewestExchange(plan: Plan): Plan {
  const kept = keptOf(plan);
  const messages = kept.map(({ message }) => message);
  const newest = exchangesOf(messages, { start: 0, end: messages.length }).at(-1);
  return { ...plan, items: kept.slice(0, newest?.start ?? kept.length).map((placed) => ({ kept: placed })) };
}

/** The size of the rebuilt context with a full-length summary. */
function tokensOf({ source, summaryTokens }: Retaining, plan: Plan, pruned: readonly Pruned[]): number {
  const [first] = source.shown;
  const system = first?.message.role === "system" ? [first.message] : [];
  const kept = withReferences(keptOf(plan), pruned);
  return estimateTokens([...system, ...kept]) + (plan.discarded.length > 0 ? summaryTokens : 0);
}

function turnCount(plan: Plan): number {
  return turnsOf(keptOf(plan).map(({ message }) => message)).length;
}

function exchangeCount({ discarded }: Plan): number {
  return discarded.filter(({ message }) => message.role === "tool_results").length;
}
