import type { MemoryStore } from "@rkat/core/ports/memory";
import { expect } from "vitest";
import { idOf } from "../support/entries.ts";
import { batchOf, embedAll, found } from "../support/memory-chunks.ts";
import { fc } from "../support/property.ts";

/** Every run of the property has sessions and words of its own. */
let run = 0;

const step = fc.record({
  session: fc.nat(3),
  words: fc.array(fc.array(fc.nat(5), { minLength: 1, maxLength: 6 }), { maxLength: 4 }),
  discardedTo: fc.nat(30),
  next: fc.constantFrom("nothing", "nothing", "restart", "embed", "drop"),
});

/** A memory finds what a plain list finds, whatever was done to both. */
export function likeAPlainList(open: () => Promise<MemoryStore>) {
  return fc.asyncProperty(fc.array(step, { maxLength: 14 }), async (steps) => {
    run += 1;
    const list = new Map<string, { readonly texts: { seq: number; text: string }[]; discardedTo: number }>();
    const dropped = new Set<string>();
    let store = await open();
    for (const { session, words, discardedTo, next } of steps) {
      const id = idOf(run * 8 + session + 10_000);
      const kept = list.get(id) ?? { texts: [], discardedTo };
      const seq = 1 + (await store.cursor(id));
      const texts = words.map((numbers) => numbers.map((number) => `r${run}w${number}`).join(" "));
      if (!dropped.has(id) && texts.length > 0) {
        await store.add({ ...batchOf(id, seq, texts), discarded: [{ from_seq: 1, to_seq: discardedTo }] });
        kept.texts.push(...texts.map((text, index) => ({ seq: seq + index, text })));
        list.set(id, { ...kept, discardedTo });
      }
      if (next === "embed") await embedAll(store);
      if (next === "drop") {
        await store.drop(id);
        list.delete(id);
        dropped.add(id);
      }
      if (next !== "restart") continue;
      await store.close();
      store = await open();
    }
    for (const [sessionId, { texts, discardedTo }] of list) {
      for (let number = 0; number <= 5; number += 1) {
        const word = `r${run}w${number}`;
        const holding = texts.filter(({ text }) => text.split(" ").includes(word));
        expect(await found(store, word, { sessionId, discardedOnly: false })).toEqual(holding.map(({ text }) => text));
        const left = holding.filter(({ seq }) => seq <= discardedTo).map(({ text }) => text);
        expect(await found(store, word, { sessionId, discardedOnly: true })).toEqual(left);
      }
    }
    await store.close();
  });
}
