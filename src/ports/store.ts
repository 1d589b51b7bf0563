import type { Entry, NewEntry } from "../contract/entry.ts";

/** The append-only logs of sessions: the truth everything else is folded from. */
export interface EventLog {
  /**
   * Appends iff the log still ends at `after` (0 for a new log) and resolves with the numbered entries once they
   * are durable; otherwise rejects with SESSION_BUSY and writes nothing.
   */
  append(sessionId: string, after: number, entries: readonly NewEntry[]): Promise<readonly Entry[]>;
  /** Entries whose seqs reach `fromSeq` or beyond, oldest first, at most `max`. An unknown session has none. */
  read(sessionId: string, fromSeq: number, max: number): Promise<readonly Entry[]>;
  /** Ids of the logs that exist, newest first. */
  list(): Promise<readonly string[]>;
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
}

export interface Store {
  readonly log: EventLog;
  readonly blobs: BlobStore;
  close(): Promise<void>;
}
