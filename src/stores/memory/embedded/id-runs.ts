/** Ids from `first` up to, not including, `last`. */
export interface IdRange {
  readonly first: number;
  readonly last: number;
}

/** Ids of each session as runs, linked from the newest back: arrays of numbers, since there may be a run a batch. */
export function createIdRuns() {
  let ends = new Uint32Array(1_024);
  let firsts = new Uint32Array(1_024);
  let earlier = new Uint32Array(1_024);
  const newest = new Map<number, number>();
  let count = 0;
  let current = 0;
  return {
    add: (id: number, session: number): void => {
      if (count > 0 && session === current && ends[count] === id) {
        ends[count] = id + 1;
        return;
      }
      count += 1;
      if (count >= ends.length) {
        ends = enlarge(ends, new Uint32Array(count * 2));
        firsts = enlarge(firsts, new Uint32Array(count * 2));
        earlier = enlarge(earlier, new Uint32Array(count * 2));
      }
      firsts[count] = id;
      ends[count] = id + 1;
      earlier[count] = newest.get(session) ?? 0;
      newest.set(session, count);
      current = session;
    },
    of: (session: number): IdRange[] => {
      const ranges: IdRange[] = [];
      for (let run = newest.get(session) ?? 0; run > 0; run = earlier[run] ?? 0) {
        ranges.push({ first: firsts[run] ?? 0, last: ends[run] ?? 0 });
      }
      return ranges.reverse();
    },
  };
}

/** A larger array that begins with what a smaller one holds. */
export function enlarge<Numbers extends Uint8Array | Uint32Array>(from: Numbers, to: Numbers): Numbers {
  to.set(from);
  return to;
}
