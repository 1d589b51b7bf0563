import { createHash } from "node:crypto";
import type { Entry } from "../contract/entry.ts";
import { RuntimeError } from "../contract/error.ts";
import type { Blob, Store } from "../ports/store.ts";

/** A store that lives as long as the process: for trying things out, for tests, and for sessions nobody resumes. */
export function createInMemoryStore(options: { now?: () => number } = {}): Store {
  const now = options.now ?? Date.now;
  const logs = new Map<string, Entry[]>();
  const blobs = new Map<string, Blob>();
  return {
    log: {
      append: async (sessionId, after, added) => {
        const log = logs.get(sessionId) ?? [];
        const last = log.at(-1);
        const end = last === undefined ? 0 : last.seq + last.span - 1;
        if (end !== after) {
          throw new RuntimeError("SESSION_BUSY", `the log of session ${sessionId} ends at ${end}, not at ${after}`);
        }
        const timestamp_ms = now();
        let seq = end + 1;
        const entries = added.map((entry) => {
          const placed = { ...entry, seq, timestamp_ms };
          seq += entry.span;
          return placed;
        });
        log.push(...entries);
        logs.set(sessionId, log);
        return entries;
      },
      read: async (sessionId, fromSeq, max) => {
        const log = logs.get(sessionId) ?? [];
        const start = firstReaching(log, fromSeq);
        return log.slice(start, start + max);
      },
      list: async () => [...logs.keys()].reverse(),
    },
    blobs: {
      put: async (blob) => {
        const id = `sha256:${createHash("sha256").update(blob.data).digest("hex")}`;
        blobs.set(id, blob);
        return id;
      },
      get: async (blobId) => blobs.get(blobId),
    },
    close: async () => {},
  };
}

/** Index of the first entry whose last seq is at or after `seq`. */
function firstReaching(log: readonly Entry[], seq: number): number {
  let low = 0;
  let high = log.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const entry = log[middle];
    if (entry !== undefined && entry.seq + entry.span - 1 < seq) low = middle + 1;
    else high = middle;
  }
  return low;
}
