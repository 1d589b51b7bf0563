import { expect, it } from "vitest";
import { openLines } from "./http-stream.ts";

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
