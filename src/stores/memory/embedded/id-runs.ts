/** Ids from `first` up to, not including, `last`. */
export interface IdRange {
  readonly first: number;
  readonly last: number;
}

/** Ids of each session as runs, linked with each other: arrays of numbers, since there may be a run a batch. */
export function createIdRuns() {
  let ends = new Uint32Array(1_024);
  let firsts = new Uint32Array(1_024);
  let earlier = new Uint32Array(1_024);
  let later = new Uint32Array(1_024);
  const newest = new Map<number, number>();
  let count = 0;
  let current = 0;
  /** The run that holds an id: they are in the order of their ids. */
  const runOf = (id: number): number => {
    let low = 1;
    let high = count;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((firsts[middle] ?? 0) <= id) low = middle;
      else high = middle - 1;
    }
    return low;
  };
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
        later = enlarge(later, new Uint32Array(count * 2));
      }
      firsts[count] = id;
      ends[count] = id + 1;
      earlier[count] = newest.get(session) ?? 0;
      later[earlier[count] ?? 0] = count;
      newest.set(session, count);
      current = session;
    },
    /** The ids next to one in its session; 0 where there is none. */
    beside: (id: number): { readonly before: number; readonly after: number } => {
      const run = runOf(id);
      // Of run 0, which is none, both ends are 0.
      const lastBefore = Math.max(0, (ends[earlier[run] ?? 0] ?? 0) - 1);
      const firstAfter = firsts[later[run] ?? 0] ?? 0;
      return {
        before: id === firsts[run] ? lastBefore : id - 1,
        after: id + 1 === ends[run] ? firstAfter : id + 1,
      };
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
