// Adds to the memory of a folder until it is killed, telling its parent of every batch that was taken in.
import { flushCompileCache } from "node:module";
import { openMemoryStore } from "../../src/stores/recall/open.ts";
import { batchAfter, CRASH_EMBEDDER, memorySessions, vectorAt } from "./memory-expected.ts";

// It never ends by itself, so what it compiled would not be kept for the next one.
flushCompileCache();

const [folder = ""] = process.argv.slice(2);
const store = openMemoryStore({ folder, warn: (sentence) => process.stderr.write(`${sentence}\n`) });

async function addForever(sessionId: string): Promise<void> {
  for (;;) {
    const batch = batchAfter(sessionId, await store.cursor(sessionId));
    await store.add(batch);
    process.stdout.write(`${sessionId} ${batch.cursor}\n`);
  }
}

async function embedForever(): Promise<void> {
  for (;;) {
    const chunks = await store.vectors.missing(CRASH_EMBEDDER, 16);
    await store.vectors.put(
      CRASH_EMBEDDER,
      chunks.map(({ id, seq }) => ({ id, vector: vectorAt(seq) })),
    );
    await new Promise((resolve) => setImmediate(resolve));
  }
}

await Promise.all([...memorySessions.map(addForever), embedForever()]);
