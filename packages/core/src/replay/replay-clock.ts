import type { Clock } from "../ports/clock.ts";

/** A clock with the recording's times: it is advanced explicitly and never goes back. */
export interface ReplayClock extends Clock {
  moveTo(ms: number): void;
}

interface Sleeper {
  readonly atMs: number;
  readonly wake: () => void;
}

/** Its randomness and ids are the same in every replay. */
export function createReplayClock(startMs: number): ReplayClock {
  let nowMs = startMs;
  let ids = 0;
  const sleepers = new Set<Sleeper>();
  return {
    now: () => nowMs,
    random: () => 0.5,
    newId: () => {
      ids += 1;
      return `00000000-0000-7000-8000-${ids.toString(16).padStart(12, "0")}`;
    },
    // Only the recording decides the order, or two replays would differ.
    yieldToEventLoop: () => undefined,
    moveTo: (ms) => {
      nowMs = Math.max(nowMs, ms);
      const due = [...sleepers].filter(({ atMs }) => atMs <= nowMs).sort((a, b) => a.atMs - b.atMs);
      for (const { wake } of due) wake();
    },
    sleep: (ms, signal) =>
      new Promise((resolve) => {
        if (signal.aborted || ms <= 0) return resolve();
        const sleeper: Sleeper = {
          atMs: nowMs + ms,
          wake: () => {
            sleepers.delete(sleeper);
            signal.removeEventListener("abort", sleeper.wake);
            resolve();
          },
        };
        sleepers.add(sleeper);
        signal.addEventListener("abort", sleeper.wake, { once: true });
      }),
  };
}
