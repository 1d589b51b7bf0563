import { hash } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInMemoryStore, type Runtime } from "@rkat/core/create-runtime";
import type { Store } from "@rkat/core/ports/store";
import type { Delivery } from "@rkat/core/sessions/event-queue";
import { toNewEntries } from "@rkat/core/state/entry-events";
import { foldRow } from "@rkat/core/state/session-row";
import { openEmbeddedStore } from "@rkat/node/open-runtime";
import { openDatabase } from "@rkat/postgres/open";
import { afterAll, describe, expect, it, vi } from "vitest";
import { created, idOf } from "../support/entries.ts";
import { databaseFor, withPostgres } from "../support/postgres.ts";
import { connect } from "../support/postgres-server.ts";
import { scriptedRuntime } from "../support/runtime.ts";

const root = mkdtempSync(join(tmpdir(), "rkat-subscribers-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** Opens one place as often as it is called. */
type Place = () => Promise<() => Promise<Store>>;

const inMemory: Place = async () => {
  const store = createInMemoryStore();
  return async () => store;
};

const inFolder: Place = async () => {
  const folder = mkdtempSync(join(root, "store-"));
  return () => openEmbeddedStore(folder);
};

const inDatabase =
  (isPooled: boolean): Place =>
  async () => {
    const url = await databaseFor("subscribers");
    return async () => {
      const database = await openDatabase({ url, realm: "crowd", isPooled });
      const store = database.store("session", foldRow);
      return { ...store, close: () => store.close().finally(database.close) };
    };
  };

/** Reads until a turn's end has come `times` times; a store that does not tell makes the test run out of time. */
async function readTurns(deliveries: AsyncIterable<Delivery>, times: number): Promise<readonly Delivery[]> {
  const received: Delivery[] = [];
  let ends = 0;
  for await (const delivery of deliveries) {
    received.push(delivery);
    if (["run_completed", "run_failed"].includes(delivery.event.type)) ends += 1;
    if (ends === times) break;
  }
  return received;
}

const durable = (received: readonly Delivery[]) => received.filter(({ seq }) => seq !== 0);

async function withTwo(place: Place, work: (runtimes: readonly [Runtime, Runtime]) => Promise<void>): Promise<void> {
  const open = await place();
  const make = async () =>
    scriptedRuntime(({ messages }) => (messages.at(-1)?.role === "user" ? { text: ["some ", "words"] } : {}), {
      store: await open(),
    }).runtime;
  const runtimes = [await make(), await make()] as const;
  try {
    await work(runtimes);
  } finally {
    for (const runtime of runtimes) await runtime.close();
  }
}

function describeSubscribers(place: Place): void {
  it("[F11] hear every event of turns that run elsewhere, in order, once each, wherever they listen", async () =>
    withTwo(place, async ([here, elsewhere]) => {
      const session = await here.createDeferredSession("Begin.");
      const turns = 6;
      const readers = [here, elsewhere, here].map((runtime) =>
        readTurns(runtime.subscribe(session.id, { after: 0 }), turns),
      );
      for (let turn = 0; turn < turns; turn += 1) {
        const runtime = turn % 3 === 0 ? here : elsewhere;
        await runtime.session(session.id).turn(`Turn ${turn}.`);
      }
      const received = await Promise.all(readers);
      const { events } = await here.dispatch("listEvents", {
        scope: { type: "session", session_id: session.id },
        limit: 1_000,
      });
      const all = events.map(({ cursor, payload }) => [cursor.sequence, payload]);
      for (const one of received) {
        const reported = durable(one).map(({ seq, event }) => [seq, event]);
        expect(reported).toEqual(all.slice(0, reported.length));
        expect(reported.at(-1)?.[0]).toBe(all.at(-1)?.[0]);
      }
    }));

  it("[F11] are told once that what a turn elsewhere writes is not told letter by letter here", async () =>
    withTwo(place, async ([here, elsewhere]) => {
      const session = await here.createSession("Begin.");
      const after = { after: 0 };
      const reader = here.subscribe(session.id, after)[Symbol.asyncIterator]();
      const readTurn = async (): Promise<readonly string[]> => {
        const types: string[] = [];
        while (types.at(-1) !== "run_completed") types.push((await reader.next()).value?.event.type);
        return types;
      };
      // The reader listens once it has read the first turn.
      await readTurn();
      await elsewhere.session(session.id).turn("There.");
      const there = await readTurn();
      expect(there.filter((type) => type === "stream_truncated")).toHaveLength(1);
      expect(there).not.toContain("text_delta");
      await reader.return?.();
      const again = readTurns(here.subscribe(session.id, after), 3);
      await session.turn("Here.");
      expect((await again).map(({ event }) => event.type)).toContain("text_delta");
    }));

  it("[F11] end when the session is archived elsewhere", async () =>
    withTwo(place, async ([here, elsewhere]) => {
      const session = await here.createDeferredSession("Begin.");
      await session.turn("One.");
      const reading = readTurns(here.subscribe(session.id, { after: 0 }), Number.POSITIVE_INFINITY);
      await elsewhere.session(session.id).archive();
      expect(durable(await reading).at(-1)?.seq).toBeGreaterThan(0);
    }));
}

describe("subscribers of one store in memory", () => describeSubscribers(inMemory));
describe("subscribers of one folder", () => describeSubscribers(inFolder));
withPostgres("subscribers of one database", () => describeSubscribers(inDatabase(false)));
withPostgres("subscribers of one database behind a pooler", () => describeSubscribers(inDatabase(true)));

describe("a turn that begins while what another process did is read", () => {
  it("[F11] is taken in once", async () => {
    const store = createInMemoryStore();
    const looking = Promise.withResolvers<void>();
    const written = Promise.withResolvers<void>();
    const telling = Promise.withResolvers<void>();
    let looks = 0;
    let appends = 0;
    const slow: Store = {
      ...store,
      sessions: {
        ...store.sessions,
        get: async (id) => {
          looks += 1;
          if (looks === 1) await looking.promise;
          return store.sessions.get(id);
        },
      },
      log: {
        ...store.log,
        append: async (...added) => {
          const entries = await store.log.append(...added);
          appends += 1;
          // The first makes the session; the second is of the turn.
          if (appends === 2) {
            written.resolve();
            await telling.promise;
          }
          return entries;
        },
      },
    };
    const { runtime } = scriptedRuntime(() => ({ text: "Yes." }), { store: slow });
    const session = await runtime.createDeferredSession("Begin.");
    const reading = session.history();
    const turn = session.turn("Here.");
    // Where the turn waits for the reading it has written nothing yet.
    await Promise.race([written.promise, new Promise((resolve) => setImmediate(resolve))]);
    looking.resolve();
    await reading;
    telling.resolve();
    await turn;
    const { runtime: elsewhere } = scriptedRuntime(() => ({ text: "No." }), { store });
    expect((await session.history()).messages).toEqual((await elsewhere.session(session.id).history()).messages);
  });
});

describe("a word that comes late", () => {
  /** Two runtimes on one store, of which the first hears nothing until it is let. */
  const withDeafOne = async () => {
    const store = createInMemoryStore();
    const late: (() => void)[] = [];
    let isLate = true;
    const deaf: Store = {
      ...store,
      sessions: {
        ...store.sessions,
        get: async (id) => {
          if (!isLate) for (const emit of late.splice(0)) emit();
          return store.sessions.get(id);
        },
      },
      signals: {
        ...store.signals,
        subscribe: (id, received) => store.signals.subscribe(id, (seq) => void late.push(() => received(seq))),
      },
    };
    const [here, elsewhere] = [deaf, store].map(
      (one) => scriptedRuntime(() => ({ text: "Yes." }), { store: one, compaction: true }).runtime,
    );
    if (here === undefined || elsewhere === undefined) throw new Error("there are two");
    const emitLate = (): void => {
      isLate = false;
    };
    return { here, elsewhere, emitLate };
  };

  it("[F11] loses nothing of a session that was archived elsewhere", async () => {
    const { here, elsewhere } = await withDeafOne();
    const session = await here.createDeferredSession("Begin.");
    const { id } = session;
    const reading = readTurns(here.subscribe(id, { after: 0 }), Number.POSITIVE_INFINITY);
    await session.turn("Here.");
    await elsewhere.session(id).turn("There.");
    await elsewhere.session(id).archive();
    // Whoever asks for the session here learns that it is archived, before the reader has heard of the turn.
    await here.session(id).history();
    const ends = (await reading).filter(({ event }) => event.type === "run_completed");
    expect(ends).toHaveLength(2);
  });

  it("[F11] is not lost in work that has nothing to say", async () => {
    const { here, elsewhere, emitLate } = await withDeafOne();
    const session = await here.createDeferredSession("Begin.");
    const reading = readTurns(here.subscribe(session.id, { after: 0 }), 2);
    await session.turn("Here.");
    await elsewhere.session(session.id).turn("There.");
    emitLate();
    // It holds the session, looks at what is new, and finds nothing to do.
    expect(await session.compact()).toMatchObject({ compacted: false });
    expect(durable(await reading).at(-1)?.event.type).toBe("run_completed");
  });
});

withPostgres("a word that is not true", () => {
  it("[F11] [H4] does not keep a reader from what is", async () => {
    const url = await databaseFor("subscribers");
    const realm = "told";
    const open = async () => {
      const database = await openDatabase({ url, realm });
      const store = database.store("session", foldRow);
      return { ...store, close: () => store.close().finally(database.close) };
    };
    const make = async () => scriptedRuntime(() => ({ text: "Yes." }), { store: await open() }).runtime;
    const [here, elsewhere] = [await make(), await make()];
    const { id } = await here.createDeferredSession("Begin.");
    const reader = here.subscribe(id, { after: 0 });
    const reading = readTurns(reader, 2);
    await elsewhere.session(id).turn("One.");

    // Any role of the database may say this, whatever its realm.
    const client = await connect(url);
    const reported = Promise.withResolvers<void>();
    const channel = `rkat_${hash("sha256", realm).slice(0, 16)}`;
    client.on("notification", ({ payload }) => payload?.includes("999999999") && reported.resolve());
    await client.query(`listen ${channel}`);
    await client.query("select pg_notify($1, $2)", [channel, `log ${id} 999999999`]);
    await reported.promise;
    await elsewhere.session(id).turn("Two.");

    expect(durable(await reading).at(-1)?.event.type).toBe("run_completed");
    await Promise.all([here.close(), elsewhere.close(), client.end()]);
  });
});

withPostgres("a database behind a pooler", () => {
  it("[F11] is looked at however often readers come and go", async () => {
    const open = await inDatabase(true)();
    const [here, elsewhere] = [await open(), await open()];
    const [id, other] = [idOf(1), idOf(2)];
    const received = Promise.withResolvers<number>();
    const unsubscribe = here.signals.subscribe(id, received.resolve);
    // Oftener than it is looked.
    const crowd = setInterval(() => here.signals.subscribe(other, () => {})(), 10);
    await elsewhere.log.append(id, 0, toNewEntries([created]));
    expect(await received.promise).toBe(1);
    clearInterval(crowd);
    unsubscribe();
    await Promise.all([here.close(), elsewhere.close()]);
  });
});

describe("a folder that is gone", () => {
  it("[F11] [F7] is told of once, and does not end whoever listens to it", async () => {
    const folder = mkdtempSync(join(root, "gone-"));
    const warned: string[] = [];
    const store = await openEmbeddedStore(folder, { warn: (sentence) => warned.push(sentence) });
    await store.log.append(idOf(1), 0, toNewEntries([created]));
    vi.useFakeTimers({ toFake: ["setInterval"] });
    // The second is not at hand: where it ends is looked up in a file.
    const unsubscribe = [1, 2].map((number) => store.signals.subscribe(idOf(number), () => {}));
    rmSync(folder, { recursive: true, force: true });
    // What a look throws is thrown here, and would end a process.
    vi.advanceTimersByTime(3_000);
    vi.useRealTimers();
    expect(warned).toEqual([expect.stringContaining("what other processes append cannot be read")]);
    for (const end of unsubscribe) end();
    await store.close().catch(() => {});
  });
});
