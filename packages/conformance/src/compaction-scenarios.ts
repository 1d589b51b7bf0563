import { type CallStep, type ExpectedEvent, type Scenario, SESSION, step } from "./scenario.ts";
import { asked, created, endedWith, said } from "./turn-scenarios.ts";

/** Long enough to be worth taking out of a context. */
const FACT = `The staging host listens on port 4711, {run}. It was set up${" long ago, and".repeat(30)} nobody touches it.`;
const KEPT = ["session-store", "session-compaction"] as const;
const STARTED = { type: "compaction_started", input_tokens: 10, message_count: 3 } as const;
const COMPLETED = { type: "compaction_completed", summary_tokens: 5, messages_before: 3, messages_after: 2 } as const;

/** Contexts that are compacted, by themselves and by hand. */
export const COMPACTIONS: readonly Scenario[] = [
  {
    name: "compaction",
    title: "a context that grows past its threshold is compacted before the next call, and that can be undone",
    requires: KEPT,
    steps: [
      grown("conformance-summary"),
      // Two answers and a summary.
      goesOn(3, [STARTED, COMPLETED]),
      step("listCompactions", SESSION, {
        result: {
          compactions: [
            {
              trigger: "threshold",
              strategy: "summary",
              summary: "The staging host listens on port 4711.",
              messages_before: 3,
              messages_after: 2,
              undone: false,
              receipt: { lost: 0 },
            },
          ],
        },
        keep: { compaction: "compactions.0.compaction_id" },
      }),
      step("readContext", SESSION, {
        result: {
          messages: [
            { role: "user", content: /^\[Context compacted\] / },
            { role: "user" },
            { role: "block_assistant" },
          ],
        },
      }),
      step("listModelCalls", SESSION, {
        result: {
          calls: [
            { turn: 1, model: "conformance-summary", parts: [{ kind: "turn" }], usage: { input_tokens: 10 } },
            { turn: 2, parts: [{ kind: "summary" }, { kind: "turn" }], threshold: 200 },
          ],
          compactions: [{ compaction_id: "{compaction}", undone: false }],
        },
      }),
      step("readHistory", SESSION, { keep: { first: "messages.0.seq" } }),
      {
        call: "readSummarySources",
        input: { session_id: "{session}", compaction_id: "{compaction}" },
        result: { sentences: [{ text: "The staging host listens on port 4711.", seqs: ["{first}"] }] },
      },
      step("readSession", SESSION, { result: { message_count: 4 } }),
      {
        call: "undoCompaction",
        input: { session_id: "{session}", compaction_id: "{compaction}" },
        result: { undone: true, compaction_ids: ["{compaction}"], messages: 4 },
      },
      step("readContext", SESSION, {
        result: { messages: [{ role: "user", content: /^The staging host/ }, {}, {}, {}] },
      }),
      {
        call: "undoCompaction",
        input: { session_id: "{session}", compaction_id: "00000000-0000-7000-8000-000000000000" },
        error: { code: "SESSION_NOT_FOUND" },
      },
    ],
  },
  {
    name: "eviction",
    title:
      "tool output that was given again leaves the context without a model, can be read again, and that can be undone",
    requires: KEPT,
    steps: [
      ...taskTwice({ evict_at: 0.1 }),
      // Two turns of two calls, and this one.
      goesOn(5, [{ type: "context_evicted", outputs: 1, superseded: 1, failed: 0, large: 0 }]),
      step("listCompactions", SESSION, {
        result: {
          compactions: [
            {
              trigger: "eviction",
              strategy: "eviction",
              summary_by: "none",
              evicted: { outputs: 1 },
              receipt: { lost: 0 },
            },
          ],
        },
        keep: { compaction: "compactions.0.compaction_id" },
      }),
      step("readContext", SESSION, {
        result: { evicted: { outputs: 1 } },
      }),
      step("listModelCalls", SESSION, {
        result: { compactions: [{ compaction_id: "{compaction}", trigger: "eviction", undone: false }] },
      }),
      {
        call: "startTurn",
        input: { session_id: "{session}", prompt: "Recall it, {run}." },
        result: { text: "The heron is fed.", tool_calls: 1 },
      },
      {
        call: "undoCompaction",
        input: { session_id: "{session}", compaction_id: "{compaction}" },
        result: { undone: true, compaction_ids: ["{compaction}"] },
      },
      step("readContext", SESSION, { result: { evicted: undefined } }),
    ],
  },
  {
    name: "compaction-policy",
    title: "a session says when it is compacted, whether that is prepared and whether tool output leaves its context",
    requires: KEPT,
    steps: [
      created(FACT, {
        model: "conformance-summary",
        compaction: { auto_compact_threshold: 200, policy: "economy", prepare: false },
      }),
      goesOn(3, [STARTED, COMPLETED]),
      step("listCompactions", SESSION, {
        result: {
          compactions: [
            {
              trigger: "threshold",
              // An explicit threshold acts as it says; the retired policy beside it is read and has no effect.
              notes: [],
              prepared: undefined,
            },
          ],
        },
      }),
      ...taskTwice({ evict: false, evict_at: 0.1 }),
      goesOn(5),
      {
        call: "createSession",
        input: { prompt: "Hello.", compaction: { policy: "cheap" } },
        error: { code: "INVALID_PARAMS" },
        events: [],
      },
      {
        call: "createSession",
        input: { prompt: "Hello.", compaction: { prepare: true, evict_at: 2 } },
        error: { code: "INVALID_PARAMS" },
        events: [],
      },
    ],
  },
  {
    name: "compaction-of-live-session",
    title: "a session that is not kept is compacted as well",
    requires: ["session-compaction"],
    needs: ["turns of unkept sessions"],
    steps: [
      grown("conformance-summary"),
      goesOn(3, [STARTED, COMPLETED]),
      step("listCompactions", SESSION, { result: { compactions: [{ undone: false }] } }),
    ],
  },
  {
    name: "compaction-fails",
    title: "a compaction that fails is told, changes nothing, and the turn goes on",
    requires: KEPT,
    steps: [
      grown("conformance-empty"),
      goesOn(3, [STARTED, { type: "compaction_failed", error: "LLM returned empty summary" }]),
      step("listCompactions", SESSION, { result: { compactions: [] } }),
    ],
  },
  {
    name: "compact-by-hand",
    title: "a session is previewed and compacted by hand, and a part of it brought back",
    requires: KEPT,
    steps: [
      created(FACT, { model: "conformance-summary" }),
      { call: "startTurn", input: { session_id: "{session}", prompt: "Go on, {run}." } },
      {
        call: "compactSession",
        input: { session_id: "{session}", preview: true },
        result: { compacted: false, compaction: { messages_before: 4, cost: {} } },
        events: [],
      },
      { call: "readEventCursor", input: { scope: scope() }, keep: { before: "cursor.sequence" } },
      step("compactSession", SESSION, {
        result: { compacted: true, compaction: { trigger: "manual", messages_before: 4, messages_after: 3 } },
        keep: { compaction: "compaction.compaction_id" },
        events: [
          { type: "compaction_started", message_count: 4 },
          { type: "compaction_completed", summary_tokens: 5, messages_before: 4, messages_after: 3 },
        ],
      }),
      {
        call: "listEvents",
        input: { scope: scope(), cursor: { scope: scope(), sequence: "{before}" } },
        result: {
          events: [
            { payload: { type: "compaction_started", message_count: 4 } },
            { payload: { type: "compaction_completed", messages_before: 4, messages_after: 3 } },
          ],
        },
      },
      {
        call: "expandCompaction",
        input: { session_id: "{session}", compaction_id: "{compaction}", max_tokens: 1_000 },
        result: { expanded: [{}], left_out: [], messages: 5 },
      },
    ],
  },
  {
    name: "pins",
    title: "a pinned message stays in the context",
    requires: KEPT,
    needs: ["pins"],
    steps: [
      created(FACT, { model: "conformance-summary" }),
      step("readHistory", SESSION, { keep: { first: "messages.0.seq" } }),
      {
        call: "pinMessage",
        input: { session_id: "{session}", seq: "{first}" },
        result: { pinned: true, seq: "{first}", pins: ["{first}"] },
      },
      step("listPins", SESSION, { result: { pins: ["{first}"] } }),
      { call: "unpinMessage", input: { session_id: "{session}", seq: "{first}" }, result: { pinned: false, pins: [] } },
      { call: "pinMessage", input: { session_id: "{session}", seq: 9_999 }, error: { code: "INVALID_PARAMS" } },
    ],
  },
  {
    name: "compaction-asked-for",
    title: "settings of a compaction are refused without one, and when they can never be met",
    steps: [
      {
        call: "createSession",
        input: { prompt: "Hello, {run}.", tool_preset: "none", compaction: { auto_compact_threshold: 5_000 } },
        asksFor: "session-compaction",
      },
      {
        call: "createSession",
        input: { prompt: "Hello.", compaction: { auto_compact_threshold: 10 } },
        asksFor: "session-compaction",
        error: { code: "COMPACTION_THRESHOLD_UNREACHABLE" },
        events: [],
      },
      {
        call: "createSession",
        input: { prompt: "Hello, {run}.", tool_preset: "none", compaction: { evict: false, evict_at: 0.5 } },
        asksFor: "session-compaction",
      },
    ],
  },
];

/** A session whose context is larger than its threshold after its first turn. */
function grown(model: string): CallStep {
  return created(FACT, { model, compaction: { auto_compact_threshold: 200 } });
}

/** A further turn, after so many model calls in all, with these events before its answer. */
function goesOn(calls: number, before: readonly ExpectedEvent[] = []): CallStep {
  const [prompt, text] = ["Go on, {run}.", "You said: Go on, {run}."];
  const usage = { input_tokens: 10 * calls, output_tokens: 5 * calls };
  return {
    call: "startTurn",
    input: { session_id: "{session}", prompt },
    result: { text, terminal_cause_kind: undefined },
    events: [asked(prompt), ...before, ...said(0, text), ...endedWith(text, usage)],
  };
}

/** Two turns that each call a tool. */
function taskTwice(compaction: object): readonly CallStep[] {
  return [
    created("Make a task, {run}.", {
      model: "conformance-eviction",
      tool_preset: "safe",
      compaction: { auto_compact_threshold: 20_000, ...compaction },
    }),
    { call: "startTurn", input: { session_id: "{session}", prompt: "Make it again, {run}." } },
  ];
}

function scope() {
  return { type: "session", session_id: "{session}" };
}
