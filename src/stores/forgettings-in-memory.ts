import type { Forgettings, SignedReceipt } from "../ports/forgettings.ts";
import { makeKey, signReceipt } from "./receipts.ts";
import { createTally } from "./scan-tally.ts";

/** What a store holds, one place after the other. */
export type Held = () => Iterable<{ readonly place: string; readonly bytes: Uint8Array }>;

const PIECE_BYTES = 256 * 1_024;

/** Forgettings that last as long as the process; `held` is everything that is looked at. */
export function createForgettingsInMemory(held: Held): Forgettings {
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
          // Others have their turn.
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
