import { spawnSync } from "node:child_process";
import { join } from "node:path";
import type { Embedder } from "@rkat/core/ports/memory";
import { describe, expect, it } from "vitest";
import { createLocalEmbedder } from "./local.ts";
import { createHashingEmbedder, openDefaultEmbedder, rememberTexts } from "./open-embedder.ts";

const never = new AbortController().signal;

describe("the default embedder", () => {
  it("[D5] is the local one where it can be loaded", async () => {
    const reported: string[] = [];
    const embedder = await openDefaultEmbedder((sentence) => reported.push(sentence), never);
    expect({ id: embedder.id, reported }).toEqual({ id: createLocalEmbedder().id, reported: [] });
    await embedder.close();
  });

  it("[D5] says once why it cannot be loaded, and that words alone are searched", async () => {
    const reported: string[] = [];
    const broken = createLocalEmbedder({ weights: { name: "absent.bin", sha256: "00" } });
    const opened = openDefaultEmbedder((sentence) => reported.push(sentence), never, broken);
    await expect(opened).rejects.toMatchObject({ code: "CAPABILITY_UNAVAILABLE" });
    expect(reported).toEqual([
      expect.stringMatching(/^absent\.bin cannot be read: .*; memory is searched by words alone/),
    ]);
  });

  it("[D5] is the local one also in a process with a long command line", () => {
    const script = `
      import { openDefaultEmbedder } from ${JSON.stringify(join(import.meta.dirname, "open-embedder.ts"))};
      const embedder = await openDefaultEmbedder((sentence) => console.log(sentence), new AbortController().signal);
      const [vector] = await embedder.embed(["hello"], "query", new AbortController().signal);
      console.log(vector.length);
      await embedder.close();
    `;
    const args = ["--input-type=module", "-e", script, "heron ".repeat(4_000)];
    const { status, stdout } = spawnSync(process.execPath, args, { encoding: "utf8" });
    expect({ status, stdout }).toEqual({ status: 0, stdout: "384\n" });
  });

  it("[D5] is not waited for by whoever gives up while it is loaded", async () => {
    const stop = new AbortController();
    const opened = openDefaultEmbedder(() => {}, stop.signal);
    stop.abort();
    await expect(opened).rejects.toMatchObject({ code: "REQUEST_CANCELLED" });
    await expect(openDefaultEmbedder(() => {}, stop.signal)).rejects.toMatchObject({ code: "REQUEST_CANCELLED" });
  });
});

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
