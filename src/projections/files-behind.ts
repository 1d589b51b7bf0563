import { randomUUID } from "node:crypto";
import { join } from "node:path";
import type { LogRow, RowQuery } from "../ports/store.ts";
import { type FileCalls, nodeFileCalls, refuseLinks } from "./file-calls.ts";

/** Records on disk which files lag behind their logs, across processes. */
export interface FilesBehind {
  /** Records, before an append, that files may lag; returns a function to call after it. */
  expect(atMs: number | undefined): Promise<() => void>;
  /** Call when all touched sessions have their files. */
  caughtUp(): void;
  /**
   * Visits sessions whose files a dead process may have left outdated. `bring` updates some and says whether that
   * worked; the position is stored for the next process.
   */
  makeUp(bring: (sessionIds: readonly string[]) => Promise<boolean>): Promise<void>;
  /** Removes this process's note if nothing is missing. */
  close(isComplete: boolean): Promise<void>;
}

export interface FilesBehindParts {
  /** The state folder; notes are in `.rkat/behind/`, one per process. */
  readonly folder: string;
  readonly page: (query: RowQuery) => Promise<readonly LogRow[]>;
  readonly host: { readonly pid: number; isRunning(pid: number): boolean };
  readonly io?: FileCalls;
  readonly now: () => number;
}

/** Sessions updated since then may lack files; those up to `after`, in page order, were checked. */
interface Note {
  readonly since_ms: number;
  readonly after?: Pick<LogRow, "session_id" | "updated_at_ms"> | undefined;
}

/** Allows for clock differences between processes and for slow appends. */
const CLOCKS_APART_MS = 5 * 60_000;
/** While nothing lags the note is renewed at most this often: earlier sessions need no check. */
const NOTE_EVERY_MS = 60_000;
const PAGE_ROWS = 64;

/** Notes of this process in use: another may be left by a store that was closed too early. */
const inUse = new Set<string>();

export function createFilesBehind({ folder, page, host, io = nodeFileCalls, now }: FilesBehindParts): FilesBehind {
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
  const follow = async (name: string, bring: (ids: readonly string[]) => Promise<boolean>): Promise<void> => {
    const { since_ms, after: first } = toNote(await io.read(join(notes, name)));
    for (let after = first; ; ) {
      const updatedSinceMs = Math.max(0, since_ms - CLOCKS_APART_MS);
      const rows = await page({ updatedSinceMs, max: PAGE_ROWS, ...(after === undefined ? {} : { after }) });
      if (isClosed || !(await bring(rows.map(({ session_id }) => session_id)))) return;
      const last = rows.at(-1);
      if (last === undefined || rows.length < PAGE_ROWS) return io.remove(join(notes, name));
      after = { session_id: last.session_id, updated_at_ms: last.updated_at_ms };
      await write(name, { since_ms, after });
    }
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
      for (const name of (await io.list(notes)).filter(isLeft)) if (!isClosed) await follow(name, bring);
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
