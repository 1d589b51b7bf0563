import { describe, expect, it } from "vitest";
import { createRandom } from "../../../../test/crash/random.ts";
import type { Embedder, MemoryStore } from "../ports/memory.ts";
import { createMemoryStoreInMemory } from "../stores/recall-in-memory.ts";
import { toChunk } from "./chunk.ts";
import { createRecall, type Recalled } from "./recall.ts";

const NOW = Date.UTC(2026, 10, 15, 12);
const DAY_MS = 86_400_000;
const { signal } = new AbortController();

interface Said {
  readonly text: string;
  readonly session?: string;
  readonly daysAgo?: number;
}

async function storeOf(said: readonly Said[]): Promise<MemoryStore> {
  const store = createMemoryStoreInMemory();
  const bySession = Map.groupBy(said, ({ session }) => session ?? "s1");
  for (const [session_id, messages] of bySession) {
    const chunks = messages.map(({ text, daysAgo = 0 }, index) =>
      toChunk({
        session_id,
        turn: index + 1,
        seq: index + 1,
        part: 0,
        role: "user",
        kind: "text",
        created_at_ms: NOW - daysAgo * DAY_MS,
        text,
      }),
    );
    await store.add({ session_id, cursor: messages.length, chunks, discarded: [] });
  }
  return store;
}

async function ask(store: MemoryStore, query: string, embedder?: Embedder): Promise<Recalled> {
  const recall = createRecall({ store, embedder, now: () => NOW });
  return recall(query, { scope: { discardedOnly: false }, limit: 5, signal });
}

const textsOf = ({ hits }: Recalled): readonly string[] => hits.map(({ chunk }) => chunk.text);

const TALK = [
  "The staging database listens on port 6543 because 5432 was taken.",
  "We settled on argon2id for hashing passwords.",
  "The nightly backup goes to the bucket frost-harbour.",
  "Marta's train arrives at 18:40 in Graz on Thursday.",
  "My grandmother's lemon cake needs 250 grams of sugar.",
  "Let us paint the fence blue next spring.",
].map((text, index) => ({ text, session: `s${index}` }));

/** Meaning by topic: a question and a message are alike when they name things of one topic. */
function createTopicEmbedder(topics: readonly RegExp[]): Embedder {
  const embed = (text: string): Float32Array => {
    const vector = Float32Array.from([0.5, ...topics.map((topic) => (topic.test(text) ? 1 : 0))]);
    const length = Math.hypot(...vector);
    return vector.map((value) => value / length);
  };
  return {
    id: "topics",
    dimensions: topics.length + 1,
    embed: async (texts) => texts.map(embed),
    close: async () => {},
  };
}

async function embedAll(store: MemoryStore, embedder: Embedder): Promise<void> {
  const chunks = await store.vectors.missing(embedder.id, 1_000);
  const vectors = await embedder.embed(
    chunks.map(({ text }) => text),
    "passage",
    signal,
  );
  await store.vectors.put(
    embedder.id,
    chunks.flatMap(({ id }, index) => {
      const vector = vectors[index];
      return vector === undefined ? [] : [{ id, vector }];
    }),
  );
}

describe("recall by words", () => {
  it("[L5] gives the same answers whether it asks the store for terms or reads the texts", async () => {
    const random = createRandom(11);
    const words = [
      "the",
      "Port",
      "port",
      "6543",
      "createSession",
      "café",
      "Cafe",
      "running",
      "ran",
      "端口是",
      "a.b/c",
      "don't",
      "?",
    ];
    const sentence = (): string =>
      Array.from({ length: 1 + random() * 9 }, () => words[Math.floor(random() * words.length)]).join(" ");
    const store = await storeOf(Array.from({ length: 300 }, (_, at) => ({ text: sentence(), session: `s${at % 7}` })));
    const reading: MemoryStore = {
      ...store,
      match: async (...asked) => {
        const { holds: _, ...rest } = await store.match(...asked);
        return rest;
      },
    };
    for (let run = 0; run < 60; run += 1) {
      const query = sentence();
      expect(await ask(store, query), query).toEqual(await ask(reading, query));
    }
  });

  it("[D5] answers without an embedder, and says so", async () => {
    const recalled = await ask(await storeOf(TALK), "Which port does the staging database use?");
    expect(recalled.mode).toBe("lexical");
    expect(recalled.hits[0]?.chunk.text).toBe(TALK[0]?.text);
  });

  it("[D3] scores the exact text at least 0.99, whatever its case and marks", async () => {
    const store = await storeOf(TALK);
    for (const { text } of TALK) {
      const { hits } = await ask(store, text.toUpperCase().replace(".", "!"));
      expect(hits[0]?.chunk.text).toBe(text);
      expect(hits[0]?.score).toBeGreaterThanOrEqual(0.99);
    }
  });

  it("[D3] scores a match that covers the question above 0.7 and the unrelated below 0.3", async () => {
    const store = await storeOf(TALK);
    const useful = await ask(store, "how much sugar for the lemon cake of my grandmother");
    expect(useful.hits[0]?.chunk.text).toBe(TALK[4]?.text);
    expect(useful.hits[0]?.score).toBeGreaterThan(0.7);
    const unrelated = await ask(store, "Who was the first emperor of Brazil and where is he buried?");
    expect(Math.max(0, ...unrelated.hits.map(({ score }) => score))).toBeLessThan(0.3);
  });

  it("[D3] never lets a score rise down the list", async () => {
    const { hits } = await ask(await storeOf(TALK), "the port of the train in the nightly backup");
    const scores = hits.map(({ score }) => score);
    expect(scores).toEqual([...scores].sort((a, b) => b - a));
    expect(scores.every((score) => score >= 0 && score <= 1)).toBe(true);
  });

  it("[D3] [D4] a question asked before stands below what answers it, and never outscores it", async () => {
    const question = "Which port does the staging database use?";
    const store = await storeOf([
      { text: question, session: "asked" },
      { text: "which port, for the staging database?", session: "asked too" },
      ...TALK,
    ]);
    for (const query of [question, "port staging database"]) {
      const { hits } = await ask(store, query);
      expect(hits[0]?.chunk.text).toBe(TALK[0]?.text);
      const scores = hits.map(({ score }) => score);
      expect(scores).toEqual([...scores].sort((a, b) => b - a));
      expect(hits.map(({ chunk }) => chunk.text)).toContain(question);
    }
    // Where nothing answers it, it is what was looked for.
    const heron = { text: "Who feeds the heron?", session: "birds" };
    const alone = await ask(await storeOf([heron, ...TALK]), "Who feeds the heron?");
    expect(alone.hits[0]).toMatchObject({ chunk: { text: "Who feeds the heron?" }, score: 1 });
  });

  it("[D2] what only stands beside a hit takes no place of what was found", async () => {
    const storm =
      `A port in a storm. ${"The rain went on and the kettle boiled for a second time. ".repeat(12)}`.trim();
    const store = await storeOf([
      { text: "The port is 6543, I say: port 6543.", session: "s1" },
      { text: "Fine with me.", session: "s1" },
      { text: storm, session: "s2" },
      ...Array.from({ length: 60 }, (_, index) => ({ text: `Nothing of the kind, ${index}.`, session: `t${index}` })),
    ]);
    const recall = createRecall({ store, embedder: undefined, now: () => NOW });
    const { hits } = await recall("port", { scope: { discardedOnly: false }, limit: 2, signal });
    expect(hits.map(({ chunk }) => chunk.text).sort()).toEqual([storm, "The port is 6543, I say: port 6543."]);
  });

  it("[D5] meaning does not outweigh the day that is asked for", async () => {
    const said = [
      "We went on about the roof.",
      ...Array.from({ length: 8 }, () => "Roof tiles and gutters."),
      "The garden, mostly.",
    ];
    const store = await storeOf(said.map((text, at) => ({ text, session: `s${at}`, daysAgo: at === 9 ? 1 : 20 + at })));
    // By meaning everything is nearer to the question than what was said on that day.
    const vectors = said.map((_, at) => ({
      id: at + 1,
      vector: at === 9 ? Float32Array.of(0, 1) : Float32Array.of(1, 0),
    }));
    await store.vectors.put("meaning", vectors);
    const embedder: Embedder = {
      id: "meaning",
      dimensions: 2,
      unrelated: Float32Array.of(0, 0),
      embed: async (texts) => texts.map(() => Float32Array.of(1, 0)),
      close: async () => {},
    };
    const recall = createRecall({ store, embedder, now: () => NOW });
    const found = await recall("What was it about yesterday?", { scope: { discardedOnly: false }, limit: 2, signal });
    expect(textsOf(found)[0]).toBe("The garden, mostly.");
  });

  it("[D5] finds by the day it was said", async () => {
    const said = ["We talked about the roof.", "We talked about the garden.", "We talked about the car."];
    const store = await storeOf(said.map((text, index) => ({ text, session: `s${index}`, daysAgo: index })));
    expect(textsOf(await ask(store, "What did we talk about yesterday?"))[0]).toBe(said[1]);
    expect(textsOf(await ask(store, "What did we talk about on 13 November 2026?"))[0]).toBe(said[2]);
  });

  it("[D5] folds a crowd of identical messages into one hit", async () => {
    const same = Array.from({ length: 20_000 }, () => ({ text: "The build is green.", session: "ci" }));
    const store = await storeOf([...same, { text: "The build is red since the merge.", session: "dev" }]);
    const { hits } = await ask(store, "is the build green or red");
    expect(hits.map(({ chunk }) => chunk.text).sort()).toEqual([
      "The build is green.",
      "The build is red since the merge.",
    ]);
  });

  it("[D3] what answers a question that was asked before stands above it, and is told as sure", async () => {
    const question = "Which colour did we pick for the fence?";
    const store = await storeOf([{ text: question }, { text: "Teal, as on the boat." }]);
    const { hits } = await ask(store, question);
    expect(hits[0]).toMatchObject({ chunk: { text: "Teal, as on the boat." }, score: 0.9 });
    expect(hits[1]).toMatchObject({ chunk: { text: question }, score: 0.9 });
  });

  it("[D12] says what brought a hit where it stands, where that is asked for", async () => {
    const store = await storeOf([
      { text: "Which port does the staging database use?" },
      { text: "It is 6543, the usual one was taken." },
      { text: "Let us paint the fence blue next spring.", session: "s2" },
    ]);
    const recall = createRecall({ store, embedder: undefined, now: () => NOW });
    const query = "the port of the staging database";
    const asked = { scope: { discardedOnly: false }, limit: 5, signal };
    const { hits } = await recall(query, { ...asked, explain: true });
    const [answer, question] = hits;
    expect(question?.why).toEqual({ words: expect.closeTo(0.8, 0), meaning: 0, neighbours: 0 });
    // It shares no word with the question: what was said before it does.
    expect(answer?.why).toEqual({ words: expect.closeTo(0, 0), meaning: 0, neighbours: 1 });
    expect((await recall(query, asked)).hits).toEqual(hits.map(({ why: _, ...hit }) => hit));
    const { hits: exact } = await recall("Let us paint the fence blue next spring.", { ...asked, explain: true });
    expect(exact[0]?.why).toEqual({ words: 1, meaning: 0, neighbours: 0 });
  });

  it("[D5] answers an empty question with nothing and stop words with what holds them", async () => {
    const store = await storeOf([...TALK, { text: "To be or not to be.", session: "play" }]);
    expect(await ask(store, "  ?! ")).toEqual({ hits: [], mode: "lexical", vectorsPending: false });
    expect(textsOf(await ask(store, "to be or not to be"))[0]).toBe("To be or not to be.");
  });

  it("[D5] answers a question of 100 kB in bounded time", async () => {
    const store = await storeOf(TALK);
    const query = `lemon cake sugar ${"and another thing that was never said ".repeat(2_700)}`;
    const startedMs = performance.now();
    expect(textsOf(await ask(store, query))[0]).toBe(TALK[4]?.text);
    expect(performance.now() - startedMs).toBeLessThan(2_000);
  });

  it.each([
    ["a session", { sessionId: "s1", discardedOnly: false }, ["The port is 6543.", "Fine with me."]],
    ["what was said up to a seq", { sessionId: "s1", discardedOnly: false, upToSeq: 1 }, ["The port is 6543."]],
    ["what was discarded", { discardedOnly: true }, ["The port is 6543."]],
  ])("[D4] shows nothing beside %s, not even the next message", async (_, scope, texts) => {
    const store = createMemoryStoreInMemory();
    const said = (session_id: string, seq: number, text: string) =>
      toChunk({ session_id, turn: 1, seq, part: 0, role: "user", kind: "text", created_at_ms: NOW, text });
    const chunks = [said("s1", 1, "The port is 6543."), said("s1", 2, "Fine with me.")];
    await store.add({ session_id: "s1", cursor: 2, chunks, discarded: [{ from_seq: 1, to_seq: 1 }] });
    await store.add({ session_id: "s2", cursor: 1, chunks: [said("s2", 1, "A port in a storm.")], discarded: [] });
    const recall = createRecall({ store, embedder: undefined, now: () => NOW });
    const { hits } = await recall("port", { scope, limit: 5, tokensMax: 1_200, signal });
    expect(hits.flatMap(({ chunk, around }) => [chunk, ...around]).map(({ text }) => text)).toEqual(texts);
  });
});

describe("recall by meaning", () => {
  const embedder = createTopicEmbedder([/cake|dessert|bake/i, /train|travel/i, /password|secur/i]);

  it("[D5] finds what shares no word with the question", async () => {
    const store = await storeOf(TALK);
    await embedAll(store, embedder);
    const recalled = await ask(store, "Any dessert ideas?", embedder);
    expect(recalled.mode).toBe("hybrid");
    expect(recalled.hits[0]?.chunk.text).toBe(TALK[4]?.text);
  });

  it("[D5] falls back to words while vectors are pending", async () => {
    const recalled = await ask(await storeOf(TALK), "lemon cake", embedder);
    expect([recalled.mode, textsOf(recalled)[0]]).toEqual(["lexical", TALK[4]?.text]);
  });

  it("[D5] falls back to words when the embedder fails, and passes on that it was stopped", async () => {
    const failing = { ...embedder, embed: () => Promise.reject(new Error("no model")) };
    const store = await storeOf(TALK);
    const recalled = await ask(store, "lemon cake", failing);
    expect([recalled.mode, textsOf(recalled)[0]]).toEqual(["lexical", TALK[4]?.text]);
    const recall = createRecall({ store, embedder: failing, now: () => NOW });
    const stopped = recall("lemon", { scope: { discardedOnly: false }, limit: 5, signal: AbortSignal.abort() });
    await expect(stopped).rejects.toThrow("aborted");
  });
});

describe("the parts of a long message", () => {
  const said = (session_id: string, seq: number, parts: readonly string[]) =>
    parts.map((text, part) =>
      toChunk({ session_id, turn: seq, seq, part, role: "user", kind: "text", created_at_ms: NOW, text }),
    );
  const options = { scope: { discardedOnly: false }, limit: 3, signal };
  const report = Array.from({ length: 300 }, (_, at) => `The ferry timetable, page ${at}: the ferry leaves at ${at}.`);

  it("[D2] are one hit, the part that answers best, and the next best of them stand beside it", async () => {
    const store = createMemoryStoreInMemory();
    const page = (at: number) => `Where the ferry takes bicycles is on page ${at}, with all fares and hours.`;
    const parts = [...[1, 2, 3, 4, 5, 6, 7, 8].map(page), "The ferry to Lindholm takes bicycles on deck two."];
    const other = (seq: number) => said("s1", seq, [`I took the ferry, and bicycles were stacked, ${seq} of them.`]);
    const chunks = [...said("s1", 1, parts), ...other(2), ...other(3)];
    await store.add({ session_id: "s1", cursor: 3, chunks, discarded: [] });
    const recall = createRecall({ store, embedder: undefined, now: () => NOW });
    const { hits } = await recall("Where does the ferry to Lindholm take bicycles?", { ...options, tokensMax: 1_200 });
    expect(hits.map(({ chunk }) => chunk.seq).sort()).toEqual([1, 2, 3]);
    const whole = hits.find(({ chunk }) => chunk.seq === 1);
    expect(whole?.chunk.part).toBe(8);
    expect(whole?.around.filter(({ seq }) => seq === 1).length).toBeGreaterThan(1);
  });

  it("[D2] leave places for other messages, however many parts there are", async () => {
    const store = createMemoryStoreInMemory();
    await store.add({ session_id: "s1", cursor: 1, chunks: said("s1", 1, report), discarded: [] });
    const long = "We also spoke of gardens, roofs, boats, harbours, birds and of many other things on that day, ";
    const short = [2, 3].flatMap((seq) =>
      said("s2", seq, [`${long.repeat(4)} and once, number ${seq}, of the ferry.`]),
    );
    await store.add({ session_id: "s2", cursor: 3, chunks: short, discarded: [] });
    const recall = createRecall({ store, embedder: undefined, now: () => NOW });
    const { hits } = await recall("the ferry timetable", options);
    expect(hits.map(({ chunk }) => `${chunk.session_id} ${chunk.seq}`).sort()).toEqual(["s1 1", "s2 2", "s2 3"]);
  });
});

describe("what is told around a hit", () => {
  it("[D13] has what answers too, in its session and others, and from afar nothing that does not", async () => {
    const talk = Array.from({ length: 40 }, (_, at) => ({ text: `We talked about the garden, row ${at}.` }));
    const said = (at: number, text: string) => talk.splice(at, 1, { text });
    said(5, "The lighthouse keeper Ingrid keeps seven goats.");
    said(30, "Ingrid the lighthouse keeper paints at night.");
    said(39, "Which goats does the lighthouse keeper Ingrid keep?");
    const recall = createRecall({ store: await storeOf(talk), embedder: undefined, now: () => NOW });
    const asked = "Which goats does Ingrid, the lighthouse keeper, keep?";
    const options = { scope: { discardedOnly: false }, limit: 1, tokensMax: 1_200, signal };
    const [hit] = (await recall(asked, options)).hits;
    expect(hit?.chunk.seq).toBe(6);
    expect(hit?.around.map(({ seq }) => seq)).toEqual([3, 4, 5, 7, 8, 9, 31]);
  });
});
