import type { Usage } from "../contract/event.ts";
import type { Spent } from "../ports/store.ts";
import { addUsage } from "./cost.ts";

/** A row holds so many sums at most: a session that is used every day for a year must not weigh more with each. */
export const SPENT_MAX = 32;

/** What stands for models of which a row has too many. */
export const OTHER_MODELS = "other models";

export interface Spending {
  readonly model: string;
  readonly by: string | undefined;
  readonly usage: Usage;
  readonly timestamp_ms: number;
}

/** The sums with one call more. Beyond the bound the oldest are put together, on the later of their days. */
export function addSpending(sums: readonly Spent[], { model, by, usage, timestamp_ms }: Spending): readonly Spent[] {
  const added: Spent = { day: dayOf(timestamp_ms), model, ...(by === undefined ? {} : { by }), calls: 1, usage };
  const at = sums.findLastIndex((sum) => sum.day === added.day && isAlike(sum, added));
  const same = sums[at];
  if (same !== undefined) return sums.with(at, joined(same, added));
  const longer = [...sums, added];
  return longer.length > SPENT_MAX ? withoutOldest(longer) : longer;
}

/** The day of a moment, in UTC: what is kept must not depend on where it is read. */
export function dayOf(timestampMs: number): string {
  return new Date(timestampMs).toISOString().slice(0, 10);
}

function isAlike(one: Spent, other: Spent): boolean {
  return one.model === other.model && one.by === other.by;
}

function joined(earlier: Spent, later: Spent): Spent {
  return { ...later, calls: earlier.calls + later.calls, usage: addUsage(earlier.usage, later.usage) };
}

/** Who spent is given up last: a limit on somebody's spending must hold however many models were asked. */
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

/** The oldest sum that has one like it after it, and that one. */
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
