import type { Readable } from "node:stream";
import { RuntimeError } from "../../contract/error.ts";

/** The longest line that is read; the server's bound is the same. */
const LINE_BYTES_MAX = 64 * 1_024 * 1_024;
const NEWLINE = 0x0a;

/** Hands on every line of a server until there are no more; throws for one that is longer than any it may write. */
export async function readLines(output: Readable, take: (line: string) => void): Promise<void> {
  let pieces: Buffer[] = [];
  let heldBytes = 0;
  for await (const chunk of output) {
    // A pipe without an encoding gives buffers.
    const bytes = chunk as Buffer;
    let start = 0;
    for (let end = bytes.indexOf(NEWLINE); end >= 0; end = bytes.indexOf(NEWLINE, start)) {
      const line = bytes.subarray(start, end);
      take(pieces.length === 0 ? line.toString("utf8") : Buffer.concat([...pieces, line]).toString("utf8"));
      pieces = [];
      heldBytes = 0;
      start = end + 1;
    }
    pieces.push(bytes.subarray(start));
    heldBytes += bytes.length - start;
    if (heldBytes > LINE_BYTES_MAX) {
      throw new RuntimeError("PAYLOAD_TOO_LARGE", `the server wrote a line longer than ${LINE_BYTES_MAX} bytes`);
    }
  }
}
