import { describe, expect, it } from "vitest";
import { scriptedRuntime } from "../../../../test/support/runtime.ts";
import { createInMemoryStore } from "../create-runtime.ts";
import type { Delivery } from "./event-queue.ts";

/** Reads until an event of this type has come `times` times. */
async function readUntil(deliveries: AsyncIterable<Delivery>, type: string, times = 1): Promise<Delivery[]> {
  const received: Delivery[] = [];
  let seen = 0;
  for await (const delivery of deliveries) {
    received.push(delivery);
    if (delivery.event.type === type) seen += 1;
    if (seen === times) break;
  }
  return received;
}

describe("a subscription", () => {
  it("[F4] replays from any seq exactly what was heard live, then goes on live, without gap or repeat", async () => {
    const { runtime } = scriptedRuntime((_, index) => ({ text: [`answer `, `${index}`] }), {
      store: createInMemoryStore(),
    });
    const session = await runtime.createDeferredSession("Begin.");
    const live = readUntil(runtime.subscribe(session.id), "run_completed", 3);
    await session.turn("One.");
    await session.turn("Two.");
    const durable = (await runtime.dispatch("listEvents", { scope: { type: "session", session_id: session.id } }))
      .events;
    const late = readUntil(runtime.subscribe(session.id, { after: 0 }), "run_completed", 3);
    const middle = readUntil(
      runtime.subscribe(session.id, { after: durable[3]?.cursor.sequence ?? 0 }),
      "run_completed",
      3,
    );
    await new Promise((resolve) => setImmediate(resolve));
    await session.turn("Three.");
    const isDurable = ({ seq }: Delivery): boolean => seq !== 0;
    const received = (await live).filter(isDurable);
    expect((await late).filter(isDurable)).toEqual(received);
    const seqs = received.map(({ seq }) => seq);
    expect(seqs).toEqual(seqs.map((_, index) => (seqs[0] ?? 0) + index));
    const tail = received.filter(({ seq }) => seq > (durable[3]?.cursor.sequence ?? 0));
    expect((await middle.catch(() => [])).filter(isDurable).slice(0, tail.length)).toEqual(tail);
  });

  it("[F4] [A3] misses nothing that another process of the store appended between two turns of its own", async () => {
    const store = createInMemoryStore();
    const runtimes = [1, 2].map(() => scriptedRuntime(() => ({ text: "Yes." }), { store }).runtime);
    const [here, elsewhere] = runtimes;
    const session = await here?.createDeferredSession("Begin.");
    if (here === undefined || elsewhere === undefined || session === undefined) throw new Error("there are two");
    await session.turn("One.");
    const received = readUntil(here.subscribe(session.id), "run_completed", 2);
    await elsewhere.session(session.id).turn("Two.");
    await session.turn("Three.");
    const prompts = (await received).flatMap(({ event }) => (event.type === "run_started" ? [event.prompt] : []));
    expect(prompts).toEqual(["Two.", "Three."]);
    const seqs = (await received).map(({ seq }) => seq).filter((seq) => seq !== 0);
    expect(seqs).toEqual(seqs.toSorted((a, b) => a - b));
  });

  it("[H5] a reader that lags is told, and misses nothing durable", async () => {
    const deltas = Array.from({ length: 9_000 }, (_, index) => `${index} `);
    const { runtime } = scriptedRuntime([{ text: deltas }], { store: createInMemoryStore() });
    const session = await runtime.createDeferredSession("Begin.");
    const subscription = runtime.subscribe(session.id)[Symbol.asyncIterator]();
    const first = subscription.next();
    await session.turn("Talk.");
    const received: Delivery[] = [(await first).value];
    while (received.at(-1)?.event.type !== "run_completed") received.push((await subscription.next()).value);
    expect(received.some(({ event }) => event.type === "stream_truncated")).toBe(true);
    const seqs = received.map(({ seq }) => seq).filter((seq) => seq !== 0);
    expect(seqs).toEqual(seqs.map((_, index) => (seqs[0] ?? 0) + index));
  });

  it("ends when its signal does", async () => {
    const { runtime } = scriptedRuntime([], { store: createInMemoryStore() });
    const session = await runtime.createDeferredSession("Begin.");
    const controller = new AbortController();
    const reading = readUntil(runtime.subscribe(session.id, { signal: controller.signal }), "never");
    controller.abort();
    expect(await reading).toEqual([]);
  });

  it("[F4] pages events after a cursor, and says where the newest is", async () => {
    const { runtime } = scriptedRuntime(() => ({ text: "ok" }), { store: createInMemoryStore() });
    const session = await runtime.createSession("One.");
    const scope = { type: "session", session_id: session.id };
    const { cursor } = await runtime.dispatch("readEventCursor", { scope });
    const all = await runtime.dispatch("listEvents", { scope });
    expect(all).toMatchObject({ has_more: false, latest_cursor: cursor });
    const page = await runtime.dispatch("listEvents", { scope, limit: 2 });
    const rest = await runtime.dispatch("listEvents", { scope, cursor: page.events.at(-1)?.cursor });
    expect(page.has_more).toBe(true);
    expect([...page.events, ...rest.events]).toEqual(all.events);
  });

  it("[F8] reading all events costs reads by the page, not by the turn", async () => {
    const store = createInMemoryStore();
    let reads = 0;
    const log: typeof store.log = {
      ...store.log,
      read: (...args) => {
        reads += 1;
        return store.log.read(...args);
      },
    };
    const { runtime } = scriptedRuntime(() => ({ text: "ok" }), { store: { ...store, log } });
    const session = await runtime.createSession("One.");
    for (let turn = 0; turn < 300; turn += 1) await session.turn("Again.");
    reads = 0;
    const { events } = await runtime.dispatch("listEvents", { scope: { type: "session", session_id: session.id } });
    expect(events).toHaveLength(1_000);
    expect(reads).toBeLessThan(10);
  });
});
