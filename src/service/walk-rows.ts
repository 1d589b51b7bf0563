import { RuntimeError } from "../contract/error.ts";
import type { LogMark } from "../ports/memory.ts";
import type { LogRow, RowQuery, SessionStore } from "../ports/store.ts";

/** Where rows are asked for. */
export type Pages<R> = Pick<SessionStore<R>, "page">;
type Asked = Omit<RowQuery, "after" | "max">;

/** So many rows are in memory at a time, however many there are. */
const PAGE_ROWS = 1_000;

/** How far the clocks of machines that write to one store may be apart: a row is of the clock of whoever wrote it. */
const CLOCKS_APART_MS = 5 * 60_000;

/**
 * Every row asked for, last updated first. One that is updated while this goes on moves to the front, past what is still to
 * be read, so the front is read once more at the end: such a row may come twice, and is not missed.
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

/** Every row that was last updated before a time, last updated first. */
export async function* walkOlder<R extends LogRow>(pages: Pages<R>, beforeMs: number): AsyncGenerator<R> {
  for await (const page of walkPages(pages, {}, { session_id: "", updated_at_ms: beforeMs })) yield* page;
}

/** What is given one by one, so many together. */
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
    // A store that does not go on from where it is told to would be asked for ever.
    if (last.session_id === after?.session_id)
      throw new RuntimeError("SESSION_STORE_ERROR", `the store's pages do not go on after ${last.session_id}`);
    after = last;
  }
}

/** Rows with what has changed in them since they were looked at. */
export interface RowWatch {
  /**
   * Every row asked for, the first time; afterwards those updated since it was last read to its end, and some of before.
   * Whoever stops on the way is given the same again.
   */
  changed<R extends LogRow>(pages: Pages<R>, asked?: Asked): AsyncGenerator<R>;
  /** Keeps how far it has come for other processes; whoever calls it has dealt with all it was given. */
  keep(): Promise<void>;
  /** Whether all rows are to be looked at again: where marks are kept, a search does not wait for that. */
  isDue(): boolean;
  /** The next time is a first time. */
  forget(): void;
}

/** What a copy brings is of long ago, and no newer row tells of it: now and then everything is looked at. */
const WHOLE_EVERY_MS = 60 * 60_000;

/** A later mark is worth a commit from so far on. */
const KEPT_STEP_MS = 60_000;

/** Where the mark of a watch is kept for other processes. */
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
