import { monitorEventLoopDelay } from "node:perf_hooks";
import type { EntryBody } from "@rkat/core/contract/entry";
import { ERRORS, type ErrorCode } from "@rkat/core/contract/error";
import type { Usage } from "@rkat/core/contract/event";
import type { OperationName } from "@rkat/core/contract/operations";
import { operationSchema } from "@rkat/core/contract/wire/requests";
import type { Telemetry, Vitals, Watch } from "@rkat/core/ports/telemetry";
import type { Facts } from "./journal.ts";

/** A number that only grows, one for each set of labels' values. */
interface Counter {
  add(values: readonly string[], by?: number): void;
}

/** How values are spread, one for each set of labels' values. */
interface Histogram {
  observe(values: readonly string[], value: number): void;
}

export type Sample = readonly [values: readonly string[], value: number];

interface Family {
  readonly name: string;
  readonly help: string;
  readonly labels?: readonly string[];
}

/** Numbers about a process, in the text format of Prometheus. */
export interface Metrics {
  counter(family: Family): Counter;
  histogram(family: Family & { readonly buckets: readonly number[] }): Histogram;
  gauge(family: Family & { readonly type?: "gauge" | "counter" }, read: () => readonly Sample[]): void;
  /** Everything, as version 0.0.4 of the format has it. */
  text(): string;
}

export const METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/** Clients name tools and models, and each new name is a series for as long as the process lives. */
const SERIES_MAX = 256;
const VALUE_CHARS_MAX = 100;
const OTHER = "other";

export function createMetrics(): Metrics {
  const families: (() => string)[] = [];
  return {
    counter: (family) => {
      const series = createSeries(family, () => ({ sum: 0 }));
      families.push(() =>
        familyText(
          family,
          "counter",
          [...series.all()].map(([labels, { sum }]) => `${labels} ${sum}`),
        ),
      );
      return {
        add: (values, by = 1) => {
          series.at(values).sum += by;
        },
      };
    },
    histogram: ({ buckets, ...family }) => {
      const series = createSeries(family, () => ({ counts: buckets.map(() => 0), count: 0, sum: 0 }));
      families.push(() =>
        familyText(
          family,
          "histogram",
          [...series.all()].flatMap(([labels, spread]) => bucketsOf(labels, buckets, spread)),
        ),
      );
      return {
        observe: (values, value) => {
          const spread = series.at(values);
          const at = buckets.findIndex((most) => value <= most);
          if (at >= 0) spread.counts[at] = (spread.counts[at] ?? 0) + 1;
          spread.count += 1;
          spread.sum += value;
        },
      };
    },
    gauge: ({ type = "gauge", ...family }, read) => {
      families.push(() => {
        const samples = read().filter(([, value]) => Number.isFinite(value));
        return familyText(
          family,
          type,
          samples.map(([values, value]) => `${labelsOf(family.labels ?? [], values)} ${value}`),
        );
      });
    },
    text: () => families.map((family) => family()).join(""),
  };
}

/** What is kept for each set of values; beyond a bound, everything new is kept as one. */
function createSeries<S>({ labels = [] }: Family, begin: () => S) {
  const series = new Map<string, { readonly labels: string; readonly kept: S }>();
  const add = (values: readonly string[]): S => {
    const kept = begin();
    series.set(values.join("\n"), { labels: labelsOf(labels, values), kept });
    return kept;
  };
  const other = labels.map(() => OTHER);
  const at = (values: readonly string[]): S => {
    const known = series.get(values.join("\n"));
    if (known !== undefined) return known.kept;
    // One place is held back for the others.
    if (series.size < SERIES_MAX - 1) return add(values);
    return series.get(other.join("\n"))?.kept ?? add(other);
  };
  // What has no labels is there from the start, so that its first step is seen as one.
  if (labels.length === 0) add([]);
  return {
    at,
    *all(): Generator<readonly [labels: string, kept: S]> {
      for (const { labels: written, kept } of series.values()) yield [written, kept];
    },
  };
}

function bucketsOf(
  labels: string,
  buckets: readonly number[],
  { counts, count, sum }: { readonly counts: readonly number[]; readonly count: number; readonly sum: number },
): readonly string[] {
  let below = 0;
  const rows = buckets.map((most, index) => {
    below += counts[index] ?? 0;
    return `_bucket${withLabel(labels, `le="${most}"`)} ${below}`;
  });
  return [
    ...rows,
    `_bucket${withLabel(labels, 'le="+Inf"')} ${count}`,
    `_sum${labels} ${sum}`,
    `_count${labels} ${count}`,
  ];
}

function withLabel(labels: string, label: string): string {
  return labels === "" ? `{${label}}` : `${labels.slice(0, -1)},${label}}`;
}

function labelsOf(names: readonly string[], values: readonly string[]): string {
  if (names.length === 0) return "";
  return `{${names.map((name, index) => `${name}="${escaped(values[index] ?? "")}"`).join(",")}}`;
}

function escaped(value: string): string {
  return value.slice(0, VALUE_CHARS_MAX).replace(/[\\"\n]/g, (sign) => (sign === "\n" ? "\\n" : `\\${sign}`));
}

function familyText({ name, help }: Family, type: string, rows: readonly string[]): string {
  if (rows.length === 0) return "";
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${rows.map((row) => `${name}${row}\n`).join("")}`;
}

interface ProcessCounts {
  readonly version: string;
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

export interface LoggedFailure {
  /** Absent for what is no failure of the table. */
  readonly code?: ErrorCode | undefined;
  readonly message: string;
}

const SENTENCE_CHARS_MAX = 300;

/**
 * What the log tells of a failure. The sentence about a wrong input may say again what was sent, so of that only the
 * field is reported, and only one that we have named; of other sentences what they quote at length is left out.
 */
export function failureFacts(
  { code, message }: LoggedFailure,
  { operation, redact }: { readonly operation?: OperationName | undefined; redact(text: string): string },
): Facts {
  if (code === "INVALID_PARAMS") {
    return { code, field: operation && fieldIn(message, operation), error: ERRORS[code].meaning };
  }
  const quiet = redact(message).replace(/"(?:[^"\\]|\\.){41,}"/g, '"…"');
  const error = quiet.length > SENTENCE_CHARS_MAX ? `${quiet.slice(0, SENTENCE_CHARS_MAX)}…` : quiet;
  return { code, error };
}

/** The names of inputs' fields; a table is slow to read, and its rows are few. */
const fields = new Map<OperationName, ReadonlySet<string>>();

function fieldIn(message: string, operation: OperationName): string | undefined {
  const [, name = ""] = /^(\w{1,60})[.:[]/.exec(message) ?? [];
  let known = fields.get(operation);
  if (known === undefined) {
    known = new Set(Object.keys(operationSchema(operation, "input").properties ?? {}));
    fields.set(operation, known);
  }
  return known.has(name) ? name : undefined;
}

const TURN_SECS = [0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1_800];
const SEARCH_SECS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];

interface TurnCounts {
  /** Also for background work, whose failure no client sees. */
  failed(kind: "turn" | "compaction", sessionId: string | undefined, error: LoggedFailure): void;
}

/** Counts turns by their appended entries, so that the counting never delays a turn. */
export function countTurns(metrics: Metrics, { failed }: TurnCounts): Telemetry {
  const now = () => performance.now();
  const counts = countersIn(metrics);
  let running = 0;
  metrics.gauge({ name: "rkat_turns_running", help: "Turns that run now." }, () => [[[], running]]);
  return {
    watch: (work) => {
      const { kind, sessionId } = work;
      const begunMs = now();
      if (kind === "turn") running += 1;
      return {
        model: work.model,
        tools: work.tools,
        appended: (bodies) => {
          for (const body of bodies) {
            count(counts, [work.model.provider, work.model.modelId], body);
            if (body.kind === "compaction_failed") failed("compaction", sessionId, { message: body.error });
          }
        },
        end: (how) => {
          if (how.error !== undefined) failed(kind === "turn" ? kind : "compaction", sessionId, how.error);
          if (kind !== "turn") return;
          running -= 1;
          counts.turns.add([causeOf(how)]);
          counts.turnSecs.observe([], (now() - begunMs) / 1_000);
        },
      };
    },
    watchRecall: async (asked, search) => {
      const begunMs = now();
      try {
        return await search();
      } finally {
        counts.searchSecs.observe([asked.reach], (now() - begunMs) / 1_000);
      }
    },
  };
}

function countersIn(metrics: Metrics) {
  return {
    turns: metrics.counter({
      name: "rkat_turns_total",
      help: "Turns that ended, by why: completed, the cause that ended one early, or the code it failed with.",
      labels: ["cause"],
    }),
    turnSecs: metrics.histogram({
      name: "rkat_turn_duration_seconds",
      help: "How long turns took.",
      buckets: TURN_SECS,
    }),
    tokens: metrics.counter({
      name: "rkat_model_tokens_total",
      help: "Tokens of models; cache_read and cache_write are parts of the input.",
      labels: ["provider", "model", "kind"],
    }),
    cost: metrics.counter({
      name: "rkat_model_cost_usd_total",
      help: "US dollars that calls of models cost, where their price is known.",
      labels: ["provider", "model"],
    }),
    calls: metrics.counter({
      name: "rkat_model_calls_total",
      help: "Answers of models.",
      labels: ["provider", "model"],
    }),
    retries: metrics.counter({
      name: "rkat_model_retries_total",
      help: "Calls of models that failed and were made again, by what failed.",
      labels: ["provider", "model", "reason"],
    }),
    adopted: metrics.counter({
      name: "rkat_turns_adopted_total",
      help: "Turns of other processes that this server continued, by why those stopped.",
      labels: ["reason"],
    }),
    tools: metrics.counter({
      name: "rkat_tool_calls_total",
      help: "Calls of tools, by name and outcome.",
      labels: ["tool", "outcome"],
    }),
    compactions: metrics.counter({
      name: "rkat_compactions_total",
      help: "Compactions, by outcome.",
      labels: ["outcome"],
    }),
    saved: metrics.counter({
      name: "rkat_compaction_tokens_saved_total",
      help: "Tokens that compactions took out of contexts, about.",
    }),
    searchSecs: metrics.histogram({
      name: "rkat_memory_search_duration_seconds",
      help: "How long searches of memory took.",
      labels: ["reach"],
      buckets: SEARCH_SECS,
    }),
  };
}

type Counts = ReturnType<typeof countersIn>;

function causeOf({ result, error }: Parameters<Watch["end"]>[0]): string {
  const details: unknown = error?.details;
  const hasCause = typeof details === "object" && details !== null && "terminal_cause_kind" in details;
  const cause = hasCause ? details.terminal_cause_kind : result?.terminal_cause_kind;
  if (typeof cause === "string") return cause;
  // A turn that waits for approval has ended for now.
  return error?.code ?? (result === undefined ? "waiting" : "completed");
}

function count(counts: Counts, model: readonly [provider: string, model: string], body: EntryBody): void {
  const spend = (usage: Usage | undefined): void => {
    for (const [kind, tokens] of tokensOf(usage)) if (tokens > 0) counts.tokens.add([...model, kind], tokens);
    if (usage?.cost !== undefined) counts.cost.add(model, usage.cost.amount);
  };
  if (body.kind === "assistant" || body.kind === "extraction_attempt") {
    counts.calls.add(model);
    spend(body.usage);
  }
  if (body.kind === "attempt_failed" && body.event.type === "retrying") {
    counts.retries.add([...model, body.event.retry?.failure.kind ?? "unknown"]);
  }
  if (body.kind === "call_failed") spend(body.usage);
  if (body.kind === "turn_adopted") counts.adopted.add([body.reason]);
  if (body.kind === "tool_results") {
    for (const [index, { name }] of body.calls.entries()) {
      counts.tools.add([name, body.message.results[index]?.is_error === true ? "error" : "ok"]);
    }
  }
  if (body.kind === "compacted") {
    counts.compactions.add([body.evicted === undefined ? "ok" : "evicted"]);
    counts.saved.add([], Math.max(0, body.tokens_before - body.tokens_after));
    // What a prepared one took was counted when it was prepared.
    if (body.prepared === undefined) spend(body.usage);
  }
  if (body.kind === "compaction_prepared") spend(body.compaction.usage);
  if (body.kind === "compaction_dropped" && body.compaction_id === undefined) spend(body.usage);
  if (body.kind === "compaction_failed") {
    counts.compactions.add(["failed"]);
    spend(body.usage);
  }
}

function tokensOf(usage: Usage | undefined): readonly (readonly [kind: string, tokens: number])[] {
  if (usage === undefined) return [];
  return [
    ["input", usage.input_tokens],
    ["output", usage.output_tokens],
    ["cache_read", usage.cache_read_tokens ?? 0],
    ["cache_write", usage.cache_creation_tokens ?? 0],
  ];
}
