import type { CompactionCadence } from "../../contract/compaction.ts";
import type { Economy, ModelPrices } from "../../contract/money.ts";
import { dollarsOf, priceOf } from "../cost.ts";

/** What a compaction is weighed by. */
export interface Stakes {
  readonly prices: ModelPrices;
  /** The context as it is, and as it would be. */
  readonly tokensBefore: number;
  readonly tokensAfter: number;
  /** What a model reads to summarise, and what it writes; 0 where that is paid for, or costs nothing. */
  readonly readTokens: number;
  readonly summaryTokens: number;
  /** Model calls that are expected to follow. */
  readonly calls: number;
  /** How long the model has not been asked: the provider's cache is gone after a while. */
  readonly idleMs: number;
}

/** What less than this share of a context is taken out for is never worth losing words over. */
const REMOVED_SHARE_MIN = 0.05;

export function removesEnough({ tokensBefore, tokensAfter }: Pick<Stakes, "tokensBefore" | "tokensAfter">): boolean {
  return tokensBefore > 0 && tokensBefore - tokensAfter >= tokensBefore * REMOVED_SHARE_MIN;
}

/** Whether compacting now is cheaper than going on as it is. */
export function pays(stakes: Stakes): boolean {
  const economy = weigh(stakes);
  return economy !== undefined && removesEnough(stakes) && economy.saves > economy.costs;
}

/** As long as providers keep a context in their caches that does not say, or is not told, how long. */
const CACHE_MINUTES = 5;
const MINUTE_MS = 60_000;

/**
 * What a compaction saves and what it costs. While the cache is warm each call reads its context from there, and a context
 * that changes has to be put there anew. Once it is cold the next call pays for that anyway, and for less of it when the
 * context is smaller. Undefined where a model costs nothing, which decides nothing.
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
  // A summary is asked for in words of its own, so nothing of that is in the cache.
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

/** As many calls as there were since the last compaction: what has gone on for long mostly goes on. */
export function expectedCalls(cadence: CompactionCadence): number {
  const since = cadence.session_boundary_index - (cadence.last_compaction_boundary_index ?? 0);
  return Math.min(CALLS_MAX, Math.max(CALLS_MIN, since));
}
