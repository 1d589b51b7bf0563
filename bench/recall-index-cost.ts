import { join } from "node:path";
import { createEmbedding } from "@rkat/core/memory/embedding";
import type { Embedder, MemoryBatch } from "@rkat/core/ports/memory";
import { chunksOf } from "@rkat/core/recall/chunk";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import { openMemoryStore } from "@rkat/node/recall-index/open";
import { medianTime, type Time, timeOf } from "./memory-store-stopwatch.ts";
import type { DataSet, Said } from "./recall-data.ts";

const MESSAGES = 300;
/** A turn is taken in when it ends: what was asked and what was answered. */
const MESSAGES_PER_BATCH = 2;
const ROUNDS = 3;

export interface IndexCost {
  readonly dataSet: string;
  readonly messages: number;
  readonly chunks: number;
  readonly wordsPerMessage: number;
  /** Of all messages. */
  readonly byWords: Time;
  readonly embedding: Time;
}

/** What it costs to take in the messages of a data set, on disk, and to make and keep their vectors. */
export async function measureIndexing(folder: string, dataSet: DataSet, embedder: Embedder): Promise<IndexCost> {
  const sessions = sessionsOf(dataSet);
  const messages = sessions.flatMap(({ said }) => said);
  // The model is loaded once a process, and that is another figure.
  await embedder.embed(["Hello."], "passage", new AbortController().signal);
  const byWords: Time[] = [];
  const embedding: Time[] = [];
  let chunks = 0;
  for (let round = 0; round < ROUNDS; round += 1) {
    const store = openMemoryStore({ folder: join(folder, `round-${round}`) });
    byWords.push(
      await timeOf(async () => {
        // Chunks and terms are made inside: that is most of it.
        for (const session of sessions) for (const batch of batchesOf(session)) await store.add(batch);
      }),
    );
    const filler = createEmbedding(store, async () => embedder, createSystemClock());
    embedding.push(
      await timeOf(() => filler.fill([], { scope: { discardedOnly: false }, msMax: Number.POSITIVE_INFINITY })),
    );
    const { entries, pending } = await store.status(embedder.id);
    if (pending > 0) throw new Error(`${pending} of ${entries} chunks have no vector: ${filler.problem()}`);
    chunks = entries;
    await store.close();
  }
  return {
    dataSet: dataSet.name,
    messages: messages.length,
    chunks,
    wordsPerMessage: messages.reduce((sum, { text }) => sum + text.split(/\s+/).length, 0) / messages.length,
    byWords: medianTime(byWords),
    embedding: medianTime(embedding),
  };
}

interface Session {
  readonly id: string;
  readonly said: readonly Said[];
}

/** The first sessions of a data set, cut to the messages that are wanted. */
function sessionsOf({ cases }: DataSet): readonly Session[] {
  const sessions: Session[] = [];
  let left = MESSAGES;
  for (const [at, { session }] of cases.flat().entries()) {
    if (session === undefined || left <= 0) continue;
    // Cases have sessions of the same names.
    sessions.push({ id: `${at}-${session.id}`, said: session.said.slice(0, left) });
    left -= session.said.length;
  }
  return sessions;
}

function* batchesOf({ id, said }: Session): Iterable<MemoryBatch> {
  for (let from = 0; from < said.length; from += MESSAGES_PER_BATCH) {
    const own = said.slice(from, from + MESSAGES_PER_BATCH);
    const chunks = own.flatMap(({ text, atMs }, at) => {
      const seq = from + at + 1;
      const message = { role: "user" as const, content: text, created_at: new Date(atMs).toISOString() };
      return [...chunksOf(message, { session_id: id, turn: (seq + 1) >> 1, seq, created_at_ms: atMs })];
    });
    yield { session_id: id, cursor: from + own.length, chunks, discarded: [] };
  }
}
