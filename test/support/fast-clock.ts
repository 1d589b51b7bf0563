import type { Clock } from "@rkat/core/ports/clock";
import { createSystemClock } from "@rkat/core/runtime/system-clock";

const SPEED = 20;

/** A clock that is faster than the real one, and can be moved. */
export function createFastClock(): Clock & { advance(ms: number): void } {
  const system = createSystemClock();
  const startMs = system.now();
  let movedMs = 0;
  return {
    ...system,
    now: () => Math.floor(startMs + (system.now() - startMs) * SPEED + movedMs),
    sleep: (ms, signal) => system.sleep(ms / SPEED, signal),
    advance: (ms) => {
      movedMs += ms;
    },
  };
}
