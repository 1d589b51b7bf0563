import { createHash } from "node:crypto";
import type { Entry } from "../contract/entry.ts";
import { RuntimeError } from "../contract/error.ts";
import {
  type Blob,
  type ConfigStore,
  type FoldRow,
  type Forgettings,
  type KeptLayer,
  type LogRow,
  numbered,
  type SessionLocks,
  type SignedReceipt,
  type Store,
} from "../ports/store.ts";
import { pageOf } from "./page.ts";
import { makeKey, signReceipt } from "./receipts.ts";
import { createTally } from "./scan-tally.ts";
import { createSessionListeners } from "./session-listeners.ts";

/** A store that lives as long as the process: for experiments, tests, and sessions that are never resumed. */
export function createStoreInMemory<B, R extends LogRow>(options: {
  foldRow: FoldRow<B, R>;
  now?: () => number;
}): Store<B, R> {
  const { foldRow, now = Date.now } = options;
  const logs = new Map<string, Entry<B>[]>();
  const rows = new Map<string, R>();
  const blobs = new Map<string, Blob>();
  const { emit, subscribe } = createSessionListeners();
  return {
    log: {
      append: async (sessionId, after, added, timestamp_ms = now()) => {
        const end = rows.get(sessionId)?.last_seq ?? 0;
        if (end !== after) {
          throw new RuntimeError("SESSION_BUSY", `the log of session ${sessionId} ends at ${end}, not at ${after}`);
        }
        const log = logs.get(sessionId) ?? [];
        const entries = numbered(added, end, timestamp_ms);
        log.push(...entries);
        logs.set(sessionId, log);
        for (const entry of entries) rows.set(sessionId, foldRow(rows.get(sessionId), sessionId, entry));
        return entries;
      },
      read: async (sessionId, fromSeq, max) => {
        const log = logs.get(sessionId) ?? [];
        const start = firstReaching(log, fromSeq);
        return log.slice(start, start + max);
      },
      rewrite: async (sessionId, entries) => {
        const bodies = new Map(entries.map(({ seq, body }) => [seq, body]));
        const log = (logs.get(sessionId) ?? []).map((entry) => ({
          ...entry,
          body: bodies.get(entry.seq) ?? entry.body,
        }));
        logs.set(sessionId, log);
        rows.delete(sessionId);
        for (const entry of log) rows.set(sessionId, foldRow(rows.get(sessionId), sessionId, entry));
      },
    },
    sessions: {
      get: async (sessionId) => rows.get(sessionId),
      page: async (query) => pageOf(rows.values(), query),
    },
    locks: createLocks(),
    signals: { emit, subscribe, close: async () => {} },
    blobs: {
      put: async (blob) => {
        const id = `sha256:${createHash("sha256").update(blob.data).digest("hex")}`;
        blobs.set(id, blob);
        return id;
      },
      get: async (blobId) => blobs.get(blobId),
      ids: async (after, max) =>
        [...blobs.keys()]
          .filter((id) => id > after)
          .sort()
          .slice(0, max),
      remove: async (blobId) => void blobs.delete(blobId),
    },
    purge: async () => {},
    forgettings: createForgettingsInMemory(function* () {
      for (const [id, log] of logs)
        for (const entry of log) yield { place: `entry ${id} ${entry.seq}`, bytes: bytesOf(entry) };
      for (const [id, row] of rows) yield { place: `row ${id}`, bytes: bytesOf(row) };
      for (const [id, { mediaType, data }] of blobs) {
        yield { place: `blob ${id}`, bytes: data };
        yield { place: `blob ${id}`, bytes: bytesOf(mediaType) };
      }
    }),
    close: async () => {},
  };
}

const bytesOf = (kept: unknown): Uint8Array => Buffer.from(JSON.stringify(kept));

function createLocks(): SessionLocks {
  const held = new Map<string, AbortController>();
  const abandoned = new Set<string>();
  const listeners = new Map<string, (note: string) => void>();
  return {
    hold: async (sessionId) => {
      if (held.has(sessionId)) throw new RuntimeError("SESSION_BUSY", `session ${sessionId} is already running a turn`);
      const interrupted = new AbortController();
      held.set(sessionId, interrupted);
      const wasAbandoned = abandoned.delete(sessionId);
      const release = async (): Promise<void> => {
        if (held.get(sessionId) === interrupted) held.delete(sessionId);
      };
      const abandon = async (): Promise<void> => {
        if (held.get(sessionId) !== interrupted) return;
        held.delete(sessionId);
        abandoned.add(sessionId);
      };
      listeners.delete(sessionId);
      const onNote = (listener: (note: string) => void): void => void listeners.set(sessionId, listener);
      return { interrupted: interrupted.signal, wasAbandoned, release, abandon, onNote };
    },
    isHeld: async (sessionId) => held.has(sessionId),
    isAbandoned: async (sessionId) => abandoned.has(sessionId),
    interrupt: async (sessionId) => held.get(sessionId)?.abort(),
    note: async (sessionId, note) => (held.has(sessionId) ? listeners.get(sessionId)?.(note) : undefined),
  };
}

/** Index of the first entry whose last seq is at or after `seq`. */
function firstReaching(log: readonly Entry<unknown>[], seq: number): number {
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

/** A realm's own layer of the configuration that lasts as long as the process. */
export function createConfigInMemory(): ConfigStore {
  let kept: KeptLayer = { generation: 0, layer: {} };
  return {
    name: "configuration",
    read: () => kept,
    hasChanged: () => false,
    change: async (make) => {
      kept = { generation: kept.generation + 1, layer: make({ generation: kept.generation, layer: () => kept.layer }) };
      return kept;
    },
  };
}

type Held = () => Iterable<{ readonly place: string; readonly bytes: Uint8Array }>;

const PIECE_BYTES = 256 * 1_024;

/** Erasures that last as long as the process; `held` is everything that is scanned. */
function createForgettingsInMemory(held: Held): Forgettings {
  const jobs = new Map<string, string>();
  const kept: SignedReceipt[] = [];
  let key: string | undefined;
  return {
    begin: async (id, job) => void jobs.set(id, job),
    unfinished: async () => [...jobs].map(([id, job]) => ({ id, job })),
    end: async (id) => void jobs.delete(id),
    scan: async (texts, onProgress) => {
      const { createFinder } = await import("./scan.ts");
      const finder = createFinder(texts);
      const tally = createTally(onProgress);
      for (const { place, bytes } of held()) {
        for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
          finder.read(bytes.subarray(at, at + PIECE_BYTES));
          // Other work runs in between.
          await new Promise(setImmediate);
        }
        tally.bytes(bytes.length);
        tally.place(place, finder.end());
      }
      for (const [at, { receipt }] of kept.entries()) {
        finder.read(Buffer.from(receipt));
        tally.place(`receipt ${at + 1}`, finder.end());
      }
      return tally.end();
    },
    keep: async (receipt) => {
      key ??= makeKey();
      const signed = signReceipt(receipt, key);
      kept.push(signed);
      return signed;
    },
    receipts: async () => [...kept],
  };
}
