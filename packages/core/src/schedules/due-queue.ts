/** Ids by the time at which they are due, the first one last: what is due is found at once, however many are not. */
export interface DueQueue {
  /** Sets when an id is due; undefined removes it. */
  set(id: string, dueMs: number | undefined): void;
  /** The id that is due first, if it is by then; it is due again at another time unless that is set anew. */
  take(nowMs: number, againMs: number): string | undefined;
}

export function createDueQueue(): DueQueue {
  const items: { readonly id: string; readonly dueMs: number }[] = [];
  const known = new Map<string, number>();
  const set: DueQueue["set"] = (id, dueMs) => {
    if (known.get(id) === dueMs) return;
    known.delete(id);
    if (dueMs === undefined) return;
    known.set(id, dueMs);
    let [from, to] = [0, items.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if ((items[middle]?.dueMs ?? 0) > dueMs) from = middle + 1;
      else to = middle;
    }
    items.splice(from, 0, { id, dueMs });
  };
  return {
    set,
    take: (nowMs, againMs) => {
      for (let first = items.at(-1); first !== undefined && first.dueMs <= nowMs; first = items.at(-1)) {
        items.pop();
        // What was set anew since is elsewhere among them.
        if (known.get(first.id) !== first.dueMs) continue;
        set(first.id, againMs);
        return first.id;
      }
      return undefined;
    },
  };
}
