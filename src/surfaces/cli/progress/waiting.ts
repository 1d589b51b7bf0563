import type { Io } from "../io.ts";
import { createPaint } from "../paint.ts";
import { CLEAR_LINE, canRedraw } from "./redraw.ts";

/** What is over before anybody wonders needs no line. */
const SHOWN_AFTER_MS = 400;
const TICK_MS = 1_000;

/** Does long work; on a terminal a line says what takes so long, and for how long, and is gone when it is done. */
export async function whileWaiting<T>(io: Io, words: string, work: () => Promise<T>): Promise<T> {
  if (!canRedraw(io)) return work();
  const { stderr, env } = io;
  const { dim } = createPaint(stderr, env);
  const startedMs = Date.now();
  let isShown = false;
  const show = (): void => {
    const seconds = Math.round((Date.now() - startedMs) / 1_000);
    isShown = true;
    stderr.write(`${CLEAR_LINE}${dim(seconds === 0 ? `${words}…` : `${words}… ${seconds} s`)}`);
  };
  let ticking: NodeJS.Timeout | undefined;
  const waiting = setTimeout(() => {
    show();
    ticking = setInterval(show, TICK_MS);
  }, SHOWN_AFTER_MS);
  try {
    return await work();
  } finally {
    clearTimeout(waiting);
    clearInterval(ticking);
    if (isShown) stderr.write(CLEAR_LINE);
  }
}
