import type { Scenario } from "./scenario.ts";
import { answered, asked, endedWith, said } from "./turn-scenarios.ts";

const DENY = JSON.stringify({
  decision: { decision: "deny", reason_code: "policy_violation", message: "no tasks today" },
});

/** A program that answers with this, wherever there is a shell. */
const answering = (answer: string) => ({ type: "command", command: "sh", args: ["-c", `echo '${answer}'`] });

const ON_TASKS = { hook_id: "no-tasks", point: "pre_tool_execution" };
const ON_REQUESTS = { hook_id: "closed", point: "pre_llm_request" };

/** Hooks that a request brings along. */
export const HOOKS: readonly Scenario[] = [
  {
    name: "hook-denies-a-call",
    title: "a hook of one turn refuses a call, which is not run, and the model is told by whom",
    needs: ["operation"],
    steps: [
      {
        call: "createSession",
        input: {
          prompt: "Make a task, {run}.",
          model: "conformance-tools",
          tool_preset: "safe",
          hooks_override: {
            entries: [
              {
                id: "no-tasks",
                point: "pre_tool_execution",
                capability: "guardrail",
                tools: ["task_*"],
                timeout_ms: 60_000,
                runtime: answering(DENY),
              },
            ],
          },
        },
        result: { text: "Both tools have answered.", turns: 2, tool_calls: 1 },
        keep: { session: "session_id" },
        events: [
          asked("Make a task, {run}."),
          { type: "turn_started", turn_number: 0 },
          { type: "tool_call_requested", id: "call_task", name: "task_create" },
          { type: "tool_call_requested", id: "call_none", name: "no_such_tool" },
          { type: "hook_started", ...ON_TASKS },
          { type: "tool_execution_started", id: "call_none", name: "no_such_tool" },
          {
            type: "hook_denied",
            ...ON_TASKS,
            reason_code: "policy_violation",
            message: "no tasks today",
          },
          ...answered("call_task", "task_create", {
            result: /^denied by hook no-tasks: no tasks today$/,
            is_error: true,
          }),
          ...answered("call_none", "no_such_tool", { result: /no_such_tool/, is_error: true }),
          ...said(1, "Both tools have answered."),
          ...endedWith("Both tools have answered.", { input_tokens: 20, output_tokens: 10 }),
        ],
      },
    ],
  },
  {
    name: "hook-denies-a-turn",
    title: "a hook of one turn refuses a model call, which ends the turn, and the next one has it no more",
    needs: ["operation", "turns of unkept sessions"],
    steps: [
      {
        call: "createSession",
        input: { prompt: "One, {run}.", model: "conformance-plain", tool_preset: "none" },
        keep: { session: "session_id" },
      },
      {
        call: "startTurn",
        input: {
          session_id: "{session}",
          prompt: "Two, {run}.",
          hooks_override: {
            entries: [
              {
                id: "closed",
                point: "pre_llm_request",
                capability: "guardrail",
                timeout_ms: 60_000,
                runtime: { type: "command", command: "sh", args: ["-c", "echo come back later >&2; exit 2"] },
              },
            ],
          },
        },
        error: { code: "HOOK_DENIED", message: "denied by hook closed: come back later" },
        events: [
          asked("Two, {run}."),
          { type: "hook_started", ...ON_REQUESTS },
          { type: "hook_denied", ...ON_REQUESTS, reason_code: "policy_violation", message: "come back later" },
          {
            type: "run_failed",
            session_id: "{session}",
            error_class: "hook",
            terminal_cause_kind: "hook_denied",
            error: "denied by hook closed: come back later",
          },
        ],
      },
      {
        call: "startTurn",
        input: { session_id: "{session}", prompt: "Three, {run}." },
        result: { text: "You said: Three, {run}." },
      },
      {
        call: "startTurn",
        input: { session_id: "{session}", prompt: "Four.", hooks_override: { disable: ["nobody"] } },
        error: { code: "INVALID_PARAMS", message: /hooks_override\.disable: there is no hook nobody/ },
      },
    ],
  },
];
