import type { Token } from "../contract/caller.ts";
import type { CompactionCadence } from "../contract/compaction.ts";
import type { Entry, EntryBody, NewEntry } from "../contract/entry.ts";
import type { Usage } from "../contract/event.ts";
import type { Delegated, SessionSettings } from "../contract/session.ts";
import type { GoalPhase } from "../contract/wire/goal.ts";

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
  /** Messages that wait for the session to be free, and its goal while that is active; absent where there never were any. */
  readonly queued?: number;
}

/** Whether a process that is free may find something to do in a log. */
export function hasWork({ has_open_turn, queued = 0 }: Pick<LogRow, "has_open_turn" | "queued">): boolean {
  return has_open_turn === true || queued > 0;
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
  /** Of its newest goal; absent where there was none. */
  readonly goal_phase?: GoalPhase;
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
  /** Only rows with an open turn or messages that wait. */
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
  /** Whether its last holder ended without releasing it, or abandoned it. */
  readonly wasAbandoned?: boolean;
  release(): Promise<void>;
  /** Calls `listener` with each note that another process leaves; absent if the store cannot pass notes. */
  onNote?(listener: (note: string) => void): void;
  /** Releases it with its turn unfinished, as the end of this process would; absent if the store cannot say so. */
  abandon?(): Promise<void>;
}

export interface SessionLocks {
  /** Rejects with SESSION_BUSY while another process holds it; the lock of a dead process is taken over. */
  hold(sessionId: string): Promise<Hold>;
  isHeld(sessionId: string): Promise<boolean>;
  /** Whether the last process that held it ended without releasing it, or abandoned it. Absent: turns are not continued. */
  isAbandoned?(sessionId: string): Promise<boolean>;
  /** Asks the holder to stop; does nothing without one. */
  interrupt(sessionId: string): Promise<void>;
  /**
   * Leaves the holder a note of at most 100 characters, an id and never content. It may be lost or repeated, and nothing
   * happens without a holder. Absent: messages for a session that another process runs wait in their sender.
   */
  note?(sessionId: string, note: string): Promise<void>;
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

/**
 * Signals between processes that a session's log grew: ids and seqs, never content. The receiver reads the log. A
 * signal may be lost or repeated; growth is noticed within a second anyway.
 */
export interface Signals {
  /**
   * Signals to all subscribers of the session, in any process, that its log reaches `seq`. Never throws, never waits.
   */
  emit(sessionId: string, seq: number): void;
  /**
   * Calls `listener` when the log may have grown to `seq`; returns the function that unsubscribes. `listener` returns
   * at once.
   */
  subscribe(sessionId: string, listener: (seq: number) => void): () => void;
  close(): Promise<void>;
}

/** The stored configuration layer of a realm. */
export interface KeptLayer {
  /** The number of changes; 0 before the first. */
  readonly generation: number;
  readonly layer: Readonly<Record<string, unknown>>;
}

export interface LayerBefore {
  readonly generation: number;
  layer(): KeptLayer["layer"];
}

/** Stores the configuration layer of a realm. */
export interface ConfigStore {
  /** Its name in error sentences. */
  readonly name: string;
  /** The current layer; throws INVALID_PARAMS with the file if it is unreadable. */
  read(): KeptLayer;
  /** Whether the stored layer differs from the last one read or written here. Cheap: called before every turn. */
  hasChanged(): boolean;
  /**
   * Stores the result of `make`, one writer at a time across processes; resolves when it is durable. An error of `make`
   * rejects without a change. The old layer is read only on request, so that an unreadable one can be replaced.
   */
  change(make: (before: LayerBefore) => KeptLayer["layer"]): Promise<KeptLayer>;
}

/** Stores the tokens of a realm, without their secrets. */
export interface TokenStore {
  /** Whether tokens were ever made: from then on, requests need one. */
  isInUse(): boolean;
  /** The readable tokens by name; changes of another machine are seen within a second. */
  read(): readonly Token[];
  /** Changes whenever a token is made or revoked; undefined while unknown. */
  state(nowMs: number): string | undefined;
  /** Stores a token; false if its name is taken. */
  add(token: Token): Promise<boolean>;
  /** Deletes a token; false if there is none of the name. */
  remove(name: string): Promise<boolean>;
  close(): Promise<void>;
}

/**
 * Encrypts stored data with the realm's key. Each owner, a log's id or the name of shared data, has a key of its own,
 * so that destroying that key makes the owner's data unreadable for ever.
 */
export interface Seal {
  /** Whether plain data may date from before encryption; otherwise plain data is not accepted. */
  readonly hasPlain: boolean;
  /** Whether the owner has a key, so that its data can be read. */
  has(owner: string): boolean;
  /** Encrypted bytes that open only at the same `place`; the owner's key is durable before its first use. */
  seal(owner: string, plain: Uint8Array, place: Uint8Array): Uint8Array;
  /** Throws SESSION_STORE_ERROR, detected by `isUnreadable`, if the key is gone or the bytes were changed. */
  open(owner: string, sealed: Uint8Array, place: Uint8Array): Uint8Array;
  /** 32 bytes derived from the owner's key and a purpose, always the same: for masks of data at fixed places. */
  secret(owner: string, purpose: string): Uint8Array;
  /** Destroys the owner's key; does nothing without one. */
  destroy(owner: string): Promise<void>;
}

/** The owners of data that all sessions of a realm share. */
export const SHARED_OWNERS = {
  blobs: "blobs",
  index: "index",
  memory: "memory",
  forgotten: "forgotten",
  logins: "mcp-logins",
} as const;

/** Where a text was found: a file or a table row, without the text. */
export interface ScanMatch {
  readonly place: string;
  /** The index of the text; -1 if a place could not be read completely and may hold any. */
  readonly text: number;
  readonly form: string;
}

export interface Scan {
  readonly places: number;
  readonly bytes: number;
  readonly matches: readonly ScanMatch[];
  /** Matches that are not listed. */
  readonly more: number;
}

export interface SignedReceipt {
  /** The signed JSON, verbatim. */
  readonly receipt: string;
  readonly signature: string;
  readonly public_key: string;
}

/** A store's part in erasing: durable jobs, a scan of all data, and signed receipts. */
export interface Forgettings {
  /** Stores a job durably before anything is changed; replaces one with the same id. */
  begin(id: string, job: string): Promise<void>;
  /** Unfinished jobs, oldest first. */
  unfinished(): Promise<readonly { readonly id: string; readonly job: string }[]>;
  /** Deletes a job without a trace. */
  end(id: string): Promise<void>;
  /** Searches every byte of the realm for texts in any form, except open jobs. */
  scan(texts: readonly string[], onProgress?: (done: { places: number; bytes: number }) => void): Promise<Scan>;
  /** Signs a receipt with the realm's key and stores it. */
  keep(receipt: string): Promise<SignedReceipt>;
  /** Known back-ups of the realm, which still hold what is erased later. */
  backups?(): Promise<readonly { readonly place: string; readonly at_ms: number }[]>;
  /** Newest last. */
  receipts(): Promise<readonly SignedReceipt[]>;
}

/** The entries that are appended after a seq. */
export function numbered<B>(added: readonly NewEntry<B>[], after: number, timestamp_ms: number): readonly Entry<B>[] {
  let seq = after + 1;
  return added.map(({ span, body }) => {
    const entry = { seq, span, timestamp_ms, body };
    seq += span;
    return entry;
  });
}
