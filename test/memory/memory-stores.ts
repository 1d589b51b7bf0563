import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { MemoryStore } from "@rkat/core/ports/memory";
import { createMemoryStoreInMemory } from "@rkat/core/stores/recall-in-memory";
import { openMemoryStore } from "@rkat/node/recall-index/open";
import { onTestFinished } from "vitest";

/** Both kinds of memory, each opened in a new place. */
export const MEMORY_STORES: readonly [name: string, open: () => MemoryStore][] = [
  ["in the process", createMemoryStoreInMemory],
  ["on disk", openOnDisk],
];

function openOnDisk(): MemoryStore {
  const folder = mkdtempSync(join(tmpdir(), "rkat-memory-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return openMemoryStore({ folder });
}
