// Adds to the memory of a folder until it is killed, telling its parent of every batch that was taken in.
import { flushCompileCache } from "node:module";
import type { MemoryStore } from "@rkat/core/ports/memory";
import { openMemoryStore } from "@rkat/node/recall-index/open";
import { batchAfter, CRASH_EMBEDDER, memorySessions, vectorAt } from "./memory-expected.ts";

// It never ends by itself, so what it compiled would not be kept for the next one.
flushCompileCache();

const [folder = "", url, realm = ""] = process.argv.slice(2);
const warn = (sentence: string): void => void process.stderr.write(`${sentence}\n`);
const store = url === undefined ? openMemoryStore({ folder, warn }) : await openShared(url);

/** Searched in the database by those whose folder says so. */
async function openShared(address: string): Promise<MemoryStore> {
  const { openDatabase } = await import("@rkat/postgres/open");
  const { createPostgresMemory } = await import("@rkat/postgres/memory");
  const { connection } = await openDatabase({ url: address, realm, poolMax: 4, warn });
  const way = folder.endsWith("database") ? "database" : "local";
  return createPostgresMemory({ connection, realm, folder, version: 1, way, warn });
}

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
    // What sessions say at the same seq is embedded once, by whichever process, and is the same for all of them.
    const passages = chunks.map(({ seq }) => `said at ${seq}`);
    const known = await store.vectors.known?.(CRASH_EMBEDDER, passages);
    await store.vectors.put(
      CRASH_EMBEDDER,
      chunks.map(({ id, seq }, at) => {
        const passage = passages[at] ?? "";
        return { id, passage, vector: known?.get(passage) ?? vectorAt(seq) };
      }),
    );
    await new Promise((resolve) => setImmediate(resolve));
  }
}

await Promise.all([...memorySessions.map(addForever), embedForever()]);
