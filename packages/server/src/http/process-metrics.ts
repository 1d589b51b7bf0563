import { monitorEventLoopDelay } from "node:perf_hooks";
import type { Vitals } from "@rkat/core/ports/telemetry";
import type { Metrics, Sample } from "./metrics.ts";

interface ProcessCounts {
  readonly version: string;
  /** Log lines that were dropped. */
  dropped(): number;
  vitals(): Vitals | undefined;
}

const one = (value: number): readonly Sample[] => [[[], value]];

/** Metrics of the process, under Prometheus's usual names where they exist. */
export function measureProcess(metrics: Metrics, { version, dropped, vitals }: ProcessCounts): void {
  metrics.gauge({ name: "rkat_build_info", help: "Always 1.", labels: ["version"] }, () => [[[version], 1]]);
  metrics.gauge(
    {
      name: "rkat_event_loop_delay_seconds",
      help: "How late the event loop was, since this was asked for last.",
      labels: ["quantile"],
    },
    createLoopDelay(),
  );
  metrics.gauge(
    { name: "rkat_memory_logs_waiting", help: "Logs of this process that have grown and are not findable yet." },
    () => {
      const memory = vitals()?.memory();
      return memory === undefined ? [] : one(memory.waiting);
    },
  );
  metrics.gauge({ name: "rkat_memory_failing", help: "Whether what is said cannot be made findable." }, () => {
    const memory = vitals()?.memory();
    return memory === undefined ? [] : one(memory.problem === undefined ? 0 : 1);
  });
  metrics.gauge(
    {
      name: "rkat_log_lines_dropped_total",
      help: "Log lines that were dropped, since the reader did not take them.",
      type: "counter",
    },
    () => one(dropped()),
  );
  metrics.gauge({ name: "process_resident_memory_bytes", help: "Memory of the process." }, () =>
    one(process.memoryUsage.rss()),
  );
  metrics.gauge({ name: "nodejs_heap_size_used_bytes", help: "Memory of its objects." }, () =>
    one(process.memoryUsage().heapUsed),
  );
  metrics.gauge(
    { name: "process_cpu_seconds_total", help: "CPU of the process, all threads.", type: "counter" },
    () => {
      const { user, system } = process.cpuUsage();
      return one((user + system) / 1e6);
    },
  );
  const startedAt = Date.now() / 1_000 - process.uptime();
  metrics.gauge({ name: "process_start_time_seconds", help: "When the process was started." }, () => one(startedAt));
}

const RESOLUTION_MS = 20;
const QUANTILES = [0.5, 0.9, 0.99] as const;

/** The sampling wakes the process, so the first read starts it, without a value. */
function createLoopDelay(): () => readonly Sample[] {
  let delays: ReturnType<typeof monitorEventLoopDelay> | undefined;
  return () => {
    if (delays === undefined) {
      delays = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
      delays.enable();
      return [];
    }
    if (delays.count === 0) return [];
    // What is measured is the time between two looks, so a loop that is never late has one of the resolution.
    const late = (nanos: number): number => Math.max(0, nanos / 1e9 - RESOLUTION_MS / 1_000);
    const histogram = delays;
    const samples: Sample[] = QUANTILES.map((part) => [[String(part)], late(histogram.percentile(part * 100))]);
    samples.push([["1"], late(delays.max)]);
    delays.reset();
    return samples;
  };
}
