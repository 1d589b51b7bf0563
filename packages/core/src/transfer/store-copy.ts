import { createHash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import type { AgentRow } from "../agent-memory/tiers.ts";
import type { AgentEntryBody } from "../contract/agent.ts";
import type { Entry } from "../contract/entry.ts";
import { hasCode, invalid, messageOf, RuntimeError } from "../contract/error.ts";
import type { Clock } from "../ports/clock.ts";
import type { BlobStore, ConfigStore, KeptLayer, LogRow, SessionStore, Store } from "../ports/store.ts";
import type { ScheduleHome } from "../schedules/schedule-row.ts";
import { translateFailures } from "../sessions/live-sessions.ts";
import { walkRows } from "../sessions/walk-rows.ts";
import { appendEntries, endOf, entryLine, entryPages } from "./portable-log.ts";

/** A place with a realm: everything that cannot be derived. */
export interface KeptPlace {
  /** Its name in sentences, without secrets. */
  readonly name: string;
  readonly sessions: Store;
  readonly agents: {
    /** Whether it has any. */
    isThere(): Promise<boolean>;
    open(): Promise<Store<AgentEntryBody, AgentRow>>;
  };
  readonly schedules: ScheduleHome;
  readonly config: ConfigStore;
}

export interface CopyOptions {
  /** Dry run: only report what would be written. */
  readonly dryRun?: boolean | undefined;
  /** Replaces a differing configuration in the target. */
  readonly forceConfig?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Receives progress, often. */
  readonly progress?: ((of: CopyProgress) => void) | undefined;
}

export interface CopyProgress {
  readonly what: "blobs" | "sessions" | "agents" | "schedules";
  readonly done: number;
  /** Undefined while unknown. */
  readonly total: number | undefined;
}

/** The result of a copy; `problems` and `behind` name what the target lacks, one sentence each. */
export interface CopyReport {
  /** Whether the target now has everything. */
  readonly ok: boolean;
  readonly dry_run: boolean;
  readonly sessions: Counts;
  readonly agents: Counts;
  readonly schedules: Counts;
  readonly blobs: { readonly total: number; readonly copied: number; readonly equal: number };
  /** `none`: the source has none; `kept`: the target's different one stays. */
  readonly configuration: "none" | "copied" | "equal" | "kept";
  readonly problems: readonly string[];
  readonly behind: readonly string[];
}

type Counts = Omit<LogsCopied, "problems" | "behind">;

/** Copies a realm; existing data is compared, and differences are left alone. */
export async function copyKept(
  given: { readonly from: KeptPlace; readonly to: KeptPlace; readonly clock: Clock },
  options: CopyOptions = {},
): Promise<CopyReport> {
  const { clock } = given;
  const translated = (place: KeptPlace): KeptPlace => ({ ...place, sessions: translateFailures(place.sessions) });
  const [from, to] = [translated(given.from), translated(given.to)];
  const { dryRun: isDry = false, signal = NEVER, progress = () => {} } = options;
  await requireTwoPlaces(from, to, clock);
  // Blobs before the sessions that name them.
  const blobs = await copyBlobs(from, to, {
    isDry,
    signal,
    progress: (done) => progress({ what: "blobs", done, total: undefined }),
  });
  const copyOf = <B, R extends LogRow>(noun: Noun, source: Store<B, R>, target: Store<B, R>) =>
    copyLogs({
      ...{ isDry, clock, signal, noun },
      from: { name: from.name, store: source },
      to: { name: to.name, store: target },
      progress: (done, total) => progress({ what: `${noun}s`, done, total }),
    });
  const sessions = await copyOf("session", from.sessions, to.sessions);
  const agents = (await from.agents.isThere())
    ? await copyOf("agent", translateFailures(await from.agents.open()), translateFailures(await to.agents.open()))
    : NO_LOGS;
  const schedules = from.schedules.isThere()
    ? await copyOf(
        "schedule",
        translateFailures(await from.schedules.open()),
        translateFailures(await to.schedules.open()),
      )
    : NO_LOGS;
  const configuration = await copyConfiguration(from, to, { isDry, isForced: options.forceConfig === true });
  const logs = [sessions, agents, schedules];
  const problems = [...blobs.problems, ...logs.flatMap((copied) => copied.problems), ...configuration.problems];
  const behind = logs.flatMap((copied) => copied.behind);
  return {
    ok: problems.length === 0 && behind.length === 0,
    dry_run: isDry,
    sessions: countsOf(sessions),
    agents: countsOf(agents),
    schedules: countsOf(schedules),
    blobs: { total: blobs.total, copied: blobs.copied, equal: blobs.equal },
    configuration: configuration.became,
    problems,
    behind,
  };
}

type Noun = "session" | "agent" | "schedule";

const NEVER = new AbortController().signal;
const NO_LOGS: LogsCopied = { total: 0, copied: 0, continued: 0, equal: 0, entries: 0, problems: [], behind: [] };

function countsOf({ problems: _problems, behind: _behind, ...counts }: LogsCopied): Counts {
  return counts;
}

/** Detects one place under two names: a lock held in one and seen in the other. */
async function requireTwoPlaces(from: KeptPlace, to: KeptPlace, clock: Clock): Promise<void> {
  const id = clock.newId();
  const hold = await to.sessions.locks.hold(id);
  try {
    if (!(await from.sessions.locks.isHeld(id))) return;
  } finally {
    await hold.release();
  }
  throw invalid(`${from.name} and ${to.name} are the same place; name another to copy to`);
}

interface BlobsCopied {
  readonly total: number;
  readonly copied: number;
  readonly equal: number;
  readonly problems: readonly string[];
}

const IDS_A_PAGE = 500;
const BLOBS_AT_ONCE = 4;

/** A blob's id is the hash of its content, which is checked. */
async function copyBlobs(
  from: KeptPlace,
  to: KeptPlace,
  { isDry, signal, progress }: { isDry: boolean; signal: AbortSignal; progress: (done: number) => void },
): Promise<BlobsCopied> {
  const counts = { total: 0, copied: 0, equal: 0 };
  const problems: string[] = [];
  const visit = async (id: string): Promise<void> => {
    counts.total += 1;
    progress(counts.total);
    try {
      const [blob, there] = [await getBlob(from, id), await getBlob(to, id)];
      if (blob === undefined)
        counts.total -= 1; // Deleted after it was listed.
      else if (there === undefined) {
        if (!isDry) await putBlob(to, id, blob);
        counts.copied += 1;
      } else if (there.mediaType === blob.mediaType) counts.equal += 1;
      else {
        const types = `${there.mediaType} at ${to.name} and ${blob.mediaType} at ${from.name}`;
        problems.push(`${id} is ${types}; it was left as it is`);
      }
    } catch (error) {
      if (!(error instanceof Faulty)) throw error;
      problems.push(error.message);
    }
  };
  const page = (after: string): Promise<readonly string[]> => from.sessions.blobs.ids(after, IDS_A_PAGE);
  for (let ids = await page(""); ids.length > 0; ids = await page(ids.at(-1) ?? "")) {
    await forEachOf(ids, BLOBS_AT_ONCE, signal, visit);
  }
  return { ...counts, problems };
}

type Blob = NonNullable<Awaited<ReturnType<BlobStore["get"]>>>;

function getBlob({ name, sessions: { blobs } }: KeptPlace, id: string): Promise<Blob | undefined> {
  return orFaulty(
    `${id} cannot be read at ${name}`,
    () => blobs.get(id),
    () => blobs.ids("", 1),
  );
}

async function putBlob({ name, sessions: { blobs } }: KeptPlace, id: string, blob: Blob): Promise<void> {
  const kept = await blobs.put(blob);
  const back = await blobs.get(kept);
  if (kept === id && back?.mediaType === blob.mediaType && Buffer.compare(back.data, blob.data) === 0) return;
  throw new RuntimeError("SESSION_STORE_ERROR", `what ${name} gives back of ${id} is not what was copied`);
}

async function copyConfiguration(
  from: KeptPlace,
  to: KeptPlace,
  { isDry, isForced }: { readonly isDry: boolean; readonly isForced: boolean },
): Promise<{ readonly became: CopyReport["configuration"]; readonly problems: readonly string[] }> {
  const given = readLayer(from.config);
  if ("fault" in given) return { became: "kept", problems: [given.fault] };
  const there = readLayer(to.config);
  if (Object.keys(given.layer).length === 0) return { became: "none", problems: [] };
  if ("layer" in there && isSame(given.layer, there.layer)) return { became: "equal", problems: [] };
  const isAnother = "fault" in there || Object.keys(there.layer).length > 0;
  if (isAnother && !isForced) {
    const what = "fault" in there ? there.fault : `${to.config.name} differs from ${from.config.name}`;
    return { became: "kept", problems: [`${what}; it was left as it is, and --force-config replaces it`] };
  }
  if (!isDry) {
    await to.config.change(() => given.layer);
    if (!isSame(given.layer, to.config.read().layer))
      throw new RuntimeError("SESSION_STORE_ERROR", `${to.config.name} does not give back what was copied to it`);
  }
  return { became: "copied", problems: [] };
}

/** An unreadable file affects only the configuration. */
function readLayer(config: ConfigStore): Pick<KeptLayer, "layer"> | { readonly fault: string } {
  try {
    return config.read();
  } catch (error) {
    return { fault: messageOf(error) };
  }
}

/** As JSON: places may differ in key order and parser. */
function isSame(one: unknown, other: unknown): boolean {
  return isDeepStrictEqual(JSON.parse(JSON.stringify(one)), JSON.parse(JSON.stringify(other)));
}

/** The result for the logs of one kind. */
interface LogsCopied {
  readonly total: number;
  readonly copied: number;
  /** Logs that the target had a prefix of. */
  readonly continued: number;
  readonly equal: number;
  /** Entries added to the target, each read back and compared. */
  readonly entries: number;
  /** One sentence per log that is incomplete in the target. */
  readonly problems: readonly string[];
  /** One sentence per log that grew after it was read. */
  readonly behind: readonly string[];
}

interface LogCopyParts<B, R extends LogRow> {
  readonly from: CopyEnd<B, R>;
  readonly to: CopyEnd<B, R>;
  readonly noun: Noun;
  /** Dry run: only reports what would be written. */
  readonly isDry: boolean;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  progress(done: number, total: number): void;
}

interface CopyEnd<B, R extends LogRow> {
  readonly name: string;
  readonly store: Store<B, R>;
}

/** Logs copied at once: their appends share commits and syncs. */
const LOGS_AT_ONCE = 64;
/** How long a log that is held in the target is retried: the lease of a killed process ends sooner. */
const BUSY_MS_MAX = 20_000;
const BUSY_PAUSE_MS = 500;
/** Allowed difference between the clocks of writing processes. */
const CLOCKS_MS = 60_000;

/**
 * Copies every log to another store with its seqs and times, and reads it back. A log that exists in the target is
 * compared and continued; one that differs or is longer there is left alone.
 */
async function copyLogs<B, R extends LogRow>(parts: LogCopyParts<B, R>): Promise<LogsCopied> {
  const { from, noun, clock, signal } = parts;
  const startedMs = clock.now();
  const listed = await lastSeqs(from.store.sessions);
  const ids = [...listed.keys()];
  const outcomes = new Map<string, Outcome>();
  parts.progress(0, ids.length);
  const visit = async (id: string): Promise<void> => {
    outcomes.set(id, await copyLog(parts, id, listed.get(id) ?? 0));
    parts.progress(outcomes.size, ids.length);
  };
  await forEachOf(ids, LOGS_AT_ONCE, signal, visit);
  for (const untilMs = clock.now() + BUSY_MS_MAX; clock.now() < untilMs; ) {
    const busy = ids.filter((id) => outcomes.get(id)?.kind === "busy");
    if (busy.length === 0) break;
    await clock.sleep(BUSY_PAUSE_MS, signal);
    await forEachOf(busy, LOGS_AT_ONCE, signal, visit);
  }
  const updated = await lastSeqs(from.store.sessions, startedMs - CLOCKS_MS);
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
    const written = `${noun} ${id} is being written at ${from.name}`;
    if (isHeld || (updated.get(id) ?? 0) > seq)
      behind.push(`${written}: it was copied up to seq ${seq}; run it again for the rest`);
  }
  for (const id of updated.keys())
    if (!outcomes.has(id)) behind.push(`${noun} ${id} was begun at ${from.name} meanwhile; run it again to copy it`);
  return { total: outcomes.size, ...counts, problems, behind };
}

/** Every log with its last seq, or those written since a time. */
async function lastSeqs<R extends LogRow>(
  sessions: SessionStore<R>,
  sinceMs = 0,
): Promise<ReadonlyMap<string, number>> {
  const found = new Map<string, number>();
  const rows = walkRows(sessions, sinceMs === 0 ? {} : { updatedSinceMs: sinceMs });
  for await (const { session_id, last_seq } of rows) found.set(session_id, last_seq);
  return found;
}

/** Visits all items, several at a time. An error ends it after the running visits. */
async function forEachOf<T>(
  items: readonly T[],
  atOnce: number,
  signal: AbortSignal,
  visit: (item: T) => Promise<void>,
): Promise<void> {
  const queue = items.values();
  let isOver = false;
  const work = async (): Promise<void> => {
    for (const item of queue) {
      if (isOver || signal.aborted) return;
      await visit(item).catch((error: unknown) => {
        isOver = true;
        throw error;
      });
    }
  };
  const settled = await Promise.allSettled(Array.from({ length: atOnce }, work));
  for (const worker of settled) if (worker.status === "rejected") throw worker.reason;
  if (signal.aborted) throw new RuntimeError("REQUEST_CANCELLED", "the copy was stopped; run it again to go on");
}

/** One log or blob cannot be copied although the stores work; the message names it and the reason. */
class Faulty extends Error {}

/** Works on one log or blob. If it fails while `isThere` succeeds, the store itself is not at fault. */
async function orFaulty<T>(what: string, work: () => Promise<T>, isThere: () => Promise<unknown>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    await isThere();
    throw new Faulty(`${what}: ${messageOf(cause)}`, { cause });
  }
}

type Outcome =
  | { readonly kind: "left" | "busy"; readonly sentence: string }
  | {
      readonly kind: "copied" | "continued" | "equal";
      readonly entries: number;
      /** The end of the log when it was read. */
      readonly seq: number;
      /** Whether a process held it then and could write. */
      readonly isHeld: boolean;
    };

/** Copies one log to its end; throws only for failures beyond this log. */
async function copyLog<B, R extends LogRow>(parts: LogCopyParts<B, R>, id: string, lastSeq: number): Promise<Outcome> {
  const { from, to, noun } = parts;
  try {
    const isHeld = await from.store.locks.isHeld(id);
    const gap = await compareLogs(parts, id);
    if (gap.endSeq < lastSeq && !parts.signal.aborted) throw lacks(parts, id, [gap.endSeq + 1, lastSeq]);
    const kind = gap.entries === 0 ? "equal" : gap.sharedSeq === 0 ? "copied" : "continued";
    if (kind === "equal" || parts.isDry || (await fill(parts, id, gap)))
      return { kind, entries: gap.entries, seq: gap.endSeq, isHeld };
    const sentence = `${noun} ${id} is in use at ${to.name} and was left as it is; run it again when it is not`;
    return { kind: "busy", sentence };
  } catch (error) {
    if (!(error instanceof Faulty)) throw error;
    return { kind: "left", sentence: error.message };
  }
}

/** The target has every entry up to `sharedSeq` and lacks the rest. */
interface Gap<B> {
  readonly sharedSeq: number;
  readonly endSeq: number;
  readonly entries: number;
  readonly digest: string;
  /** The first page of them, which is all for most logs. */
  readonly first: readonly Entry<B>[];
}

const ENTRIES_A_PAGE = 100;

/** Compares both logs. The source is read to its end before any write: half of it would look complete. */
async function compareLogs<B, R extends LogRow>(parts: LogCopyParts<B, R>, id: string): Promise<Gap<B>> {
  const { to, noun, signal } = parts;
  const left = (what: string): Faulty => new Faulty(`${noun} ${id} ${what}; nothing of it was changed`);
  const missing = createHash("sha256");
  const first: Entry<B>[] = [];
  let [endSeq, sharedSeq, entries] = [0, 0, 0];
  for (let isShared = true; !signal.aborted; ) {
    const [given, kept]: readonly [readonly Entry<B>[], readonly Entry<B>[]] = await Promise.all([
      readerOf(parts, "from").read(id, endSeq + 1, ENTRIES_A_PAGE),
      isShared ? readerOf(parts, "to").read(id, endSeq + 1, ENTRIES_A_PAGE) : [],
    ]);
    for (const [at, entry] of given.entries()) {
      if (entry.seq !== endSeq + 1) throw lacks(parts, id, [endSeq + 1, entry.seq - 1]);
      const line = entryLine(entry);
      const there = kept[at];
      if (there !== undefined && entryLine(there) !== line)
        throw left(`has another past at ${to.name}: the entry at seq ${entry.seq} differs`);
      endSeq = endOf(entry);
      if (there !== undefined) sharedSeq = endSeq;
      else {
        entries += 1;
        missing.update(line);
        if (entries <= ENTRIES_A_PAGE) first.push(entry);
      }
    }
    if (kept.length > given.length) throw left(`has gone on at ${to.name} after seq ${endSeq}, where the source ends`);
    if (given.length < ENTRIES_A_PAGE) break;
    isShared = kept.length === given.length;
  }
  return { sharedSeq, endSeq, entries, digest: missing.digest("hex"), first };
}

function lacks<B, R extends LogRow>(
  { from, noun }: LogCopyParts<B, R>,
  id: string,
  [first, last]: readonly [number, number],
): Faulty {
  return new Faulty(`${noun} ${id}: it lacks seqs ${first} to ${last} at ${from.name}`);
}

function readerOf<B, R extends LogRow>(parts: LogCopyParts<B, R>, end: "from" | "to") {
  const { name, store } = parts[end];
  return {
    read: (id: string, fromSeq: number, max: number): Promise<readonly Entry<B>[]> =>
      orFaulty(
        `${parts.noun} ${id}: it cannot be read at ${name}`,
        () => store.log.read(id, fromSeq, max),
        () => store.sessions.get(id),
      ),
  };
}

/** Appends and reads back the missing entries; false if another process writes the log. */
async function fill<B, R extends LogRow>(parts: LogCopyParts<B, R>, id: string, gap: Gap<B>): Promise<boolean> {
  const { from, to, noun, clock, signal } = parts;
  const range = { after: gap.sharedSeq, upTo: gap.endSeq };
  try {
    const hold = await to.store.locks.hold(id);
    try {
      // Another process may have written since the comparison.
      if (((await to.store.sessions.get(id))?.last_seq ?? 0) !== gap.sharedSeq) return false;
      let after = gap.sharedSeq;
      const pages = gap.first.length === gap.entries ? [gap.first] : entryPages(readerOf(parts, "from"), id, range);
      for await (const entries of pages) {
        if (signal.aborted) return true;
        after = await appendEntries({ log: to.store.log, clock }, id, { after, entries });
      }
      if (after < gap.endSeq) throw new Faulty(`${noun} ${id}: it became shorter at ${from.name} while it was read`);
    } finally {
      await hold.release();
    }
  } catch (error) {
    if (hasCode(error, "SESSION_BUSY")) return false;
    if (hasCode(error, "PAYLOAD_TOO_LARGE"))
      throw new Faulty(`${noun} ${id}: ${to.name} does not take it: ${error.message}`, { cause: error });
    throw error;
  }
  const digest = createHash("sha256");
  for await (const page of entryPages(readerOf(parts, "to"), id, range))
    for (const entry of page) digest.update(entryLine(entry));
  if (digest.digest("hex") === gap.digest) return true;
  throw new Faulty(`${noun} ${id}: what ${to.name} gives back is not what was copied`);
}
