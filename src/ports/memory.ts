/** Where a chunk of text comes from. */
export interface ChunkSource {
  readonly session_id: string;
  /** The turn it was said in, counted from 1. */
  readonly turn: number;
  /** Seq of the entry that holds the message. */
  readonly seq: number;
  /** Which part of a long message it is, counted from 0. */
  readonly part: number;
  readonly role: "user" | "assistant" | "tool" | "notice";
  /** `text`, `tool_call`, `tool_result`, `notice`, `summary`. */
  readonly kind: string;
  readonly created_at_ms: number;
}

export interface NewChunk extends ChunkSource {
  readonly text: string;
  /** What it is found by: terms with how often each occurs. Made by the policy above, the store only keeps them. */
  readonly terms: ReadonlyMap<string, number>;
  /** Found by its words: it is given a vector only when it was found. */
  readonly byWordsAlone?: boolean;
}

export interface Chunk extends ChunkSource {
  /** Given by the store, ascending, never used twice. Chunks of one session have ascending ids in the order of their text. */
  readonly id: number;
  readonly text: string;
  /** Ids of what its session said just before and just after it; 0 where there is nothing. */
  readonly before: number;
  readonly after: number;
}

/** One step of taking in a session's log. */
export interface MemoryBatch {
  readonly session_id: string;
  /** Seq up to which the log is taken in with this batch; at most the stored one: nothing is done. */
  readonly cursor: number;
  /** Of those at or before the stored cursor nothing is kept: two processes may take in one log at once. */
  readonly chunks: readonly NewChunk[];
  /** All seq ranges of the session that have left its context by now: what `discarded` scopes find. */
  readonly discarded: readonly { readonly from_seq: number; readonly to_seq: number }[];
}

/** When all logs were looked at, and since when those that change are to be. */
export interface LogMark {
  readonly wholeAtMs: number;
  readonly sinceMs: number;
}

/** What a search may look at. */
export interface Scope {
  /** Only this session; absent: every session of the store. */
  readonly sessionId?: string;
  /** Only these sessions, of which `sessionId` may be one; absent: every session of the store. */
  readonly among?: ReadonlySet<string>;
  /** Only what has left its session's context. */
  readonly discardedOnly: boolean;
  /** Only what was said up to this seq of `sessionId`; without one, it says nothing. */
  readonly upToSeq?: number;
}

/** What a search by terms asks for. */
export interface TermQuery {
  /** Terms with what each weighs, above 0. */
  readonly weights: ReadonlyMap<string, number>;
  /** So many at most come back, and of those worth exactly the same so many, the newest. */
  readonly max: number;
  readonly equalsMax: number;
}

/** A chunk with how well it answers; a list of them is ordered, best first, the newer of equals first. */
export interface Ranked {
  readonly id: number;
  readonly value: number;
}

/** What a scope holds of the terms asked for; never all that hold one, since a common term has a million of them. */
export interface LexicalMatches {
  /** The best by BM25 with the numbers of `text/bm25`. */
  readonly best: readonly Ranked[];
  /** Chunks in the scope. */
  readonly chunks: number;
  /** How many of them hold a term, by the terms asked for. */
  readonly holders: ReadonlyMap<string, number>;
}

export interface Neighbour {
  readonly id: number;
  /** Cosine, −1 to 1. */
  readonly similarity: number;
  /**
   * The cosine as seen from the middle of the scope's vectors, or of a sample of them that is the same each time. Absent
   * where they are too few to have one, or where the store cannot tell.
   */
  readonly fromMean?: number;
}

interface MemoryStatus {
  readonly entries: number;
  /** Chunks that are to have a vector of this embedder and have none. */
  readonly pending: number;
  /** Chunks that have none and are found by their words alone; absent: there are no such. */
  readonly byWordsAlone?: number;
  readonly bytes: number;
  readonly index: "exact" | "hnsw";
}

/**
 * Searchable text derived from logs; all of it can be lost and made again. Reading and writing at once is safe. What
 * was dropped does not come back, and its ids are not used again.
 */
export interface MemoryStore {
  /** How far a session's log is taken in; 0 when not at all. Of a dropped one nothing is left to take in: the largest seq. */
  cursor(sessionId: string): Promise<number>;
  /** The same of many, in the order asked for; absent: each is asked for by itself. */
  cursors?(sessionIds: readonly string[]): Promise<readonly number[]>;
  /** Up to when all logs of a kind are taken in, lost with any of them; absent: it is not kept. */
  readonly marks?: {
    read(kind: string): Promise<LogMark | undefined>;
    write(kind: string, mark: LogMark): Promise<void>;
  };
  /** Ids of logs that reach beyond what is taken in, where the store can tell without being told the rows. */
  behind?(): Promise<readonly string[]>;
  /** Takes in a batch whole or not at all; it is findable, by its terms, when this resolves. */
  add(batch: MemoryBatch): Promise<void>;
  /** Chunks by id, in the order asked for; those that are not there, or not in the scope, are left out. */
  read(ids: readonly number[], scope?: Scope): Promise<readonly Chunk[]>;
  /** The chunks of a scope that hold any of the terms, ranked in the store. */
  match(query: TermQuery, scope: Scope): Promise<LexicalMatches>;
  /** The chunks of a scope whose vectors of this embedder are nearest, best first. */
  nearest(
    embedderId: string,
    vector: Float32Array,
    options: { scope: Scope; max: number },
  ): Promise<readonly Neighbour[]>;
  readonly vectors: EmbedderVectors;
  /** Removes a session with everything derived from it; a late `add` for it is refused by doing nothing. */
  drop(sessionId: string): Promise<void>;
  /** Removes what was taken in of a session, which is to be taken in again from its beginning. */
  reset(sessionId: string): Promise<void>;
  /** Leaves nothing, in terms, vectors or free pages, of what was removed. */
  purge(): Promise<void>;
  status(embedderId: string): Promise<MemoryStatus>;
  close(): Promise<void>;
}

/** Which of the chunks without a vector are asked for; where nothing is said, all that are to have one. */
export interface Wanted {
  readonly scope?: Scope;
  /** Sessions whose contexts are in use: of these only what has left the context. */
  readonly inUse?: ReadonlySet<string>;
  /** These alone. */
  readonly ids?: readonly number[];
  /** Also what is found by its words alone. */
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
