import { expect, it } from "vitest";
import { boundFetch, openLines } from "./http-stream.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

async function fetched(body: ReadableStream<Uint8Array> | string, init: ResponseInit = {}): Promise<Response> {
  return boundFetch(async () => new Response(body, init))("http://lab");
}

/** Sends its pieces and is then kept open. */
function open(pieces: readonly string[]): ReadableStream<Uint8Array> {
  const rest = pieces.map(bytes);
  return new ReadableStream({
    pull(controller) {
      const piece = rest.shift();
      if (piece === undefined) return new Promise(() => {});
      controller.enqueue(piece);
    },
  });
}

it("[B5] an event stream ends where its server says so, though the connection stays open", async () => {
  const text = 'data: {"text":"data: [DONE]"}\n\ndata: [DONE]\n\n';
  for (let cut = 1; cut < text.length; cut += 1) {
    const response = await fetched(open([text.slice(0, cut), text.slice(cut)]));
    expect(await response.text()).toContain('data: {"text":"data: [DONE]"}\n\ndata: [DONE]');
  }
});

it("[A7] an answer passes through as it is", async () => {
  const response = await fetched("Grüße", { status: 201, headers: { "x-request": "r" } });
  expect([response.status, response.headers.get("x-request"), await response.text()]).toEqual([201, "r", "Grüße"]);
});

it("[H5] an endless answer is refused", async () => {
  const piece = new Uint8Array(1_024 * 1_024);
  const response = await fetched(new ReadableStream({ pull: (controller) => controller.enqueue(piece) }));
  const reading = (async () => {
    for await (const _ of response.body ?? []);
  })();
  await expect(reading).rejects.toThrow("it is larger than 134217728 bytes");
});

it("[H5] of an endless refusal only the beginning is read", async () => {
  const piece = bytes("x".repeat(1_000));
  const endless = new ReadableStream<Uint8Array>({ pull: (controller) => controller.enqueue(piece) });
  const response = await fetched(endless, { status: 500, headers: { "retry-after": "7" } });
  expect([response.status, response.headers.get("retry-after")]).toEqual([500, "7"]);
  expect(await response.text()).toHaveLength(65_536);
});

it("[B5] a web page is no answer", async () => {
  const response = await fetched("\n<html>", { headers: { "content-type": "text/html" } });
  await expect(response.text()).rejects.toThrow("a web page");
});

function linesOf(chunks: Iterable<Uint8Array>): Promise<AsyncIterable<readonly string[]>> {
  const fetch = async () => new Response(ReadableStream.from(chunks));
  return openLines({ url: "http://lab", headers: {}, body: "{}", fetch }, new AbortController().signal);
}

async function flat(chunks: Iterable<Uint8Array>): Promise<string[]> {
  const lines: string[] = [];
  for await (const batch of await linesOf(chunks)) lines.push(...batch);
  return lines;
}

it("[A7] lines are whole wherever the network cuts them, inside characters as well", async () => {
  const bytes = new TextEncoder().encode("Grüße\n\naus 東京\n🦦");
  for (let size = 1; size <= bytes.length; size += 1) {
    const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
      bytes.slice(at * size, (at + 1) * size),
    );
    expect(await flat(chunks)).toEqual(["Grüße", "", "aus 東京", "🦦"]);
  }
});

it("[H5] a long line in small pieces is read in time with its length, not its square", async () => {
  function* pieces() {
    const piece = new Uint8Array(256).fill(120);
    for (let at = 0; at < 60_000; at += 1) yield piece;
    yield new TextEncoder().encode("\n");
  }
  expect((await flat(pieces())).map((line) => line.length)).toEqual([15_360_000]);
});

it("[H5] a line without an end is refused", async () => {
  function* endless() {
    const piece = new Uint8Array(1_000_000).fill(120);
    for (;;) yield piece;
  }
  await expect(flat(endless())).rejects.toThrow("a line is longer than 16000000 characters");
});
