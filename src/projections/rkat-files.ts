import type { EntryBody } from "../contract/entry.ts";
import { RuntimeError } from "../contract/error.ts";
import type { Store } from "../ports/store.ts";
import { type FileCalls, nodeFileCalls } from "./file-calls.ts";
import { type ProjectionParts, projectSession } from "./session-files.ts";

export interface RkatFilesParts extends Omit<ProjectionParts, "io"> {
  /** Told of a failure in a sentence; it must not throw. */
  readonly warn: (sentence: string) => void;
  readonly io?: FileCalls;
}

/** Files about sessions for people and scripts, derived from logs and never read back as a source. */
export interface RkatFiles {
  /** Has the session's files brought up to its log soon. It returns at once and never throws. */
  touch(sessionId: string): void;
  /** Resolves when what was touched before is projected, or has failed and was told. */
  settled(): Promise<void>;
  /** Makes the session's files anew from its whole log; rejects with SESSION_STORE_ERROR. */
  rebuild(sessionId: string): Promise<void>;
  /** Finishes what was touched, as far as a bound of time allows; what is left is done at the next touch. */
  close(): Promise<void>;
}

/** Turns that follow each other quickly share one projection. */
const DELAY_MS = 100;
const SESSIONS_AT_ONCE_MAX = 4;
/** A session left out because too many wait is projected at its next touch. */
const SESSIONS_WAITING_MAX = 100_000;
const SESSIONS_TOLD_MAX = 1_000;
const CLOSE_MS_MAX = 5_000;

interface Job {
  isReplay: boolean;
  readonly outcome: PromiseWithResolvers<void>;
}

/** Projects sessions beside their turns: a few at a time, and each by one job at a time. */
export function createRkatFiles({ warn, io = nodeFileCalls, ...sources }: RkatFilesParts): RkatFiles {
  const parts: ProjectionParts = { ...sources, io };
  const touched = new Set<string>();
  const due = new Map<string, Job>();
  const running = new Map<string, Job>();
  const told = new Set<string>();
  const stop = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  let closed: Promise<void> | undefined;

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
      const failure = asFailure(sessionId, error);
      job.outcome.reject(failure);
      // Whoever asked for a replay hears of it from the promise.
      if (!job.isReplay) tell(sessionId, failure);
    } finally {
      running.delete(sessionId);
      startDue();
    }
  };
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
    const bound = Promise.withResolvers<void>();
    const deadline = setTimeout(bound.resolve, CLOSE_MS_MAX);
    await Promise.race([settled(), bound.promise]);
    clearTimeout(deadline);
    stop.abort();
  };
  return {
    touch: (sessionId) => {
      if (closed !== undefined || touched.size + due.size >= SESSIONS_WAITING_MAX) return;
      touched.add(sessionId);
      timer ??= setTimeout(startTouched, DELAY_MS);
    },
    settled,
    rebuild: async (sessionId) => {
      if (closed !== undefined) throw new RuntimeError("SESSION_STORE_ERROR", "the files of sessions are closed");
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
 * lose events. Whoever appends never waits for them; closing does, within their bound.
 */
export function projectStore(store: Store, files: Pick<RkatFiles, "touch" | "close">): Store {
  const { log, sessions, locks, blobs, signals, checkpoints } = store;
  return {
    log: {
      append: async (sessionId, after, entries, atMs) => {
        const appended = await log.append(sessionId, after, entries, atMs);
        if (entries.some(({ body }) => WORTH_FILES.has(body.kind))) files.touch(sessionId);
        return appended;
      },
      read: (sessionId, fromSeq, max) => log.read(sessionId, fromSeq, max),
    },
    sessions,
    locks,
    blobs,
    signals,
    checkpoints,
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
