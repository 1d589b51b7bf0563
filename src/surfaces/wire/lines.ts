/** The longest line that is read; the other side's limit is the same. */
export const LINE_BYTES_MAX = 64 * 1_024 * 1_024;

/** A line without its end, or the news that one was longer than the bound and is being skipped. */
export type Line = { readonly kind: "line"; readonly bytes: Uint8Array } | { readonly kind: "too_long" };

export interface LineReader {
  /** The lines that end in this chunk. */
  push(chunk: Uint8Array): Iterable<Line>;
  /** What came after the last line end, once there is no more to come. */
  end(): Iterable<Line>;
}

const NEWLINE = 0x0a;

/** Cuts bytes into lines. At most one line is held, and never more of it than the bound. */
export function createLineReader(lineBytesMax = LINE_BYTES_MAX): LineReader {
  let parts: Uint8Array[] = [];
  let bytesHeld = 0;
  let isSkipping = false;

  const take = (): Line => {
    const [first = new Uint8Array()] = parts;
    const bytes = parts.length === 1 ? first : Buffer.concat(parts);
    parts = [];
    bytesHeld = 0;
    return { kind: "line", bytes };
  };
  /** Adds to the line that is being read; true when that makes it too long. */
  const hold = (bytes: Uint8Array): boolean => {
    if (isSkipping) return false;
    isSkipping = bytesHeld + bytes.length > lineBytesMax;
    if (!isSkipping) parts.push(bytes);
    else parts = [];
    bytesHeld = isSkipping ? 0 : bytesHeld + bytes.length;
    return isSkipping;
  };
  return {
    *push(chunk) {
      let start = 0;
      for (;;) {
        const end = chunk.indexOf(NEWLINE, start);
        if (hold(chunk.subarray(start, end < 0 ? undefined : end))) yield { kind: "too_long" };
        if (end < 0) return;
        if (!isSkipping) yield take();
        isSkipping = false;
        start = end + 1;
      }
    },
    *end() {
      if (bytesHeld > 0) yield take();
    },
  };
}
