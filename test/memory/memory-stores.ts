import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import type { MemoryStore } from "../../src/ports/memory.ts";
import { createMemoryStoreInMemory } from "../../src/stores/recall/in-memory.ts";
import { openMemoryStore } from "../../src/stores/recall/open.ts";

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
