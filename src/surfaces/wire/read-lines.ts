import type { Readable } from "node:stream";
import { createLineReader, type Line } from "./lines.ts";

/** Hands on every line until there are no more; a client that floods waits until it has read what it is owed. */
export async function readLines(input: Readable, take: (line: Line) => Promise<void> | undefined): Promise<void> {
  const reader = createLineReader();
  const takeAll = async (lines: Iterable<Line>): Promise<void> => {
    for (const line of lines) await take(line);
  };
  try {
    for await (const chunk of input) await takeAll(reader.push(chunk));
    await takeAll(reader.end());
  } catch (thrown) {
    // An input that breaks is one that ends: there is nobody left to tell.
    if (input.errored === null) throw thrown;
  }
}
