import { hasWork, type LogRow, type RowQuery } from "../ports/store.ts";

export function pageOf<R extends LogRow>(rows: Iterable<R>, query: RowQuery): readonly R[] {
  const { after, max } = query;
  const best: R[] = [];
  for (const row of rows) {
    if (!isAskedFor(row, query) || (after !== undefined && byUpdate(after, row) >= 0)) continue;
    best.push(row);
    // The first rows are known without sorting all.
    if (best.length >= 2 * max + SPARE_ROWS) cut(best, max);
  }
  return cut(best, max);
}

const SPARE_ROWS = 64;

function cut<R extends LogRow>(rows: R[], max: number): readonly R[] {
  rows.sort(byUpdate);
  rows.splice(max);
  return rows;
}

/** Whether a row matches a query, regardless of where the page begins. */
export function isAskedFor(
  row: Pick<LogRow, "labels" | "archived" | "waiting_calls" | "has_open_turn" | "queued" | "updated_at_ms">,
  { archived, labels = {}, waiting, open, updatedSinceMs = 0 }: RowQuery,
): boolean {
  if (archived !== undefined && (row.archived ?? false) !== archived) return false;
  if (waiting === true && (row.waiting_calls ?? 0) <= 0) return false;
  if (open === true && !hasWork(row)) return false;
  const had = row.labels ?? {};
  const hasAll = Object.entries(labels).every(([key, value]) => Object.hasOwn(had, key) && had[key] === value);
  return hasAll && row.updated_at_ms >= updatedSinceMs;
}

/** Last updated first; of equals the greater id first. */
function byUpdate(a: NonNullable<RowQuery["after"]>, b: NonNullable<RowQuery["after"]>): number {
  if (a.updated_at_ms !== b.updated_at_ms) return b.updated_at_ms - a.updated_at_ms;
  if (a.session_id === b.session_id) return 0;
  return a.session_id < b.session_id ? 1 : -1;
}
