import { hash } from "node:crypto";
import type { EntryBody } from "@rkat/core/contract/entry";
import type { RowQuery, SessionRow, Store } from "@rkat/core/ports/store";
import { toNewEntries } from "@rkat/core/state/entry-events";
import { expect } from "vitest";
import { byEffort } from "../support/effort.ts";
import { answered, created, idOf } from "../support/entries.ts";
import { fc } from "../support/property.ts";

type Open = () => Promise<Store>;
type Labels = Readonly<Record<string, string>>;

const NOW = Date.parse("2026-05-04T10:00:00.000Z");
/** More than an index of a database holds, however it packs it. */
const LONG = Array.from({ length: 100 }, (_, at) => hash("sha256", String(at))).join("");
/** Keys that are something else to an object, and texts that a database may not be able to hold. */
const HOSTILE = ["__proto__", "constructor", "toString", "a\u0000b", "\ud800", "x\udfff", "", "team'; --", "🦦", LONG];

const archived: EntryBody = { kind: "archived" };
const asking: EntryBody = {
  kind: "approval_asked",
  approval_id: "approval",
  calls: [{ id: "call", name: "shell", args: {}, why: "a rule asks" }],
  expires_at_ms: NOW,
  progress: { turns: 0, elapsed_ms: 0, seq_before: 0, tool_calls_before: 0 },
};

function madeWith(labels: Labels): EntryBody {
  if (created.kind !== "session_created") throw new Error("it makes a session");
  return { ...created, settings: { ...created.settings, labels } };
}

async function append({ log, sessions }: Store, id: string, atMs: number, ...bodies: readonly EntryBody[]) {
  const after = (await sessions.get(id))?.last_seq ?? 0;
  await log.append(id, after, toNewEntries(bodies), atMs);
}

async function idsIn({ sessions }: Store, query: RowQuery): Promise<readonly string[]> {
  return (await sessions.page(query)).map(({ session_id }) => session_id);
}

async function using(open: Open, work: (store: Store) => Promise<void>): Promise<void> {
  const store = await open();
  await work(store).finally(() => store.close());
}

/** What a query means, said as plainly as can be. */
function plainly(rows: readonly SessionRow[], query: RowQuery): readonly string[] {
  const { labels = {}, after, updatedSinceMs } = query;
  const isBehind = (row: SessionRow, place: NonNullable<RowQuery["after"]>): boolean =>
    row.updated_at_ms < place.updated_at_ms ||
    (row.updated_at_ms === place.updated_at_ms && row.session_id < place.session_id);
  return rows
    .filter((row) => query.archived === undefined || row.archived === query.archived)
    .filter((row) => query.waiting === undefined || (row.waiting_calls ?? 0) > 0)
    .filter((row) => updatedSinceMs === undefined || row.updated_at_ms >= updatedSinceMs)
    .filter((row) => Object.entries(labels).every(([key, value]) => has(row.labels, key, value)))
    .filter((row) => after === undefined || isBehind(row, after))
    .sort((a, b) => (isBehind(a, b) ? 1 : -1))
    .slice(0, query.max)
    .map(({ session_id }) => session_id);
}

function has(labels: Labels, key: string, value: string): boolean {
  return Object.entries(labels).some(([had, with_]) => had === key && with_ === value);
}

/** Every run of the property has sessions of its own. */
let run = 0;
const SESSIONS = 6;

const pair = fc.tuple(fc.constantFrom("team", ...HOSTILE.slice(0, 6)), fc.constantFrom("a", "b\u0000", "\udfff"));
const labelled = fc.array(pair, { maxLength: 3 }).map((pairs): Labels => Object.fromEntries(pairs));
const moment = fc.nat(4).map((minutes) => NOW + minutes * 60_000);
const step = fc.record({
  session: fc.nat(SESSIONS - 1),
  atMs: moment,
  labels: labelled,
  next: fc.constantFrom("nothing", "archive", "ask", "close and open the store"),
});
const asked = fc.record(
  {
    archived: fc.boolean(),
    labels: labelled,
    waiting: fc.constant(true as const),
    updatedSinceMs: moment,
    after: fc.record({ session: fc.nat(SESSIONS), updated_at_ms: moment }),
  },
  { requiredKeys: [] },
);

/** What every store promises of pages of rows. */
export const PAGE_CHECKS: readonly { readonly promise: string; holds(open: Open): Promise<void> }[] = [
  {
    promise: "[F4] a page has the rows updated last, of equals those with the greater id, and no more than asked for",
    holds: (open) =>
      using(open, async (store) => {
        const times = [3, 1, 2, 3, 1];
        for (const [at, time] of times.entries()) await append(store, idOf(at), NOW + time, created);
        const order = [3, 0, 2, 4, 1].map(idOf);
        expect(await idsIn(store, { max: 10 })).toEqual(order);
        expect(await idsIn(store, { max: 2 })).toEqual(order.slice(0, 2));
        expect(await idsIn(store, { max: 0 })).toEqual([]);
        expect(await store.sessions.page({ max: 1 })).toEqual([await store.sessions.get(idOf(3))]);
        // An entry of an earlier moment, which a copy may bring, moves it back.
        await append(store, idOf(3), NOW, answered("late"));
        await append(store, idOf(1), NOW + 9, answered("soon"));
        expect(await idsIn(store, { max: 10 })).toEqual([1, 0, 2, 4, 3].map(idOf));
      }),
  },
  {
    promise: "[F4] pages follow each other without a gap and without a repeat, wherever they are cut",
    holds: (open) =>
      using(open, async (store) => {
        for (let at = 0; at < 9; at += 1) await append(store, idOf(at), NOW + (at % 3), created);
        const whole = await idsIn(store, { max: 100 });
        for (const max of [1, 2, 3, 4, 8]) {
          const met: string[] = [];
          for (let page = await store.sessions.page({ max }); page.length > 0 && met.length <= whole.length; ) {
            met.push(...page.map(({ session_id }) => session_id));
            const after = page.at(-1);
            page = after === undefined ? [] : await store.sessions.page({ max, after });
          }
          expect({ max, met }).toEqual({ max, met: whole });
        }
        // Where a page ended need not be a row any more.
        const after = { session_id: idOf(4_000), updated_at_ms: NOW + 1 };
        expect(await idsIn(store, { max: 4, after })).toEqual(whole.slice(3, 7));
      }),
  },
  {
    promise: "[F4] a page has the rows that all of what is asked is true of",
    holds: (open) =>
      using(open, async (store) => {
        await append(store, idOf(1), NOW + 1, madeWith({ team: "a", tier: "1" }));
        await append(store, idOf(2), NOW + 2, madeWith({ team: "a" }), archived);
        await append(store, idOf(3), NOW + 3, madeWith({ team: "b" }), asking);
        await append(store, idOf(4), NOW + 4, madeWith({}), asking, archived);
        const ask = (query: Omit<RowQuery, "max">) => idsIn(store, { ...query, max: 10 });
        expect(await ask({ archived: false })).toEqual([3, 1].map(idOf));
        expect(await ask({ archived: true })).toEqual([4, 2].map(idOf));
        expect(await ask({ waiting: true })).toEqual([4, 3].map(idOf));
        expect(await ask({ waiting: true, archived: false })).toEqual([idOf(3)]);
        expect(await ask({ labels: { team: "a" } })).toEqual([2, 1].map(idOf));
        expect(await ask({ labels: { team: "a", tier: "1" } })).toEqual([idOf(1)]);
        expect(await ask({ labels: { team: "1" } })).toEqual([]);
        expect(await ask({ updatedSinceMs: NOW + 3 })).toEqual([4, 3].map(idOf));
        expect(await ask({ updatedSinceMs: NOW + 5 })).toEqual([]);
        expect(await ask({ labels: {}, updatedSinceMs: 0 })).toEqual([4, 3, 2, 1].map(idOf));
      }),
  },
  {
    promise: "[H2] a label is found by its whole key and value, whatever they are made of",
    holds: (open) =>
      using(open, async (store) => {
        await append(store, idOf(0), NOW, madeWith({}));
        for (const [at, key] of HOSTILE.entries())
          await append(store, idOf(at + 1), NOW, madeWith(Object.fromEntries([[key, `value ${key}`]])));
        for (const [at, key] of HOSTILE.entries()) {
          const ask = (value: string) => idsIn(store, { labels: Object.fromEntries([[key, value]]), max: 10 });
          expect({ key, found: await ask(`value ${key}`) }).toEqual({ key, found: [idOf(at + 1)] });
          for (const other of ["", "value", `value ${key} `, "%", "[object Object]"])
            expect({ key, other, found: await ask(other) }).toEqual({ key, other, found: [] });
        }
      }),
  },
  {
    promise: "[F4] a page is what a plain reading of all rows would choose, with restarts between",
    holds: (open) =>
      fc.assert(
        fc.asyncProperty(
          fc.array(step, { maxLength: 14 }),
          fc.array(asked, { minLength: 1, maxLength: 4 }),
          async (steps, queries) => {
            run += 1;
            const id = (session: number): string => idOf(run * 16 + session + 4_096);
            const own = { run: String(run) };
            let store = await open();
            for (const { session, atMs, labels, next } of steps) {
              const isKnown = (await store.sessions.get(id(session))) !== undefined;
              await append(store, id(session), atMs, isKnown ? answered("more") : madeWith({ ...labels, ...own }));
              if (next === "archive") await append(store, id(session), atMs, archived);
              if (next === "ask") await append(store, id(session), atMs, asking);
              if (next !== "close and open the store") continue;
              await store.close();
              store = await open();
            }
            const all = await Promise.all(Array.from({ length: SESSIONS }, (_, at) => store.sessions.get(id(at))));
            const rows = all.filter((row) => row !== undefined);
            for (const { after, ...rest } of queries) {
              const place = after && { session_id: id(after.session), updated_at_ms: after.updated_at_ms };
              const labels = { ...rest.labels, ...own };
              for (const max of [1, 3, 100]) {
                const query = { ...rest, labels, ...(place === undefined ? {} : { after: place }), max };
                expect(await idsIn(store, query)).toEqual(plainly(rows, query));
              }
            }
            await store.close();
          },
        ),
        { numRuns: byEffort({ usual: 20, full: 200 }) },
      ),
  },
];
