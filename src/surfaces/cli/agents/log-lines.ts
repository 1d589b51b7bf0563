import type { Io } from "../io.ts";
import { createPaint } from "../paint.ts";
import { oneLine } from "../plain-text.ts";

/** What agents' memories do, told on stderr a line at a time. */
export interface LogLines {
  tell(line: string): void;
  /** Lines that come while something else has the screen are told after it. */
  heldDuring<T>(work: () => Promise<T>): Promise<T>;
  /** From now on lines are written within this, which makes room for them on the screen. */
  writeWithin(makeRoom: MakeRoom): void;
}

/** Clears what stands where a line would be written, lets it be written, and puts the rest back. */
type MakeRoom = (write: () => void) => void;

/** A line quotes what a provider answered, which may be a page. */
const LINE_CHARS_MAX = 2_000;
/** A turn is long for few compactions: more than this is more than anybody reads. */
const HELD_LINES_MAX = 1_000;

export function createLogLines({ stderr, env }: Io): LogLines {
  const { dim } = createPaint(stderr, env);
  const held: string[] = [];
  let holders = 0;
  let makeRoom: MakeRoom = (write) => write();
  const write = (lines: readonly string[]): void => {
    if (lines.length === 0) return;
    const text = lines.map((line) => `${dim(oneLine(line, LINE_CHARS_MAX))}\n`).join("");
    if (stderr.isTerminal) makeRoom(() => stderr.write(text));
    else stderr.write(text);
  };
  return {
    tell: (line) => {
      if (holders === 0) write([line]);
      else if (held.length < HELD_LINES_MAX) held.push(line);
    },
    heldDuring: async (work) => {
      holders += 1;
      try {
        return await work();
      } finally {
        holders -= 1;
        if (holders === 0) write(held.splice(0));
      }
    },
    writeWithin: (room) => {
      makeRoom = room;
    },
  };
}
