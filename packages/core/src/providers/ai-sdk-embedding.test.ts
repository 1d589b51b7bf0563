import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createRemoteEmbedder } from "@rkat/node/embedders/remote";
import { describe, expect, it } from "vitest";
import { openEmbeddingModel } from "./ai-sdk-embedding.ts";

const { signal } = new AbortController();

/** A server of the wire format of OpenAI's embeddings, and what it was asked. */
async function startServer() {
  const asked: object[] = [];
  const server = createServer((request, response) => {
    let text = "";
    request.on("data", (part) => {
      text += part;
    });
    request.on("end", () => {
      const { model, input } = JSON.parse(text);
      asked.push({ url: request.url, key: request.headers.authorization, model, input });
      const data = input.map((one: string, index: number) => ({
        object: "embedding",
        index,
        embedding: [one.length, 0, 1],
      }));
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify({ object: "list", data, model, usage: { prompt_tokens: 3, total_tokens: 3 } }));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return { asked, url: `http://127.0.0.1:${port}`, stop: () => server.close() };
}

describe("a remote embedding model", () => {
  it("[D5] of a server of one's own, of Ollama and of OpenAI is asked in OpenAI's wire format", async () => {
    const { asked, url, stop } = await startServer();
    const config = { self_hosted: { servers: { box: { base_url: url, api_key_env: "BOX_KEY" } } } };
    const env = { BOX_KEY: "box-1", OLLAMA_HOST: url, OPENAI_API_KEY: "open-1", OPENAI_BASE_URL: url };
    try {
      for (const name of ["box/nomic-embed", "ollama/all-minilm", "openai/text-embedding-3-small"]) {
        const embedder = createRemoteEmbedder(await openEmbeddingModel({ env, config }, name), 3);
        const [vector] = await embedder.embed(["a pond"], "passage", signal);
        expect(vector).toHaveLength(3);
        expect(Math.hypot(...(vector ?? []))).toBeCloseTo(1, 5);
      }
    } finally {
      stop();
    }
    expect(asked).toEqual([
      { url: "/v1/embeddings", key: "Bearer box-1", model: "nomic-embed", input: ["a pond"] },
      { url: "/v1/embeddings", key: "Bearer none", model: "all-minilm", input: ["a pond"] },
      { url: "/v1/embeddings", key: "Bearer open-1", model: "text-embedding-3-small", input: ["a pond"] },
    ]);
  });

  it("[H1] that cannot be found is refused with what to write", async () => {
    const place = { env: {}, config: {} };
    for (const name of ["nomic", "nobody/nomic"]) {
      await expect(openEmbeddingModel(place, name)).rejects.toMatchObject({
        code: "INVALID_PARAMS",
        message: expect.stringMatching(/^memory\.embedding_model: write PROVIDER\/MODEL/),
      });
    }
    await expect(openEmbeddingModel(place, "openai/x")).rejects.toMatchObject({
      message: "no key for the embedding model: set OPENAI_API_KEY",
    });
  });
});
