import { messageOf, RuntimeError } from "../contract/error.ts";
import type { Hold, LogRow, Store } from "../ports/store.ts";

/** The same store, except that what it throws in its own words is a SESSION_STORE_ERROR with that as its cause. */
export function translateFailures<B, R extends LogRow>(store: Store<B, R>): Store<B, R> {
  const { log, sessions, locks, blobs } = store;
  const hold = async (sessionId: string): Promise<Hold> => {
    const held = await translated(() => locks.hold(sessionId));
    return { interrupted: held.interrupted, release: () => translated(() => held.release()) };
  };
  return {
    log: {
      append: (sessionId, after, entries) => translated(() => log.append(sessionId, after, entries)),
      read: (sessionId, fromSeq, max) => translated(() => log.read(sessionId, fromSeq, max)),
    },
    sessions: {
      get: (sessionId) => translated(() => sessions.get(sessionId)),
      all: () => translated(() => sessions.all()),
    },
    locks: {
      hold,
      isHeld: (sessionId) => translated(() => locks.isHeld(sessionId)),
      interrupt: (sessionId) => translated(() => locks.interrupt(sessionId)),
    },
    blobs: {
      put: (blob) => translated(() => blobs.put(blob)),
      get: (blobId) => translated(() => blobs.get(blobId)),
    },
    close: () => translated(() => store.close()),
  };
}

async function translated<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (thrown) {
    if (thrown instanceof RuntimeError) throw thrown;
    throw new RuntimeError("SESSION_STORE_ERROR", `the store failed: ${messageOf(thrown)}`, { cause: thrown });
  }
}
