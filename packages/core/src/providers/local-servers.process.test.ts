import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { findLocalServers } from "./local-servers.ts";

const open: (() => void)[] = [];
afterEach(() => {
  for (const close of open.splice(0)) close();
});

async function serve(answer: RequestListener): Promise<string> {
  const server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  open.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`; // It listens on a port.
}

const json = (value: unknown): RequestListener => {
  return (_, response) => response.setHeader("content-type", "application/json").end(JSON.stringify(value));
};

const signal = new AbortController().signal;
const lookAt = async (answer: RequestListener) => {
  const url = await serve(answer);
  const [found] = await findLocalServers({ env: { OLLAMA_HOST: url }, signal, usual: [] });
  return found;
};

describe("[G5] servers of models on this machine", () => {
  it("are asked for their models: the largest first, of two the newer, without those that only embed", async () => {
    const seen: string[] = [];
    const answer = json({
      models: [
        { name: "llama3.2:3b", size: 2_000, modified_at: "2026-01-01T00:00:00Z" },
        { name: "nomic-embed-text:latest", size: 9_000 },
        { name: "granite:older", size: 5_000, modified_at: "2025-01-01T00:00:00Z" },
        { name: "granite:newer", size: 5_000, modified_at: "2026-01-01T00:00:00Z" },
        { name: "paraphrase", size: 8_000, details: { family: "bert" } },
      ],
    });
    const found = await lookAt((request, response) => {
      seen.push(`${request.method} ${request.url}`);
      answer(request, response);
    });
    expect(seen).toEqual(["GET /api/tags"]);
    expect(found).toMatchObject({ name: "ollama", title: "Ollama", baseUrl: expect.stringMatching(/:\d+\/v1$/) });
    expect(found?.models).toEqual([
      { name: "granite:newer", bytes: 5_000 },
      { name: "granite:older", bytes: 5_000 },
      { name: "llama3.2:3b", bytes: 2_000 },
    ]);
  });

  it("are not there when they answer with a page, too much, elsewhere, an error or not at all", async () => {
    const answers: Readonly<Record<string, RequestListener>> = {
      page: (_, response) => response.end("<html>no models here</html>"),
      huge: (_, response) => response.end(JSON.stringify({ models: [], more: "x".repeat(10_000_000) })),
      redirect: (_, response) => response.writeHead(302, { location: "http://127.0.0.1:1/api/tags" }).end(),
      error: (_, response) => response.writeHead(500).end(JSON.stringify({ models: [] })),
      silent: () => {},
      endless: (_, response) => response.write('{"models":['),
      list: json([1, 2]),
      nothing: json(null),
      other: json({ models: "none" }),
    };
    for (const [name, answer] of Object.entries(answers))
      expect([name, await lookAt(answer)]).toEqual([name, undefined]);
    expect(await findLocalServers({ env: { OLLAMA_HOST: "127.0.0.1:1" }, signal, usual: [] })).toEqual([]);
  });

  it("name only models that could be names", async () => {
    const names = ["\u001b[2Jevil", "a b", "", "-rf", 'x"\n[hooks]', "y".repeat(300), 7, null, { toString: "x" }];
    const found = await lookAt(
      json({
        models: [
          ...names.map((name) => ({ name })),
          null,
          "text",
          { name: "good:1b", details: { family: { toString: 1 } }, modified_at: { valueOf: 2 } },
        ],
      }),
    );
    expect(found?.models).toEqual([{ name: "good:1b", bytes: undefined }]);
    const many = await lookAt(
      json({ models: Array.from({ length: 3_000 }, (_, at) => ({ name: `m${at}`, size: at })) }),
    );
    expect(many?.models).toHaveLength(1_000);
  });

  it("are known by their owner where any program may sit at their port", async () => {
    const url = await serve(
      json({ data: [{ id: "qwen/qwen3-8b", owned_by: "somebody" }, { id: "text-embedding-e5" }] }),
    );
    const usual = [
      { name: "lmstudio", title: "LM Studio", baseUrl: `${url}/v1` },
      { name: "llamacpp", title: "llama.cpp", baseUrl: `${url}/v1`, owner: "llamacpp" },
    ];
    const found = await findLocalServers({ env: { OLLAMA_HOST: "127.0.0.1:1" }, signal, usual });
    expect(found).toEqual([
      { name: "lmstudio", title: "LM Studio", baseUrl: `${url}/v1`, models: [{ name: "qwen/qwen3-8b" }] },
    ]);
  });
});
