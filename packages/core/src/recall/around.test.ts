import { describe, expect, it } from "vitest";
import type { Scope } from "../ports/memory.ts";
import { createMemoryStoreInMemory } from "../stores/recall-in-memory.ts";
import { toChunk } from "./chunk.ts";
import { turnsAround } from "./recall.ts";

const EVERYTHING: Scope = { discardedOnly: false };

async function talk(texts: readonly string[], discarded: { from_seq: number; to_seq: number }[] = []) {
  const store = createMemoryStoreInMemory();
  const source = { session_id: "s1", part: 0, role: "user", kind: "text", created_at_ms: 0 } as const;
  const chunks = texts.map((text, at) => toChunk({ ...source, turn: at + 1, seq: at + 1, text }));
  await store.add({ session_id: "s1", cursor: texts.length, chunks, discarded });
  /** What is told around the chunks at these places. */
  const around = async (places: readonly number[], tokensMax: number, scope = EVERYTHING) => {
    const found = await store.read(places.map((place) => place + 1));
    const reported = await turnsAround(found, { store, scope, tokensMax, next: [] });
    return places.map((place) => (reported.get(place + 1) ?? []).map(({ text }) => text));
  };
  /** The same, where these places answer next best. */
  const aroundWithNext = async (places: readonly number[], nextPlaces: readonly number[], tokensMax: number) => {
    const [found, next] = await Promise.all([places, nextPlaces].map((all) => store.read(all.map((at) => at + 1))));
    const reported = await turnsAround(found ?? [], { store, scope: EVERYTHING, tokensMax, next: next ?? [] });
    return places.map((place) => (reported.get(place + 1) ?? []).map(({ text }) => text));
  };
  return { store, around, aroundWithNext };
}

const LETTERS = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];

describe("what was said around hits", () => {
  it("[D13] is told in its order, three to either side, with the better of two hits", async () => {
    const { around } = await talk(LETTERS);
    expect(await around([4], 1_000)).toEqual([["b", "c", "d", "f", "g", "h"]]);
    expect(await around([4, 6], 1_000)).toEqual([
      ["b", "c", "d", "f"],
      ["h", "i"],
    ]);
  });

  it("[D13] makes room for hits: what is beside the best comes first, and nothing where hits take all", async () => {
    const { around } = await talk(LETTERS);
    expect(await around([1, 7], 105)).toEqual([["a", "c"], []]);
    expect(await around([1, 7], 0)).toEqual([[], []]);
  });

  it("[D13] passes over what does not fit and over texts that are told already", async () => {
    const { around } = await talk(["short", "long ".repeat(400), "hit", "hit too", "short"]);
    expect(await around([2, 3], 200)).toEqual([[], ["short"]]);
  });

  it("[D4] [D13] is told of what the search may look at alone", async () => {
    const { around } = await talk(LETTERS, [{ from_seq: 4, to_seq: 5 }]);
    expect(await around([4], 1_000, { discardedOnly: true })).toEqual([["d"]]);
    expect(await around([4], 1_000, { sessionId: "s1", discardedOnly: false, upToSeq: 5 })).toEqual([["b", "c", "d"]]);
  });

  it("[D13] has what answers next best in the session, by turns with what is nearest, beside the hit it is nearer to", async () => {
    const { aroundWithNext } = await talk("abcdefghijklmnopqrstuvwxyz".split(""));
    // Room for four: the best that answers too, what follows the first hit, the next best, and what is before the hit.
    expect(await aroundWithNext([4, 20], [12, 18, 9, 25], 120)).toEqual([["d", "f", "m"], ["s"]]);
    expect(await aroundWithNext([4], [18, 12], 60)).toEqual([["f", "s"]]);
  });

  it("[D13] has what answers next best in other sessions beside the best hit, in the order of rank", async () => {
    const { store } = await talk(["a", "b"]);
    for (const [at, text] of ["the best of the rest", "the next best"].entries()) {
      const other = { session_id: `s${at + 2}`, part: 0, role: "user", kind: "text", created_at_ms: 0 } as const;
      await store.add({
        session_id: other.session_id,
        cursor: 1,
        chunks: [toChunk({ ...other, turn: 1, seq: 1, text })],
        discarded: [],
      });
    }
    const [hit, next] = [await store.read([1]), await store.read([4, 3])];
    const texts = async (tokensMax: number) =>
      (await turnsAround(hit, { store, scope: EVERYTHING, tokensMax, next })).get(1)?.map(({ text }) => text);
    expect(await texts(1_000)).toEqual(["b", "the best of the rest", "the next best"]);
    // Room for one: what answers better.
    expect(await texts(76)).toEqual(["the next best"]);
  });
});
