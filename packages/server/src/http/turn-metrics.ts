import type { EntryBody } from "@rkat/core/contract/entry";
import type { Usage } from "@rkat/core/contract/event";
import type { Telemetry, Watch } from "@rkat/core/ports/telemetry";
import type { LoggedFailure } from "./failure-facts.ts";
import type { Metrics } from "./metrics.ts";

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
