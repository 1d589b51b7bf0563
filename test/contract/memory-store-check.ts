import type { MemoryStore } from "@rkat/core/ports/memory";
import { idOf } from "../support/entries.ts";

/** Opens a memory in one place; what it returns the second time, after the first was closed, is that place restarted. */
export type OpenMemoryStore = () => Promise<MemoryStore>;

/** One promise, and how it is seen to hold. */
export interface Check {
  readonly promise: string;
  holds(open: OpenMemoryStore): Promise<void>;
}

export const A = idOf(1);
export const B = idOf(2);

/** Runs work on an open store and closes it. */
export async function using<T>(open: OpenMemoryStore, work: (store: MemoryStore) => Promise<T>): Promise<T> {
  const store = await open();
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}
