import type { CompactionCadence } from "../contract/compaction.ts";
import type { Entry, EntryBody, NewEntry } from "../contract/entry.ts";
import type { Usage } from "../contract/event.ts";
import type { Delegated, SessionSettings } from "../contract/session.ts";
import type { Forgettings } from "./forgettings.ts";
import type { Signals } from "./signals.ts";

/** The append-only logs of sessions, or of whatever else is told in entries: the truth everything else is folded from. */
export interface EventLog<B = EntryBody> {
  /**
   * Appends iff the log still ends at `after` (0 for a new log) and resolves with the numbered entries once they
   * are durable; otherwise rejects with SESSION_BUSY and writes nothing. All of them are kept, or none. They are of
   * now, unless `atMs` says when they were said: a copy keeps that.
   */
  append(
    sessionId: string,
    after: number,
    entries: readonly NewEntry<B>[],
    atMs?: number,
  ): Promise<readonly Entry<B>[]>;
  /** Entries whose seqs reach `fromSeq` or beyond, oldest first, at most `max`. An unknown session has none. */
  read(sessionId: string, fromSeq: number, max: number): Promise<readonly Entry<B>[]>;
  /**
   * Puts entries in the place of those that have their seqs: what is forgotten leaves the log this way, and nothing else
   * does. Spans and times stay, and no body may be longer, as JSON, than the one it replaces. All are replaced or, until
   * this resolves, any of them may be; what stood there before is gone when it has. The caller holds the session's lock.
   */
  rewrite(sessionId: string, entries: readonly Entry<B>[]): Promise<void>;
}

/** What a store itself needs to know of a log. */
export interface LogRow {
  readonly session_id: string;
  /** Seq of the log's last event. */
  readonly last_seq: number;
  readonly updated_at_ms: number;
  readonly labels?: Readonly<Record<string, string>>;
  readonly archived?: boolean;
  /** Calls of its open turn that wait for a person's word; absent in a row of before there were such. */
  readonly waiting_calls?: number;
}

/** What calls took on a day, in UTC, of one model and for one who asked. */
export interface Spent {
  readonly day: string;
  readonly model: string;
  /** Who asked, by name; absent for the user of the process. */
  readonly by?: string;
  readonly calls: number;
  readonly usage: Usage;
}

/** What is known of a session without reading its log: a fold of it that is never behind. */
export interface SessionRow extends LogRow {
  readonly created_at_ms: number;
  readonly message_count: number;
  /** Whether the transcript begins with a system message. */
  readonly has_system: boolean;
  readonly total_tokens: number;
  /** What `total_tokens` is made of; absent in a row of before it was kept. */
  readonly usage?: Usage;
  /** The same by day, model and who asked; bounded, and absent in a row of before it was kept. */
  readonly spent?: readonly Spent[];
  /** What it may use, and the calls of tools it has used of that; absent in a row of before it was kept. */
  readonly budget?: { readonly limits: SessionSettings["budget_limits"]; readonly tool_calls: number };
  /** What its sub-agents used besides, theirs included; absent where it had none. */
  readonly delegated?: Delegated;
  readonly model: string;
  readonly provider: string;
  /** The beginning of the first thing the user said. */
  readonly title: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Seq of the newest assistant entry that has text; 0 when there is none. */
  readonly text_seq: number;
  /** A turn was opened and not closed: it runs now, or a crash cut it off. */
  readonly has_open_turn: boolean;
  /** The last turn ended with an error that was no interrupt; absent otherwise, and in a row of before it was kept. */
  readonly has_failed?: true;
  readonly cadence: CompactionCadence;
  readonly archived: boolean;
  /** Whether something of it was forgotten; absent where nothing was. */
  readonly forgotten?: true;
  /** Whether everything of it was; absent otherwise. */
  readonly forgotten_whole?: true;
}

/** Advances a row by one entry; `undefined` starts a new one. */
export type FoldRow<B = EntryBody, R = SessionRow> = (row: R | undefined, sessionId: string, entry: Entry<B>) => R;

/** Which rows are asked for: those that all of this is true of. */
export interface RowQuery {
  readonly archived?: boolean;
  /** Rows with all of these. */
  readonly labels?: Readonly<Record<string, string>>;
  /** Only rows with calls that wait for a person's word. */
  readonly waiting?: true;
  readonly updatedSinceMs?: number;
  /** Only what comes after this row. */
  readonly after?: Pick<LogRow, "session_id" | "updated_at_ms">;
  readonly max: number;
}

export interface SessionStore<R = SessionRow> {
  get(sessionId: string): Promise<R | undefined>;
  /** The first rows of those asked for: last updated first, of equals the greater id first. */
  page(query: RowQuery): Promise<readonly R[]>;
}

/** The right to append to a session's log, held by one at a time, across processes. */
export interface Hold {
  /** Aborts when someone asks for an interrupt, from this process or another. */
  readonly interrupted: AbortSignal;
  release(): Promise<void>;
}

export interface SessionLocks {
  /** Rejects with SESSION_BUSY while another holds it; the hold of a process that died is taken over. */
  hold(sessionId: string): Promise<Hold>;
  isHeld(sessionId: string): Promise<boolean>;
  /** Asks the holder to stop; without one, nothing happens. */
  interrupt(sessionId: string): Promise<void>;
}

export interface Blob {
  readonly mediaType: string;
  readonly data: Uint8Array;
}

/** Content kept by reference: what is too large for a message. */
export interface BlobStore {
  /** Resolves with the blob's id once it is durable; the same content has the same id. */
  put(blob: Blob): Promise<string>;
  /** Undefined when there is no such blob. */
  get(blobId: string): Promise<Blob | undefined>;
  /** The ids that come after one, which need not be there, in the order of their signs; at most `max`. */
  ids(after: string, max: number): Promise<readonly string[]>;
  /** Takes a blob away; one that is not there is no matter. */
  remove(blobId: string): Promise<void>;
}

/**
 * Texts derived of logs, one a session, that save reading a log again. Any may be lost, old, torn or changed at any time:
 * a reader checks each, and uses the log where there is none.
 */
export interface CheckpointStore {
  /** One that was put for the session, or what has become of it; undefined when there is none. */
  get(sessionId: string): Promise<string | undefined>;
  /** In the place of the one before; it need not be durable. */
  put(sessionId: string, text: string): Promise<void>;
  /** Takes it away, where there is one. */
  remove(sessionId: string): Promise<void>;
}

export interface Store<B = EntryBody, R extends LogRow = SessionRow> {
  readonly log: EventLog<B>;
  readonly sessions: SessionStore<R>;
  readonly locks: SessionLocks;
  readonly blobs: BlobStore;
  readonly signals: Signals;
  /** A capability: absent where nothing is kept beside the logs. */
  readonly checkpoints?: CheckpointStore | undefined;
  /** A capability: absent where nothing can be forgotten with proof. */
  readonly forgettings?: Forgettings | undefined;
  /** Leaves nothing, in what is derived of these logs or in what is free, of what was rewritten or removed. */
  purge(sessionIds: readonly string[]): Promise<void>;
  /** A capability: absent where logs have no keys. Destroys that of a session of which nothing is left but where it was. */
  readonly shred?: ((sessionId: string) => Promise<void>) | undefined;
  close(): Promise<void>;
}
