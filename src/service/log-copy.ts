import { createHash, hash } from "node:crypto";
import type { Entry } from "../contract/entry.ts";
import { messageOf, RuntimeError } from "../contract/error.ts";
import type { Clock } from "../ports/clock.ts";
import type { EventLog, LogRow, SessionStore, Store } from "../ports/store.ts";

/** What became of the logs of one kind. */
export interface LogsCopied {
  /** Logs that the source has. */
  readonly total: number;
  /** Logs that the target did not have. */
  readonly copied: number;
  /** Logs that the target had the beginning of. */
  readonly continued: number;
  readonly equal: number;
  /** Entries that were added to the target, each read back and found the same. */
  readonly entries: number;
  /** A sentence for every log that is not whole at the target now. */
  readonly problems: readonly string[];
  /** A sentence for every log of which only what was there when it was read is at the target. */
  readonly behind: readonly string[];
}

export interface LogCopyParts<B, R extends LogRow> {
  readonly from: CopyEnd<B, R>;
  readonly to: CopyEnd<B, R>;
  /** What a log is called. */
  readonly noun: "session" | "agent";
  /** Nothing is written: only what would be is told. */
  readonly isDry: boolean;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  progress(done: number, total: number): void;
}

interface CopyEnd<B, R extends LogRow> {
  readonly name: string;
  readonly store: Store<B, R>;
}

/** Logs under way at once: their appends share the commits of a database and the syncs of a folder. */
const LOGS_AT_ONCE = 64;
/** A log that somebody writes at the target is tried again for so long: a writer that was killed is silent for less. */
const BUSY_MS_MAX = 20_000;
const BUSY_PAUSE_MS = 500;

/**
 * Brings every log of one store to another, with its seqs and times, and reads back what it wrote. A log that is at the
 * target already is compared entry by entry and continued; one with another past, or a longer one, is left alone.
 */
export async function copyLogs<B, R extends LogRow>(parts: LogCopyParts<B, R>): Promise<LogsCopied> {
  const { from, clock, signal } = parts;
  const startedMs = clock.now();
  const listed = await listLogs(from.store.sessions, clock);
  const ids = [...listed.keys()];
  const outcomes = new Map<string, Outcome>();
  parts.progress(0, ids.length);
  const visit = async (id: string): Promise<void> => {
    outcomes.set(id, await copyLog(parts, id, listed.get(id) ?? 0));
    parts.progress(outcomes.size, ids.length);
  };
  const isBusy = (id: string): boolean => outcomes.get(id)?.kind === "busy";
  await forEachOf(ids, LOGS_AT_ONCE, signal, visit);
  let busy = ids.filter(isBusy);
  for (
    const untilMs = clock.now() + BUSY_MS_MAX;
    busy.length > 0 && clock.now() < untilMs;
    busy = busy.filter(isBusy)
  ) {
    await clock.sleep(BUSY_PAUSE_MS, signal);
    await forEachOf(busy, LOGS_AT_ONCE, signal, visit);
  }
  return summarise(parts, outcomes, await listLogs(from.store.sessions, clock, startedMs));
}

/** What became of one log. */
type Outcome = Whole | { readonly kind: "left" | "busy"; readonly sentence: string };

interface Whole {
  readonly kind: "copied" | "continued" | "equal";
  readonly entries: number;
  /** Where the log ended when it was read. */
  readonly seq: number;
  /** Whether somebody had the right to write it then. */
  readonly isHeld: boolean;
}

function summarise<B, R extends LogRow>(
  { from, noun }: LogCopyParts<B, R>,
  outcomes: ReadonlyMap<string, Outcome>,
  updated: ReadonlyMap<string, number>,
): LogsCopied {
  const counts = { copied: 0, continued: 0, equal: 0, entries: 0 };
  const problems: string[] = [];
  const behind: string[] = [];
  for (const [id, outcome] of outcomes) {
    if ("sentence" in outcome) {
      problems.push(outcome.sentence);
      continue;
    }
    const { kind, entries, seq, isHeld } = outcome;
    counts[kind] += 1;
    counts.entries += entries;
    if (isHeld || (updated.get(id) ?? 0) > seq)
      behind.push(
        `${noun} ${id} is being written at ${from.name}: it was copied up to seq ${seq}; run it again for the rest`,
      );
  }
  for (const id of updated.keys())
    if (!outcomes.has(id)) behind.push(`${noun} ${id} was begun at ${from.name} meanwhile; run it again to copy it`);
  return { total: outcomes.size, ...counts, problems, behind };
}

const ROWS_A_PAGE = 5_000;
const WALKS_MAX = 10;
/** Clocks of the processes that write one store may differ by this much. */
const CLOCKS_MS = 60_000;

/**
 * Every log with its last seq. Rows come last updated first, so a row whose log grows between two pages may jump from
 * where the walk has not been to where it was, and no other row can be missed. Such a row is of the time since the walk
 * began: those are asked for again, until they fit one page. One page is one moment, in which nothing jumps.
 */
async function listLogs<R extends LogRow>(
  sessions: SessionStore<R>,
  clock: Clock,
  startedMs?: number,
): Promise<ReadonlyMap<string, number>> {
  const found = new Map<string, number>();
  let sinceMs = startedMs;
  for (let walk = 1; walk <= WALKS_MAX; walk += 1) {
    const walkedMs = clock.now();
    const updated = sinceMs === undefined ? {} : { updatedSinceMs: sinceMs - CLOCKS_MS };
    let page = await sessions.page({ ...updated, max: ROWS_A_PAGE });
    for (const row of page) found.set(row.session_id, row.last_seq);
    if (page.length < ROWS_A_PAGE) break;
    for (let after = page.at(-1); after !== undefined; after = page.at(-1)) {
      page = await sessions.page({ ...updated, after, max: ROWS_A_PAGE });
      for (const row of page) found.set(row.session_id, row.last_seq);
    }
    sinceMs = walkedMs;
  }
  return found;
}

/** Does something of each, so many at a time; what one of them throws ends it, after those under way. */
export async function forEachOf<T>(
  items: readonly T[],
  atOnce: number,
  signal: AbortSignal,
  visit: (item: T) => Promise<void>,
): Promise<void> {
  let next = 0;
  let isOver = false;
  const work = async (): Promise<void> => {
    while (!isOver && !signal.aborted && next < items.length) {
      const item = items[next];
      next += 1;
      // The index is within bounds; an item that is undefined itself is nobody's.
      if (item !== undefined) await visit(item);
    }
  };
  const settled = await Promise.allSettled(
    Array.from({ length: atOnce }, () =>
      work().catch((error: unknown) => {
        isOver = true;
        throw error;
      }),
    ),
  );
  for (const worker of settled) if (worker.status === "rejected") throw worker.reason;
  if (signal.aborted) throw new RuntimeError("REQUEST_CANCELLED", "the copy was stopped; run it again to go on");
}

/** Copies one log as far as it goes; throws what is no matter of this log alone. */
async function copyLog<B, R extends LogRow>(parts: LogCopyParts<B, R>, id: string, lastSeq: number): Promise<Outcome> {
  const { from, to, noun } = parts;
  try {
    const isHeld = await from.store.locks.isHeld(id);
    const gap = await compareLogs(parts, id);
    if (gap.kind !== "follows") return { kind: "left", sentence: refusal(parts, id, gap) };
    if (gap.endSeq < lastSeq && !parts.signal.aborted) throw lacks(from, gap.endSeq + 1, lastSeq);
    const kind = gap.entries === 0 ? "equal" : gap.sharedSeq === 0 ? "copied" : "continued";
    if (kind !== "equal" && !parts.isDry && !(await fill(parts, id, gap))) {
      const sentence = `${noun} ${id} is in use at ${to.name} and was left as it is; run it again when it is not`;
      return { kind: "busy", sentence };
    }
    return { kind, entries: gap.entries, seq: gap.endSeq, isHeld };
  } catch (error) {
    if (!(error instanceof FaultyLog)) throw error;
    // A store that still tells of its sessions is there, and it is this log that cannot be read.
    await error.sessions.get(id);
    return { kind: "left", sentence: `${noun} ${id}: ${error.message}` };
  }
}

/** One log cannot be read or written where it lies, or is not there what it is elsewhere. */
class FaultyLog extends Error {
  readonly sessions: Pick<SessionStore<LogRow>, "get">;
  constructor(sessions: Pick<SessionStore<LogRow>, "get">, what: string, cause?: unknown) {
    super(cause === undefined ? what : `${what}: ${messageOf(cause)}`, { cause });
    this.sessions = sessions;
  }
}

/** How a log at the target stands to that of the source. */
type Gap<B> =
  | Follows<B>
  | { readonly kind: "ahead"; readonly endSeq: number }
  | { readonly kind: "differs"; readonly seq: number };

/** The target has all up to `sharedSeq` and lacks what follows. */
interface Follows<B> {
  readonly kind: "follows";
  readonly sharedSeq: number;
  readonly endSeq: number;
  /** How many entries it lacks, and the digest of them. */
  readonly entries: number;
  readonly digest: string;
  /** The first of them, of which most logs have no more. */
  readonly first: readonly Entry<B>[];
}

function refusal<B, R extends LogRow>(
  { to, noun }: LogCopyParts<B, R>,
  id: string,
  gap: Exclude<Gap<B>, Follows<B>>,
): string {
  const what =
    gap.kind === "ahead"
      ? `has gone on at ${to.name} after seq ${gap.endSeq}, where the source ends`
      : `has another past at ${to.name}: the entry at seq ${gap.seq} differs`;
  return `${noun} ${id} ${what}; nothing of it was changed`;
}

const ENTRIES_A_PAGE = 100;

/** Reads both logs side by side. The source is read to its end before anything is written: half of it would look whole. */
async function compareLogs<B, R extends LogRow>({ from, to, signal }: LogCopyParts<B, R>, id: string): Promise<Gap<B>> {
  const missing = createHash("sha256");
  const first: Entry<B>[] = [];
  let [endSeq, sharedSeq, entries] = [0, 0, 0];
  for (let isShared = true; !signal.aborted; ) {
    const [given, kept]: readonly [readonly Entry<B>[], readonly Entry<B>[]] = await Promise.all([
      readPage(from, id, endSeq + 1),
      isShared ? readPage(to, id, endSeq + 1) : [],
    ]);
    for (const [at, entry] of given.entries()) {
      if (entry.seq !== endSeq + 1) throw lacks(from, endSeq + 1, entry.seq - 1);
      const fingerprint = fingerprintOf(entry);
      const there = kept[at];
      if (there !== undefined && fingerprintOf(there) !== fingerprint) return { kind: "differs", seq: entry.seq };
      endSeq = entry.seq + entry.span - 1;
      if (there !== undefined) sharedSeq = endSeq;
      else {
        entries += 1;
        missing.update(fingerprint);
        if (entries <= ENTRIES_A_PAGE) first.push(entry);
      }
    }
    if (kept.length > given.length) return { kind: "ahead", endSeq };
    if (given.length < ENTRIES_A_PAGE) break;
    isShared = kept.length === given.length;
  }
  return { kind: "follows", sharedSeq, endSeq, entries, digest: missing.digest("hex"), first };
}

/** What makes an entry this entry: its place, when it was said, and every word. */
function fingerprintOf({ seq, span, timestamp_ms, body }: Entry<unknown>): string {
  return hash("sha256", `${seq} ${span} ${timestamp_ms} ${JSON.stringify(body)}`);
}

function lacks<B, R extends LogRow>(end: CopyEnd<B, R>, fromSeq: number, toSeq: number): FaultyLog {
  return new FaultyLog(end.store.sessions, `it lacks seqs ${fromSeq} to ${toSeq} at ${end.name}`);
}

async function readPage<B, R extends LogRow>(
  end: CopyEnd<B, R>,
  id: string,
  fromSeq: number,
): Promise<readonly Entry<B>[]> {
  try {
    return await end.store.log.read(id, fromSeq, ENTRIES_A_PAGE);
  } catch (cause) {
    throw new FaultyLog(end.store.sessions, `it cannot be read at ${end.name}`, cause);
  }
}

/** Adds what the target lacks and reads it back; false when somebody else writes the log there. */
async function fill<B, R extends LogRow>(parts: LogCopyParts<B, R>, id: string, gap: Follows<B>): Promise<boolean> {
  const { from, to, signal } = parts;
  try {
    const hold = await to.store.locks.hold(id);
    try {
      // Another may have written between the comparison and the hold.
      if (((await to.store.sessions.get(id))?.last_seq ?? 0) !== gap.sharedSeq) return false;
      for (let seq = gap.sharedSeq; seq < gap.endSeq && !signal.aborted; ) {
        const read = seq === gap.sharedSeq ? gap.first : await readPage(from, id, seq + 1);
        const page = read.filter((entry) => entry.seq <= gap.endSeq);
        if (page.length === 0)
          throw new FaultyLog(from.store.sessions, `it became shorter at ${from.name} while it was read`);
        for (const said of momentsOf(page)) seq = await appendMoment(to.store.log, id, seq, said);
      }
    } finally {
      await hold.release();
    }
  } catch (error) {
    if (error instanceof RuntimeError && error.code === "SESSION_BUSY") return false;
    if (error instanceof RuntimeError && error.code === "PAYLOAD_TOO_LARGE")
      throw new FaultyLog(to.store.sessions, `${to.name} does not take it`, error);
    throw error;
  }
  if (!signal.aborted) await verify(parts, id, gap);
  return true;
}

/** Appends entries of one time as they were said; resolves with the seq the log ends at then. */
export async function appendMoment<B>(
  log: EventLog<B>,
  id: string,
  after: number,
  said: readonly Entry<B>[],
): Promise<number> {
  const added = said.map(({ span, body }) => ({ span, body }));
  const last = (await log.append(id, after, added, said[0]?.timestamp_ms)).at(-1);
  return last === undefined ? after : last.seq + last.span - 1;
}

/** One append may hold so much; a larger entry goes alone. */
const MOMENT_CHARS_MAX = 1024 * 1024;

/** Entries of one time that follow each other: an append has one. */
export function momentsOf<B>(entries: readonly Entry<B>[]): readonly (readonly Entry<B>[])[] {
  const moments: Entry<B>[][] = [];
  let chars = 0;
  for (const entry of entries) {
    const moment = moments.at(-1);
    const own = JSON.stringify(entry.body).length;
    chars += own;
    if (moment?.[0]?.timestamp_ms === entry.timestamp_ms && chars <= MOMENT_CHARS_MAX) moment.push(entry);
    else {
      moments.push([entry]);
      chars = own;
    }
  }
  return moments;
}

/** Reads back what was added; throws unless it has the digest of what was read at the source. */
async function verify<B, R extends LogRow>(parts: LogCopyParts<B, R>, id: string, gap: Follows<B>): Promise<void> {
  const { to } = parts;
  const digest = createHash("sha256");
  let entries = 0;
  for (let seq = gap.sharedSeq; seq < gap.endSeq; ) {
    const page = await readPage(to, id, seq + 1);
    for (const entry of page) {
      if (entry.seq > gap.endSeq) break;
      digest.update(fingerprintOf(entry));
      entries += 1;
    }
    const last = page.at(-1);
    if (last === undefined) break;
    seq = last.seq + last.span - 1;
  }
  if (entries === gap.entries && digest.digest("hex") === gap.digest) return;
  const now = await compareLogs(parts, id);
  const where = now.kind === "differs" ? `: the entry at seq ${now.seq} differs` : "";
  throw new FaultyLog(to.store.sessions, `what ${to.name} gives back is not what was copied${where}`);
}
