import { describe, expect, it } from "vitest";
import type { Embedder } from "../ports/embedder.ts";
import { rememberTexts } from "./open-embedder.ts";
import { createHashingEmbedder } from "./word-vectors.ts";

const { signal } = new AbortController();

/** The hashing embedder, and every text it was really given. */
function counted(): { embedder: Embedder; asked: string[] } {
  const inner = createHashingEmbedder();
  const asked: string[] = [];
  return {
    asked,
    embedder: {
      ...inner,
      embed: (texts, kind, signal) => {
        asked.push(...texts.map((text) => `${kind} ${text}`));
        return inner.embed(texts, kind, signal);
      },
    },
  };
}

describe("an embedder that remembers its texts", () => {
  it("[D5] makes the vector of the same text once, also within one call, and answers in order", async () => {
    const { embedder, asked } = counted();
    const remembering = rememberTexts(embedder);
    const [a, b, again] = await remembering.embed(["the kettle", "the rain", "the kettle"], "passage", signal);
    const [later] = await remembering.embed(["the rain"], "passage", signal);
    expect(asked).toEqual(["passage the kettle", "passage the rain"]);
    expect(again).toEqual(a);
    expect(later).toEqual(b);
    expect(a).not.toEqual(b);
    expect([a, b]).toEqual(await createHashingEmbedder().embed(["the kettle", "the rain"], "passage", signal));
  });

  it("tells a question from a passage of the same words", async () => {
    const { embedder, asked } = counted();
    const remembering = rememberTexts(embedder);
    await remembering.embed(["the kettle"], "passage", signal);
    await remembering.embed(["the kettle"], "query", signal);
    expect(asked).toEqual(["passage the kettle", "query the kettle"]);
  });

  it("forgets the text it was not given for longest", async () => {
    const { embedder, asked } = counted();
    const remembering = rememberTexts(embedder, 2);
    for (const text of ["one", "two", "one", "three", "one", "two"]) await remembering.embed([text], "passage", signal);
    expect(asked).toEqual(["passage one", "passage two", "passage three", "passage two"]);
  });

  it("gives vectors of the caller's own: changing one changes no later answer", async () => {
    const remembering = rememberTexts(createHashingEmbedder());
    const [first] = await remembering.embed(["the kettle"], "passage", signal);
    const copy = first?.slice();
    first?.fill(0);
    expect((await remembering.embed(["the kettle"], "passage", signal))[0]).toEqual(copy);
  });
});
