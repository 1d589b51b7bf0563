import { type CallStep, type Scenario, SESSION, step } from "./scenario.ts";
import { asked, created, endedWith, said } from "./turn-scenarios.ts";

const SERVER = { name: "docs", url: "http://127.0.0.1:9/mcp" };
const staged = (operation: string, server = {}) => ({
  session_id: "{session}",
  operation,
  ...server,
  status: "staged",
  persisted: false,
  applied_at_turn: 2,
});

/** Sessions that are kept: read, changed, ended and gone on with. */
export const SESSIONS: readonly Scenario[] = [
  {
    name: "read",
    title: "a session is read, listed by its labels, and its history and events are there",
    requires: ["session-store"],
    steps: [
      created("Hello, {run}.", { labels: { story: "{run}" }, system_prompt: "Be short." }),
      step("readSession", SESSION, {
        result: {
          session_id: "{session}",
          message_count: 3,
          total_tokens: 15,
          state: "idle",
          is_active: false,
          model: "conformance-plain",
          provider: "self_hosted",
          last_assistant_text: "You said: Hello, {run}.",
          labels: { story: "{run}" },
        },
      }),
      {
        call: "listSessions",
        input: { labels: { story: "{run}" } },
        result: { sessions: [{ session_id: "{session}", message_count: 3, title: "Hello, {run}.", state: "idle" }] },
      },
      step("readHistory", SESSION, {
        result: {
          session_id: "{session}",
          message_count: 3,
          has_more: false,
          messages: [
            { role: "system", content: "Be short." },
            { role: "user", content: "Hello, {run}." },
            {
              role: "block_assistant",
              stop_reason: "end_turn",
              blocks: [{ block_type: "text", data: { text: "You said: Hello, {run}." } }],
            },
          ],
        },
      }),
      step("readContext", SESSION, {
        result: { messages: [{ role: "system" }, { role: "user" }, { role: "block_assistant" }] },
      }),
      {
        call: "listEvents",
        input: { scope: { type: "session", session_id: "{session}" } },
        result: {
          has_more: false,
          events: [
            { session_id: "{session}", payload: asked("Hello, {run}.") },
            { payload: { type: "turn_started", turn_number: 0 } },
            { payload: { type: "text_complete", content: "You said: Hello, {run}." } },
            ...endedWith("You said: Hello, {run}.").map((payload) => ({ payload })),
          ],
        },
      },
    ],
  },
  {
    name: "list-pages",
    title: "a list goes on where the page before it ended, and takes no other word for a cursor",
    requires: ["session-store"],
    steps: [
      created("One, {run}.", { labels: { story: "{run}" } }),
      created("Two, {run}.", { labels: { story: "{run}" } }),
      created("Three, {run}.", { labels: { story: "{run}" } }),
      {
        call: "listSessions",
        input: { labels: { story: "{run}" }, limit: 2 },
        result: { sessions: [{ title: "Three, {run}." }, { title: "Two, {run}." }] },
        keep: { more: "next_cursor" },
      },
      {
        call: "listSessions",
        input: { labels: { story: "{run}" }, limit: 2, cursor: "{more}" },
        result: { sessions: [{ title: "One, {run}." }] },
      },
      {
        call: "listSessions",
        input: { labels: { story: "{run}" }, limit: 2, cursor: "nonsense" },
        error: { code: "INVALID_PARAMS", message: /^cursor: give the next_cursor of an earlier answer/ },
      },
      {
        call: "listSessions",
        input: { labels: { story: "{run}" }, limit: 2, offset: 1, cursor: "{more}" },
        error: { code: "INVALID_PARAMS", message: /^offset: a cursor says where to go on/ },
      },
    ],
  },
  {
    name: "restart",
    title: "what was acknowledged is there after a restart, and the session goes on with what it was",
    requires: ["session-store"],
    needs: ["restart"],
    steps: [
      created("Before, {run}.", { budget_limits: { max_tokens: 1_000 } }),
      { restart: true },
      step("readSession", SESSION, {
        result: { message_count: 2, state: "idle", last_assistant_text: "You said: Before, {run}." },
      }),
      {
        call: "resumeSession",
        input: { session_id: "{session}", prompt: "After, {run}." },
        result: { text: "You said: After, {run}.", usage: { total_tokens: 30 } },
        events: [
          asked("After, {run}."),
          ...said(0, "You said: After, {run}."),
          ...endedWith("You said: After, {run}.", { input_tokens: 20, output_tokens: 10 }),
        ],
      },
    ],
  },
  {
    name: "archive",
    title: "an archived session stays readable, leaves the list and runs no more turns",
    requires: ["session-store"],
    steps: [
      created("Hello, {run}.", { labels: { story: "{run}" } }),
      step("archiveSession", SESSION, { result: { archived: true } }),
      step("readSession", SESSION, { result: { state: "archived", message_count: 2 } }),
      { call: "listSessions", input: { labels: { story: "{run}" } }, result: { sessions: [] } },
      {
        call: "startTurn",
        input: { session_id: "{session}", prompt: "Are you there?" },
        error: { code: "SESSION_NOT_FOUND" },
        events: [],
      },
      {
        call: "resumeSession",
        input: { session_id: "{session}", prompt: "Are you there?" },
        error: { code: "SESSION_NOT_FOUND" },
      },
      {
        call: "injectContext",
        input: { session_id: "{session}", text: "You are archived." },
        error: { code: "SESSION_NOT_FOUND" },
      },
    ],
  },
  {
    name: "inbox",
    title: "a session that is free runs a prompt that may wait at once, and has no messages that wait, and no jobs",
    requires: ["session-store"],
    steps: [
      {
        call: "createSession",
        input: { prompt: "Which bird, {run}?", model: "conformance-prose", tool_preset: "none" },
        result: { text: "A heron, I think." },
        keep: { session: "session_id" },
      },
      {
        call: "startTurn",
        input: { session_id: "{session}", prompt: "And which now?", when_busy: "queue" },
        result: { text: "A heron, I think." },
      },
      step("readInbox", SESSION, { result: { messages: [] } }),
      {
        call: "removeInboxMessage",
        input: { session_id: "{session}", message_id: "none" },
        error: { code: "INVALID_PARAMS" },
      },
      step("listJobs", SESSION, { result: { jobs: [] } }),
      { call: "cancelJob", input: { session_id: "{session}", job_id: "none" }, error: { code: "INVALID_PARAMS" } },
    ],
  },
  {
    name: "goal",
    title:
      "a turn with a goal is followed by others until the goal is reached or nothing changes, and says how it ended",
    requires: ["session-store"],
    steps: [
      {
        call: "createSession",
        input: {
          prompt: "Watch for a heron, {run}.",
          model: "conformance-prose",
          tool_preset: "none",
          goal: { until: { sentence: "A heron was seen." }, max_turns: 7 },
        },
        result: { text: "A heron, I think.", goal: { phase: "no_progress", turns: 3, max_turns: 7 } },
        keep: { session: "session_id" },
      },
      step("readSession", SESSION, {
        result: { goal: { phase: "no_progress", until: { sentence: "A heron was seen." } } },
      }),
      step("endGoal", SESSION, { result: { goal: { phase: "no_progress" } } }),
      {
        call: "startTurn",
        input: { session_id: "{session}", prompt: "Again.", goal: { until: { command: "true" } } },
        error: { code: "PERMISSION_DENIED" },
      },
    ],
  },
  {
    name: "busy-and-interrupt",
    title: "a second turn is refused, an interrupt ends the first, and what was said is kept",
    requires: ["session-store"],
    steps: [
      {
        call: "createSession",
        input: { prompt: "Say half, {run}.", model: "conformance-silent", tool_preset: "none" },
        error: { code: "REQUEST_CANCELLED" },
        keep: { session: "session_id" },
        meanwhile: {
          after: "text_delta",
          steps: [
            {
              call: "startTurn",
              input: { session_id: "{session}", prompt: "Me, too." },
              error: { code: "SESSION_BUSY" },
              events: [],
            },
            step("archiveSession", SESSION, { error: { code: "SESSION_BUSY" } }),
            step("readSession", SESSION, {
              result: { state: "running", is_active: true },
            }),
            step("interruptTurn", SESSION, { result: { interrupted: true } }),
          ],
        },
        events: [
          asked("Say half, {run}."),
          { type: "turn_started", turn_number: 0 },
          { type: "text_delta", delta: "Half of it" },
          { type: "text_complete", content: "Half of it" },
          { type: "run_failed", session_id: "{session}", error_class: "cancelled" },
        ],
      },
      step("interruptTurn", SESSION, { result: { interrupted: true } }),
      step("finishTurn", SESSION, {
        error: { code: "SESSION_NOT_RUNNING" },
        events: [],
      }),
      step("readHistory", SESSION, {
        result: {
          messages: [
            { role: "user", content: "Say half, {run}." },
            { role: "block_assistant", stop_reason: "cancelled", blocks: [{ data: { text: "Half of it" } }] },
          ],
        },
      }),
      {
        call: "startTurn",
        input: { session_id: "{session}", prompt: "Go on, {run}.", model: "conformance-plain" },
        result: { text: "You said: Go on, {run}." },
      },
    ],
  },
  {
    name: "inject",
    title: "a text is shown to the model from its next call on",
    requires: ["session-store"],
    steps: [
      created("Hello, {run}."),
      {
        call: "injectContext",
        input: { session_id: "{session}", text: "It is raining, {run}." },
        result: { status: "staged" },
      },
      {
        call: "startTurn",
        input: { session_id: "{session}", prompt: "And now, {run}?" },
        result: { text: "You said: And now, {run}?" },
      },
      step("readContext", SESSION, {
        result: { messages: [{}, {}, { role: "system_notice", body: /It is raining, / }, {}, {}] },
      }),
    ],
  },
  {
    name: "inject-once",
    title: "the same text with the same key is added once, another is refused",
    needs: ["free input"],
    steps: [
      created("Hello, {run}."),
      { call: "injectContext", input: keyed("It is raining."), result: { status: "staged" } },
      { call: "injectContext", input: keyed("It is raining."), result: { status: "duplicate" } },
      { call: "injectContext", input: keyed("It is snowing."), error: { code: "INVALID_PARAMS" } },
    ],
  },
  {
    name: "fork",
    title: "a fork has the messages before an index, and leaves its source alone",
    requires: ["session-store"],
    steps: [
      created("One, {run}."),
      { call: "startTurn", input: { session_id: "{session}", prompt: "Two, {run}." } },
      {
        call: "forkSession",
        input: { session_id: "{session}", message_index: 2 },
        result: { source_session_id: "{session}", message_count: 2 },
        keep: { fork: "session_id" },
      },
      {
        call: "startTurn",
        input: { session_id: "{fork}", prompt: "Three, {run}." },
        result: { session_id: "{fork}", text: "You said: Three, {run}." },
      },
      step("readSession", SESSION, { result: { message_count: 4 } }),
      { call: "readSession", input: { session_id: "{fork}" }, result: { message_count: 4 } },
      {
        call: "forkSession",
        input: { session_id: "{session}", message_index: 99 },
        error: { code: "INVALID_PARAMS" },
      },
    ],
  },
  {
    name: "servers",
    title: "an MCP server is added to a session, connected again and removed, from the next turn on",
    requires: ["session-store"],
    needs: ["servers"],
    steps: [
      created("One, {run}."),
      {
        call: "addMcpServer",
        input: { session_id: "{session}", server_config: SERVER },
        result: staged("add", { server_name: "docs" }),
      },
      {
        call: "addMcpServer",
        input: { session_id: "{session}", server_config: SERVER },
        error: { code: "INVALID_PARAMS", message: /has a server docs; remove it first$/ },
      },
      step("reloadMcpServers", SESSION, { result: staged("reload") }),
      {
        call: "removeMcpServer",
        input: { session_id: "{session}", server_name: "docs" },
        result: staged("remove", { server_name: "docs" }),
      },
      {
        call: "removeMcpServer",
        input: { session_id: "{session}", server_name: "docs" },
        error: { code: "INVALID_PARAMS", message: /has no MCP server docs/ },
      },
      { call: "startTurn", input: { session_id: "{session}", prompt: "Two, {run}." } },
    ],
  },
  {
    name: "fork-replaced",
    title: "a fork has another message in the place of one, and nothing after it",
    requires: ["session-store"],
    steps: [
      created("One, {run}."),
      { call: "startTurn", input: { session_id: "{session}", prompt: "Two, {run}." } },
      {
        call: "forkReplacing",
        input: { session_id: "{session}", message_index: 2, replacement: replacedBy("Three, {run}.") },
        result: { source_session_id: "{session}", message_count: 3 },
        keep: { fork: "session_id" },
      },
      {
        call: "readHistory",
        input: { session_id: "{fork}" },
        result: { messages: [{ content: "One, {run}." }, {}, { content: "Three, {run}." }] },
      },
      {
        call: "forkReplacing",
        input: { session_id: "{session}", message_index: 4, replacement: replacedBy("Four") },
        error: { code: "INVALID_PARAMS" },
      },
    ],
  },
  {
    name: "rewrite",
    title: "messages are replaced by others, and the turn after goes on from those",
    requires: ["session-store"],
    steps: [
      created("One, {run}."),
      {
        call: "readRevision",
        input: { session_id: "{session}", revision: "current" },
        result: { message_count: 2, has_more: false },
        keep: { before: "revision" },
      },
      {
        call: "rewriteTranscript",
        input: { ...rewriteOf(0, 1, written("Two, {run}.")), expected_parent_revision: "{before}" },
        result: { parent_revision: "{before}", message_count: 2, commit: { reason: { kind: "edit" } } },
        keep: { after: "revision" },
      },
      step("readHistory", SESSION, {
        result: { messages: [{ content: "Two, {run}." }, { role: "block_assistant" }] },
      }),
      {
        call: "startTurn",
        input: { session_id: "{session}", prompt: "Three, {run}." },
        result: { text: "You said: Three, {run}." },
      },
      {
        call: "rewriteTranscript",
        input: { ...rewriteOf(0, 1, written("Four")), expected_parent_revision: "{before}" },
        error: { code: "INVALID_PARAMS", message: /expected_parent_revision/ },
      },
      { call: "rewriteTranscript", input: rewriteOf(3, 9, written("Four")), error: { code: "INVALID_PARAMS" } },
      { call: "rewriteTranscript", input: rewriteOf(0, 1), error: { code: "INVALID_PARAMS", message: /message 0/ } },
      step("listRewrites", SESSION, {
        result: { commits: [{ parent_revision: "{before}", revision: "{after}", messages_after: 2 }] },
      }),
    ],
  },
  {
    name: "restore",
    title: "a transcript is what it was at a revision again, also after a restart",
    requires: ["session-store"],
    needs: ["restart"],
    steps: [
      created("One, {run}."),
      {
        call: "rewriteTranscript",
        input: rewriteOf(0, 1, written("Two, {run}.")),
        keep: { before: "parent_revision", after: "revision" },
      },
      { restart: true },
      {
        call: "readRevision",
        input: { session_id: "{session}", revision: "{before}" },
        result: { head_revision: "{after}", messages: [{ content: "One, {run}." }, {}] },
      },
      {
        call: "restoreRevision",
        input: { session_id: "{session}", revision: "{before}", reason: { kind: "edit", note: "as it was" } },
        result: { parent_revision: "{after}", revision: "{before}" },
      },
      step("readHistory", SESSION, {
        result: { messages: [{ content: "One, {run}." }, {}] },
      }),
      {
        call: "restoreRevision",
        input: { session_id: "{session}", revision: `sha256:${"0".repeat(64)}`, reason: { kind: "edit" } },
        error: { code: "SESSION_NOT_FOUND" },
      },
    ],
  },
];

function rewriteOf(start: number, end: number, ...replacement: readonly object[]) {
  const selection = { type: "message_range", start, end };
  return { session_id: "{session}", selection, replacement, reason: { kind: "edit" } };
}

function written(content: string) {
  return { role: "user", content };
}

function replacedBy(content: string) {
  return { type: "message", message: written(content) };
}

/** A session with one turn of the plain model. */
function keyed(text: string) {
  return { session_id: "{session}", text, idempotency_key: "{run}" };
}

const MADE = {
  call: "createSession",
  input: { prompt: "Take this along, {run}.", model: "conformance-plain", tool_preset: "none" },
  keep: { session: "session_id" },
} as const;

/** Sessions that are carried elsewhere. */
export const PORTABLES: readonly Scenario[] = [
  {
    name: "export",
    title: "a session's log is read whole, page by page",
    requires: ["session-store"],
    steps: [
      MADE,
      {
        call: "exportSession",
        input: { session_id: "{session}", limit: 2 },
        result: {
          session_id: "{session}",
          entries: [
            { seq: 1, span: 1, body: { kind: "session_created" } },
            { seq: 2, span: 1, body: { kind: "turn_opened", message: { content: "Take this along, {run}." } } },
          ],
          blob_ids: [],
          next_after: 2,
        },
      },
      {
        call: "exportSession",
        input: { session_id: "{session}", after: 2, limit: 1 },
        result: { entries: [{ seq: 3, body: { kind: "model_called" } }], next_after: 3 },
      },
      { call: "exportSession", input: { session_id: "{session}", limit: 1_001 }, error: { code: "INVALID_PARAMS" } },
    ],
  },
  {
    name: "import",
    title: "what was exported is the same session under another id, and what was changed is refused",
    requires: ["session-store"],
    needs: ["imports", "operation"],
    steps: [
      MADE,
      step("exportSession", SESSION, {
        keep: { entries: "entries", last: "last_seq", first: "entries.0", second: "entries.1" },
      }),
      {
        call: "importSession",
        input: { source_session_id: "{session}", last_seq: "{last}", entries: "{entries}" },
        result: { last_seq: "{last}", complete: true },
        keep: { copy: "session_id" },
      },
      { call: "exportSession", input: { session_id: "{copy}" }, result: { entries: "{entries}", last_seq: "{last}" } },
      {
        call: "startTurn",
        input: { session_id: "{copy}", prompt: "Are you there, {run}?" },
        result: { text: "You said: Are you there, {run}?" },
      },
      step("readSession", SESSION, { result: { message_count: 2 } }),
      {
        call: "importSession",
        input: { source_session_id: "{session}", last_seq: "{last}", entries: ["{second}", "{first}"] },
        error: { code: "INVALID_PARAMS", message: "entries[0]: seq: it is 2, and 1 follows" },
      },
    ],
  },
  {
    name: "history",
    title: "a conversation of another program becomes a session, and later what was added to it",
    requires: ["session-store"],
    needs: ["imports", "operation"],
    steps: [
      {
        call: "importHistory",
        input: { source: "pond", source_id: "{run}", history: [{ role: "user", content: "Is there a heron, {run}?" }] },
        result: { messages: 1, added: 1, replaced: 0 },
        keep: { session: "session_id" },
      },
      {
        call: "importHistory",
        input: {
          source: "pond",
          source_id: "{run}",
          history: [
            { role: "user", content: "Is there a heron, {run}?" },
            { role: "assistant", content: "There is one." },
          ],
          compactions: [{ at: 2, summary: "A heron was seen." }],
        },
        result: { session_id: "{session}", messages: 2, added: 1, replaced: 0, compactions: 1 },
      },
      {
        call: "importHistory",
        input: { source: "pond", source_id: "{run}", history: [{ role: "system_notice", kind: "x", body: "y" }] },
        error: {
          code: "INVALID_PARAMS",
          message: "history[0].role: write a message of a user, of the model or of tools; it is system_notice",
        },
      },
      step("readSession", SESSION, { result: { message_count: 2 } }),
    ],
  },
];

const named = (name: string): CallStep => ({
  ...created("You are {run}.", { comms_name: `${name}.{run}`, peer_meta: { description: "does {run}" } }),
  keep: { [name]: "session_id" },
});
const sent = { session_id: "{ada}", kind: "peer_message", body: "It is ready." };

/** Messages between sessions; what their models do with them is tested with scripts. */
export const COMMS: readonly Scenario[] = [
  {
    name: "comms",
    title: "a session sees another that has a name, and sends it messages",
    steps: [
      named("ada"),
      named("bob"),
      {
        call: "sendComms",
        input: { ...sent, to: "bob.{run}" },
        result: { kind: "peer_message_sent", acked: true },
      },
      { call: "sendComms", input: { ...sent, to: "nobody.{run}" }, error: { code: "INVALID_PARAMS" } },
      {
        call: "listPeers",
        input: { session_id: "{ada}" },
        result: { peers: [{ peer_id: "{bob}", name: "bob.{run}", meta: { description: "does {run}" } }] },
      },
    ],
  },
];

/** Schedules as records; what runs them is tested with clocks. */
export const SCHEDULES: readonly Scenario[] = [
  {
    name: "schedule",
    title: "a schedule is made, read, listed, changed, paused, resumed and deleted",
    requires: ["session-store"],
    steps: [
      {
        call: "createSchedule",
        input: {
          prompt: "Look around, {run}.",
          cron: "0 9 29 2 *",
          timezone: "Europe/Berlin",
          labels: { story: "{run}" },
        },
        result: {
          phase: "active",
          revision: 1,
          trigger: { type: "cron", expression: "0 9 29 2 *", timezone: "Europe/Berlin" },
          target: { type: "new_session", action: { type: "prompt", prompt: "Look around, {run}." } },
          misfire_policy: { type: "run_once" },
          overlap_policy: "skip_if_running",
          running: 0,
        },
        keep: { schedule: "schedule_id" },
      },
      {
        call: "updateSchedule",
        input: { schedule_id: "{schedule}", name: "leap", overlap_policy: "queue" },
        result: { schedule_id: "{schedule}", revision: 2, name: "leap", overlap_policy: "queue" },
      },
      { call: "pauseSchedule", input: { schedule_id: "{schedule}" }, result: { phase: "paused" } },
      {
        call: "listSchedules",
        input: { labels: { story: "{run}" } },
        result: { schedules: [{ schedule_id: "{schedule}", phase: "paused", name: "leap" }] },
      },
      { call: "resumeSchedule", input: { schedule_id: "{schedule}" }, result: { phase: "active" } },
      {
        call: "listOccurrences",
        input: { schedule_id: "{schedule}" },
        result: { occurrences: [{ schedule_id: "{schedule}", phase: "pending", occurrence_ordinal: 0 }] },
      },
      { call: "deleteSchedule", input: { schedule_id: "{schedule}" }, result: { phase: "deleted" } },
      { call: "readSchedule", input: { schedule_id: "{schedule}" }, result: { phase: "deleted" } },
      {
        call: "readSchedule",
        input: { schedule_id: "01936f8a-7b2c-7000-8000-000000000001" },
        error: { code: "SCHEDULE_NOT_FOUND" },
      },
      { call: "createSchedule", input: { prompt: "Hi.", cron: "nine o'clock" }, error: { code: "INVALID_PARAMS" } },
    ],
  },
];
