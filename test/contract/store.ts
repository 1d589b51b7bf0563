import type { Entry, EntryBody, NewEntry } from "@rkat/core/contract/entry";
import type { Store } from "@rkat/core/ports/store";
import { toNewEntries } from "@rkat/core/state/entry-events";
import { describe, expect, it } from "vitest";
import { answered, closed, created, idOf, said } from "../support/entries.ts";
import { fc } from "../support/property.ts";
import { PAGE_CHECKS } from "./store-pages.ts";

/** Opens a store on one place; what it returns the second time, after the first was closed, is that place restarted. */
export type OpenStore = () => Promise<Store>;

interface Check {
  readonly promise: string;
  holds(open: OpenStore): Promise<void>;
}

const A = idOf(1);
const B = idOf(2);

const news = (...bodies: readonly EntryBody[]): readonly NewEntry[] => toNewEntries(bodies);
const everything = Number.MAX_SAFE_INTEGER;
const bodiesOf = (entries: readonly Entry[]): readonly EntryBody[] => entries.map((entry) => entry.body);

/** Runs work on an open store and closes it. */
async function using<T>(open: OpenStore, work: (store: Store) => Promise<T>): Promise<T> {
  const store = await open();
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

/** Every run of the property has sessions of its own. */
let run = 0;

/** What every store promises. */
export const STORE_CHECKS: readonly Check[] = [
  {
    promise: "[F4] numbers entries from 1, each after the seqs the one before it takes",
    holds: (open) =>
      using(open, async ({ log }) => {
        const first = await log.append(A, 0, news(created, said("hi")));
        const second = await log.append(A, 2, news(answered("hello"), closed));
        expect([...first, ...second].map(({ seq, span }) => [seq, span])).toEqual([
          [1, 1],
          [2, 1],
          [3, 1],
          [4, 2],
        ]);
        expect(await log.read(A, 1, everything)).toEqual([...first, ...second]);
      }),
  },
  {
    promise: "[F9] appends only where the log ends, and otherwise writes nothing",
    holds: (open) =>
      using(open, async ({ log }) => {
        await log.append(A, 0, news(created));
        for (const after of [0, 2, 7]) {
          await expect(log.append(A, after, news(said("no")))).rejects.toMatchObject({ code: "SESSION_BUSY" });
        }
        await expect(log.append(B, 1, news(created))).rejects.toMatchObject({ code: "SESSION_BUSY" });
        expect(bodiesOf(await log.read(A, 1, everything))).toEqual([created]);
        expect(await log.read(B, 1, everything)).toEqual([]);
      }),
  },
  {
    promise: "[F9] of two appends at once to one place, one is kept",
    holds: (open) =>
      using(open, async ({ log }) => {
        await log.append(A, 0, news(created));
        const results = await Promise.allSettled([
          log.append(A, 1, news(said("x"))),
          log.append(A, 1, news(said("y"))),
        ]);
        expect(results.map((result) => result.status).sort()).toEqual(["fulfilled", "rejected"]);
        expect(await log.read(A, 1, everything)).toHaveLength(2);
      }),
  },
  {
    promise: "[F4] reads from any seq, also from inside an entry, and no more than asked for",
    holds: (open) =>
      using(open, async ({ log }) => {
        await log.append(A, 0, news(created, said("hi"), answered("hello"), closed));
        await log.append(A, 5, news(said("again")));
        expect((await log.read(A, 3, everything)).map(({ seq }) => seq)).toEqual([3, 4, 6]);
        expect((await log.read(A, 5, everything)).map(({ seq }) => seq)).toEqual([4, 6]);
        expect((await log.read(A, 1, 2)).map(({ seq }) => seq)).toEqual([1, 2]);
        expect(await log.read(A, 7, everything)).toEqual([]);
        expect(await log.read(idOf(99), 1, everything)).toEqual([]);
      }),
  },
  {
    promise: "[F4] keeps sessions apart and rows in step with their logs",
    holds: (open) =>
      using(open, async ({ log, sessions }) => {
        await Promise.all([log.append(A, 0, news(created, said("a"))), log.append(B, 0, news(created, said("b")))]);
        await log.append(A, 2, news(answered("hello"), closed));
        expect(await sessions.get(A)).toMatchObject({
          session_id: A,
          last_seq: 5,
          message_count: 2,
          total_tokens: 15,
          text_seq: 3,
          has_open_turn: false,
          labels: { team: "a" },
        });
        expect(await sessions.get(B)).toMatchObject({ session_id: B, last_seq: 2, has_open_turn: true });
        expect((await sessions.page({ max: 10 })).map((row) => row.session_id).sort()).toEqual([A, B]);
        expect(await sessions.get(idOf(99))).toBeUndefined();
      }),
  },
  {
    promise: "[F5] has everything again after a restart, and goes on where it was",
    holds: async (open) => {
      const before = await using(open, async ({ log, sessions }) => {
        await log.append(A, 0, news(created, said("hi")));
        await log.append(B, 0, news(created));
        await log.append(A, 2, news(answered("hello 🦦 \u0000 \ud800"), closed));
        return { entries: await log.read(A, 1, everything), rows: await sessions.page({ max: 10 }) };
      });
      await using(open, async ({ log, sessions }) => {
        expect(await log.read(A, 1, everything)).toEqual(before.entries);
        expect(await sessions.page({ max: 10 })).toEqual(before.rows);
        await expect(log.append(A, 2, news(said("stale")))).rejects.toMatchObject({ code: "SESSION_BUSY" });
        await log.append(A, 5, news(said("more")));
      });
      await using(open, async ({ log }) => {
        expect(bodiesOf(await log.read(A, 6, everything))).toEqual([said("more")]);
      });
    },
  },
  {
    promise: "[D9] puts other words in the place of what was said, with the row, and keeps all else over a restart",
    holds: async (open) => {
      const secret = said("the secret is heron-4711");
      const long = Array.from({ length: 200 }, (_, at) => said(`padding ${at} ${"x".repeat(200)}`));
      const want = await using(open, async ({ log, sessions, purge }) => {
        await log.append(A, 0, news(created, secret));
        await log.append(B, 0, news(created, said("another")));
        await log.append(A, 2, news(answered("heron-4711 it is"), ...long));
        const before = await log.read(A, 1, everything);
        const rows = before.filter(({ seq }) => seq === 2 || seq === 3);
        const holes = rows.map((entry) => ({ ...entry, body: entry.seq === 2 ? said("[gone]") : answered("[gone]") }));
        await log.rewrite(A, holes);
        await purge([A]);
        const after = await log.read(A, 1, everything);
        expect(after).toEqual(before.map((entry) => holes.find(({ seq }) => seq === entry.seq) ?? entry));
        expect(await log.read(A, 2, 1)).toEqual([holes[0]]);
        expect(await sessions.get(A)).toMatchObject({ title: "[gone]", last_seq: 203, message_count: 202 });
        expect(await sessions.get(B)).toMatchObject({ title: "another" });
        await log.append(A, 203, news(closed));
        return after;
      });
      await using(open, async ({ log, sessions }) => {
        expect((await log.read(A, 1, everything)).slice(0, want.length)).toEqual(want);
        expect(await sessions.get(A)).toMatchObject({ title: "[gone]", last_seq: 205 });
        expect(bodiesOf(await log.read(B, 1, everything))).toEqual([created, said("another")]);
      });
    },
  },
  {
    promise: "[D9] has no blob and no checkpoint any more that was taken away",
    holds: (open) =>
      using(open, async ({ blobs, checkpoints }) => {
        const id = await blobs.put({ mediaType: "text/plain", data: Buffer.from("heron") });
        const other = await blobs.put({ mediaType: "text/plain", data: Buffer.from("egret") });
        await blobs.remove(id);
        await blobs.remove(id);
        expect(await blobs.get(id)).toBeUndefined();
        expect(await blobs.ids("", 10)).toEqual([other]);
        await checkpoints?.put(A, "kept");
        await checkpoints?.remove(A);
        await checkpoints?.remove(A);
        expect(await checkpoints?.get(A)).toBeUndefined();
      }),
  },
  {
    promise: "[F4] gives back what any sequence of appends put in, with restarts between",
    holds: (open) =>
      fc.assert(
        fc.asyncProperty(
          fc.array(
            fc.record({
              session: fc.nat(4),
              texts: fc.array(fc.string({ unit: "binary" }), { minLength: 1, maxLength: 4 }),
              restart: fc.boolean(),
            }),
            { maxLength: 12 },
          ),
          async (appends) => {
            run += 1;
            const model = new Map<string, EntryBody[]>();
            const ends = new Map<string, number>();
            let store = await open();
            for (const { session, texts, restart } of appends) {
              const id = idOf(run * 8 + session + 16);
              const bodies = texts.map(answered);
              const entries = await store.log.append(id, ends.get(id) ?? 0, news(...bodies));
              const last = entries.at(-1);
              ends.set(id, last === undefined ? 0 : last.seq + last.span - 1);
              model.set(id, [...(model.get(id) ?? []), ...bodies]);
              if (!restart) continue;
              await store.close();
              store = await open();
            }
            for (const [id, bodies] of model) expect(bodiesOf(await store.log.read(id, 1, everything))).toEqual(bodies);
            await store.close();
          },
        ),
        { numRuns: 15 },
      ),
  },
  {
    promise: "[F9] lets one hold a session at a time",
    holds: (open) =>
      using(open, async ({ locks }) => {
        const hold = await locks.hold(A);
        expect(await locks.isHeld(A)).toBe(true);
        await expect(locks.hold(A)).rejects.toMatchObject({ code: "SESSION_BUSY" });
        await (await locks.hold(B)).release();
        await hold.release();
        await hold.release();
        expect(await locks.isHeld(A)).toBe(false);
        const again = await locks.hold(A);
        await hold.release();
        expect(await locks.isHeld(A)).toBe(true);
        await again.release();
      }),
  },
  {
    promise: "[F9] an interrupt reaches the holder, and nobody when there is none",
    holds: (open) =>
      using(open, async ({ locks }) => {
        await locks.interrupt(A);
        const hold = await locks.hold(A);
        expect(hold.interrupted.aborted).toBe(false);
        await locks.interrupt(A);
        expect(hold.interrupted.aborted).toBe(true);
        await hold.release();
      }),
  },
  {
    promise:
      "[F11] whoever hears a session is told that its log grew, here or in another process, until it stops hearing",
    holds: async (open) => {
      const [here, elsewhere] = [await open(), await open()];
      const received: number[] = [];
      let woken = Promise.withResolvers<void>();
      const unsubscribe = here.signals.subscribe(A, (seq) => {
        received.push(seq);
        woken.resolve();
      });
      const others: number[] = [];
      here.signals.subscribe(B, (seq) => others.push(seq));
      for (const [store, after] of [
        [elsewhere, 0],
        [here, 1],
        [elsewhere, 2],
      ] as const) {
        await store.log.append(A, after, news(after === 0 ? created : said("more")));
        store.signals.emit(A, after + 1);
        while (Math.max(0, ...received) < after + 1) {
          await woken.promise;
          woken = Promise.withResolvers<void>();
        }
      }
      expect(Math.max(...received)).toBe(3);
      expect(others).toEqual([]);
      unsubscribe();
      received.length = 0;
      await here.log.append(A, 3, news(said("unheard")));
      here.signals.emit(A, 4);
      expect(received).toEqual([]);
      await here.close();
      await elsewhere.close();
    },
  },
  {
    promise: "[H2] keeps blobs by their content, and takes no path for an id",
    holds: async (open) => {
      const data = new Uint8Array([0, 10, 255, 10]);
      const id = await using(open, async ({ blobs }) => {
        const first = await blobs.put({ mediaType: "application/octet-stream", data });
        expect(await blobs.put({ mediaType: "application/octet-stream", data })).toBe(first);
        for (const bad of ["../../etc/passwd", "sha256:../x", "", `sha256:${"0".repeat(64)}`]) {
          expect(await blobs.get(bad)).toBeUndefined();
        }
        return first;
      });
      await using(open, async ({ blobs }) => {
        const blob = await blobs.get(id);
        expect(blob?.mediaType).toBe("application/octet-stream");
        expect([...(blob?.data ?? [])]).toEqual([...data]);
      });
    },
  },
  {
    promise: "[F11] lists the ids of blobs in pages, each once and in order, before and after a restart",
    holds: async (open) => {
      const put = await using(open, async ({ blobs }) => {
        expect(await blobs.ids("", 10)).toEqual([]);
        const texts = Array.from({ length: 40 }, (_, number) => new TextEncoder().encode(`blob ${number}`));
        return Promise.all(texts.map((data) => blobs.put({ mediaType: "text/plain", data })));
      });
      const sorted = [...put].sort();
      await using(open, async ({ blobs }) => {
        const found: string[] = [];
        for (let page = await blobs.ids("", 7); page.length > 0; page = await blobs.ids(found.at(-1) ?? "", 7)) {
          expect(page.length).toBeLessThanOrEqual(7);
          found.push(...page);
        }
        expect(found).toEqual(sorted);
        expect(await blobs.ids("", 0)).toEqual([]);
        expect(await blobs.ids("sha256:", 100)).toEqual(sorted);
        expect(await blobs.ids("zz", 100)).toEqual([]);
        expect(await blobs.ids(`${sorted[3]} `, 2)).toEqual(sorted.slice(4, 6));
      });
    },
  },
  {
    promise: "[F4] keeps the last checkpoint of each session, also for whoever opens it next, where it keeps any",
    holds: async (open) => {
      await using(open, async ({ checkpoints }) => {
        expect(await checkpoints?.get(A)).toBeUndefined();
        await checkpoints?.put(A, "first");
        await checkpoints?.put(A, "é\n".repeat(9_000));
        await checkpoints?.put(B, "another's");
      });
      await using(open, async ({ checkpoints }) => {
        if (checkpoints === undefined) return;
        expect(await checkpoints.get(A)).toBe("é\n".repeat(9_000));
        expect(await checkpoints.get(B)).toBe("another's");
        expect(await checkpoints.get("../index.db")).toBeUndefined();
      });
    },
  },
  ...PAGE_CHECKS,
];

/** Runs the checks; `place` makes a new, empty place for each. */
export function describeStore(name: string, place: () => OpenStore): void {
  describe(`store: ${name}`, () => {
    for (const { promise, holds } of STORE_CHECKS) it(promise, () => holds(place()));
  });
}
