/** The origin of a chunk of text. */
export interface ChunkSource {
  readonly session_id: string;
  /** The turn, counted from 1. */
  readonly turn: number;
  /** Seq of the message's entry. */
  readonly seq: number;
  /** The part of a long message, counted from 0. */
  readonly part: number;
  readonly role: "user" | "assistant" | "tool" | "notice";
  /** `text`, `tool_call`, `tool_result`, `notice`, `summary`. */
  readonly kind: string;
  readonly created_at_ms: number;
}

export interface NewChunk extends ChunkSource {
  readonly text: string;
  /** Its search terms with their counts. The policy above makes them; the store only keeps them. */
  readonly terms: ReadonlyMap<string, number>;
  /** Found by words: it gets a vector only after it was found. */
  readonly byWordsAlone?: boolean;
}

export interface Chunk extends ChunkSource {
  /** Assigned by the store, ascending, never reused. Ids within a session follow the order of its text. */
  readonly id: number;
  readonly text: string;
  /** Ids of the chunks before and after it in its session; 0 for none. */
  readonly before: number;
  readonly after: number;
}

/** One step of indexing a session's log. */
export interface MemoryBatch {
  readonly session_id: string;
  /** The seq up to which this batch indexes the log; nothing is done if the stored one is not lower. */
  readonly cursor: number;
  /** Chunks at or before the stored cursor are ignored: two processes may index one log at once. */
  readonly chunks: readonly NewChunk[];
  /** All seq ranges that have left the session's context, for `discarded` scopes. */
  readonly discarded: readonly { readonly from_seq: number; readonly to_seq: number }[];
}

/** When all logs were last checked, and since when changed ones need a check. */
export interface LogMark {
  readonly wholeAtMs: number;
  readonly sinceMs: number;
}

/** The scope of a search. */
export interface Scope {
  /** Only this session; by default all. */
  readonly sessionId?: string;
  /** Only these sessions, which may include `sessionId`; by default all. */
  readonly among?: ReadonlySet<string>;
  /** Only content that has left its session's context. */
  readonly discardedOnly: boolean;
  /** Only up to this seq of `sessionId`; ignored without it. */
  readonly upToSeq?: number;
}

/** A search by terms. */
export interface TermQuery {
  /** Terms with their weights, above 0. */
  readonly weights: ReadonlyMap<string, number>;
  /** The maximum of results; of equal scores, the newest. */
  readonly max: number;
  readonly equalsMax: number;
}

/** A chunk with its score; lists are ordered by score, the newer of equals first. */
export interface Ranked {
  readonly id: number;
  readonly value: number;
}

/** The matches of a scope, never all: a common term has a million. */
export interface LexicalMatches {
  /** The best by BM25 with the parameters of `text/bm25`. */
  readonly best: readonly Ranked[];
  /** Chunks in the scope. */
  readonly chunks: number;
  /** How many of them contain each term. */
  readonly holders: ReadonlyMap<string, number>;
  /** Whether a chunk of the scope contains a term of the query; if absent, its text is read. */
  readonly holds?: (id: number, term: string) => boolean;
}

export interface Neighbour {
  readonly id: number;
  /** Cosine, −1 to 1. */
  readonly similarity: number;
  /**
   * The cosine relative to the mean of the scope's vectors, or of a fixed sample. Absent if there are too few, or the
   * store cannot compute it.
   */
  readonly fromMean?: number;
}

interface MemoryStatus {
  readonly entries: number;
  /** Chunks that still need a vector of this embedder. */
  readonly pending: number;
  /** Chunks without a vector that are found by words only; absent if there are none. */
  readonly byWordsAlone?: number;
  readonly bytes: number;
  readonly index: "exact" | "hnsw";
}

/**
 * Searchable text derived from logs; all of it can be rebuilt. Concurrent reads and writes are safe. Dropped chunks do
 * not return, and their ids are not reused.
 */
export interface MemoryStore {
  /** The seq up to which a session's log is indexed; 0 for none, the largest seq for a dropped session. */
  cursor(sessionId: string): Promise<number>;
  /** Likewise for many sessions, in order; if absent, `cursor` is called for each. */
  cursors?(sessionIds: readonly string[]): Promise<readonly number[]>;
  /** The time up to which all logs of a kind are indexed, lost with any of them; absent if not stored. */
  readonly marks?: {
    read(kind: string): Promise<LogMark | undefined>;
    write(kind: string, mark: LogMark): Promise<void>;
  };
  /** Ids of logs that are not completely indexed, if the store knows them by itself. */
  behind?(): Promise<readonly string[]>;
  /** Indexes a batch atomically; its terms can be found when this resolves. */
  add(batch: MemoryBatch): Promise<void>;
  /** Chunks by id, in order; missing ones, or those outside of the scope, are left out. */
  read(ids: readonly number[], scope?: Scope): Promise<readonly Chunk[]>;
  /** The chunks of a scope with any of the terms, ranked by the store. */
  match(query: TermQuery, scope: Scope): Promise<LexicalMatches>;
  /** The chunks of a scope with the nearest vectors of this embedder, best first. */
  nearest(
    embedderId: string,
    vector: Float32Array,
    options: { scope: Scope; max: number },
  ): Promise<readonly Neighbour[]>;
  readonly vectors: EmbedderVectors;
  /** Removes a session and everything derived from it; a later `add` for it does nothing. */
  drop(sessionId: string): Promise<void>;
  /** Removes a session's chunks; it is indexed again from its beginning. */
  reset(sessionId: string): Promise<void>;
  /** Leaves no trace of removed content in terms, vectors or free pages. */
  purge(): Promise<void>;
  status(embedderId: string): Promise<MemoryStatus>;
  close(): Promise<void>;
}

/** Which chunks without a vector are requested; by default all that need one. */
export interface Wanted {
  readonly scope?: Scope;
  /** Sessions in use: of these only content that has left the context. */
  readonly inUse?: ReadonlySet<string>;
  /** Only these. */
  readonly ids?: readonly number[];
  /** Also chunks found by words only. */
  readonly byWords?: boolean;
}

/** A vector of a chunk, and what it was made of. */
export interface NewVector {
  readonly id: number;
  readonly vector: Float32Array;
  /** The text it was made of; absent: the vector cannot be reused for the same text. */
  readonly passage?: string;
}

/** The vectors of a store, filled in behind the text. */
interface EmbedderVectors {
  /** Chunks without a vector of this embedder that are to have one, oldest first, ids that were named in their order. */
  missing(embedderId: string, max: number, wanted?: Wanted): Promise<readonly Chunk[]>;
  /** Vectors of texts that were put before, as far as the store knows: of the newest it does. Absent: of none. */
  known?(embedderId: string, passages: readonly string[]): Promise<ReadonlyMap<string, Float32Array>>;
  /**
   * Keeps vectors, all of one length an embedder. A chunk that has one keeps it; one that is gone is passed over. After
   * a crash the last of them may be missing again.
   */
  put(embedderId: string, vectors: readonly NewVector[]): Promise<void>;
}

/** Turns texts into vectors whose angle measures similarity. */
export interface Embedder {
  /** Identifies its vectors; those of another id are not comparable. */
  readonly id: string;
  readonly dimensions: number;
  /** The mean vector of unrelated texts; if absent, it is computed from a dozen. */
  readonly unrelated?: Float32Array;
  /** Vectors of length 1, one per text, in order. Some models treat questions differently. */
  embed(texts: readonly string[], kind: "passage" | "query", signal: AbortSignal): Promise<readonly Float32Array[]>;
  /** How much of a text's meaning its vectors hold, 0 to 1; if absent, all of it in every language. */
  grasp?(text: string): Promise<number>;
  close(): Promise<void>;
}
