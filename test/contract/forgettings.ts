import type { Forgettings, Store } from "@rkat/core/ports/store";
import { toNewEntries } from "@rkat/core/state/entry-events";
import { verifyReceipt } from "@rkat/core/stores/receipts";
import { describe, expect, it } from "vitest";
import { created, idOf, said } from "../support/entries.ts";
import type { OpenStore } from "./store.ts";

type Work = (forgettings: Forgettings, store: Store) => Promise<void>;

/** What every store promises to a forgetting; a place is opened anew for each of the steps of a check. */
export function describeForgettings(name: string, place: () => OpenStore): void {
  const promises = (promise: string, ...steps: readonly Work[]): void =>
    it(promise, async () => {
      const open = place();
      for (const step of steps) {
        const store = await open();
        try {
          if (store.forgettings === undefined) throw new Error("the store has no forgettings");
          await step(store.forgettings, store);
        } finally {
          await store.close();
        }
      }
    });

  describe(`forgettings ${name}`, () => {
    promises(
      "[D9] keep jobs until they end, oldest first, whatever ends in between",
      async ({ begin, unfinished }) => {
        expect(await unfinished()).toEqual([]);
        await begin("b", "first");
        await begin("a", "second");
        await begin("c", "third");
        await begin("b", "first, again");
      },
      async ({ unfinished, end }) => {
        expect(await unfinished()).toEqual([
          { id: "b", job: "first, again" },
          { id: "a", job: "second" },
          { id: "c", job: "third" },
        ]);
        await end("a");
        await end("a");
        await end("never begun");
      },
      async ({ unfinished, end }) => {
        expect((await unfinished()).map(({ id }) => id)).toEqual(["b", "c"]);
        for (const id of ["c", "b"]) await end(id);
        expect(await unfinished()).toEqual([]);
      },
    );

    const STRANGE = [
      "",
      "../../out",
      "a/b",
      ".",
      "nul\u0000nul",
      "日本 🎉",
      "x".repeat(10_000),
      "'; drop table",
      "\ud800",
    ];
    promises(
      "[D9] take any text as an id, and as a job",
      async ({ begin }) => {
        for (const id of STRANGE) await begin(id, `${id}${id}`);
      },
      async ({ unfinished, end }) => {
        expect(await unfinished()).toEqual(STRANGE.map((id) => ({ id, job: `${id}${id}` })));
        for (const id of STRANGE) await end(id);
        expect(await unfinished()).toEqual([]);
      },
    );

    promises(
      "[D9] find what was said and what was attached, by its place alone, and nothing else",
      async (kept, store) => {
        const secret = 'Zoë said "Blue Heron"\non Monday';
        const entries = toNewEntries([created, said(`She wrote: ${secret}.`)]);
        await store.log.append(idOf(1), 0, entries);
        await store.log.append(idOf(2), 0, toNewEntries([created, said("Nothing of that here.")]));
        await store.blobs.put({
          mediaType: "application/pdf",
          data: Buffer.from(`%PDF ${secret.toUpperCase()}`, "utf16le"),
        });
        await kept.begin("one", JSON.stringify({ texts: [secret, "Grey Owl over the barn"] }));
        const reported: { places: number; bytes: number }[] = [];
        const scan = await kept.scan([secret, "Grey Owl over the barn"], (done) => reported.push(done));
        expect(new Set(scan.matches.map(({ text }) => text))).toEqual(new Set([0]));
        expect(new Set(scan.matches.map(({ form }) => form))).toEqual(
          // The title of a session has it in one line.
          new Set(
            scan.matches.some(({ form }) => form === "plain") ? ["plain", "escaped", "utf-16"] : ["escaped", "utf-16"],
          ),
        );
        expect(scan.matches.filter(({ place }) => /heron/i.test(place))).toEqual([]);
        expect(scan.more).toBe(0);
        expect(reported.at(-1)).toEqual({ places: scan.places, bytes: scan.bytes });
        expect(scan.bytes).toBeGreaterThan(300);
        expect((await kept.scan(["Grey Owl over the barn"])).matches).toEqual([]);
        await kept.end("one");
      },
    );

    promises("[D9] refuse to look for what is too short", async ({ scan }) => {
      await expect(scan(["long enough", "no"])).rejects.toMatchObject({
        code: "INVALID_PARAMS",
        message: "texts[1] is too short to be told from chance; give 4 letters or more",
      });
    });

    promises("[D9] count the matches that are too many to list", async ({ scan }, { blobs }) => {
      for (const number of [1, 2, 3]) {
        await blobs.put({ mediaType: "text/plain", data: Buffer.from(`${number} needles in a heap`) });
      }
      const texts = Array.from({ length: 500 }, () => "needles in a heap");
      const { matches, more } = await scan(texts);
      expect([matches.length, more]).toEqual([1_000, 500]);
    });

    const [FIRST, SECOND] = [JSON.stringify({ forgot: 1, at: "é\u0000" }), JSON.stringify({ forgot: 2 })];
    promises(
      "[D9] sign receipts with the realm's one key, and keep them in order",
      async ({ keep, receipts }) => {
        expect(await receipts()).toEqual([]);
        await keep(FIRST);
      },
      async ({ keep, receipts }) => {
        const second = await keep(SECOND);
        const all = await receipts();
        expect(all.map(({ receipt }) => receipt)).toEqual([FIRST, SECOND]);
        expect(all[1]).toEqual(second);
        expect(new Set(all.map(({ public_key }) => public_key)).size).toBe(1);
        expect(all.map(verifyReceipt)).toEqual([true, true]);
      },
    );
  });
}
