import type { Readable, Writable } from "node:stream";

/** The longest line that is read; the other side's limit is the same. */
export const LINE_BYTES_MAX = 64 * 1_024 * 1_024;

/** One line for the client, its end included. */
export type Frame = string;

/** A line without its end, or the news that one was longer than the bound and is being skipped. */
export type Line = { readonly kind: "line"; readonly bytes: Uint8Array } | { readonly kind: "too_long" };

interface LineReader {
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
    // A broken input is treated as its end.
    if (input.errored === null) throw thrown;
  }
}

/** The only output to the client: frames are sent whole and in order. */
export interface Outbox {
  /** Resolves when the client has room for more. After the client has gone it resolves at once. It does not reject. */
  send(frame: Frame): Promise<void>;
}

/**
 * A sender waits for a slow client, so nothing piles up: at most one frame waits for each
 * request, stream and tool call, and their numbers are bounded. `onGone` is called when the client is gone.
 */
export function createOutbox(output: Writable, onGone: () => void): Outbox {
  let isGone = false;
  let onRoom: (() => void) | undefined;
  let sent: Promise<void> = Promise.resolve();

  const room = (): void => onRoom?.();
  const gone = (): void => {
    if (isGone) return;
    isGone = true;
    room();
    onGone();
  };
  output.on("drain", room);
  output.on("error", gone);
  output.on("close", gone);

  const write = async (frame: Frame): Promise<void> => {
    if (isGone || output.write(frame)) return;
    await new Promise<void>((resolve) => {
      onRoom = resolve;
    });
    onRoom = undefined;
  };
  return {
    send: (frame) => {
      sent = sent.then(() => write(frame));
      return sent;
    },
  };
}
