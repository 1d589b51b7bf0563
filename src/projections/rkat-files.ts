import type { EntryBody } from "../contract/entry.ts";
import { messageOf, RuntimeError } from "../contract/error.ts";
import type { Store } from "../ports/store.ts";
import { type FileCalls, nodeFileCalls } from "./file-calls.ts";
import type { FilesBehind } from "./files-behind.ts";
import { type ProjectionParts, projectSession } from "./session-files.ts";

export interface RkatFilesParts extends Omit<ProjectionParts, "io"> {
  /** Receives failures; must not throw. */
  readonly warn: (sentence: string) => void;
  readonly io?: FileCalls;
  /** Records what lags; without it files that a process leaves outdated stay so. */
  readonly behind?: FilesBehind;
}

/** Files about sessions for people and scripts, derived from logs and never read back. */
export interface RkatFiles {
  /** Await before an append that changes files; call the result afterwards. */
  expect(atMs: number | undefined): Promise<() => void>;
  /** Schedules an update of the session's files. Returns at once and never throws. */
  touch(sessionId: string): void;
  /** Updates files that dead processes left outdated; starts automatically soon after opening. */
  makeUp(): Promise<void>;
  /** Resolves when all touched sessions are projected or have failed. */
  settled(): Promise<void>;
  /** Rebuilds the session's files from its whole log; rejects with SESSION_STORE_ERROR. */
  rebuild(sessionId: string): Promise<void>;
  /** Finishes touched sessions within a time limit; the next process continues with the rest. */
  close(): Promise<void>;
}

/** Turns in quick succession share one projection. */
const DELAY_MS = 100;
const SESSIONS_AT_ONCE_MAX = 4;
/** A session dropped because too many wait is projected at its next touch, or by the next process. */
const SESSIONS_WAITING_MAX = 100_000;
const SESSIONS_TOLD_MAX = 1_000;
const CLOSE_MS_MAX = 5_000;
const STOP_MS_MAX = 1_000;
const CLOSED = new RuntimeError("SESSION_STORE_ERROR", "the files of sessions are closed");

interface Job {
  isReplay: boolean;
  readonly outcome: PromiseWithResolvers<void>;
}

/** Projects sessions in the background: a few at a time, each by one job. */
export function createRkatFiles({ warn, io = nodeFileCalls, behind, ...sources }: RkatFilesParts): RkatFiles {
  const parts: ProjectionParts = { ...sources, io };
  const touched = new Set<string>();
  const due = new Map<string, Job>();
  const running = new Map<string, Job>();
  const told = new Set<string>();
  const stop = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  let closed: Promise<void> | undefined;
  /** Something was touched and has no files yet. */
  let isIncomplete = false;

  const enqueue = (sessionId: string, isReplay: boolean): Job => {
    const job = due.get(sessionId) ?? createJob();
    job.isReplay ||= isReplay;
    due.set(sessionId, job);
    return job;
  };
  const startTouched = (): void => {
    clearTimeout(timer);
    timer = undefined;
    for (const sessionId of touched) enqueue(sessionId, false);
    touched.clear();
    startDue();
  };
  const startDue = (): void => {
    for (const [sessionId, job] of due) {
      if (running.size >= SESSIONS_AT_ONCE_MAX) return;
      if (running.has(sessionId)) continue;
      due.delete(sessionId);
      running.set(sessionId, job);
      void run(sessionId, job);
    }
  };
  const run = async (sessionId: string, job: Job): Promise<void> => {
    try {
      await projectSession(parts, sessionId, { isReplay: job.isReplay, signal: stop.signal });
      told.delete(sessionId);
      job.outcome.resolve();
    } catch (error) {
      isIncomplete = true;
      const failure = asFailure(sessionId, error);
      job.outcome.reject(failure);
      // A rebuild reports failures through its promise.
      if (!job.isReplay) tell(sessionId, failure);
    } finally {
      running.delete(sessionId);
      startDue();
      if (waiting() === 0 && !isIncomplete) behind?.caughtUp();
    }
  };
  const waiting = (): number => touched.size + due.size + running.size;
  /** A few sessions at a time, so that new touches are not delayed. */
  const bring = async (sessionIds: readonly string[]): Promise<boolean> => {
    const jobs = closed === undefined ? sessionIds.map((sessionId) => enqueue(sessionId, false)) : [];
    startDue();
    const outcomes = await Promise.allSettled(jobs.map(({ outcome }) => outcome.promise));
    return closed === undefined && outcomes.every(({ status }) => status === "fulfilled");
  };
  let making: Promise<void> | undefined;
  const makeUp = async (): Promise<void> => {
    making ??= behind?.makeUp(bring).catch((error) => warn(`files that lag are not looked for: ${messageOf(error)}`));
    await making;
  };
  const first = setTimeout(makeUp, DELAY_MS).unref();
  const tell = (sessionId: string, failure: RuntimeError): void => {
    if (stop.signal.aborted || told.has(sessionId) || told.size >= SESSIONS_TOLD_MAX) return;
    told.add(sessionId);
    warn(failure.message);
  };
  const settled = async (): Promise<void> => {
    startTouched();
    await Promise.allSettled([...due.values(), ...running.values()].map(({ outcome }) => outcome.promise));
  };
  const finish = async (): Promise<void> => {
    clearTimeout(first);
    await within(CLOSE_MS_MAX, settled());
    const left = waiting();
    stop.abort();
    for (const [sessionId, { outcome }] of due) outcome.reject(asFailure(sessionId, CLOSED));
    due.clear();
    // Running jobs store their progress.
    await within(STOP_MS_MAX, Promise.all([settled(), making]));
    if (left > 0 && behind !== undefined)
      warn(`${left} sessions lack their files under .rkat/sessions; whoever opens the folder next goes on with them`);
    await behind?.close(left === 0 && !isIncomplete).catch((error) => warn(messageOf(error)));
  };
  return {
    expect: async (atMs) => (await behind?.expect(atMs)) ?? (() => {}),
    touch: (sessionId) => {
      if (closed !== undefined || touched.size + due.size >= SESSIONS_WAITING_MAX) {
        isIncomplete = true;
        return;
      }
      touched.add(sessionId);
      timer ??= setTimeout(startTouched, DELAY_MS);
    },
    makeUp,
    settled,
    rebuild: async (sessionId) => {
      if (closed !== undefined) throw CLOSED;
      const { outcome } = enqueue(sessionId, true);
      startDue();
      await outcome.promise;
    },
    close: () => {
      closed ??= finish();
      return closed;
    },
  };
}

async function within(ms: number, work: Promise<unknown>): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const deadline = setTimeout(resolve, ms);
  await Promise.race([work, promise]);
  clearTimeout(deadline);
}

function createJob(): Job {
  const outcome = Promise.withResolvers<void>();
  outcome.promise.catch(() => {}); // Nobody has to wait for it.
  return { isReplay: false, outcome };
}

function asFailure(sessionId: string, cause: unknown): RuntimeError {
  if (cause instanceof RuntimeError && cause.code === "INVALID_PARAMS") return cause;
  const why = cause instanceof Error ? cause.message : String(cause);
  const message = `the files of session ${sessionId} lag behind its log until its next turn: ${why}`;
  return new RuntimeError("SESSION_STORE_ERROR", message, { cause });
}

/**
 * A store whose sessions have files. They follow appends, not events: a listener may lag and lose events. Appends wait
 * only for the note; closing waits within its limit.
 */
export function projectStore(
  store: Store,
  files: Pick<RkatFiles, "expect" | "touch" | "settled" | "rebuild" | "close">,
): Store {
  const { log, sessions, locks, blobs, signals, checkpoints, forgettings, shred } = store;
  return {
    log: {
      append: async (sessionId, after, entries, atMs) => {
        if (!entries.some(({ body }) => WORTH_FILES.has(body.kind))) return log.append(sessionId, after, entries, atMs);
        const over = await files.expect(atMs);
        try {
          const appended = await log.append(sessionId, after, entries, atMs);
          files.touch(sessionId);
          return appended;
        } finally {
          over();
        }
      },
      read: (sessionId, fromSeq, max) => log.read(sessionId, fromSeq, max),
      rewrite: (sessionId, entries) => log.rewrite(sessionId, entries),
    },
    sessions,
    locks,
    blobs,
    signals,
    checkpoints,
    forgettings,
    shred,
    purge: async (sessionIds) => {
      // The store deletes the files of these sessions: none may be written meanwhile, and they are rebuilt afterwards.
      await files.settled();
      await store.purge(sessionIds);
      for (const sessionId of sessionIds) await files.rebuild(sessionId);
    },
    close: async () => {
      await files.close();
      await store.close();
    },
  };
}

/** Files are written once per turn, not once per append. */
const WORTH_FILES: ReadonlySet<EntryBody["kind"]> = new Set([
  "session_created",
  "notice",
  "turn_closed",
  // These two also occur outside of a turn.
  "compacted",
  "rewritten",
  "archived",
]);
