import { randomUUID } from "node:crypto";
import { join } from "node:path";
import type { EntryBody } from "@rkat/core/contract/entry";
import { hasCode, messageOf, RuntimeError } from "@rkat/core/contract/error";
import type { LogRow, RowQuery, Store } from "@rkat/core/ports/store";
import { AT_REST_MS } from "../log/at-rest.ts";
import { type FileCalls, isAbsence, nodeFileCalls, refuseLinks } from "./file-calls.ts";
import { type ProjectionParts, projectSession } from "./session-files.ts";

export interface RkatFilesParts extends Omit<ProjectionParts, "io"> {
  readonly warn: (sentence: string) => void;
  readonly io?: FileCalls;
  /** Records what lags; without it files that a process leaves outdated stay so. */
  readonly lagging?: LaggingFiles;
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
const ATTEMPTS_MAX = 5;
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
export function createRkatFiles({ warn, io = nodeFileCalls, lagging, ...sources }: RkatFilesParts): RkatFiles {
  const parts: ProjectionParts = { ...sources, io };
  const touched = new Set<string>();
  const due = new Map<string, Job>();
  const running = new Map<string, Job>();
  const reported = new Set<string>();
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
  const project = async (sessionId: string, isReplay: boolean): Promise<void> => {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await projectSession(parts, sessionId, { isReplay, signal: stop.signal });
      } catch (error) {
        // Another process that projects the session has renamed or removed a file of it.
        if (!isAbsence(error) || attempt === ATTEMPTS_MAX) throw error;
      }
    }
  };
  const run = async (sessionId: string, job: Job): Promise<void> => {
    try {
      await project(sessionId, job.isReplay);
      reported.delete(sessionId);
      job.outcome.resolve();
    } catch (error) {
      isIncomplete = true;
      const failure = asFailure(sessionId, error);
      job.outcome.reject(failure);
      // A rebuild reports failures through its promise.
      if (!job.isReplay) reportFailure(sessionId, failure);
    } finally {
      running.delete(sessionId);
      startDue();
      if (waiting() === 0 && !isIncomplete) lagging?.caughtUp();
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
    making ??= lagging
      ?.makeUp(bring)
      .catch((error) => warn(`outdated files are not searched for: ${messageOf(error)}`));
    await making;
  };
  const first = setTimeout(makeUp, DELAY_MS).unref();
  const reportFailure = (sessionId: string, failure: RuntimeError): void => {
    if (stop.signal.aborted || reported.has(sessionId) || reported.size >= SESSIONS_TOLD_MAX) return;
    reported.add(sessionId);
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
    if (left > 0 && lagging !== undefined)
      warn(`${left} sessions lack their files under .rkat/sessions; the next process that opens the folder continues`);
    await lagging?.close(left === 0 && !isIncomplete).catch((error) => warn(messageOf(error)));
  };
  return {
    expect: async (atMs) => (await lagging?.expect(atMs)) ?? (() => {}),
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
  outcome.promise.catch(() => {}); // The caller need not wait for it.
  return { isReplay: false, outcome };
}

function asFailure(sessionId: string, cause: unknown): RuntimeError {
  if (hasCode(cause, "INVALID_PARAMS")) return cause;
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

/** Records on disk which files lag behind their logs, across processes. */
export interface LaggingFiles {
  /** Records, before an append, that files may lag; returns a function to call after it. */
  expect(atMs: number | undefined): Promise<() => void>;
  /** Call when all touched sessions have their files. */
  caughtUp(): void;
  /**
   * Visits sessions whose files a dead process may have left outdated. `bring` updates some and says whether that
   * worked; the position is stored for the next process.
   */
  makeUp(bring: Bring): Promise<void>;
  /** Removes this process's note if nothing is missing. */
  close(isComplete: boolean): Promise<void>;
}

type Bring = (sessionIds: readonly string[]) => Promise<boolean>;

export interface LaggingFilesParts {
  /** The state folder; notes are in `.rkat/behind/`, one per process. */
  readonly folder: string;
  readonly page: (query: RowQuery) => Promise<readonly LogRow[]>;
  readonly host: { readonly pid: number; isRunning(pid: number): boolean };
  readonly io?: FileCalls;
  readonly now: () => number;
}

/**
 * Sessions updated since then may lack files, or came to rest since the last look; those up to `after`, in page order,
 * were checked.
 */
interface Note {
  readonly since_ms: number;
  readonly after?: Pick<LogRow, "session_id" | "updated_at_ms"> | undefined;
}

/** Allows for clock differences between processes and for slow appends. */
const CLOCKS_APART_MS = 5 * 60_000;
/** While nothing lags the note is renewed at most this often: earlier sessions need no check. */
const NOTE_EVERY_MS = 60_000;
const PAGE_ROWS = 64;
/** The note on how far sessions were looked at that came to rest: at most once a day. */
const AT_REST = "at-rest.json";
const LOOK_EVERY_MS = 86_400_000;
const FIRST_ID = "00000000-0000-0000-0000-000000000000";

/** Notes of this process in use: another may be left by a store that was closed too early. */
const inUse = new Set<string>();

export function createLaggingFiles({ folder, page, host, io = nodeFileCalls, now }: LaggingFilesParts): LaggingFiles {
  const notes = join(folder, ".rkat", "behind");
  const own = `${host.pid}-${randomUUID()}.json`;
  let sinceMs = Number.POSITIVE_INFINITY;
  let writing: Promise<void> = Promise.resolve();
  let expected = 0;
  let isClosed = false;

  const write = async (name: string, note: Note): Promise<void> => {
    const path = join(notes, name);
    await refuseLinks(io, folder, path);
    await io.makeFolder(notes);
    await io.write(`${path}.tmp`, JSON.stringify(note));
    await io.rename(`${path}.tmp`, path);
  };
  /** A disk that rejects a note rejects the files, too: that failure is reported, and appends never fail for it. */
  const writeOwn = (since_ms: number): Promise<void> => {
    sinceMs = since_ms;
    inUse.add(own);
    writing = writing.then(() => write(own, { since_ms })).catch(() => {});
    return writing;
  };
  const isLeft = (name: string): boolean => {
    const pid = Number(/^(\d+)-[0-9a-f-]{36}\.json$/.exec(name)?.[1]);
    if (!Number.isSafeInteger(pid)) return false;
    return pid === host.pid ? !inUse.has(name) : !host.isRunning(pid);
  };
  /** True when everything that a note names was visited. */
  const follow = async (name: string, { since_ms, after: first }: Note, bring: Bring): Promise<boolean> => {
    for (let after = first; ; ) {
      const updatedSinceMs = Math.max(0, since_ms - CLOCKS_APART_MS);
      const rows = await page({ updatedSinceMs, max: PAGE_ROWS, ...(after === undefined ? {} : { after }) });
      if (isClosed || !(await bring(rows.map(({ session_id }) => session_id)))) return false;
      const last = rows.at(-1);
      if (last === undefined || rows.length < PAGE_ROWS) return true;
      after = { session_id: last.session_id, updated_at_ms: last.updated_at_ms };
      await write(name, { since_ms, after });
    }
  };
  const noteOf = async (name: string): Promise<Note> => toNote(await io.read(join(notes, name)));
  const lookForRest = async (bring: Bring): Promise<void> => {
    const { since_ms, after } = await noteOf(AT_REST);
    const until = now() - AT_REST_MS;
    if (after === undefined && until - since_ms < LOOK_EVERY_MS) return;
    const from = after ?? { session_id: FIRST_ID, updated_at_ms: until };
    let isAny = false;
    const pack: Bring = async (ids) => {
      isAny ||= ids.length > 0;
      const events = await Promise.all(ids.map((id) => io.list(join(folder, ".rkat", "sessions", id))));
      return bring(ids.filter((_, at) => events[at]?.includes("events.jsonl")));
    };
    const isDone = await follow(AT_REST, { since_ms, after: from }, pack);
    if (isDone && isAny) await write(AT_REST, { since_ms: from.updated_at_ms });
  };
  return {
    expect: async (atMs) => {
      expected += 1;
      const from = Math.min(atMs ?? Number.POSITIVE_INFINITY, now());
      // Old entries, as a copy brings them, are not found by time.
      if (sinceMs === Number.POSITIVE_INFINITY || from < sinceMs - CLOCKS_APART_MS) await writeOwn(from);
      else await writing;
      return () => {
        expected -= 1;
      };
    },
    caughtUp: () => {
      if (expected === 0 && !isClosed && now() - sinceMs > NOTE_EVERY_MS) void writeOwn(now());
    },
    makeUp: async (bring) => {
      await refuseLinks(io, folder, notes);
      for (const name of (await io.list(notes)).filter(isLeft))
        if (!isClosed && (await follow(name, await noteOf(name), bring))) await io.remove(join(notes, name));
      if (!isClosed) await lookForRest(bring);
    },
    close: async (isComplete) => {
      isClosed = true;
      await writing;
      inUse.delete(own);
      if (isComplete && expected === 0 && sinceMs < Number.POSITIVE_INFINITY) await io.remove(join(notes, own));
    },
  };
}

const NOTE = /^\{"since_ms":(\d{1,15})(?:,"after":\{"session_id":"([0-9a-f-]{36})","updated_at_ms":(\d{1,15})\})?\}$/;

/** An unreadable note means that everything is checked. */
function toNote(text: string | undefined): Note {
  const [, since = "0", session_id, updated] = NOTE.exec(text ?? "") ?? [];
  if (session_id === undefined) return { since_ms: Number(since) };
  return { since_ms: Number(since), after: { session_id, updated_at_ms: Number(updated) } };
}
