import type { CompactionCadence } from "../contract/compaction.ts";
import type { Usage } from "../contract/event.ts";
import type { Economy, ModelPrices } from "../contract/money.ts";
import type { Clock } from "../ports/clock.ts";
import type { ModelClient } from "../ports/model.ts";
import { messagesOf, type Placed } from "../state/context.ts";
import type { SessionState } from "../state/session-state.ts";
import { dollarsOf, priceOf } from "../turn/cost.ts";
import { estimateTokens } from "../turn/tokens.ts";
import type { Compacting, Prepared } from "./prepare.ts";

/** The inputs of the price comparison. */
export interface Stakes {
  readonly prices: ModelPrices;
  readonly tokensBefore: number;
  readonly tokensAfter: number;
  /** Tokens to read and write for the summary; 0 if it is paid for or free. */
  readonly readTokens: number;
  readonly summaryTokens: number;
  readonly calls: number;
  /** How long the model has been idle: the provider's cache expires. */
  readonly idleMs: number;
}

/** Removing less than this share of a context is not worth losing text. */
const REMOVED_SHARE_MIN = 0.05;

export function removesEnough({ tokensBefore, tokensAfter }: Pick<Stakes, "tokensBefore" | "tokensAfter">): boolean {
  return tokensBefore > 0 && tokensBefore - tokensAfter >= tokensBefore * REMOVED_SHARE_MIN;
}

/** Whether compacting now is cheaper than continuing. */
export function pays(stakes: Stakes): boolean {
  const economy = weigh(stakes);
  return economy !== undefined && removesEnough(stakes) && economy.saves > economy.costs;
}

/** The cache lifetime of providers that do not state it. */
const CACHE_MINUTES = 5;
const MINUTE_MS = 60_000;

/**
 * The savings and costs of a compaction. While the cache is warm, each call reads its context from it, and a changed
 * context has to be cached again. Once it is cold, the next call pays for that anyway, and less for a smaller context.
 * Undefined for a free model.
 */
export function weigh(stakes: Stakes): Economy | undefined {
  const { prices, tokensBefore, tokensAfter, readTokens, summaryTokens, calls, idleMs } = stakes;
  if (isFree(prices)) return undefined;
  const isCold = idleMs >= (prices.cache_minutes ?? CACHE_MINUTES) * MINUTE_MS;
  const reading = (tokens: number): number =>
    priceOf({ input_tokens: tokens, output_tokens: 0, cache_read_tokens: tokens }, prices);
  const caching = (tokens: number): number =>
    priceOf({ input_tokens: tokens, output_tokens: 0, cache_creation_tokens: tokens }, prices);
  const asking = (tokens: number): number =>
    (isCold ? caching(tokens) : reading(tokens)) + (calls - 1) * reading(tokens);
  // The summary request shares no prefix with the conversation, so it is not cached.
  const summary = priceOf({ input_tokens: readTokens, output_tokens: summaryTokens }, prices);
  const rewriting = isCold ? 0 : Math.max(0, caching(tokensAfter) - reading(tokensAfter));
  return {
    saves: dollarsOf(Math.max(0, asking(tokensBefore) - asking(tokensAfter))),
    costs: dollarsOf(summary + rewriting),
    currency: "USD",
    calls,
    cache: isCold ? "cold" : "warm",
  };
}

function isFree({ input, output }: ModelPrices): boolean {
  return input === 0 && output === 0;
}

const CALLS_MIN = 3;
const CALLS_MAX = 50;

/** As many calls as since the last compaction. */
export function expectedCalls(cadence: CompactionCadence): number {
  const since = cadence.session_boundary_index - (cadence.last_compaction_boundary_index ?? 0);
  return Math.min(CALLS_MAX, Math.max(CALLS_MIN, since));
}

/** The usual size of a summary relative to its source; the limit is many times a short history. */
const SUMMARY_SHARE = 0.2;

export function usualSummaryTokens({ compactor }: Pick<Compacting, "compactor">, tokens: number): number {
  return Math.min(compactor.maxSummaryTokens(), Math.ceil(tokens * SUMMARY_SHARE));
}

/** Whether a model's calls cost something, as far as is known. */
export function hasPrice({ prices }: Pick<ModelClient, "prices">): boolean {
  return prices !== undefined && !isFree(prices);
}

/** The size at which a context will be compacted, if it grows and the conversation goes on as it is. */
export function dueAt(
  state: Pick<SessionState, "cadence" | "prepared" | "pins" | "shown" | "shownTokens">,
  compacting: Compacting,
  by: { readonly model: Pick<ModelClient, "prices">; readonly idleMs: number },
): number {
  const { threshold, pricedFrom, isByPrice } = compacting;
  if (!isByPrice) return threshold;
  let [low, high] = [Math.max(state.shownTokens, pricedFrom), threshold];
  const paysAt = (size: number): boolean =>
    paysNow(state, compacting, { ...by, shown: state.shown, grownBy: size - state.shownTokens });
  if (low >= high || !paysAt(high)) return threshold;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (paysAt(middle)) high = middle;
    else low = middle;
  }
  return high;
}

/** What the next call pays for its input: the context as it is, from the provider's cache while that is warm. */
export function nextCallCost(tokens: number, prices: ModelPrices, idleMs: number): number {
  const isCold = idleMs >= (prices.cache_minutes ?? CACHE_MINUTES) * MINUTE_MS;
  const cached = isCold ? { cache_creation_tokens: tokens } : { cache_read_tokens: tokens };
  return dollarsOf(priceOf({ input_tokens: tokens, output_tokens: 0, ...cached }, prices));
}

export function idleMsOf({ lastAnswerMs }: Pick<SessionState, "lastAnswerMs">, nowMs: number): number {
  return lastAnswerMs === 0 ? 0 : Math.max(0, nowMs - lastAnswerMs);
}

interface Weighed {
  readonly model: Pick<ModelClient, "prices">;
  readonly clock: Clock;
  /** Defaults to the idle time until now. */
  readonly idleMs?: number | undefined;
  /** The plan, or its result. */
  readonly planned?: Prepared;
  readonly made?: { readonly tokens_before: number; readonly tokens_after: number; readonly usage: Usage };
}

/** The price comparison of a compaction under any policy; undefined if the model has no price. */
export function economyOf(
  state: Pick<SessionState, "cadence" | "lastAnswerMs">,
  compacting: Compacting,
  { model, clock, idleMs = idleMsOf(state, clock.now()), planned, made }: Weighed,
): Economy | undefined {
  const { prices } = model;
  if (prices === undefined) return undefined;
  const at = { prices, calls: expectedCalls(state.cadence), idleMs };
  if (made !== undefined) {
    const { tokens_before: tokensBefore, tokens_after: tokensAfter, usage } = made;
    const { input_tokens: readTokens, output_tokens: summaryTokens } = usage;
    return weigh({ ...at, tokensBefore, tokensAfter, readTokens, summaryTokens });
  }
  if (planned === undefined) return undefined;
  const before = estimateTokens(messagesOf(planned.source.shown));
  return weigh({ ...at, ...sizesOf(compacting, before, estimateTokens(messagesOf(planned.retained.plan.discarded))) });
}

/** Whether compacting or preparing now is cheaper than continuing. */
export function paysNow(
  state: Pick<SessionState, "cadence" | "prepared" | "pins">,
  compacting: Compacting,
  by: {
    readonly model: Pick<ModelClient, "prices">;
    readonly idleMs: number;
    readonly shown: readonly Placed[];
    /** By how much the older part of the context would have grown. */
    readonly grownBy?: number;
  },
): boolean {
  const { prices } = by.model;
  if (prices === undefined) return false;
  const at = { prices, calls: expectedCalls(state.cadence), idleMs: by.idleMs };
  const { grownBy = 0 } = by;
  const before = estimateTokens(messagesOf(by.shown)) + grownBy;
  if (state.prepared !== undefined) {
    const { tokens_before, tokens_after } = state.prepared.body.compaction;
    // Its summary is already paid for.
    const paid = { readTokens: 0, summaryTokens: 0 };
    return pays({ ...at, ...paid, tokensBefore: before, tokensAfter: before - (tokens_before - tokens_after) });
  }
  const { discarded } = compacting.compactor.rebuildHistory(messagesOf(by.shown), "");
  const pinned = by.shown.filter(({ seq }) => state.pins.has(seq)).map(({ message }) => message);
  const gone =
    grownBy + estimateTokens(discarded) - estimateTokens(pinned.filter((message) => discarded.includes(message)));
  return pays({ ...at, ...sizesOf(compacting, before, gone) });
}

type Sizes = Pick<Stakes, "tokensBefore" | "tokensAfter" | "readTokens" | "summaryTokens">;

function sizesOf(compacting: Compacting, tokensBefore: number, gone: number): Sizes {
  const summary = usualSummaryTokens(compacting, gone);
  const tokensAfter = tokensBefore - gone + summary;
  // A custom curator has no known price; a judge reads everything once more.
  if (compacting.curator !== undefined) return { tokensBefore, tokensAfter, readTokens: 0, summaryTokens: 0 };
  const readings = compacting.judge === "model" ? 2 : 1;
  return { tokensBefore, tokensAfter, readTokens: tokensBefore * readings, summaryTokens: summary };
}
