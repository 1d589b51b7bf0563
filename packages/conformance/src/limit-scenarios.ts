import type { ErrorCode } from "@rkat/core/contract/error";
import type { OperationName } from "@rkat/core/contract/operations";
import type { CallStep, Scenario } from "./scenario.ts";
import { asked, completed, created, endedWith, said } from "./turn-scenarios.ts";

const DIME = { amount: 0.1, currency: "USD" };

/** Budgets that run out, and providers that fail. */
export const LIMITS: readonly Scenario[] = [
  {
    name: "token-budget",
    title: "tokens are warned of once, and their end keeps the answer that crossed it",
    needs: ["turns of unkept sessions"],
    steps: [
      {
        call: "createSession",
        input: {
          prompt: "One, {run}.",
          model: "conformance-costly",
          tool_preset: "none",
          budget_limits: { max_tokens: 100 },
        },
        result: { text: "That was expensive.", terminal_cause_kind: undefined },
        keep: { session: "session_id" },
        events: [
          asked("One, {run}."),
          ...said(0, "That was expensive."),
          { type: "budget_warning", budget_type: "tokens", used: 85, limit: 100, percent: 85 },
          ...endedWith("That was expensive.", { input_tokens: 80, output_tokens: 5 }),
        ],
      },
      {
        call: "startTurn",
        input: { session_id: "{session}", prompt: "Two, {run}." },
        result: {
          text: "That was expensive.",
          terminal_cause_kind: "budget_exhausted",
          usage: { input_tokens: 160, output_tokens: 10, total_tokens: 170 },
        },
        events: [
          asked("Two, {run}."),
          ...said(0, "That was expensive."),
          { type: "turn_completed", stop_reason: "end_turn" },
          completed("That was expensive.", { terminal_cause_kind: "budget_exhausted" }),
        ],
      },
    ],
  },
  {
    name: "cost",
    title: "what a turn costs is told, warned of once, and its end keeps the answer that crossed the limit",
    needs: ["turns of unkept sessions"],
    steps: [
      {
        call: "createSession",
        input: {
          prompt: "One, {run}.",
          model: "conformance-priced",
          tool_preset: "none",
          budget_limits: { max_cost: 0.12 },
        },
        result: { text: "That was a dime.", usage: { cost: DIME }, turn_cost: DIME, terminal_cause_kind: undefined },
        keep: { session: "session_id" },
        events: [
          asked("One, {run}."),
          ...said(0, "That was a dime."),
          { type: "budget_warning", budget_type: "cost", used: 100_000, limit: 120_000, percent: 83.3 },
          { type: "turn_completed", stop_reason: "end_turn", usage: { input_tokens: 80, cost: DIME } },
          completed("That was a dime.", { usage: { cost: DIME }, turn_cost: DIME }),
        ],
      },
      {
        call: "startTurn",
        input: { session_id: "{session}", prompt: "Two, {run}." },
        result: {
          text: "That was a dime.",
          terminal_cause_kind: "budget_exhausted",
          usage: { input_tokens: 160, cost: { amount: 0.2, currency: "USD" } },
          turn_cost: DIME,
        },
        events: [
          asked("Two, {run}."),
          ...said(0, "That was a dime."),
          { type: "turn_completed", stop_reason: "end_turn" },
          completed("That was a dime.", { turn_cost: DIME, terminal_cause_kind: "budget_exhausted" }),
        ],
      },
      {
        call: "createSession",
        input: { prompt: "Three.", model: "conformance-plain", budget_limits: { max_cost: 1 } },
        error: { code: "INVALID_PARAMS", message: /no price of conformance-plain is known; set .*prices/ },
        events: [],
      },
    ],
  },
  {
    name: "usage",
    title: "what sessions used is summed up, with what it cost where a price is known",
    requires: ["session-store"],
    steps: [
      {
        call: "createSession",
        input: {
          prompt: "One, {run}.",
          model: "conformance-priced",
          tool_preset: "none",
          labels: { story: "{run}" },
        },
        keep: { session: "session_id" },
      },
      {
        call: "createSession",
        input: { prompt: "Two, {run}.", model: "conformance-plain", tool_preset: "none", labels: { story: "{run}" } },
        result: { turn_cost: undefined },
      },
      {
        call: "listSessions",
        input: { labels: { story: "{run}" } },
        result: { sessions: [{ model: "conformance-plain", cost: undefined }, { cost: DIME }] },
      },
      {
        call: "readUsage",
        input: { by: "model", labels: { story: "{run}" }, since: "2d" },
        result: {
          groups: [
            { key: "conformance-priced", calls: 1, usage: { input_tokens: 80, output_tokens: 5, cost: DIME } },
            { key: "conformance-plain", calls: 1, usage: { input_tokens: 10, output_tokens: 5, cost: undefined } },
          ],
          total: { calls: 2, usage: { input_tokens: 90, cost: { ...DIME, partial: true } } },
        },
      },
      {
        call: "readUsage",
        input: { by: "label", labels: { story: "{run}" } },
        result: { groups: [{ key: "story={run}", calls: 2 }] },
      },
      {
        call: "readUsage",
        input: { since: "lately" },
        error: { code: "INVALID_PARAMS", message: /since: write how far back/ },
      },
    ],
  },
  {
    name: "tool-call-budget",
    title: "tool calls run out gracefully, and the session stays usable",
    steps: [
      {
        call: "createSession",
        input: {
          prompt: "Go on and on, {run}.",
          model: "conformance-busy",
          tool_preset: "safe",
          budget_limits: { max_tool_calls: 2 },
        },
        result: { terminal_cause_kind: "budget_exhausted", tool_calls: 2 },
        keep: { session: "session_id" },
      },
    ],
  },
  {
    name: "turn-limit",
    title: "a turn has a limit of model calls",
    steps: [
      {
        call: "createSession",
        input: { prompt: "Go on, {run}.", model: "conformance-busy", tool_preset: "safe", max_turns: 2 },
        result: { terminal_cause_kind: "turn_limit_reached", turns: 2 },
        keep: { session: "session_id" },
      },
    ],
  },
  {
    name: "retry",
    title: "transient failures are announced and tried again",
    steps: [
      {
        call: "createSession",
        input: { prompt: "Try, {run}.", model: "conformance-retry", tool_preset: "none" },
        result: { text: "You said: Try, {run}.", turns: 1 },
        keep: { session: "session_id" },
        events: [
          asked("Try, {run}."),
          { type: "turn_started", turn_number: 0 },
          { type: "retrying", attempt: 1, max_attempts: 2, error: /Too many requests/ },
          { type: "retrying", attempt: 2, max_attempts: 2, error: /overloaded/ },
          ...said(0, "You said: Try, {run}.").slice(1),
          ...endedWith("You said: Try, {run}."),
        ],
      },
    ],
  },
  {
    name: "provider-fails",
    title: "a provider that keeps failing is an error after the retries, and the session stays usable",
    steps: [
      {
        call: "createSession",
        input: { prompt: "Fail, {run}.", model: "conformance-down", tool_preset: "none" },
        error: { code: "PROVIDER_ERROR", message: /The server had an error/ },
        keep: { session: "session_id" },
        events: [
          asked("Fail, {run}."),
          { type: "turn_started", turn_number: 0 },
          { type: "retrying", attempt: 1, max_attempts: 2 },
          { type: "retrying", attempt: 2, max_attempts: 2 },
          {
            type: "run_failed",
            session_id: "{session}",
            error_class: "llm",
            error: /The server had an error/,
            terminal_cause_kind: "retry_exhausted",
          },
        ],
      },
    ],
  },
  {
    name: "provider-refuses",
    title: "a refusal that no retry can help is not tried again",
    steps: [
      {
        call: "createSession",
        input: { prompt: "Fail at once, {run}.", model: "conformance-denied", tool_preset: "none" },
        error: { code: "PROVIDER_ERROR" },
        keep: { session: "session_id" },
        events: [
          asked("Fail at once, {run}."),
          { type: "turn_started", turn_number: 0 },
          { type: "run_failed", session_id: "{session}", terminal_cause_kind: "llm_failure" },
        ],
      },
    ],
  },
  {
    name: "time-budget",
    title: "time that runs out in the wait before a retry, with nothing to return, is an error",
    steps: [
      {
        call: "createSession",
        input: {
          prompt: "Wait, {run}.",
          model: "conformance-later",
          tool_preset: "none",
          budget_limits: { max_duration: "1s" },
        },
        error: { code: "BUDGET_EXHAUSTED" },
        keep: { session: "session_id" },
      },
    ],
  },
];

const NOBODY = { session_id: "00000000-0000-7000-8000-000000000000" };
const MESSAGE = { role: "user", content: "Are you there?" };
const SCOPE = { scope: { type: "session", ...NOBODY } };

/** Calls that are refused, with the code of the table; without its capability each with that of the capability. */
export const REFUSALS: readonly Scenario[] = [
  {
    name: "unknown-session",
    title: "a session that is not there is not found, and without a store nothing can be",
    steps: [
      missing("readSession"),
      missing("readHistory"),
      missing("resumeSession", { prompt: "Are you there?" }),
      missing("forkSession", { message_index: 0 }),
      missing("forkReplacing", { message_index: 0, replacement: { type: "message", message: MESSAGE } }),
      missing("rewriteTranscript", {
        selection: { type: "message_range", start: 0, end: 0 },
        replacement: [MESSAGE],
        reason: { kind: "edit" },
      }),
      missing("readRevision", { revision: "current" }),
      missing("restoreRevision", { revision: `sha256:${"0".repeat(64)}`, reason: { kind: "edit" } }),
      missing("listRewrites"),
      missing("readContext"),
      missing("listModelCalls"),
      missing("archiveSession"),
      { call: "readEventCursor", input: SCOPE, error: { code: "SESSION_NOT_FOUND" } },
      { call: "listEvents", input: SCOPE, error: { code: "SESSION_NOT_FOUND" } },
      { call: "listSessions", input: { labels: { story: "{run}" } }, result: { sessions: [] } },
      { call: "listAgents", input: {} },
    ],
  },
  {
    name: "unknown-live-session",
    title: "a text and an interrupt need a session",
    needs: ["turns of unkept sessions"],
    steps: [missing("injectContext", { text: "Hello." }), missing("interruptTurn")],
  },
  {
    name: "unknown-turn",
    title: "a turn needs a session",
    needs: ["turns of unkept sessions", "turns apart from resumes"],
    steps: [missing("startTurn", { prompt: "Are you there?" })],
  },
  {
    name: "unknown-compactions",
    title: "what is not there cannot be compacted",
    needs: ["compactions of unkept sessions"],
    steps: [
      missing("compactSession"),
      missing("listCompactions"),
      missing("undoCompaction", { compaction_id: "none" }),
      missing("expandCompaction", { compaction_id: "none" }),
    ],
  },
  {
    name: "wrong-input",
    title: "a wrong input is refused by its name, before anything happens",
    steps: [
      wrong("createSession", { prompt: "Hello.", model: "no-such-model" }),
      wrong("createSession", { prompt: "Hello.", model: "conformance-plain", budget_limits: { max_tokens: 0 } }),
      wrong("createSession", { prompt: "Hello.", model: "conformance-plain", labels: { "meerkat.id": "x" } }),
      wrong("createSession", { prompt: " ", model: "conformance-plain" }),
    ],
  },
  {
    name: "wrong-turn",
    title: "what a session was made with cannot be changed by a turn",
    requires: ["session-store"],
    steps: [
      created("Hello, {run}."),
      wrong("startTurn", { session_id: "{session}", prompt: "Hello.", system_prompt: "Be short." }),
      wrong("startTurn", { session_id: "nobody", prompt: "Hello." }),
      wrong("readSession", { session_id: "nobody" }),
      wrong("readAgentStatus", { agent: "no name" }),
    ],
  },
  {
    name: "wrong-fields",
    title: "fields that would be a lie to accept are refused, and blobs that are not there are not found",
    needs: ["free input"],
    steps: [
      wrong("createSession", { prompt: "Hello.", model: "conformance-plain", skill_references: ["x"] }),
      wrong("createSession", { prompt: 7, model: "conformance-plain" }),
      wrong("createSession", { prompt: "Hello.", model: "conformance-plain", budget_limits: { max_tokns: 5 } }),
      { call: "readBlob", input: { blob_id: "sha256:none" }, error: { code: "INVALID_PARAMS" } },
      {
        call: "createSession",
        input: { prompt: "Hello, {run}.", model: "conformance-plain", tool_preset: "none" },
        keep: { session: "session_id" },
      },
      wrong("finishTurn", { session_id: "{session}", turn: 1 }),
    ],
  },
];

function missing(call: OperationName, more: object = {}): CallStep {
  return { call, input: { ...NOBODY, ...more }, error: { code: "SESSION_NOT_FOUND" } };
}

function wrong(call: OperationName, input: CallStep["input"], code: ErrorCode = "INVALID_PARAMS"): CallStep {
  return { call, input, error: { code }, events: [] };
}
