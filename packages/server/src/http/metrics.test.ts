import { expect, it } from "vitest";
import { createMetrics } from "./metrics.ts";

it("[I6] writes what it counts as Prometheus reads it", () => {
  const metrics = createMetrics();
  const calls = metrics.counter({ name: "calls_total", help: "Calls.", labels: ["tool", "outcome"] });
  calls.add(["shell", "ok"]);
  calls.add(["shell", "ok"], 2);
  calls.add(['a"b\\c\nd', "error"]);
  metrics.counter({ name: "saved_total", help: "Saved." });
  const spread = metrics.histogram({ name: "secs", help: "Secs.", labels: ["route"], buckets: [0.5, 1] });
  for (const secs of [0.25, 0.5, 0.75, 4]) spread.observe(["/x"], secs);
  metrics.gauge({ name: "open", help: "Open." }, () => [[[], 3]]);
  metrics.gauge({ name: "unknown", help: "Not known yet." }, () => [[[], Number.NaN]]);
  expect(metrics.text()).toBe(
    [
      "# HELP calls_total Calls.",
      "# TYPE calls_total counter",
      'calls_total{tool="shell",outcome="ok"} 3',
      'calls_total{tool="a\\"b\\\\c\\nd",outcome="error"} 1',
      "# HELP saved_total Saved.",
      "# TYPE saved_total counter",
      "saved_total 0",
      "# HELP secs Secs.",
      "# TYPE secs histogram",
      'secs_bucket{route="/x",le="0.5"} 2',
      'secs_bucket{route="/x",le="1"} 3',
      'secs_bucket{route="/x",le="+Inf"} 4',
      'secs_sum{route="/x"} 5.5',
      'secs_count{route="/x"} 4',
      "# HELP open Open.",
      "# TYPE open gauge",
      "open 3",
      "",
    ].join("\n"),
  );
});

it("[I6] [H5] keeps a bounded number of series, whatever names others make up", () => {
  const metrics = createMetrics();
  const calls = metrics.counter({ name: "calls_total", help: "Calls.", labels: ["tool"] });
  for (let name = 0; name < 100_000; name += 1) calls.add([`tool-${name}`]);
  const rows = metrics
    .text()
    .split("\n")
    .filter((row) => row.startsWith("calls_total{"));
  expect(rows.length).toBe(256);
  expect(rows.at(-1)).toBe(`calls_total{tool="other"} ${100_000 - 255}`);
  calls.add(["tool-7"]);
  expect(metrics.text()).toContain('calls_total{tool="tool-7"} 2\n');
});
