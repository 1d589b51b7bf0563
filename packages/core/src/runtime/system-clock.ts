import { randomFillSync } from "node:crypto";
import type { Clock } from "../ports/clock.ts";

/** Longer waits overflow Node's timers, which then fire at once. */
const TIMER_MS_MAX = 2 ** 31 - 1;

export function createSystemClock(): Clock {
  return { now: Date.now, sleep, random: Math.random, newId: createIdSource(), yieldToEventLoop };
}

/** How long work may block the event loop. */
const YIELD_EVERY_MS = 8;

let yieldedMs = performance.now();
const waiting: (() => void)[] = [];

/**
 * Waits for a round of the event loop: a timer would add a millisecond, and a promise would not yield. One caller continues in
 * each round: all of them in the same round would block it for as long as all their pieces take.
 */
export function yieldToEventLoop(): Promise<void> | undefined {
  if (performance.now() - yieldedMs < YIELD_EVERY_MS) return undefined;
  return new Promise((resolve) => {
    if (waiting.push(resolve) === 1) setImmediate(continueOne);
  });
}

function continueOne(): void {
  yieldedMs = performance.now();
  waiting.shift()?.();
  if (waiting.length > 0) setImmediate(continueOne);
}

function sleep(ms: number, signal: AbortSignal, how?: "background"): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted || ms <= 0) return resolve();
    let timer: NodeJS.Timeout | undefined;
    const finish = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", finish);
      resolve();
    };
    const arm = (leftMs: number): void => {
      const stepMs = Math.min(leftMs, TIMER_MS_MAX);
      timer = setTimeout(() => (leftMs > stepMs ? arm(leftMs - stepMs) : finish()), stepMs);
      if (how === "background") timer.unref();
    };
    signal.addEventListener("abort", finish, { once: true });
    if (ms !== Number.POSITIVE_INFINITY) arm(ms);
  });
}

const POOL_BYTES = 1_024;
const RANDOM_BYTES = 10;
const HEX: readonly string[] = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** UUIDs of version 7: they sort by time, and by a counter within a millisecond. */
function createIdSource(): () => string {
  const pool = new Uint8Array(POOL_BYTES);
  let used = POOL_BYTES;
  let lastMs = 0;
  let counter = 0;
  // Every live event has an id, so many are made within a millisecond.
  let head = "";
  let writtenMs = -1;
  return () => {
    if (used + RANDOM_BYTES > POOL_BYTES) {
      randomFillSync(pool);
      used = 0;
    }
    const at = used;
    used += RANDOM_BYTES;
    const nowMs = Date.now();
    counter = nowMs > lastMs ? ((pool[at] ?? 0) << 3) | ((pool[at + 1] ?? 0) & 7) : counter + 1;
    lastMs = Math.max(nowMs, lastMs);
    if (counter > 0xfff) {
      lastMs += 1;
      counter = 0;
    }
    if (lastMs !== writtenMs) {
      const time = lastMs.toString(16).padStart(12, "0");
      head = `${time.slice(0, 8)}-${time.slice(8)}-7`;
      writtenMs = lastMs;
    }
    const byte = (index: number): string => HEX[pool[at + 2 + index] ?? 0] ?? "";
    const variant = HEX[0x80 | ((pool[at + 2] ?? 0) & 0x3f)] ?? "";
    const node = byte(2) + byte(3) + byte(4) + byte(5) + byte(6) + byte(7);
    return `${head}${counter.toString(16).padStart(3, "0")}-${variant}${byte(1)}-${node}`;
  };
}
