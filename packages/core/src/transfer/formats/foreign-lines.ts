import { readJson } from "../portable-log.ts";

/** A line of a file, or why it is not one. */
export type ForeignLine = { readonly fields: Readonly<Record<string, unknown>> } | { readonly problem: string };

/** A longer line is no line of a session: reading it would take its memory several times over. */
const LINE_BYTES_MAX = 32 * 1_024 * 1_024;
const NEWLINE = 0x0a;

/** The objects of a file's lines; of a line that is too long only its length is read. */
export async function* foreignLines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<ForeignLine> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let number = 1;
  let parts: Uint8Array[] = [];
  let bytes = 0;
  const line = (): ForeignLine | undefined => {
    const place = `line ${number}`;
    if (bytes > LINE_BYTES_MAX) return { problem: `${place}, which is longer than ${LINE_BYTES_MAX} bytes` };
    try {
      const text = decoder.decode(Buffer.concat(parts));
      return text.trim() === "" ? undefined : { fields: readJson(text, place) };
    } catch (thrown) {
      return { problem: thrown instanceof TypeError ? `${place}: it is not UTF-8 text` : String(messageIn(thrown)) };
    }
  };
  for await (const chunk of chunks) {
    let from = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, from)) {
      bytes += end - from;
      if (bytes <= LINE_BYTES_MAX) parts.push(chunk.subarray(from, end));
      const read = line();
      if (read !== undefined) yield read;
      [number, parts, bytes, from] = [number + 1, [], 0, end + 1];
    }
    bytes += chunk.length - from;
    if (bytes <= LINE_BYTES_MAX) parts.push(chunk.subarray(from));
    else parts = [];
  }
  const last = line();
  if (last !== undefined) yield last;
}

function messageIn(thrown: unknown): unknown {
  return thrown instanceof Error ? thrown.message : thrown;
}
