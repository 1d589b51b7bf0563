import type { Entry } from "@rkat/core/contract/entry";
import { createInMemoryStore, createRuntime, type Runtime } from "@rkat/core/create-runtime";
import { describe, expect, it } from "vitest";
import { chance } from "../compaction/chances.ts";
import { createCompactingModel, look, OFTEN } from "../compaction/compacting-model.ts";
import { createRandomSession } from "../compaction/random-session.ts";
import { createRandom } from "../crash/random.ts";
import { compactionCorpus } from "../support/corpus.ts";
import { byEffort } from "../support/effort.ts";
import { idOf } from "../support/entries.ts";
import { contextsOf, emptyRealm, entriesOf, exported, imported, plant } from "./carried.ts";

const SESSIONS = byEffort({ usual: 20, full: 1_000 });

const CASES = byEffort({ usual: 4, full: Number.POSITIVE_INFINITY });
const TIMEOUT_MS = 600_000;

describe("a session that is exported and imported", () => {
  it.each(compactionCorpus().slice(0, CASES))(
    "[K2] is the same after $name: every context of a call, every receipt, every entry",
    async ({ messages }) => {
      const store = createInMemoryStore();
      const source = createRuntime({
        model: createCompactingModel(async () => {}),
        ...{ store, tools: [look], toolPreset: "none", compaction: OFTEN, env: {} },
      });
      const [first] = messages;
      const system = first?.role === "system" ? { systemPrompt: first.content } : {};
      const history = messages.filter(({ role }) => role !== "system");
      const { id } = await source.createSession("And what is left to do?", { ...system, history });
      for (const prompt of ["Go on.", "And then?", "What was the first thing?", "Is it done?"]) {
        await source.session(id).turn(prompt);
      }
      await source.session(id).compact();

      const elsewhere = emptyRealm();
      const brought = await imported(elsewhere.runtime, await exported(source, id));
      expect(brought.id).toBe(id);
      expect(await entriesOf(elsewhere.store, id)).toEqual(await entriesOf(store, id));
      const calls = await callsOf(source, id);
      expect(calls.length).toBeGreaterThan(4);
      expect(await callsOf(elsewhere.runtime, id)).toEqual(calls);
      const { compactions } = await source.dispatch("listCompactions", { session_id: id });
      expect(compactions.length).toBeGreaterThan(0);
      expect(await elsewhere.runtime.dispatch("listCompactions", { session_id: id })).toEqual({ compactions });
      expect(await exported(elsewhere.runtime, id)).toBe(await exported(source, id));
    },
    TIMEOUT_MS,
  );

  it(
    `[K2] is the same for ${SESSIONS} sessions to which anything was done, in an empty realm and beside itself`,
    async () => {
      for (let seed = 1; seed <= SESSIONS; seed += 1) {
        const entries = await randomLog(seed);
        const id = idOf(seed);
        const { store, runtime } = emptyRealm();
        await plant(store, id, entries);
        const file = await exported(runtime, id);
        const elsewhere = emptyRealm();
        expect({ seed, id: (await imported(elsewhere.runtime, file)).id }).toEqual({ seed, id });
        const beside = (await imported(runtime, file, 1_000)).id;
        expect(beside).not.toBe(id);
        for (const [place, there] of [
          [elsewhere.store, id],
          [store, beside],
        ] as const) {
          const found = await entriesOf(place, there);
          expect({ seed, entries: found.map((entry) => JSON.stringify(entry)) }).toEqual({
            seed,
            entries: entries.map(({ seq, span, timestamp_ms, body }) =>
              JSON.stringify({ seq, span, timestamp_ms, body }),
            ),
          });
          expect({ seed, ...contextsOf(there, found) }).toEqual({ seed, ...contextsOf(id, entries) });
        }
      }
    },
    TIMEOUT_MS,
  );

  it("[K2] goes on elsewhere, and what was said there is added where the beginning of it lies", async () => {
    const here = emptyRealm();
    const { id } = await here.runtime.createSession("The server is called heron.");
    const before = await exported(here.runtime, id);
    const there = emptyRealm();
    await imported(there.runtime, before);
    expect((await there.runtime.session(id).turn("It moved.")).text).toBe("Noted.");
    expect((await imported(here.runtime, await exported(there.runtime, id))).id).toBe(id);
    expect(await entriesOf(here.store, id)).toEqual(await entriesOf(there.store, id));
    expect((await here.runtime.session(id).history()).messageCount).toBe(4);
    // What is shorter than what is there, or another, is kept beside it.
    expect((await imported(here.runtime, before)).id).not.toBe(id);
  });

  it("[K2] brings what its messages keep by reference, and nothing that they only speak of", async () => {
    const here = emptyRealm();
    const secret = await here.store.blobs.put({ mediaType: "text/plain", data: Buffer.from("of somebody else") });
    const image = Buffer.from("an image of some length".repeat(500)).toString("base64");
    const block = { type: "image" as const, source: "inline" as const, media_type: "image/png", data: image };
    const { id } = await here.runtime.createSession({ history: [{ role: "user", content: [block] }] });
    await here.runtime.session(id).turn(`What does ${secret} hold?`);
    const file = await exported(here.runtime, id);
    expect(file).not.toContain(Buffer.from("of somebody else").toString("base64"));
    const there = emptyRealm();
    expect(await imported(there.runtime, file)).toMatchObject({ id, blobs: 1 });
    const [blob = ""] = await there.store.blobs.ids("", 2);
    expect((await there.store.blobs.get(blob))?.data).toEqual((await here.store.blobs.get(blob))?.data);
  });

  it("[K2] through its operations is read page by page, and brought in call by call", async () => {
    const here = emptyRealm();
    const { id: session_id } = await here.runtime.createSession("One.");
    for (const prompt of ["Two.", "Three."]) await here.runtime.session(session_id).turn(prompt);
    const there = emptyRealm().runtime;
    let after = 0;
    let into: string | undefined;
    for (let page = 0; page < 100; page += 1) {
      const read = await here.runtime.dispatch("exportSession", { session_id, after, limit: 2 });
      const where = into === undefined ? {} : { into };
      const { last_seq, entries } = read;
      const input = { source_session_id: session_id, last_seq, after, entries, ...where };
      const answer = await there.dispatch("importSession", input);
      into = answer.session_id;
      expect(answer.complete).toBe(read.next_after === undefined);
      if (read.next_after === undefined) break;
      after = read.next_after;
    }
    expect(await exported(there, session_id)).toBe(await exported(here.runtime, session_id));
    const within = here.runtime.dispatch("exportSession", { session_id, after: 5, limit: 1 });
    await expect(within).rejects.toMatchObject({ code: "INVALID_PARAMS", message: /lies within the entry at/ });
  });
});

/** What each call of a session was shown. */
async function callsOf(runtime: Runtime, session_id: string) {
  const { calls } = await runtime.dispatch("listModelCalls", { session_id });
  const contexts = [];
  for (const { seq } of calls) {
    const { sha256, messages } = await runtime.dispatch("readContext", { session_id, at_seq: seq });
    contexts.push({ seq, sha256, messages });
  }
  return contexts;
}

/** A log with everything that changes what is shown, at times of its own. */
async function randomLog(seed: number): Promise<readonly Entry[]> {
  const random = createRandom(seed);
  const session = await createRandomSession(seed, { turnsMax: 6, isWordless: seed % 10 !== 0 });
  const deeds = ["compact", "evict", "pin", "unpin", "expand", "undo", "rewrite", "restore"] as const;
  for (const deed of deeds) {
    if (chance(random, 0.6)) await session[deed]();
    if (chance(random, 0.5)) await session.addTurns(2);
  }
  let now = Date.UTC(2026, 0, 1);
  return session.entries.map((entry) => {
    now += chance(random, 0.3) ? 0 : Math.floor(random() * 10_000) - 100;
    return { ...entry, timestamp_ms: now };
  });
}
