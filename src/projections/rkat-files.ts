import type { EntryBody } from "../contract/entry.ts";
import { messageOf, RuntimeError } from "../contract/error.ts";
import type { Store } from "../ports/store.ts";
import { type FileCalls, nodeFileCalls } from "./file-calls.ts";
import type { FilesBehind } from "./files-behind.ts";
import { type ProjectionParts, projectSession } from "./session-files.ts";

export interface RkatFilesParts extends Omit<ProjectionParts, "io"> {
  /** Told of a failure in a sentence; it must not throw. */
  readonly warn: (sentence: string) => void;
  readonly io?: FileCalls;
  /** Knows on disk what lags; without it nobody makes up for what a process leaves behind. */
  readonly behind?: FilesBehind;
}

/** Files about sessions for people and scripts, derived from logs and never read back as a source. */
export interface RkatFiles {
  /** To be waited for before an append that is worth files; resolves with what is to be called once it is over. */
  expect(atMs: number | undefined): Promise<() => void>;
  /** Has the session's files brought up to its log soon. It returns at once and never throws. */
  touch(sessionId: string): void;
  /** Brings up the files that a process that ended left behind; it begins by itself a moment after opening. */
  makeUp(): Promise<void>;
  /** Resolves when what was touched before is projected, or has failed and was told. */
  settled(): Promise<void>;
  /** Makes the session's files anew from its whole log; rejects with SESSION_STORE_ERROR. */
  rebuild(sessionId: string): Promise<void>;
  /** Finishes what was touched, as far as a bound of time allows; whoever opens the folder next goes on with the rest. */
  close(): Promise<void>;
}

/** Turns that follow each other quickly share one projection. */
const DELAY_MS = 100;
const SESSIONS_AT_ONCE_MAX = 4;
/** A session left out because too many wait is projected at its next touch, or by the next process. */
const SESSIONS_WAITING_MAX = 100_000;
const SESSIONS_TOLD_MAX = 1_000;
const CLOSE_MS_MAX = 5_000;
const STOP_MS_MAX = 1_000;
const CLOSED = new RuntimeError("SESSION_STORE_ERROR", "the files of sessions are closed");

interface Job {
  isReplay: boolean;
  readonly outcome: PromiseWithResolvers<void>;
}

/** Projects sessions beside their turns: a few at a time, and each by one job at a time. */
export function createRkatFiles({ warn, io = nodeFileCalls, behind, ...sources }: RkatFilesParts): RkatFiles {
  const parts: ProjectionParts = { ...sources, io };
  const touched = new Set<string>();
  const due = new Map<string, Job>();
  const running = new Map<string, Job>();
  const told = new Set<string>();
  const stop = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  let closed: Promise<void> | undefined;
  /** Something was touched and has no files. */
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
      // Whoever asked for a replay hears of it from the promise.
      if (!job.isReplay) tell(sessionId, failure);
    } finally {
      running.delete(sessionId);
      startDue();
      if (waiting() === 0 && !isIncomplete) behind?.caughtUp();
    }
  };
  const waiting = (): number => touched.size + due.size + running.size;
  /** What others left behind, a few sessions at a time, so that a touch soon has its turn. */
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
    // Those that run say how far they have come.
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

/** Waits for work, but not for longer. */
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
 * A store whose sessions have files. They follow what was appended, not what listeners are told: a listener may lag and
 * lose events. Whoever appends never waits for them, only once for the note that they are to come; closing does, within
 * their bound.
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
      // The store deletes the files of these sessions: none may be written meanwhile, and they are made anew after it.
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

/** What happens within a turn waits for its end: files are written once a turn, not once an append. */
const WORTH_FILES: ReadonlySet<EntryBody["kind"]> = new Set([
  "session_created",
  "notice",
  "turn_closed",
  // These two also happen without a turn.
  "compacted",
  "rewritten",
  "archived",
]);
