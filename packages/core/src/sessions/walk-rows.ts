import { RuntimeError } from "../contract/error.ts";
import type { LogMark } from "../ports/memory.ts";
import type { LogRow, RowQuery, SessionStore } from "../ports/store.ts";

export type Pages<R> = Pick<SessionStore<R>, "page">;
type Asked = Omit<RowQuery, "after" | "max">;

/** Rows in memory at a time. */
const PAGE_ROWS = 1_000;

/** Allowed clock difference between machines that write one store. */
const CLOCKS_APART_MS = 5 * 60_000;

/**
 * Every matching row, last updated first. A row updated meanwhile moves to the front, so the front is read again at the
 * end: a row may come twice but is never missed.
 */
export async function* walkRows<R extends LogRow>(pages: Pages<R>, asked: Asked = {}): AsyncGenerator<R> {
  let newest: number | undefined;
  for await (const page of walkPages(pages, asked)) {
    yield* page;
    if (newest === undefined && page.length < PAGE_ROWS) return;
    newest ??= page[0]?.updated_at_ms;
  }
  if (newest === undefined) return;
  const sinceMs = Math.max(asked.updatedSinceMs ?? 0, newest - CLOCKS_APART_MS);
  for await (const page of walkPages(pages, { ...asked, updatedSinceMs: sinceMs })) yield* page;
}

/** Every row last updated before a time, last updated first. */
export async function* walkOlder<R extends LogRow>(pages: Pages<R>, beforeMs: number): AsyncGenerator<R> {
  for await (const page of walkPages(pages, {}, { session_id: "", updated_at_ms: beforeMs })) yield* page;
}

/** Groups items into pages. */
export async function* inBatches<T>(given: AsyncIterable<T>, max: number): AsyncGenerator<readonly T[]> {
  let batch: T[] = [];
  for await (const one of given) {
    batch.push(one);
    if (batch.length < max) continue;
    yield batch;
    batch = [];
  }
  yield batch;
}

async function* walkPages<R extends LogRow>(
  pages: Pages<R>,
  asked: Asked,
  from?: RowQuery["after"],
): AsyncGenerator<readonly R[]> {
  let after = from;
  for (;;) {
    const page = await pages.page({ ...asked, ...(after === undefined ? {} : { after }), max: PAGE_ROWS });
    yield page;
    const last = page.at(-1);
    if (last === undefined || page.length < PAGE_ROWS) return;
    // A store that ignores the cursor would be read for ever.
    if (last.session_id === after?.session_id)
      throw new RuntimeError("SESSION_STORE_ERROR", `the store's pages do not go on after ${last.session_id}`);
    after = last;
  }
}

/** Rows that changed since they were read. */
export interface RowWatch {
  /**
   * Every matching row at first; later those updated since the last complete read, and some before. An incomplete read
   * is repeated.
   */
  changed<R extends LogRow>(pages: Pages<R>, asked?: Asked): AsyncGenerator<R>;
  /** Stores the position for other processes; the caller has processed all rows. */
  keep(): Promise<void>;
  /** Whether a complete read is due; a search does not wait for it if positions are stored. */
  isDue(): boolean;
  /** The next read is complete. */
  forget(): void;
}

/** Copied rows have old times, so a complete read runs now and then. */
const WHOLE_EVERY_MS = 60 * 60_000;

/** A later position is stored only after this time. */
const KEPT_STEP_MS = 60_000;

/** Stores the position for other processes. */
interface Kept {
  read(): Promise<LogMark | undefined>;
  write(mark: LogMark): Promise<void>;
}

export function createRowWatch(now: () => number, kept?: Kept): RowWatch {
  let looked: LogMark | undefined;
  let written: LogMark | undefined;
  let forgotten = 0;
  const isDue = (): boolean => looked !== undefined && now() - looked.wholeAtMs >= WHOLE_EVERY_MS;
  return {
    changed: async function* (pages, asked = {}) {
      const startedMs = now();
      const remembered = forgotten;
      if (looked === undefined && forgotten === 0) {
        written = await kept?.read();
        looked = written;
      }
      const isWhole = looked === undefined || (kept === undefined && isDue());
      const firstMs = asked.updatedSinceMs ?? 0;
      const sinceMs = isWhole ? firstMs : Math.max(firstMs, looked?.sinceMs ?? 0);
      let newestMs = isWhole ? 0 : (looked?.sinceMs ?? 0) + CLOCKS_APART_MS;
      for await (const row of walkRows(pages, { ...asked, updatedSinceMs: sinceMs })) {
        newestMs = Math.max(newestMs, row.updated_at_ms);
        yield row;
      }
      if (forgotten !== remembered) return;
      const wholeAtMs = isWhole ? startedMs : (looked?.wholeAtMs ?? startedMs);
      looked = { wholeAtMs, sinceMs: Math.min(startedMs, newestMs) - CLOCKS_APART_MS };
    },
    keep: async () => {
      if (looked === undefined || kept === undefined) return;
      const isNewer = looked.sinceMs - (written?.sinceMs ?? 0) >= KEPT_STEP_MS;
      if (written?.wholeAtMs === looked.wholeAtMs && !isNewer) return;
      written = looked;
      await kept.write(looked);
    },
    isDue,
    forget: () => {
      looked = undefined;
      forgotten += 1;
    },
  };
}
