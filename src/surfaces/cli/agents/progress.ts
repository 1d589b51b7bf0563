import type { Io } from "../io.ts";
import { createPaint } from "../paint.ts";
import { grouped } from "../plain-text.ts";
import { CLEAR_LINE, canRedraw } from "../progress/redraw.ts";

/** A line on a terminal that counts; elsewhere it is not there. */
interface Progress {
  show(count: number): void;
  /** Lets something be written in its place; the next count is shown after it. */
  aside(write: () => void): void;
  clear(): void;
}

/** What is over before anybody could read it needs no counting. */
const COUNT_MIN = 64;
/** More often than this the eye does not see it. */
const PAUSE_MS = 100;

/** Counts things named so on stderr. */
export function createProgress({ stderr, env }: Io, noun: string): Progress {
  const { dim } = createPaint(stderr, env);
  const isWelcome = canRedraw({ stderr, env });
  let isShown = false;
  let shownAtMs = 0;
  const clear = (): void => {
    if (isShown) stderr.write(CLEAR_LINE);
    isShown = false;
  };
  return {
    show: (count) => {
      const nowMs = Date.now();
      if (!isWelcome || count < COUNT_MIN || nowMs - shownAtMs < PAUSE_MS) return;
      shownAtMs = nowMs;
      isShown = true;
      stderr.write(`${CLEAR_LINE}${dim(`${grouped(count)} ${noun}…`)}`);
    },
    aside: (write) => {
      clear();
      write();
    },
    clear,
  };
}
