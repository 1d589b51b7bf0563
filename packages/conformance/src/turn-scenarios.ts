import { type CallStep, type ExpectedEvent, type Scenario, SESSION, step } from "./scenario.ts";

const USED = { input_tokens: 10, output_tokens: 5, total_tokens: 15 };

/** The two calls of `conformance-tools`, and the end of its turn. */
export const BOTH_REQUESTED: readonly ExpectedEvent[] = [
  asked("Make a task, {run}."),
  { type: "turn_started", turn_number: 0 },
  { type: "tool_call_requested", id: "call_task", name: "task_create" },
  { type: "tool_call_requested", id: "call_none", name: "no_such_tool" },
];
const BOTH_ANSWERED: readonly ExpectedEvent[] = [
  ...answered("call_none", "no_such_tool", { result: /no_such_tool/, is_error: true }),
  ...said(1, "Both tools have answered."),
  ...endedWith("Both tools have answered.", { input_tokens: 20, output_tokens: 10 }),
];

/** Turns that go well. */
export const TURNS: readonly Scenario[] = [
  {
    name: "create",
    title: "a session is created and its first turn streamed",
    steps: [
      {
        call: "createSession",
        input: { prompt: "Hello, {run}.", model: "conformance-plain", tool_preset: "none" },
        result: {
          text: "You said: Hello, {run}.",
          turns: 1,
          tool_calls: 0,
          usage: USED,
          terminal_cause_kind: undefined,
        },
        keep: { session: "session_id" },
        events: [
          asked("Hello, {run}."),
          ...said(0, "You said: Hello, {run}."),
          ...endedWith("You said: Hello, {run}."),
        ],
      },
    ],
  },
  {
    name: "further-turn",
    title: "a session goes on, and its usage adds up",
    needs: ["turns of unkept sessions"],
    steps: [
      created("One, {run}."),
      {
        call: "startTurn",
        input: { session_id: "{session}", prompt: "Two, {run}." },
        result: {
          session_id: "{session}",
          text: "You said: Two, {run}.",
          turns: 1,
          usage: { input_tokens: 20, output_tokens: 10, total_tokens: 30 },
        },
        events: [
          asked("Two, {run}."),
          ...said(0, "You said: Two, {run}."),
          ...endedWith("You said: Two, {run}.", { input_tokens: 20, output_tokens: 10 }),
        ],
      },
      {
        call: "startTurn",
        input: { session_id: "{session}", prompt: "Three, {run}.", model: "conformance-tools" },
        // The session has no tools, so the model is told that there is none of these names.
        result: { text: "Both tools have answered.", turns: 2, tool_calls: 2 },
      },
    ],
  },
  {
    name: "deferred",
    title: "a deferred session runs nothing, and its prompt comes with the first turn",
    needs: ["deferred sessions"],
    steps: [
      {
        call: "createSession",
        input: { prompt: "First, {run}.", initial_turn: "deferred", model: "conformance-plain", tool_preset: "none" },
        result: { text: undefined },
        events: [],
        keep: { session: "session_id" },
      },
      {
        call: "startTurn",
        input: { session_id: "{session}", prompt: "And now, {run}." },
        result: { text: /And now, / },
      },
    ],
  },
  {
    name: "tools",
    title: "tools are called side by side, answered in order, and a wrong call is an error the model sees",
    steps: [
      {
        call: "createSession",
        input: { prompt: "Make a task, {run}.", model: "conformance-tools", tool_preset: "safe" },
        result: {
          text: "Both tools have answered.",
          turns: 2,
          tool_calls: 2,
          usage: { input_tokens: 20, output_tokens: 10 },
        },
        keep: { session: "session_id" },
        events: [
          asked("Make a task, {run}."),
          { type: "turn_started", turn_number: 0 },
          { type: "tool_call_requested", id: "call_task", name: "task_create", args: { subject: "Feed the heron" } },
          { type: "tool_call_requested", id: "call_none", name: "no_such_tool", args: {} },
          { type: "tool_execution_started", id: "call_task", name: "task_create" },
          { type: "tool_execution_started", id: "call_none", name: "no_such_tool" },
          ...answered("call_task", "task_create", { result: /"subject":"Feed the heron"/, is_error: false }),
          ...BOTH_ANSWERED,
        ],
      },
    ],
  },
  {
    name: "denied-call",
    title: "a call that a rule denies is not run, and the model is told which",
    steps: [
      {
        call: "createSession",
        input: {
          prompt: "Make a task, {run}.",
          model: "conformance-tools",
          tool_preset: "safe",
          permissions: { deny: ["task_*"] },
        },
        result: { text: "Both tools have answered.", turns: 2, tool_calls: 1 },
        keep: { session: "session_id" },
        events: [
          ...BOTH_REQUESTED,
          { type: "tool_execution_started", id: "call_none", name: "no_such_tool" },
          ...answered("call_task", "task_create", { result: /^not run: .*task_\*/, is_error: true }),
          ...BOTH_ANSWERED,
        ],
      },
    ],
  },
  {
    name: "asked-call",
    title: "a call that a rule asks about waits for a person's word, which is given once",
    requires: ["session-store"],
    needs: ["questions"],
    steps: [
      {
        call: "createSession",
        input: {
          prompt: "Make a task, {run}.",
          model: "conformance-tools",
          tool_preset: "safe",
          permissions: { ask: ["task_*"] },
        },
        result: { text: "Both tools have answered.", turns: 2, tool_calls: 1 },
        keep: { session: "session_id" },
        meanwhile: {
          after: "tool_approval_requested",
          steps: [
            step("listApprovals", SESSION, {
              result: { approvals: [{ session_id: "{session}", calls: [{ id: "call_task", name: "task_create" }] }] },
              keep: { approval: "approvals.0.approval_id" },
            }),
            step("readSession", SESSION, { result: { state: "waiting" } }),
            {
              call: "startTurn",
              input: { session_id: "{session}", prompt: "Me, too." },
              error: { code: "SESSION_BUSY" },
            },
            {
              call: "answerApproval",
              input: { session_id: "{session}", approval_id: "{approval}", decision: "deny", reason: "Not today." },
              result: { answered: true, waiting_calls: 0 },
            },
          ],
        },
        events: [
          ...BOTH_REQUESTED,
          { type: "tool_approval_requested", session_id: "{session}", approval_id: "{approval}" },
          { type: "tool_approval_answered", approval_id: "{approval}", decision: "deny", calls: ["call_task"] },
          { type: "tool_execution_started", id: "call_none", name: "no_such_tool" },
          ...answered("call_task", "task_create", {
            result: /^not run: the user denied it: Not today\.$/,
            is_error: true,
          }),
          ...BOTH_ANSWERED,
        ],
      },
      {
        call: "answerApproval",
        input: { session_id: "{session}", approval_id: "{approval}", decision: "allow" },
        error: { code: "INVALID_PARAMS", message: /answered/ },
      },
    ],
  },
  {
    name: "structured-output",
    title: "a result of a JSON schema is asked for and comes",
    steps: [
      {
        call: "createSession",
        input: {
          prompt: "Which bird, {run}?",
          model: "conformance-json",
          tool_preset: "none",
          output_schema: schema(),
        },
        result: { text: "You said: Which bird, {run}?", structured_output: { bird: "heron", legs: 2 } },
        keep: { session: "session_id" },
        events: [
          asked("Which bird, {run}?"),
          ...said(0, "You said: Which bird, {run}?"),
          { type: "turn_completed", stop_reason: "end_turn" },
          completed("You said: Which bird, {run}?", { extraction_required: true }),
          { type: "extraction_succeeded", session_id: "{session}", structured_output: { bird: "heron", legs: 2 } },
        ],
      },
    ],
  },
  {
    name: "structured-output-fails",
    title: "an output that never matches its schema leaves the text, and says why",
    steps: [
      {
        call: "createSession",
        input: {
          prompt: "Which bird, {run}?",
          model: "conformance-prose",
          tool_preset: "none",
          output_schema: schema(),
        },
        result: {
          text: "A heron, I think.",
          terminal_cause_kind: "structured_output_validation_failed",
          structured_output: undefined,
          extraction_error: { last_output: "A heron, I think.", attempts: 3, reason: "the output is not JSON" },
        },
        keep: { session: "session_id" },
        events: [
          asked("Which bird, {run}?"),
          ...said(0, "A heron, I think."),
          { type: "turn_completed", stop_reason: "end_turn" },
          completed("A heron, I think.", { extraction_required: true }),
          {
            type: "extraction_failed",
            last_output: "A heron, I think.",
            attempts: 3,
            reason: "the output is not JSON",
          },
        ],
      },
    ],
  },
];

function schema() {
  return {
    type: "object",
    properties: { bird: { type: "string" }, legs: { type: "integer" } },
    required: ["bird", "legs"],
    additionalProperties: false,
  };
}

/** Creates the session of a scenario. */
export function created(prompt: string, more: object = {}): CallStep {
  return {
    call: "createSession",
    input: { prompt, model: "conformance-plain", tool_preset: "none", ...more },
    keep: { session: "session_id" },
  };
}

export function answered(
  id: string,
  name: string,
  reported: { result: RegExp; is_error: boolean },
): readonly ExpectedEvent[] {
  return [
    { type: "tool_execution_completed", id, name, ...reported },
    { type: "tool_result_received", id, name, is_error: reported.is_error },
  ];
}

/** The first event of a turn. */
export function asked(prompt: string): ExpectedEvent {
  return { type: "run_started", session_id: "{session}", prompt };
}

/** A model call that says something. */
export function said(turn_number: number, text: string): readonly ExpectedEvent[] {
  return [
    { type: "turn_started", turn_number },
    { type: "text_delta", delta: text },
    { type: "text_complete", content: text },
  ];
}

/** What ends a turn that went well. */
export function endedWith(
  result: string,
  usage: object = { input_tokens: 10, output_tokens: 5 },
): readonly ExpectedEvent[] {
  return [
    { type: "turn_completed", stop_reason: "end_turn" },
    completed(result, { usage, extraction_required: false }),
  ];
}

export function completed(result: string, more: object): ExpectedEvent {
  return { type: "run_completed", session_id: "{session}", result, ...more };
}

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
          ...BOTH_REQUESTED,
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
          ...BOTH_ANSWERED,
        ],
      },
    ],
  },
  {
    name: "hook-denies-a-turn",
    title: "a hook of one turn refuses a model call, which ends the turn, and the next one has it no more",
    needs: ["operation", "turns of unkept sessions"],
    steps: [
      created("One, {run}."),
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

/** The skill that every target works with: it lies in the home folder of the run, so it needs no trust. */
export const CONFORMANCE_SKILL = {
  path: [".rkat", "skills", "feeding-herons", "SKILL.md"],
  text: "---\nname: feeding-herons\ndescription: How herons are fed.\n---\n\nFeed them at dusk.\n",
} as const;

/** What a source is named by follows from its kind and its folder alone, so it is the same on every machine. */
const KEY = { source_uuid: "72b6f7ac-7380-8bf5-abc4-79bd54f5ce01", skill_name: "feeding-herons" };
const ROW = {
  key: KEY,
  name: "feeding-herons",
  description: "How herons are fed.",
  scope: "user",
  source: { source_uuid: KEY.source_uuid, transport_kind: "filesystem", status: "active" },
  is_active: true,
};
const RESOLVED = { type: "skills_resolved", skills: [KEY], injection_bytes: 96 } as const;

/** Skills, named by whoever asks. */
export const SKILLS: readonly Scenario[] = [
  {
    name: "skills",
    title: "skills are listed and read, and one that is named is loaded before the prompt, once",
    needs: ["skills", "turns of unkept sessions"],
    steps: [
      { call: "listSkills", input: { source_uuid: KEY.source_uuid }, result: { skills: [ROW] } },
      { call: "readSkill", input: { ...KEY }, result: { ...ROW, body: "Feed them at dusk." } },
      { call: "readSkill", input: { ...KEY, file: "../SKILL.md" }, error: { code: "SKILL_RESOLUTION_FAILED" } },
      { call: "readSkill", input: { ...KEY, skill_name: "none" }, error: { code: "SKILL_NOT_FOUND" } },
      created("Hello, {run}."),
      {
        call: "startTurn",
        input: { session_id: "{session}", prompt: "Feed them, {run}.", skill_refs: [KEY] },
        result: { text: "You said: Feed them, {run}." },
        events: [
          RESOLVED,
          asked("Feed them, {run}."),
          ...said(0, "You said: Feed them, {run}."),
          ...endedWith("You said: Feed them, {run}.", { input_tokens: 20, output_tokens: 10 }),
        ],
      },
      {
        call: "startTurn",
        input: { session_id: "{session}", prompt: "Again, {run}.", skill_refs: [KEY] },
        events: [
          asked("Again, {run}."),
          ...said(0, "You said: Again, {run}."),
          ...endedWith("You said: Again, {run}.", { input_tokens: 30, output_tokens: 15 }),
        ],
      },
      {
        call: "startTurn",
        input: { session_id: "{session}", prompt: "More.", skill_refs: [{ ...KEY, skill_name: "none" }] },
        error: { code: "SKILL_NOT_FOUND" },
      },
    ],
  },
];

const OF = { call_id: "call_agent", agent: "general" };

const inChild = (event: ExpectedEvent): ExpectedEvent => ({ type: "sub_agent_event", ...OF, depth: 1, event });

/** Tasks that are handed to others. */
export const SUB_AGENTS: readonly Scenario[] = [
  {
    name: "sub-agent",
    title: "a task runs in a session of its own, what happens there is told, and its report comes back",
    requires: ["session-store"],
    steps: [
      {
        call: "createSession",
        input: { prompt: "Delegate it, {run}.", model: "conformance-agent", tool_preset: "safe", enable_agents: true },
        result: {
          text: "It is done.",
          turns: 2,
          tool_calls: 1,
          usage: { input_tokens: 20, output_tokens: 10 },
          delegated: { usage: { input_tokens: 10, output_tokens: 5 }, tool_calls: 0 },
        },
        keep: { session: "session_id" },
        events: [
          asked("Delegate it, {run}."),
          { type: "turn_started", turn_number: 0 },
          { type: "tool_call_requested", id: "call_agent", name: "agent", args: { task: "Look for the heron." } },
          { type: "tool_execution_started", id: "call_agent", name: "agent" },
          { type: "sub_agent_started", ...OF, task: "Look for the heron." },
          inChild({ type: "run_started", prompt: "Look for the heron." }),
          inChild({ type: "turn_started", turn_number: 0 }),
          inChild({ type: "text_complete", content: "You said: Look for the heron." }),
          inChild({ type: "turn_completed", stop_reason: "end_turn" }),
          inChild({ type: "run_completed", result: "You said: Look for the heron." }),
          {
            type: "sub_agent_completed",
            ...OF,
            status: "completed",
            usage: { input_tokens: 10, output_tokens: 5 },
            tool_calls: 0,
          },
          {
            type: "tool_execution_completed",
            id: "call_agent",
            result:
              /^You said: Look for the heron\.\n\n\[sub-agent general, session .*, completed, 1 model call, 15 tokens\]$/,
            is_error: false,
          },
          { type: "tool_result_received", id: "call_agent", is_error: false },
          ...said(1, "It is done."),
          ...endedWith("It is done.", { input_tokens: 20, output_tokens: 10 }),
        ],
      },
      step("readSession", SESSION, {
        result: { total_tokens: 30, delegated: { usage: { input_tokens: 10, output_tokens: 5 }, tool_calls: 0 } },
      }),
      {
        call: "createSession",
        input: { prompt: "Delegate it, {run}.", model: "conformance-agent", tool_preset: "none", enable_agents: true },
        error: { code: "INVALID_PARAMS", message: /^enable_agents: a session without tools has no sub-agents/ },
      },
    ],
  },
];
