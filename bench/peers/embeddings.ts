import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createLocalEmbedder } from "@rkat/node/embedders/local";
import type { Setting } from "./driver.ts";

/** rkat's local embedder behind OpenAI's API, so that all projects search with the same vectors. */
export interface EmbeddingServer {
  readonly setting: NonNullable<Setting["embeddings"]>;
  close(): Promise<void>;
}

export async function openEmbeddingServer(): Promise<EmbeddingServer> {
  const embedder = createLocalEmbedder();
  const known = new Map<string, Float32Array>();
  const { signal } = new AbortController();
  const server = createServer(async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part);
    const { input, model, encoding_format } = JSON.parse(Buffer.concat(parts).toString());
    const texts: readonly string[] = [input].flat();
    const unknown = [...new Set(texts)].filter((text) => !known.has(text));
    const made = unknown.length === 0 ? [] : await embedder.embed(unknown, "passage", signal);
    for (const [at, vector] of made.entries()) known.set(unknown[at] ?? "", vector);
    const data = texts.map((text, index) => {
      const vector = Float32Array.from(known.get(text) ?? []);
      const embedding = encoding_format === "base64" ? Buffer.from(vector.buffer).toString("base64") : [...vector];
      return { object: "embedding", index, embedding };
    });
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ object: "list", model, data, usage: { prompt_tokens: 1, total_tokens: 1 } }));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo; // A listening server has an address of this shape.
  return {
    setting: { baseUrl: `http://127.0.0.1:${port}/v1`, model: "gte-small", dimensions: embedder.dimensions },
    close: async () => {
      server.closeAllConnections();
      server.close();
      await embedder.close();
    },
  };
}
