import type { Clock } from "../ports/clock.ts";
import type { MemoryBatch, MemoryStore } from "../ports/memory.ts";
import type { LogRow, Store } from "../ports/store.ts";
import { createRowWatch, inBatches, type Pages, walkRows } from "../sessions/walk-rows.ts";

export interface MemorySource {
  /** Lists its logs; undefined while there is none. */
  rows(): Promise<Pages<LogRow> | undefined>;
  /** The texts of a log after a seq, as a batch up to its end. */
  batchAfter(id: string, seq: number): Promise<MemoryBatch>;
  /** The owner of a log; undefined for other logs. */
  nameOf(id: string): Promise<string | undefined>;
}

interface BackgroundParts {
  readonly memory: MemoryStore;
  readonly store: Store;
  readonly others: MemorySource | undefined;
  readonly clock: Clock;
}

/** Cursors that are read at once. */
const ROWS_AT_ONCE = 1_000;

/**
 * Finds logs with entries that are not indexed. The time up to which all logs are indexed is stored in the memory, so
 * that a process reads only newer logs.
 */
export function createBackgroundIndexing({ memory, store, others, clock }: BackgroundParts) {
  const { marks } = memory;
  const watchOf = (kind: string) =>
    createRowWatch(clock.now, marks && { read: () => marks.read(kind), write: (mark) => marks.write(kind, mark) });
  const watches = { sessions: watchOf("sessions"), others: watchOf("others") };
  /** The indexed seq of a log: a store that knows less has lost its data. */
  let proof: { readonly id: string; readonly cursor: number } | undefined;
  const cursorsOf = (ids: readonly string[]): Promise<readonly number[]> =>
    memory.cursors?.(ids) ?? Promise.all(ids.map((id) => memory.cursor(id)));
  const among = async function* (rows: AsyncIterable<LogRow>): AsyncGenerator<string> {
    for await (const batch of inBatches(rows, ROWS_AT_ONCE)) {
      const cursors = await cursorsOf(batch.map(({ session_id }) => session_id));
      for (const [at, { session_id: id, last_seq }] of batch.entries()) {
        const cursor = cursors[at] ?? 0;
        if (last_seq > cursor) yield id;
        else proof ??= { id, cursor };
      }
      await clock.yieldToEventLoop();
    }
  };
  const all = async function* (rowsOf: (pages: Pages<LogRow>, of: keyof typeof watches) => AsyncIterable<LogRow>) {
    for await (const id of among(rowsOf(store.sessions, "sessions"))) yield { id, isSession: true };
    const rows = await others?.rows();
    if (rows !== undefined) for await (const id of among(rowsOf(rows, "others"))) yield { id, isSession: false };
  };
  const lookAnew = (): void => {
    watches.sessions.forget();
    watches.others.forget();
    proof = undefined;
  };
  return {
    /** The next check reads every log. */
    lookAnew,
    took: (id: string, cursor: number): void => {
      proof = { id, cursor };
    },
    /** Logs that are behind, among those changed since the last complete check. */
    changed: async function* () {
      if (proof !== undefined && (await memory.cursor(proof.id)) < proof.cursor) lookAnew();
      yield* all((pages, of) => watches[of].changed(pages));
    },
    /** Stores the time up to which all logs are indexed; true when a complete check is due. */
    keep: async (): Promise<boolean> => {
      await watches.sessions.keep();
      await watches.others.keep();
      return watches.sessions.isDue();
    },
    count: async (): Promise<number> => {
      const found = new Set<string>();
      for await (const { id } of all((pages) => walkRows(pages))) found.add(id);
      return found.size;
    },
  };
}
