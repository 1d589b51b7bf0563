import type { Clock } from "../ports/clock.ts";
import type { MemoryBatch, MemoryStore } from "../ports/memory.ts";
import type { LogRow, Store } from "../ports/store.ts";
import { createRowWatch, inBatches, type Pages, walkRows } from "./walk-rows.ts";

/** Logs besides those of sessions whose texts can be found. */
export interface MemorySource {
  /** Where its logs are listed; undefined while there is none. */
  rows(): Promise<Pages<LogRow> | undefined>;
  /** What a log says after a seq, as a batch that takes it in to its end. */
  batchAfter(id: string, seq: number): Promise<MemoryBatch>;
  /** Whose log it is; undefined when it is none of these. */
  nameOf(id: string): Promise<string | undefined>;
}

interface BackgroundParts {
  readonly memory: MemoryStore;
  readonly store: Store;
  readonly others: MemorySource | undefined;
  readonly clock: Clock;
}

/** Logs whose cursors are read at once. */
const ROWS_AT_ONCE = 1_000;

/**
 * Which logs reach beyond what memory has taken in. Up to when all of them are taken in is kept in the memory, so that a
 * process looks only at what has changed since.
 */
export function createBackgroundIndexing({ memory, store, others, clock }: BackgroundParts) {
  const { marks } = memory;
  const watchOf = (kind: string) =>
    createRowWatch(clock.now, marks && { read: () => marks.read(kind), write: (mark) => marks.write(kind, mark) });
  const watches = { sessions: watchOf("sessions"), others: watchOf("others") };
  /** How far a log was taken in: a store that knows less of it has lost everything. */
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
    /** The next look is at every log. */
    lookAnew,
    took: (id: string, cursor: number): void => {
      proof = { id, cursor };
    },
    /** Logs that are behind, of those that have changed since all were looked at. */
    changed: async function* () {
      if (proof !== undefined && (await memory.cursor(proof.id)) < proof.cursor) lookAnew();
      yield* all((pages, of) => watches[of].changed(pages));
    },
    /** Keeps up to when all logs are taken in; true when every log should be looked at again, in time. */
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
