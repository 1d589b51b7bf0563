import { type AgentRow, coveredBy } from "./agent-row.ts";

export interface Windows {
  /** The newest memories, shown word for word. */
  readonly immediate: number;
  /** How many memories a short-term summary covers. */
  readonly recent: number;
}

/** What a compaction does, in numbers of memories. */
export interface Waterfall {
  /** How many memories there are taken to be: those that came later are not its concern. */
  readonly atCount: number;
  /** What the new short-term summary covers. */
  readonly recent: { readonly from: number; readonly to: number };
  /** What the new long-term summary covers; absent the first time. */
  readonly longterm?: { readonly from: number; readonly to: number };
}

/**
 * The number of memories at which a compaction is due: when both windows are full, then when as many as a short-term summary
 * covers have left the immediate window since, however large that is by now.
 */
export function dueAt({ recent: covered }: Pick<AgentRow, "recent">, { immediate, recent }: Windows): number {
  return covered === undefined ? immediate + recent + 1 : covered.to + immediate + recent;
}

/**
 * The compaction that is due, if one is. It covers what it would have covered at the moment it became due, whenever it
 * is made: a process that died, or a hundred memories brought in at once, change nothing. After one that failed it
 * waits for another memory, and then takes in what has come since, up to twice the window.
 */
export function dueWaterfall(row: AgentRow, windows: Windows): Waterfall | undefined {
  const due = dueAt(row, windows);
  if (row.count < due) return undefined;
  if (row.failed_at_count === undefined) return waterfallAt(row, windows, due);
  if (row.count <= row.failed_at_count) return undefined;
  return waterfallAt(row, windows, Math.min(row.count, due + windows.recent - 1));
}

/** A compaction of all that is outside the immediate window now; undefined when summaries cover that already. */
export function waterfallNow(row: AgentRow, windows: Windows): Waterfall | undefined {
  return waterfallAt(row, windows, row.count);
}

function waterfallAt(row: AgentRow, { immediate }: Windows, atCount: number): Waterfall | undefined {
  const covered = coveredBy(row);
  const to = atCount - immediate;
  if (to <= covered) return undefined;
  const recent = { from: covered + 1, to };
  return covered === 0 ? { atCount, recent } : { atCount, recent, longterm: { from: 1, to: covered } };
}
