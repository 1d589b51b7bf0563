import { readSections } from "../compaction/shown-messages.ts";
import { FORGOTTEN } from "../contract/compaction.ts";
import { hasCode, messageOf } from "../contract/error.ts";
import type { MemoryStatusReport } from "../contract/memory.ts";
import type { Clock } from "../ports/clock.ts";
import type { MemoryBatch, MemoryStore, NewChunk, Scope } from "../ports/memory.ts";
import type { Store } from "../ports/store.ts";
import { chunksOf, recallsIn } from "../recall/chunk.ts";
import { createRecall, inTime, type Recall } from "../recall/recall.ts";
import type { CompactionRecord, Placed } from "../state/context.ts";
import { everSaid } from "../state/rewrites.ts";
import type { SessionState } from "../state/session-state.ts";
import { cascadesIn, foldLongSession, isWhole, type WholeState } from "../state/whole-state.ts";
import { createEmbedding, type OpenEmbedder } from "./embedding.ts";
import { createBackgroundIndexing, type MemorySource } from "./memory-background.ts";

/** The searchable memory of a project's sessions. */
export interface SessionMemory {
  /** By words and meaning. */
  readonly recall: Recall;
  /** By words only; compactions prove their receipts with it. */
  readonly recallByWords: Recall;
  /** Indexes the new messages of a session; resolves when they can be found by words. */
  index(state: SessionState): Promise<void>;
  indexLater(state: SessionState): void;
  /** A turn runs until the returned function is called: embedding waits, and its context needs no vectors. */
  use(sessionId: string): () => void;
  takeInLater(id: string): void;
  /** The owner of a log that is not a session's. */
  nameOf(id: string): Promise<string | undefined>;
  /** Indexes entries of other or ended processes; of all sessions, or all but one. `indexed` is called after each log. */
  catchUp(except?: string, indexed?: () => void): Promise<void>;
  /** Indexes logs again after an erasure, or removes them, without leaving any of the erased text. */
  forget(logs: readonly { readonly id: string; readonly isDropped: boolean }[]): Promise<void>;
  status(): Promise<MemoryStatusReport>;
  /** The known state: logs that wait for indexing, and the last failure. */
  vitals(): { readonly waiting: number; readonly problem: string | undefined };
  close(): Promise<void>;
}

export interface MemoryParts {
  readonly memory: MemoryStore;
  readonly store: Store;
  /** Undefined: search by words only. */
  readonly openEmbedder: OpenEmbedder | undefined;
  readonly clock: Clock;
  /** Set for a short-lived process: after a search it continues briefly to make vectors. */
  readonly isShortLived?: boolean;
  readonly others?: MemorySource | undefined;
  /** Receives a sentence when indexing fails. */
  readonly warn?: ((sentence: string) => void) | undefined;
}

/**
 * Turns are indexed together, after this many or this long after the first, since each commit costs. Until then the log
 * has them, and a search indexes first.
 */
const TURNS_TOGETHER = 16;
const INDEX_AFTER_MS = 300_000;
const ENTRIES_MAX = Number.MAX_SAFE_INTEGER;
const NO_EMBEDDER = "none";
const ATTEMPTS_MAX = 2;
/** Stands for every log in the queue. */
const EVERY_LOG = "";
/** How long a search waits for missing vectors; other chunks are found by words. */
const FILL_MS_MAX = 300;
/** How long a search waits for the embedder; then it searches by words and reports so. */
const EMBEDDER_MS_MAX = 1_000;
/** How long the status waits for the embedder's name. */
const STATUS_MS_MAX = 10_000;
/** The embedder's name while it is loading. */
const LOADING = "loading";
/** How long a short-lived process continues to embed after its answer. */
const LINGER_MS = 1_000;

export function createSessionMemory(parts: MemoryParts): SessionMemory {
  const { memory, store, openEmbedder, clock, others } = parts;
  const { now } = clock;
  const lingerMs = parts.isShortLived === true ? LINGER_MS : 0;
  const embedding = openEmbedder === undefined ? undefined : createEmbedding(memory, openEmbedder, clock, { lingerMs });
  const fill = (found: readonly number[], scope: Scope): Promise<void> | undefined =>
    embedding?.fill(found, { scope, msMax: FILL_MS_MAX });
  const recallByWords = createRecall({ store: memory, embedder: undefined, now });
  let recallByMeaning: Recall | undefined;
  /** Logs of this process that grew since they were indexed, with their indexing functions. */
  const pendingHere = new Map<string, () => Promise<void>>();
  const stop = new AbortController();
  let waiting: Promise<void> | undefined;
  let pendingTurns = 0;
  let flushing: Promise<void> = Promise.resolve();
  let problem: string | undefined;
  /** Whether the problem is that of the last search. */
  let isUnsearchable = false;
  const indexing = createBackgroundIndexing({ memory, store, others, clock });
  /** Sessions excluded from the last complete indexing. */
  const leftOut = new Set<string>();
  const foldLog = async (id: string) =>
    foldLongSession(id, await store.log.read(id, 1, ENTRIES_MAX), clock.yieldToEventLoop);
  const index = async (state: SessionState): Promise<void> => {
    const taken = await memory.cursor(state.sessionId);
    // A text that waits for tool results is placed after them: the cursor must not pass it.
    const cursor = Math.min(state.lastSeq, ...state.heldNotices.map(({ seq }) => seq - 1));
    if (cursor <= taken) return;
    // From there on the context is verbatim; earlier messages need the whole log.
    const range = { session_id: state.sessionId, after: taken, upTo: cursor };
    const whole = async () => (isWhole(state) ? state : await foldLog(state.sessionId));
    const said = taken >= state.shownAnewSeq ? shownSince(state, range) : saidSince(await whole(), range);
    const { sessionId: session_id, hidden: discarded } = state;
    const chunks = await chunksSince(said, range, clock.yieldToEventLoop);
    for (const part of inParts(chunks, cursor)) {
      await add({ session_id, ...part, discarded });
      await clock.yieldToEventLoop();
    }
  };
  const takeIn = async (id: string): Promise<void> => {
    if (others !== undefined) await add(await others.batchAfter(id, await memory.cursor(id)));
  };
  const add = async (batch: MemoryBatch): Promise<void> => {
    await memory.add(batch);
    if (batch.cursor > 0) indexing.took(batch.session_id, batch.cursor);
    problem = undefined;
    if (batch.chunks.length > 0) embedding?.wake();
  };
  /** The next search indexes it again. The status shows the problem, and the warning is emitted once. */
  const failed = (thrown: unknown): void => {
    if (problem === undefined)
      parts.warn?.(`new messages cannot be searched until the memory works again: ${messageOf(thrown)}`);
    problem = messageOf(thrown);
  };
  const flush = (): Promise<void> => {
    pendingTurns = 0;
    flushing = flushing.then(async () => {
      for (const [id, work] of pendingHere) {
        pendingHere.delete(id);
        try {
          await work();
        } catch (thrown) {
          indexing.lookAnew();
          failed(thrown);
        }
      }
    });
    return flushing;
  };
  const later = (id: string, work: () => Promise<void>): void => {
    if (stop.signal.aborted) return;
    pendingHere.set(id, work);
    pendingTurns += 1;
    if (pendingTurns >= TURNS_TOGETHER) void flush();
    waiting ??= clock.sleep(INDEX_AFTER_MS, stop.signal, "background").then(async () => {
      waiting = undefined;
      await flush();
    });
  };
  const countPending = async (): Promise<number> => (await memory.behind?.())?.length ?? indexing.count();
  const takeInSession = async (id: string): Promise<void> => index(await foldLog(id));
  const takeInPending = async (except?: string, indexed?: () => void): Promise<void> => {
    if (memory.behind !== undefined) return takeInSessions(await memory.behind(), except, indexed);
    for (const id of leftOut) {
      if (id === except) continue;
      await takeInSession(id);
      leftOut.delete(id);
    }
    for await (const { id, isSession } of indexing.changed()) {
      if (stop.signal.aborted) return;
      if (id === except) leftOut.add(id);
      else await (isSession ? takeInSession(id) : takeIn(id));
      indexed?.();
    }
    // Another process would not look at excluded sessions again.
    if (leftOut.size === 0 && (await indexing.keep())) later(EVERY_LOG, takeInAnew);
  };
  const takeInAnew = (): Promise<void> => {
    indexing.lookAnew();
    return takeInPending();
  };
  const takeInSessions = async (ids: readonly string[], except?: string, indexed?: () => void): Promise<void> => {
    for (const id of ids) {
      if (stop.signal.aborted) return;
      if (id === except) continue;
      const isSession = (await store.sessions.get(id)) !== undefined;
      await (isSession ? takeInSession(id) : takeIn(id));
      indexed?.();
    }
  };
  const takeInAll = async (except?: string, indexed?: () => void): Promise<void> => {
    await flush();
    // A damaged memory store is empty at the second attempt and complete after it.
    for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt += 1) {
      try {
        return await takeInPending(except, indexed);
      } catch (thrown) {
        indexing.lookAnew();
        // The indexed part still answers.
        if (attempt === ATTEMPTS_MAX) failed(thrown);
      }
    }
  };
  /** After a failure the memory store is brought up to date and asked once more. */
  const again =
    (ask: Recall): Recall =>
    async (query, options) => {
      try {
        const recalled = await ask(query, options);
        if (isUnsearchable) problem = undefined;
        isUnsearchable = false;
        return recalled;
      } catch (thrown) {
        if (!hasCode(thrown, "SESSION_STORE_ERROR")) throw thrown;
        indexing.lookAnew();
        await takeInAll();
        return await ask(query, options).catch((stillThrown) => {
          // A health check must not wait for indexing.
          failed(stillThrown);
          isUnsearchable = true;
          throw stillThrown;
        });
      }
    };
  return {
    recall: again(async (query, options) => {
      await flush();
      return whileWaiting(clock.sleep, EMBEDDER_MS_MAX, async (late) => {
        const embedder = await inTime(embedding?.embedder(), late);
        if (embedder === undefined) return recallByWords(query, options);
        if (embedder === "late") return { ...(await recallByWords(query, options)), vectorsPending: true };
        recallByMeaning ??= createRecall({ store: memory, embedder, now, fill });
        const recalled = await recallByMeaning(query, { ...options, late });
        embedding?.reported(recalled.hits.map(({ chunk }) => chunk.id));
        return recalled;
      });
    }),
    recallByWords: again(recallByWords),
    index,
    use: (sessionId) => embedding?.use(sessionId) ?? (() => {}),
    indexLater: (state) => later(state.sessionId, () => index(state)),
    takeInLater: (id) => later(id, () => takeIn(id)),
    nameOf: async (id) => others?.nameOf(id),
    catchUp: takeInAll,
    forget: async (logs) => {
      await flush();
      for (const { id, isDropped } of logs) await (isDropped ? memory.drop(id) : memory.reset(id));
      indexing.lookAnew();
      // At once: otherwise another process could index what it read before.
      for (const { id, isDropped } of logs) if (!isDropped) await takeInSessions([id]);
      await memory.purge();
    },
    status: async () => {
      await flush();
      const embedder = await whileWaiting(clock.sleep, STATUS_MS_MAX, (late) => inTime(embedding?.embedder(), late));
      const id = embedder === "late" ? LOADING : embedder?.id;
      // A caller that asks for pending work may wait for it.
      embedding?.wake();
      const known = await memory.status(id ?? NO_EMBEDDER);
      const reported = describeStatus(known, id, await countPending());
      const why = embedding?.problem() ?? problem;
      return why === undefined ? reported : { ...reported, problem: why };
    },
    vitals: () => ({ waiting: pendingHere.size, problem: embedding?.problem() ?? problem }),
    close: async () => {
      // A short-lived process has no other time for it.
      if (pendingHere.has(EVERY_LOG)) await flush();
      stop.abort();
      await waiting;
      await flush();
      await embedding?.close();
      await memory.close();
    },
  };
}

/** Work with a promise that settles when the wait for the embedder is over. */
function whileWaiting<T>(sleep: Clock["sleep"], msMax: number, work: (late: Promise<void>) => Promise<T>): Promise<T> {
  const over = new AbortController();
  return work(sleep(msMax, over.signal)).finally(() => over.abort());
}

function describeStatus(
  { entries, pending, byWordsAlone = 0, bytes, index }: Awaited<ReturnType<MemoryStore["status"]>>,
  embedder: string | undefined,
  sessions_behind: number,
): MemoryStatusReport {
  return {
    entries,
    pending: embedder === undefined ? 0 : pending,
    by_words: byWordsAlone,
    sessions_behind,
    embedder: embedder ?? NO_EMBEDDER,
    index,
    bytes,
    mode: embedder === undefined || pending + byWordsAlone === entries ? "lexical" : "hybrid",
  };
}

interface Range {
  readonly session_id: string;
  readonly after: number;
  readonly upTo: number;
}

/** Messages in order after a number of turns, with summaries among them. */
interface Said {
  readonly messages: readonly Placed[];
  readonly turnsBefore: number;
  readonly summaries: readonly { readonly record: CompactionRecord; readonly turn: number }[];
}

/** The verbatim messages since a seq, with the answer its results belong to. */
function shownSince({ shown, turnsSaid }: SessionState, { after }: Range): Said {
  const from = shown.findLastIndex(({ seq, message }) => seq <= after && message.role === "block_assistant");
  const messages = shown.slice(Math.max(0, from));
  const turns = messages.filter(({ message }) => message.role === "user").length;
  return { messages, turnsBefore: turnsSaid - turns, summaries: [] };
}

function saidSince(state: WholeState, { after, upTo }: Range): Said {
  const { transcript } = state;
  const turnAt = (seq: number): number =>
    transcript.filter(({ seq: at, message }) => at < seq && message.role === "user").length;
  const summaries = cascadesIn(state.compactions)
    .filter(({ seq, undone }) => !undone && seq > after && seq <= upTo)
    .map((record) => ({ record, turn: turnAt(record.seq) }));
  return { messages: everSaid(state), turnsBefore: 0, summaries };
}

/** Chunks per batch: a fork may bring tens of thousands, and the event loop waits meanwhile. */
const PART_CHUNKS = 128;

/** Chunks in batches with their end; those of one message stay together. */
function* inParts(chunks: readonly NewChunk[], cursor: number): Generator<Pick<MemoryBatch, "chunks" | "cursor">> {
  let first = 0;
  for (const [at, { seq }] of chunks.entries()) {
    if (at - first < PART_CHUNKS || seq === chunks[at - 1]?.seq) continue;
    yield { chunks: chunks.slice(first, at), cursor: seq - 1 };
    first = at;
  }
  yield { chunks: chunks.slice(first), cursor };
}

/** Yields to the event loop: a message may be as long as a book. */
async function chunksSince(
  { messages, turnsBefore, summaries }: Said,
  { session_id, after, upTo }: Range,
  yieldToEventLoop: Clock["yieldToEventLoop"],
): Promise<readonly NewChunk[]> {
  const said: NewChunk[] = [];
  let turn = turnsBefore;
  let recalls: ReadonlySet<string> = new Set();
  // Indexed messages are skipped.
  for (const { seq, message } of messages) {
    if (message.role === "user") turn += 1;
    // Call ids are unique only within an answer: some providers restart counting.
    if (message.role === "block_assistant") recalls = recallsIn(message);
    if (seq <= after || seq > upTo || message.role === "system") continue;
    const place = { session_id, turn, seq, created_at_ms: Date.parse(message.created_at) };
    for (const chunk of chunksOf(message, place, recalls)) {
      if (chunk.text === FORGOTTEN) continue;
      said.push(chunk);
      await yieldToEventLoop();
    }
  }
  if (summaries.length === 0) return said;
  const summed = summaries.flatMap(({ record, turn: at }) => summaryChunks(record, { session_id, turn: at }));
  return [...said, ...summed].sort((a, b) => a.seq - b.seq);
}

/**
 * The recent part of a compaction's summary. It has the seq of its compaction, since chunks are ordered by seq and
 * nothing before the cursor is indexed again.
 */
function summaryChunks(record: CompactionRecord, of: { session_id: string; turn: number }): readonly NewChunk[] {
  const { seq, body } = record;
  const { created_at, summary } = body;
  const notice = { role: "system_notice", kind: "summary", body: readSections(summary).recent, created_at } as const;
  const place = { ...of, seq, created_at_ms: Date.parse(created_at) };
  return [...chunksOf(notice, place)].map((chunk) => ({ ...chunk, kind: "summary" }));
}
