import { EQUALS_MAX, POOL_MAX, type Ranked } from "./rank.ts";

/** How well chunks answer by everything that is known of them; what is in no list has `floor`. */
export interface Fused {
  readonly values: ReadonlyMap<number, number>;
  readonly floor: number;
}

/** A ranking of a scope by one means. */
export interface Ranking {
  /** Best first. */
  readonly list: readonly Ranked[];
  /** How many chunks were looked at; those beyond the list are worth `rest`, or as little as the last of it. */
  readonly chunks: number;
  readonly rest?: number;
  readonly weight: number;
}

/**
 * Adds rankings whose values have nothing in common. Each is cut to its best and measured by their spread, so neither the
 * size of the scope nor the scale of a model changes its say.
 */
export function fuse(rankings: readonly Ranking[]): Fused {
  const values = new Map<number, number>();
  const pools = rankings.map(toPool);
  const floor = pools.reduce((sum, pool) => sum + pool.floor, 0);
  for (const id of new Set(pools.flatMap((pool) => [...pool.values.keys()]))) {
    values.set(
      id,
      pools.reduce((sum, pool) => sum + (pool.values.get(id) ?? pool.floor), 0),
    );
  }
  return { values, floor };
}

function toPool({ list, chunks, rest, weight }: Ranking): Fused {
  const best = withoutCrowds(list);
  const size = Math.min(POOL_MAX, Math.max(chunks, best.length));
  const least = rest ?? best.at(-1)?.value ?? 0;
  const all = best.map(({ value }) => value);
  while (all.length < size) all.push(least);
  const mean = all.reduce((sum, value) => sum + value, 0) / Math.max(1, all.length);
  const variance = all.reduce((sum, value) => sum + (value - mean) ** 2, 0) / Math.max(1, all.length);
  const spread = Math.sqrt(variance) || 1;
  const scaled = (value: number): number => (weight * (value - mean)) / spread;
  return {
    values: new Map(best.map(({ id, value }) => [id, scaled(value)])),
    floor: scaled(all.at(-1) ?? 0),
  };
}

function withoutCrowds(list: readonly Ranked[]): readonly Ranked[] {
  const kept: Ranked[] = [];
  let equals = 0;
  for (const [index, row] of list.entries()) {
    equals = list[index - 1]?.value === row.value ? equals + 1 : 0;
    if (equals < EQUALS_MAX) kept.push(row);
    if (kept.length >= POOL_MAX) break;
  }
  return kept;
}
