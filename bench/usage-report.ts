// Loaded before a server, with `--import`: tells whoever started it what the process has used, when asked. With RKAT_BENCH_BLOCKS, also
// the longest block of its event loop and how many were too long, both since the last time.
import { isMainThread } from "node:worker_threads";

/** A block is seen at the next of these, so it may seem longer by as much. */
const LOOK_EVERY_MS = 2;
const LONG_MS = 50;

let [longestMs, longBlocks] = [0, 0];
process.on("message", () => {
  const { user, system } = process.cpuUsage();
  process.send?.({ cpuMs: (user + system) / 1_000, rssBytes: process.memoryUsage.rss(), longestMs, longBlocks });
  [longestMs, longBlocks] = [0, 0];
});
// The channel alone must not keep the server alive.
process.channel?.unref();

if (isMainThread && process.env.RKAT_BENCH_BLOCKS !== undefined) {
  let before = threadCpuMs();
  setInterval(() => {
    const tookMs = threadCpuMs() - before;
    longestMs = Math.max(longestMs, tookMs);
    if (tookMs > LONG_MS) longBlocks += 1;
    before += tookMs;
  }, LOOK_EVERY_MS).unref();
}

function threadCpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}
