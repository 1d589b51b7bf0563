import type { CompactionCadence } from "../contract/compaction.ts";
import type { Entry, EntryBody, NewEntry } from "../contract/entry.ts";
import type { Usage } from "../contract/event.ts";
import type { Delegated, SessionSettings } from "../contract/session.ts";
import type { Forgettings } from "./forgettings.ts";
import type { Signals } from "./signals.ts";

/** The append-only logs of sessions and agents: the source of truth. */
export interface EventLog<B = EntryBody> {
  /**
   * Appends iff the log still ends at `after` (0 for a new log); resolves with the numbered entries once they are
   * durable. Otherwise rejects with SESSION_BUSY and writes nothing. Atomic. `atMs` keeps the time of copied entries;
   * by default it is now.
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
   * Replaces the entries that have these seqs; only erasing uses it. Spans and times stay, and no body may be longer,
   * as JSON, than the one it replaces. Until this resolves any of them may be replaced; afterwards all are, and the old
   * content is gone. The caller holds the session.
   */
  rewrite(sessionId: string, entries: readonly Entry<B>[]): Promise<void>;
}

/** The fields of a row that stores need. */
export interface LogRow {
  readonly session_id: string;
  /** Seq of the log's last event. */
  readonly last_seq: number;
  readonly updated_at_ms: number;
  readonly labels?: Readonly<Record<string, string>>;
  readonly archived?: boolean;
  /** Calls of its open turn that wait for approval; absent in older rows. */
  readonly waiting_calls?: number;
  /** A turn has not ended: it runs, or its process ended. Absent for an agent's log. */
  readonly has_open_turn?: boolean;
}

/** The usage of one UTC day, model and caller. */
export interface Spent {
  readonly day: string;
  readonly model: string;
  /** The caller's name; absent for the user of the process. */
  readonly by?: string;
  readonly calls: number;
  readonly usage: Usage;
}

/** The facts of a session without its log: a fold that is never behind. */
export interface SessionRow extends LogRow {
  readonly created_at_ms: number;
  readonly message_count: number;
  /** Whether the transcript begins with a system message. */
  readonly has_system: boolean;
  readonly total_tokens: number;
  /** The parts of `total_tokens`; absent in older rows. */
  readonly usage?: Usage;
  /** Likewise by day, model and caller; bounded, and absent in older rows. */
  readonly spent?: readonly Spent[];
  /** Its limits and its tool calls; absent in older rows. */
  readonly budget?: { readonly limits: SessionSettings["budget_limits"]; readonly tool_calls: number };
  /** The usage of its sub-agents, including theirs; absent if it had none. */
  readonly delegated?: Delegated;
  readonly model: string;
  readonly provider: string;
  /** The beginning of the first user message. */
  readonly title: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Seq of the newest assistant entry with text; 0 if there is none. */
  readonly text_seq: number;
  readonly has_open_turn: boolean;
  /** The last turn ended with an error that was no interrupt; absent otherwise, and in older rows. */
  readonly has_failed?: true;
  readonly cadence: CompactionCadence;
  readonly archived: boolean;
  /** Whether part of it was erased; absent otherwise. */
  readonly forgotten?: true;
  /** Whether all of it was erased; absent otherwise. */
  readonly forgotten_whole?: true;
}

/** Advances a row by one entry; `undefined` starts a new one. */
export type FoldRow<B = EntryBody, R = SessionRow> = (row: R | undefined, sessionId: string, entry: Entry<B>) => R;

/** A query for rows that match all of these fields. */
export interface RowQuery {
  readonly archived?: boolean;
  /** Rows with all of these labels. */
  readonly labels?: Readonly<Record<string, string>>;
  /** Only rows with calls that wait for approval. */
  readonly waiting?: true;
  /** Only rows with an open turn. */
  readonly open?: true;
  readonly updatedSinceMs?: number;
  /** Only rows after this one. */
  readonly after?: Pick<LogRow, "session_id" | "updated_at_ms">;
  readonly max: number;
}

export interface SessionStore<R = SessionRow> {
  get(sessionId: string): Promise<R | undefined>;
  /** The first matching rows: last updated first, of equals the greater id first. */
  page(query: RowQuery): Promise<readonly R[]>;
}

/** The exclusive right to append to a session's log, across processes. */
export interface Hold {
  /** Aborts when any process requests an interrupt. */
  readonly interrupted: AbortSignal;
  release(): Promise<void>;
}

export interface SessionLocks {
  /** Rejects with SESSION_BUSY while another process holds it; the lock of a dead process is taken over. */
  hold(sessionId: string): Promise<Hold>;
  isHeld(sessionId: string): Promise<boolean>;
  /** Asks the holder to stop; does nothing without one. */
  interrupt(sessionId: string): Promise<void>;
}

export interface Blob {
  readonly mediaType: string;
  readonly data: Uint8Array;
}

/** Content stored by reference because it is too large for a message. */
export interface BlobStore {
  /** Resolves with the blob's id once it is durable; the same content has the same id. */
  put(blob: Blob): Promise<string>;
  /** Undefined if there is no such blob. */
  get(blobId: string): Promise<Blob | undefined>;
  /** Ids after a given one, which need not exist, in ascending order; at most `max`. */
  ids(after: string, max: number): Promise<readonly string[]>;
  /** Deletes a blob; a missing one is no error. */
  remove(blobId: string): Promise<void>;
}

/**
 * Texts derived from logs, one per session, that save reading the log. Any may be lost, outdated or damaged: the reader
 * checks it and falls back to the log.
 */
export interface CheckpointStore {
  /** The checkpoint of a session, possibly damaged; undefined if there is none. */
  get(sessionId: string): Promise<string | undefined>;
  /** Replaces the previous one; it need not be durable. */
  put(sessionId: string, text: string): Promise<void>;
  remove(sessionId: string): Promise<void>;
}

export interface Store<B = EntryBody, R extends LogRow = SessionRow> {
  readonly log: EventLog<B>;
  readonly sessions: SessionStore<R>;
  readonly locks: SessionLocks;
  readonly blobs: BlobStore;
  readonly signals: Signals;
  /** A capability: absent without checkpoints. */
  readonly checkpoints?: CheckpointStore | undefined;
  /** A capability: absent if the store cannot erase with proof. */
  readonly forgettings?: Forgettings | undefined;
  /** Leaves no trace of rewritten or removed content in derived data or free space. */
  purge(sessionIds: readonly string[]): Promise<void>;
  /** A capability: absent without encryption. Destroys the key of a completely erased session. */
  readonly shred?: ((sessionId: string) => Promise<void>) | undefined;
  close(): Promise<void>;
}

/** What a check of everything a realm keeps in a database found. */
export interface DatabaseVerification {
  readonly records: number;
  readonly sessions: number;
  readonly agents: number;
  readonly blobs: number;
  readonly bytes: number;
  readonly problems: readonly string[];
}
