import type { Chunk, MemoryBatch, MemoryStore, NewChunk, Scope } from "../ports/memory.ts";
import { type Matched, meanOf, type Postings, rankPostings, similarityFromMean } from "./recall-rank-postings.ts";

interface SessionChunks {
  readonly cursor: number;
  readonly discarded: MemoryBatch["discarded"];
  /** Of its chunks, ascending. */
  readonly ids: number[];
}

interface Row {
  readonly chunk: Omit<Chunk, "before" | "after">;
  /** Its index among the chunks of its session. */
  readonly place: number;
  readonly terms: ReadonlyMap<string, number>;
  readonly byWordsAlone: boolean;
  /** The number of its terms, with repetitions. */
  readonly length: number;
}

/** A memory store that lives as long as the process: every search reads every chunk. */
export function createMemoryStoreInMemory(): MemoryStore {
  const sessions = new Map<string, SessionChunks>();
  const dropped = new Set<string>();
  const rows = new Map<number, Row>();
  const vectorsOfEmbedders = new Map<string, Map<number, Float32Array>>();
  const idsByPassage = new Map<string, number>();
  let lastId = 0;

  const vectorsOf = (embedderId: string): Map<number, Float32Array> => {
    const vectors = vectorsOfEmbedders.get(embedderId) ?? new Map<number, Float32Array>();
    vectorsOfEmbedders.set(embedderId, vectors);
    return vectors;
  };
  const read = (id: number): readonly Chunk[] => {
    const row = rows.get(id);
    if (row === undefined) return [];
    const ids = sessions.get(row.chunk.session_id)?.ids ?? [];
    return [{ ...row.chunk, before: ids[row.place - 1] ?? 0, after: ids[row.place + 1] ?? 0 }];
  };
  const inScope = (scope: Scope): Row[] =>
    [...rows.values()].filter(({ chunk }) => isInScope(chunk, scope, sessions.get(chunk.session_id)));
  const letGo = (sessionId: string): void => {
    sessions.delete(sessionId);
    for (const { chunk } of [...rows.values()].filter((row) => row.chunk.session_id === sessionId)) {
      rows.delete(chunk.id);
      for (const vectors of vectorsOfEmbedders.values()) vectors.delete(chunk.id);
    }
  };
  const isIn = (id: number, scope: Scope): boolean => {
    const row = rows.get(id);
    return row !== undefined && isInScope(row.chunk, scope, sessions.get(row.chunk.session_id));
  };

  return {
    cursor: async (sessionId) =>
      dropped.has(sessionId) ? Number.MAX_SAFE_INTEGER : (sessions.get(sessionId)?.cursor ?? 0),
    add: async ({ session_id, cursor, chunks, discarded }) => {
      const session = sessions.get(session_id);
      const taken = session?.cursor ?? 0;
      const ids: number[] = session?.ids ?? [];
      if (dropped.has(session_id) || cursor <= taken) return;
      // Built before the first is stored, so that an unreadable batch changes nothing.
      const added = chunks
        .filter(({ seq }) => seq > taken)
        .map((chunk, index) => toRow(chunk, { session_id, id: lastId + 1 + index, place: ids.length + index }));
      for (const row of added) {
        rows.set(row.chunk.id, row);
        ids.push(row.chunk.id);
      }
      lastId += added.length;
      sessions.set(session_id, { cursor, discarded, ids });
    },
    read: async (ids, scope) => ids.filter((id) => scope === undefined || isIn(id, scope)).flatMap(read),
    match: async (query, scope) => rankPostings(matchRows(inScope(scope), query.weights.keys()), query),
    nearest: async (embedderId, vector, { scope, max }) => {
      const vectors = vectorsOf(embedderId);
      const there = inScope(scope).flatMap(({ chunk: { id } }) => {
        const other = vectors.get(id);
        return other === undefined ? [] : [{ id, other, similarity: cosine(vector, other) }];
      });
      const mean = meanOf(there.map(({ other }) => other));
      const seen = mean && similarityFromMean(vector, mean);
      return there
        .sort((a, b) => b.similarity - a.similarity || a.id - b.id)
        .slice(0, max)
        .map(({ id, similarity, other }) => ({ id, similarity, ...(seen && { fromMean: seen(other) }) }));
    },
    vectors: {
      missing: async (embedderId, max, { scope, inUse, ids, byWords } = {}) => {
        const vectors = vectorsOf(embedderId);
        const asked = ids === undefined ? [...rows.values()] : ids.flatMap((id) => rows.get(id) ?? []);
        const isWanted = ({ chunk, byWordsAlone }: Row): boolean => {
          const session = sessions.get(chunk.session_id);
          if (vectors.has(chunk.id) || (byWordsAlone && !byWords)) return false;
          if (scope !== undefined && !isInScope(chunk, scope, session)) return false;
          return !inUse?.has(chunk.session_id) || isInScope(chunk, { discardedOnly: true }, session);
        };
        const wanted = asked.filter(isWanted).slice(0, max);
        return wanted.flatMap(({ chunk }) => read(chunk.id));
      },
      known: async (embedderId, passages) => {
        const vectors = vectorsOf(embedderId);
        const found = passages.flatMap((passage) => {
          const vector = vectors.get(idsByPassage.get(keyOfPassage(embedderId, passage)) ?? 0);
          return vector === undefined ? [] : [[passage, vector] as const];
        });
        return new Map(found);
      },
      put: async (embedderId, added) => {
        const vectors = vectorsOf(embedderId);
        for (const { id, vector, passage } of added) {
          if (!rows.has(id) || vectors.has(id)) continue;
          vectors.set(id, vector.slice());
          if (passage !== undefined) idsByPassage.set(keyOfPassage(embedderId, passage), id);
        }
      },
    },
    drop: async (sessionId) => {
      dropped.add(sessionId);
      letGo(sessionId);
    },
    reset: async (sessionId) => letGo(sessionId),
    purge: async () => {
      for (const [passage, id] of idsByPassage) if (!rows.has(id)) idsByPassage.delete(passage);
    },
    status: async (embedderId) => {
      const there = vectorsOf(embedderId);
      const vectors = [...there.values()];
      const lacking = [...rows.values()].filter(({ chunk }) => !there.has(chunk.id));
      const byWordsAlone = lacking.filter((row) => row.byWordsAlone).length;
      return {
        entries: rows.size,
        pending: lacking.length - byWordsAlone,
        byWordsAlone,
        bytes:
          [...rows.values()].reduce((sum, { chunk }) => sum + chunk.text.length, 0) +
          vectors.reduce((sum, vector) => sum + vector.byteLength, 0),
        index: "exact",
      };
    },
    close: async () => {},
  };
}

function keyOfPassage(embedderId: string, passage: string): string {
  return `${embedderId} ${passage}`;
}

function toRow(
  { terms, byWordsAlone = false, ...source }: NewChunk,
  { place, ...given }: { readonly session_id: string; readonly id: number; readonly place: number },
): Row {
  const length = [...terms.values()].reduce((sum, count) => sum + count, 0);
  return { chunk: { ...source, ...given }, place, terms: new Map(terms), byWordsAlone, length };
}

function isInScope({ session_id, seq }: Row["chunk"], scope: Scope, session: SessionChunks | undefined): boolean {
  if (scope.among?.has(session_id) === false) return false;
  if (scope.sessionId !== undefined) {
    if (session_id !== scope.sessionId) return false;
    if (scope.upToSeq !== undefined && seq > scope.upToSeq) return false;
  }
  return (
    !scope.discardedOnly || (session?.discarded ?? []).some(({ from_seq, to_seq }) => from_seq <= seq && seq <= to_seq)
  );
}

function matchRows(rows: readonly Row[], terms: Iterable<string>): Matched {
  const lengths = new Uint32Array((rows.at(-1)?.chunk.id ?? 0) + 1);
  for (const { chunk, length } of rows) lengths[chunk.id] = length;
  return {
    postings: Array.from(terms, (term) => postingsOf(rows, term)),
    chunks: rows.length,
    termsTotal: rows.reduce((sum, { length }) => sum + length, 0),
    lengths,
  };
}

function postingsOf(rows: readonly Row[], term: string): Postings {
  const holders = rows.filter((row) => row.terms.has(term));
  return {
    term,
    ids: Uint32Array.from(holders, ({ chunk }) => chunk.id),
    counts: Uint32Array.from(holders, (row) => row.terms.get(term) ?? 0),
  };
}

function cosine(a: Float32Array, b: Float32Array): number {
  let dot = 0;
  let squaresA = 0;
  let squaresB = 0;
  for (const [index, x] of a.entries()) {
    const y = b[index] ?? 0;
    dot += x * y;
    squaresA += x * x;
    squaresB += y * y;
  }
  const lengths = Math.sqrt(squaresA * squaresB);
  return lengths === 0 ? 0 : dot / lengths;
}
