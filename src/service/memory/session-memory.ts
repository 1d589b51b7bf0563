import { messageOf } from "../../contract/error.ts";
import type { MemoryStatusReport } from "../../contract/memory.ts";
import { rangesOf } from "../../core/compaction/plan/plan.ts";
import { foldSession, type SessionState } from "../../core/session/session-state.ts";
import { chunksOf } from "../../memory/chunk.ts";
import { createRecall, type Recall } from "../../memory/recall.ts";
import type { Clock } from "../../ports/clock.ts";
import type { MemoryStore } from "../../ports/memory.ts";
import type { Store } from "../../ports/store.ts";
import { createEmbedding, type OpenEmbedder } from "./embedding.ts";

/** The memory of a project: its sessions' texts, findable. */
export interface SessionMemory {
  /** By words and meaning. */
  readonly recall: Recall;
  /** By words alone: what a compaction proves its receipt with. */
  readonly recallByWords: Recall;
  /** Takes in what a session has said since; resolves when it can be found by its words. */
  index(state: SessionState): Promise<void>;
  /** The same, behind whatever is going on. */
  indexLater(state: SessionState): void;
  /** Takes in what other processes, or one that ended early, left behind. */
  catchUp(): Promise<void>;
  status(): Promise<MemoryStatusReport>;
  close(): Promise<void>;
}

interface MemoryParts {
  readonly memory: MemoryStore;
  readonly store: Store;
  /** Undefined: by words alone. */
  readonly openEmbedder: OpenEmbedder | undefined;
  readonly clock: Clock;
}

/** Turns that follow each other quickly are taken in together: each time costs a commit. */
const INDEX_AFTER_MS = 250;
const ENTRIES_MAX = Number.MAX_SAFE_INTEGER;
const NO_EMBEDDER = "none";

/** How long a search waits for vectors that are still to be made; the rest of the chunks it finds by their words. */
const DRAIN_MS = 3_000;

export function createSessionMemory({ memory, store, openEmbedder, clock }: MemoryParts): SessionMemory {
  const { now } = clock;
  const embedding = openEmbedder === undefined ? undefined : createEmbedding(memory, openEmbedder, clock);
  const recallByWords = createRecall({ store: memory, embedder: undefined, now });
  let recallByMeaning: Recall | undefined;
  /** Sessions of this process that have said something since they were taken in. */
  const behindHere = new Map<string, SessionState>();
  const stop = new AbortController();
  let waiting: Promise<void> | undefined;
  let flushing: Promise<void> = Promise.resolve();
  let problem: string | undefined;

  const index = async (state: SessionState): Promise<void> => {
    const taken = await memory.cursor(state.sessionId);
    // A text that waits for tool results is placed behind them: the cursor must not pass it.
    const cursor = Math.min(state.lastSeq, ...state.heldNotices.map(({ seq }) => seq - 1));
    if (cursor <= taken) return;
    const batch = {
      session_id: state.sessionId,
      cursor,
      chunks: chunksSince(state, taken, cursor),
      discarded: hiddenIn(state),
    };
    await memory.add(batch);
    problem = undefined;
    if (batch.chunks.length > 0) embedding?.wake();
  };
  const flush = (): Promise<void> => {
    flushing = flushing.then(async () => {
      for (const [sessionId, state] of behindHere) {
        behindHere.delete(sessionId);
        try {
          await index(state);
        } catch (thrown) {
          // The log has it: the next search takes it in. The status tells.
          problem = messageOf(thrown);
        }
      }
    });
    return flushing;
  };
  const behind = async (): Promise<readonly string[]> => {
    const rows = await store.sessions.all();
    const cursors = await Promise.all(rows.map(({ session_id }) => memory.cursor(session_id)));
    return rows.filter(({ last_seq }, at) => last_seq > (cursors[at] ?? 0)).map(({ session_id }) => session_id);
  };
  return {
    recall: async (query, options) => {
      await flush();
      const embedder = await embedding?.embedder();
      if (embedder === undefined) return recallByWords(query, options);
      recallByMeaning ??= createRecall({ store: memory, embedder, now });
      return recallByMeaning(query, options);
    },
    recallByWords,
    index,
    indexLater: (state) => {
      if (stop.signal.aborted) return;
      behindHere.set(state.sessionId, state);
      waiting ??= clock.sleep(INDEX_AFTER_MS, stop.signal).then(async () => {
        waiting = undefined;
        await flush();
      });
    },
    catchUp: async () => {
      await flush();
      try {
        for (const sessionId of await behind()) {
          if (stop.signal.aborted) return;
          await index(foldSession(sessionId, await store.log.read(sessionId, 1, ENTRIES_MAX)));
        }
      } catch (thrown) {
        // What is taken in still answers.
        problem = messageOf(thrown);
      }
      await embedding?.drain(DRAIN_MS);
    },
    status: async () => {
      const embedder = await embedding?.embedder();
      const { entries, pending, bytes, index: kind } = await memory.status(embedder?.id ?? NO_EMBEDDER);
      const why = embedding?.problem() ?? problem;
      return {
        entries,
        pending: embedder === undefined ? 0 : pending,
        sessions_behind: (await behind()).length,
        embedder: embedder?.id ?? NO_EMBEDDER,
        index: kind,
        bytes,
        mode: embedder === undefined || pending === entries ? "lexical" : "hybrid",
        ...(why === undefined ? {} : { problem: why }),
      };
    },
    close: async () => {
      stop.abort();
      await waiting;
      await flush();
      await embedding?.close();
      await memory.close();
    },
  };
}

function chunksSince({ transcript, sessionId: session_id }: SessionState, after: number, upTo: number) {
  let turn = 0;
  return transcript.flatMap(({ seq, message }) => {
    if (message.role === "user") turn += 1;
    if (seq <= after || seq > upTo || message.role === "system") return [];
    return [...chunksOf(message, { session_id, turn, seq, created_at_ms: Date.parse(message.created_at) })];
  });
}

/** What has left the context. */
function hiddenIn({ transcript, shown }: SessionState) {
  const seqs = new Set(shown.map(({ seq }) => seq));
  return rangesOf(
    transcript.filter(({ seq }) => !seqs.has(seq)),
    transcript,
  );
}
