import { describe, expect, it } from "vitest";
import { createRemoteEmbedder, type RemoteModel } from "./remote.ts";

const never = new AbortController().signal;

/** A provider that answers with the length of a text and writes down what it was sent. */
function fakeModel(over: Partial<RemoteModel> = {}): RemoteModel & { readonly sent: string[][] } {
  const sent: string[][] = [];
  return {
    provider: "fake",
    modelId: "lengths",
    maxEmbeddingsPerCall: 2,
    sent,
    async doEmbed({ values }) {
      sent.push(values);
      return { embeddings: values.map((value) => [value.length, 0]), warnings: [] };
    },
    ...over,
  };
}

describe("the remote embedder", () => {
  it("[D5] asks by batches the provider allows, and keeps the order", async () => {
    const model = fakeModel({
      async doEmbed({ values }) {
        model.sent.push(values);
        return { embeddings: values.map((value) => (value === "c" ? [0, 3] : [2, 0])), warnings: [] };
      },
    });
    const vectors = await createRemoteEmbedder(model, 2).embed(["a", "b", "c", "d", "e"], "passage", never);
    expect(model.sent).toEqual([["a", "b"], ["c", "d"], ["e"]]);
    expect(vectors.map((vector) => [...vector])).toEqual([
      [1, 0],
      [1, 0],
      [0, 1],
      [1, 0],
      [1, 0],
    ]);
  });

  it("[D5] bounds a batch of a provider without a limit", async () => {
    const model = fakeModel({ maxEmbeddingsPerCall: Number.POSITIVE_INFINITY });
    await createRemoteEmbedder(model, 2).embed(new Array<string>(200).fill("x"), "passage", never);
    expect(model.sent.map((batch) => batch.length)).toEqual([96, 96, 8]);
  });

  it("[D5] is named for provider, model and dimensions", () => {
    expect(createRemoteEmbedder(fakeModel(), 2).id).toBe("fake/lengths-2");
  });

  it("[D5] says when a provider fails or answers in another shape", async () => {
    const failing = fakeModel({ doEmbed: () => Promise.reject(new Error("quota")) });
    await expect(createRemoteEmbedder(failing, 2).embed(["a"], "query", never)).rejects.toMatchObject({
      code: "PROVIDER_ERROR",
      message: "fake/lengths-2 could not embed: quota",
    });
    await expect(createRemoteEmbedder(fakeModel(), 3).embed(["a"], "query", never)).rejects.toMatchObject({
      code: "PROVIDER_ERROR",
      message: "fake/lengths-3 answered 1 texts with 1 vectors of 2",
    });
  });

  it("[D5] stops at the signal, between batches too", async () => {
    const stop = new AbortController();
    const model = fakeModel({
      async doEmbed({ values }) {
        stop.abort();
        return { embeddings: values.map(() => [1, 0]), warnings: [] };
      },
    });
    await expect(createRemoteEmbedder(model, 2).embed(["a", "b", "c"], "query", stop.signal)).rejects.toMatchObject({
      code: "REQUEST_CANCELLED",
    });
  });
});
