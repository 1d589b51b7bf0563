import { messageOf } from "../contract/error.ts";
import { jsonIn } from "../contract/json.ts";
import type { Mark, StoredMarks } from "../contract/wire/mark.ts";

/** Stores compacted conversations beyond the process: any key-value table of texts. */
export interface PrefixStore {
  get(key: string): Promise<string | null | undefined> | string | null | undefined;
  set(key: string, value: string): Promise<unknown> | unknown;
}

/**
 * Compacted conversations by the hash of their messages. A longer conversation is found by its longest known prefix, an
 * edited one by its unchanged prefix.
 */
export interface KnownPrefixes {
  /** The marks of the longest known prefix; `hashes[n]` is that of the first n + 1 messages. */
  find(hashes: readonly string[], where: "memory" | "anywhere"): Promise<readonly Mark[]>;
  /** Runs and stores new work on a conversation, once for concurrent identical requests. */
  make<T extends { readonly marks: readonly Mark[]; readonly added: readonly Mark[] }>(
    name: string,
    hash: string,
    work: () => Promise<T>,
  ): Promise<{ readonly made: T; readonly isFirst: boolean }>;
}

/** Recently compacted conversations; a receipt is about ten kilobytes. */
const KNOWN_MAX = 256;
/** Conversations that are not in the store. */
const UNKNOWN_MAX = 4_096;
/** Looked up together, the longest first. */
const BATCH = 32;

/** A failing store is reported and ignored. */
export function createKnownPrefixes(store: PrefixStore | undefined, warn: (error: string) => void): KnownPrefixes {
  const known = new Map<string, readonly Mark[]>();
  const unknown = new Map<string, true>();
  const underWay = new Map<string, Promise<unknown>>();

  const look = async (hash: string): Promise<readonly Mark[] | undefined> => {
    try {
      return await marksIn(await store?.get(keyOf(hash)));
    } catch (thrown) {
      warn(`the store could not be read: ${messageOf(thrown)}`);
      return undefined;
    }
  };
  const keep = async (hash: string, marks: readonly Mark[]): Promise<void> => {
    remember(known, hash, marks, KNOWN_MAX);
    try {
      const stored: StoredMarks = { version: 1, marks: [...marks] };
      await store?.set(keyOf(hash), JSON.stringify(stored));
    } catch (thrown) {
      warn(`the store could not be written: ${messageOf(thrown)}`);
    }
  };

  return {
    find: async (hashes, where) => {
      // Longer prefixes are neither cached nor stored.
      const asked = hashes.findLastIndex((hash) => known.has(hash) || unknown.has(hash));
      if (store !== undefined && where === "anywhere") {
        const longer = hashes.slice(asked + 1).toReversed();
        for (let at = 0; at < longer.length; at += BATCH) {
          const batch = longer.slice(at, at + BATCH);
          const found = await Promise.all(batch.map(look));
          const first = found.findIndex((marks) => marks !== undefined);
          if (first < 0) continue;
          remember(known, batch[first] ?? "", found[first] ?? [], KNOWN_MAX);
          return found[first] ?? [];
        }
        remember(unknown, hashes.at(-1) ?? "", true, UNKNOWN_MAX);
      }
      const hash = hashes.findLast((one) => known.has(one)) ?? "";
      const marks = known.get(hash);
      if (marks === undefined) return [];
      remember(known, hash, marks, KNOWN_MAX);
      return marks;
    },
    make: async (name, hash, work) => {
      const same = underWay.get(name);
      // An identical request runs already; its result is shared.
      if (same !== undefined) return { made: (await same) as Awaited<ReturnType<typeof work>>, isFirst: false };
      const making = work();
      underWay.set(name, making);
      try {
        const made = await making;
        if (made.added.length > 0) await keep(hash, made.marks);
        return { made, isFirst: true };
      } finally {
        underWay.delete(name);
      }
    },
  };
}

function keyOf(hash: string): string {
  return `rkat:compaction:${hash}`;
}

function remember<V>(map: Map<string, V>, key: string, value: V, max: number): void {
  map.delete(key);
  map.set(key, value);
  const [oldest] = map.keys();
  if (map.size > max && oldest !== undefined) map.delete(oldest);
}

async function marksIn(text: string | null | undefined): Promise<readonly Mark[] | undefined> {
  if (text === undefined || text === null) return undefined;
  // The schema is loaded only with a store.
  const { readMarks } = await import("../contract/wire/mark.ts");
  return readMarks(jsonIn(text));
}
