import type { Entry } from "../contract/entry.ts";
import type { Clock } from "../ports/clock.ts";
import type { CheckpointStore, EventLog } from "../ports/store.ts";
import { neededSeqs, readCheckpoint, restoreState, writeCheckpoint } from "../state/checkpoint.ts";
import type { Hash } from "../state/context.ts";
import { applyAlone, type SessionState } from "../state/session-state.ts";

/** Checkpoints of sessions beside their logs: resuming costs the size of the context, not of the history. */
export interface Checkpoints {
  /** A session from its newest checkpoint and later entries; undefined if the whole log must be read. */
  resume(sessionId: string): Promise<SessionState | undefined>;
  /** Writes a checkpoint in the background if enough has changed since the last. */
  consider(state: SessionState): void;
  /** Resolves when running writes have finished. */
  close(): Promise<void>;
}

export interface CheckpointParts {
  readonly log: EventLog;
  /** Undefined if the store has no checkpoints. */
  readonly store: CheckpointStore | undefined;
  readonly hash: Hash;
  readonly yieldToEventLoop: Clock["yieldToEventLoop"];
}

/** A shorter log is read as quickly as a checkpoint. */
const TAIL_SEQS = 128;
/** Entries this close are read together: that costs less than another read. */
const GAP_SEQS_MAX = 64;
const ENTRIES_MAX = Number.MAX_SAFE_INTEGER;

export function createCheckpoints({ log, store, hash, yieldToEventLoop }: CheckpointParts): Checkpoints {
  /** The seq up to which each state is stored. */
  const keptTo = new WeakMap<SessionState, number>();
  const keeping = new Map<string, Promise<void>>();
  if (store === undefined) return { resume: async () => undefined, consider: () => {}, close: async () => {} };
  const isDue = (state: SessionState): boolean => {
    const { lastSeq, shownAnewSeq, shown } = state;
    const kept = keptTo.get(state) ?? 0;
    if (lastSeq < TAIL_SEQS) return false;
    // Relative to the size of the context, so that the cost per entry is constant.
    return shownAnewSeq > kept || lastSeq - kept >= Math.max(TAIL_SEQS, shown.length);
  };
  const keep = async (state: SessionState): Promise<void> => {
    await yieldToEventLoop();
    keptTo.set(state, state.lastSeq);
    await store.put(state.sessionId, writeCheckpoint(state, hash));
  };
  const consider = (state: SessionState): void => {
    const { sessionId } = state;
    if (keeping.has(sessionId) || !isDue(state)) return;
    // A missing checkpoint does no harm; the next is due after as many entries.
    const kept = keep(state)
      .catch(() => {})
      .finally(() => {
        keeping.delete(sessionId);
        // A turn may have ended meanwhile and changed the context.
        consider(state);
      });
    keeping.set(sessionId, kept);
  };
  return {
    resume: async (sessionId) => {
      try {
        const text = await store.get(sessionId);
        const checkpoint = text === undefined ? undefined : readCheckpoint(text, sessionId, hash);
        if (checkpoint === undefined) return undefined;
        const entries = await readNear(log, sessionId, neededSeqs(checkpoint));
        const state = restoreState(checkpoint, finder(entries), hash);
        if (state === undefined) return undefined;
        keptTo.set(state, state.lastSeq);
        for (const entry of entries) if (entry.seq > state.lastSeq && !applyAlone(state, entry)) return undefined;
        return state;
      } catch {
        // A checkpoint is optional: damage of the log itself is found when all of it is read.
        return undefined;
      }
    },
    consider,
    close: async () => {
      while (keeping.size > 0) await Promise.all(keeping.values());
    },
  };
}

/** The entries with these seqs, some between them, and all after the last. */
async function readNear(log: EventLog, sessionId: string, seqs: readonly number[]): Promise<readonly Entry[]> {
  const runs: { from: number; to: number }[] = [];
  for (const seq of seqs) {
    const run = runs.at(-1);
    if (run !== undefined && seq - run.to <= GAP_SEQS_MAX) run.to = seq;
    else runs.push({ from: seq, to: seq });
  }
  const read: Entry[] = [];
  for (const [at, { from, to }] of runs.entries()) {
    const isLast = at === runs.length - 1;
    // Every entry has at least one seq.
    for (const entry of await log.read(sessionId, from, isLast ? ENTRIES_MAX : to - from + 1)) {
      if (entry.seq > (read.at(-1)?.seq ?? 0)) read.push(entry);
    }
  }
  return read;
}

function finder(entries: readonly Entry[]): (seq: number) => Entry | undefined {
  return (seq) => {
    let low = 0;
    let high = entries.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((entries[middle]?.seq ?? 0) <= seq) low = middle + 1;
      else high = middle;
    }
    const entry = entries[low - 1];
    return entry !== undefined && seq < entry.seq + entry.span ? entry : undefined;
  };
}
