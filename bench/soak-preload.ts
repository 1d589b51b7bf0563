// Loaded before a server, with `--import`: keeps a file that says how the process is, rewritten every second.
import { readdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { isMainThread } from "node:worker_threads";
import { DELAY_POINTS, type Reading } from "./soak/readings.ts";

const EVERY_MS = 1_000;
/** How often the loop is looked at; an idle one is seen this late by definition, so it is taken off. */
const RESOLUTION_MS = 10;

const { RKAT_SOAK_READINGS: folder, RKAT_SOAK_NAME: name = "" } = process.env;
if (folder !== undefined && isMainThread) {
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  delay.enable();
  let [rssMax, heapMax] = [0, 0];
  const write = (): void => {
    const { rss, heapUsed } = process.memoryUsage();
    rssMax = Math.max(rssMax, rss);
    heapMax = Math.max(heapMax, heapUsed);
    const reading: Reading = {
      name,
      pid: process.pid,
      delays: delay.count,
      delayMs: DELAY_POINTS.map((at) => Math.max(0, delay.percentile(at) / 1e6 - RESOLUTION_MS)),
      rssMax,
      heapMax,
      rss,
      heapUsed,
      files: readdirSync("/proc/self/fd").length,
      resources: countsOf(process.getActiveResourcesInfo()),
    };
    const file = join(folder, `${name}-${process.pid}.json`);
    writeFileSync(`${file}.new`, JSON.stringify(reading));
    renameSync(`${file}.new`, file);
  };
  setInterval(write, EVERY_MS).unref();
}

function countsOf(kinds: readonly string[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const kind of kinds) counts[kind] = (counts[kind] ?? 0) + 1;
  return counts;
}
