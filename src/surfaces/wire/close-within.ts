import type { Writable } from "node:stream";
import type { Clock } from "../../ports/clock.ts";

/** What was written last is still on its way when nobody has waited for it. */
export function flushed(output: Writable): Promise<void> {
  if (output.destroyed) return Promise.resolve();
  return new Promise((done) => output.write("", () => done()));
}

/** Waits for work that ends a process, and no longer than it may take. */
export async function within(clock: Clock, ms: number, work: readonly Promise<void>[]): Promise<void> {
  const done = new AbortController();
  await Promise.race([Promise.all(work), clock.sleep(ms, done.signal)]);
  done.abort("done");
}
