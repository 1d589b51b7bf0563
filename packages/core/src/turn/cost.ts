import type { Usage } from "../contract/event.ts";
import type { Cost, ModelPrices, Rates } from "../contract/money.ts";
import type { Spent } from "../ports/store.ts";

/** Sums use whole billionths of a dollar: with decimals they would depend on the order of addition. */
const NANOS = 1_000_000_000;
/** Rates are dollars per million tokens; sums are made in picodollars per token. */
const PICOS_PER_RATE = 1_000_000;
const PICOS_PER_NANO = 1_000;

export function nanosOf({ amount }: Pick<Cost, "amount">): number {
  return Math.round(amount * NANOS);
}

/** Adds the cost of a call; unchanged if the price or the usage is unknown. */
export function withCost(usage: Usage, prices: ModelPrices | undefined): Usage {
  if (prices === undefined || usage.cost !== undefined || !hasTokens(usage)) return usage;
  return { ...usage, cost: { amount: dollarsOf(priceOf(usage, prices)), currency: "USD" } };
}

/** The cost of a call in whole billionths of a dollar. */
export function priceOf(usage: Usage, prices: ModelPrices): number {
  const { above } = prices;
  const rates = above !== undefined && usage.input_tokens > above.input_tokens ? above : prices;
  return chargeOf(usage, rates);
}

export function dollarsOf(nanos: number): number {
  return nanos / NANOS;
}

function chargeOf(usage: Usage, { input, output, cached_input = input, cache_write = input }: Rates): number {
  const { input_tokens, output_tokens, cache_read_tokens = 0, cache_creation_tokens = 0 } = usage;
  const read = Math.min(cache_read_tokens, input_tokens);
  const created = Math.min(cache_creation_tokens, input_tokens - read);
  const charged: readonly (readonly [tokens: number, rate: number])[] = [
    [input_tokens - read - created, input],
    [read, cached_input],
    [created, cache_write],
    [output_tokens, output],
  ];
  const picos = charged.reduce((sum, [tokens, rate]) => sum + tokens * Math.round(rate * PICOS_PER_RATE), 0);
  return Math.round(picos / PICOS_PER_NANO);
}

/** Tokens without a cost have an unknown price and make the sum partial. */
function addCost(total: Usage, more: Usage): Cost | undefined {
  const known = [total, more].flatMap(({ cost }) => cost ?? []);
  if (known.length === 0) return undefined;
  const isPartial = [total, more].some(
    (usage) => usage.cost?.partial ?? (usage.cost === undefined && hasTokens(usage)),
  );
  const amount = known.reduce((sum, cost) => sum + nanosOf(cost), 0) / NANOS;
  return { amount, currency: "USD", ...(isPartial ? { partial: true } : {}) };
}

function hasTokens({ input_tokens, output_tokens }: Usage): boolean {
  return input_tokens + output_tokens > 0;
}

export const NO_USAGE: Usage = { input_tokens: 0, output_tokens: 0 };

export function addUsage(total: Usage, more: Usage): Usage {
  const cost = addCost(total, more);
  const created = (total.cache_creation_tokens ?? 0) + (more.cache_creation_tokens ?? 0);
  const read = (total.cache_read_tokens ?? 0) + (more.cache_read_tokens ?? 0);
  const thought = (total.reasoning_tokens ?? 0) + (more.reasoning_tokens ?? 0);
  return {
    input_tokens: total.input_tokens + more.input_tokens,
    output_tokens: total.output_tokens + more.output_tokens,
    ...(created > 0 ? { cache_creation_tokens: created } : {}),
    ...(read > 0 ? { cache_read_tokens: read } : {}),
    ...(thought > 0 ? { reasoning_tokens: thought } : {}),
    ...(total.estimated || more.estimated ? { estimated: true as const } : {}),
    ...(cost === undefined ? {} : { cost }),
  };
}

export function totalTokens(usage: Usage): number {
  return usage.input_tokens + usage.output_tokens;
}

/** Sums per row: a session that is used daily for a year must not grow with each day. */
export const SPENT_MAX = 32;

/** The model name that stands for all others in a row with too many models. */
export const OTHER_MODELS = "other models";

export interface Spending {
  readonly model: string;
  readonly by: string | undefined;
  readonly usage: Usage;
  readonly timestamp_ms: number;
}

/** Adds one call to the sums. Beyond the bound the oldest are merged, on the later of their days. */
export function addSpending(sums: readonly Spent[], { model, by, usage, timestamp_ms }: Spending): readonly Spent[] {
  const added: Spent = { day: dayOf(timestamp_ms), model, ...(by === undefined ? {} : { by }), calls: 1, usage };
  const at = sums.findLastIndex((sum) => sum.day === added.day && isAlike(sum, added));
  const same = sums[at];
  if (same !== undefined) return sums.with(at, joined(same, added));
  const longer = [...sums, added];
  return longer.length > SPENT_MAX ? withoutOldest(longer) : longer;
}

/** The UTC day of a time, so that stored days do not depend on the reader's time zone. */
export function dayOf(timestampMs: number): string {
  return new Date(timestampMs).toISOString().slice(0, 10);
}

function isAlike(one: Spent, other: Spent): boolean {
  return one.model === other.model && one.by === other.by;
}

function joined(earlier: Spent, later: Spent): Spent {
  return { ...later, calls: earlier.calls + later.calls, usage: addUsage(earlier.usage, later.usage) };
}

/** The spender is merged last: a spending limit must hold however many models were used. */
function withoutOldest(sums: readonly Spent[]): readonly Spent[] {
  const pair = pairOf(sums, isAlike) ?? pairOf(sums, (one, other) => one.by === other.by) ?? [0, 1];
  const [earlier, later] = pair.map((at) => sums[at]);
  if (earlier === undefined || later === undefined) return sums;
  const { by, ...sum } = joined(earlier, later);
  const kept = {
    ...sum,
    ...(earlier.model === later.model ? {} : { model: OTHER_MODELS }),
    ...(by === undefined || earlier.by !== later.by ? {} : { by }),
  };
  return sums.with(pair[1], kept).toSpliced(pair[0], 1);
}

/** The oldest sum that has a later match, and that match. */
function pairOf(
  sums: readonly Spent[],
  isLike: (one: Spent, other: Spent) => boolean,
): readonly [number, number] | undefined {
  for (const [at, sum] of sums.entries()) {
    const next = sums.findIndex((other, index) => index > at && isLike(sum, other));
    if (next > at) return [at, next];
  }
  return undefined;
}
