import type { Clock } from "@rkat/core/ports/clock";

/** Rounds of the event loop in which nothing slept anew before the time is moved. */
const IDLE_ROUNDS = 4;

/**
 * A clock that stands still while anything is going on and jumps to the next sleeper when nothing is: tests of
 * timeouts and backoff run at once and always the same way.
 */
export function createVirtualClock(startMs = Date.UTC(2026, 0, 1)): Clock & { advance(ms: number): void } {
  let nowMs = startMs;
  let ids = 0;
  const sleepers = new Set<{ readonly atMs: number; readonly wake: () => void }>();
  let isWatching = false;
  let changes = 0;
  const watch = (idle: number, seen: number): void => {
    if (sleepers.size === 0) {
      isWatching = false;
      return;
    }
    if (changes !== seen) setImmediate(watch, 0, changes);
    else if (idle < IDLE_ROUNDS) setImmediate(watch, idle + 1, seen);
    else {
      const [next] = [...sleepers].sort((a, b) => a.atMs - b.atMs);
      if (next === undefined || next.atMs === Number.POSITIVE_INFINITY) {
        isWatching = false;
        return;
      }
      nowMs = Math.max(nowMs, next.atMs);
      next.wake();
      setImmediate(watch, 0, changes);
    }
  };
  return {
    now: () => nowMs,
    random: () => 0.5,
    newId: () => `01900000-0000-7000-8000-${(++ids).toString(16).padStart(12, "0")}`,
    yieldToEventLoop: () => undefined,
    advance: (ms) => {
      nowMs += ms;
    },
    sleep: (ms, signal) =>
      new Promise((resolve) => {
        if (signal.aborted || ms <= 0) return resolve();
        const sleeper = {
          atMs: nowMs + ms,
          wake: () => {
            sleepers.delete(sleeper);
            changes += 1;
            signal.removeEventListener("abort", sleeper.wake);
            resolve();
          },
        };
        sleepers.add(sleeper);
        changes += 1;
        signal.addEventListener("abort", sleeper.wake, { once: true });
        if (isWatching) return;
        isWatching = true;
        setImmediate(watch, 0, changes);
      }),
  };
}
