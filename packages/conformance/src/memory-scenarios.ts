import { type Scenario, SESSION, step } from "./scenario.ts";
import { asked, created, endedWith, said } from "./turn-scenarios.ts";

const FACT = `The boathouse key hangs behind the blue door, {run}. It has hung there${" a long, long time, and".repeat(20)} nobody took it.`;
const QUERY = "where is the boathouse key";
const HERE = { scope: "session", session_id: "{session}", limit: 1 };

const DUE = [
  { session_id: "{session}", title: "The heron leaves tomorrow, {run}.", rule: "retention=short", kept_for: "1ms" },
];

/** What is found again, what goes, and what agents remember. */
export const MEMORIES: readonly Scenario[] = [
  {
    name: "memory-search",
    title: "what a compaction took out is found, by a search and by the agent's own tool",
    requires: ["session-store", "memory-store", "session-compaction"],
    steps: [
      {
        call: "createSession",
        input: { prompt: FACT, model: "conformance-recall", tool_preset: "safe", enable_memory: true },
        keep: { session: "session_id" },
      },
      { call: "startTurn", input: { session_id: "{session}", prompt: "Go on, {run}." } },
      { call: "searchMemory", input: { query: QUERY, ...HERE }, result: { results: [] } },
      step("compactSession", SESSION, { result: { compacted: true } }),
      {
        call: "searchMemory",
        input: { query: QUERY, ...HERE, explain: true },
        result: {
          results: [
            {
              content: /behind the blue door/,
              session_id: "{session}",
              turn: 1,
              role: "user",
              why: { neighbours: 0 },
              in_context: false,
            },
          ],
        },
      },
      {
        call: "startTurn",
        input: { session_id: "{session}", prompt: "Recall the key, {run}." },
        result: { text: "Behind the blue door.", tool_calls: 1 },
        events: [
          asked("Recall the key, {run}."),
          { type: "turn_started", turn_number: 0 },
          {
            type: "tool_call_requested",
            id: "call_recall",
            name: "memory_search",
            args: { query: QUERY },
          },
          { type: "tool_execution_started", id: "call_recall", name: "memory_search" },
          { type: "tool_execution_completed", id: "call_recall", result: /blue door/, is_error: false },
          { type: "tool_result_received", id: "call_recall", is_error: false },
          ...said(1, "Behind the blue door."),
          ...endedWith("Behind the blue door.", { input_tokens: 50, output_tokens: 25 }),
        ],
      },
    ],
  },
  {
    name: "history-search",
    title: "everything that was said is found, whether or not sessions are kept",
    requires: ["memory-store"],
    steps: [
      created("The heron is called Ada, {run}."),
      {
        call: "searchHistory",
        input: { query: "what is the heron called, {run}", limit: 1 },
        result: { results: [{ content: /The heron is called Ada/, session_id: "{session}", turn: 1 }] },
      },
    ],
  },
  {
    name: "prune",
    title: "sessions that are kept no longer are forgotten, and others stay",
    requires: ["session-store"],
    needs: ["pruning"],
    steps: [
      {
        call: "createSession",
        input: {
          prompt: "The heron leaves tomorrow, {run}.",
          model: "conformance-plain",
          tool_preset: "none",
          labels: { retention: "short" },
        },
        keep: { session: "session_id" },
      },
      {
        call: "createSession",
        input: { prompt: "The heron stays, {run}.", model: "conformance-plain", tool_preset: "none" },
        keep: { other: "session_id" },
      },
      { call: "prune", input: { dry_run: true, limit: 5 }, result: { dry_run: true, sessions: DUE, more: 0, busy: 0 } },
      {
        call: "prune",
        input: {},
        result: {
          ...{ dry_run: false, sessions: [{ session_id: "{session}" }], more: 0, busy: 0 },
          receipt: { target: "sessions", logs: [{ session_id: "{session}", all: true, messages: 2 }] },
        },
      },
      { call: "prune", input: { dry_run: true }, result: { sessions: [], more: 0 } },
      { call: "readSession", input: { session_id: "{other}" }, result: { message_count: 2 } },
      { call: "prune", input: { limit: 1_001 }, error: { code: "INVALID_PARAMS" } },
    ],
  },
  {
    name: "memory-asked-for",
    title: "memory is refused where there is none, and searched where there is",
    steps: [
      {
        call: "createSession",
        input: { prompt: "Hello, {run}.", model: "conformance-plain", tool_preset: "none", enable_memory: true },
        asksFor: "memory-store",
      },
      { call: "searchMemory", input: { query: "nothing of the kind, {run}" } },
      { call: "searchHistory", input: { query: "nothing of the kind, {run}" } },
      { call: "readMemoryStatus", input: {} },
      { call: "searchMemory", input: { query: " " }, error: { code: "INVALID_PARAMS" } },
    ],
  },
  {
    name: "forget",
    title: "what is forgotten is in no message, context or search any more, and a signed receipt says so",
    requires: ["session-store"],
    needs: ["operation"],
    steps: [
      created("The locker opens with heron-{run}."),
      {
        call: "forget",
        input: { query_exact: "HERON-{run}", dry_run: true },
        result: { dry_run: true, logs: [{ session_id: "{session}", all: false, messages: 2 }], more: 0 },
      },
      step("readHistory", SESSION, {
        result: { messages: [{ content: "The locker opens with heron-{run}." }, { role: "block_assistant" }] },
      }),
      {
        call: "forget",
        input: { query_exact: "HERON-{run}" },
        result: {
          dry_run: false,
          logs: [{ session_id: "{session}", all: false, messages: 2 }],
          receipt: {
            version: 1,
            target: "text",
            blobs: 0,
            scan: { texts: 1, matches: 0, elsewhere: [] },
            quoted_in: [],
          },
        },
      },
      step("readHistory", SESSION, {
        result: { messages: [{ content: "[forgotten]" }, { blocks: [{ data: { text: "[forgotten]" } }] }] },
      }),
      step("readContext", SESSION, {
        result: { messages: [{ content: "[forgotten]" }, { role: "block_assistant" }], forgotten: [2, 4] },
      }),
      { call: "forget", input: { query_exact: "heron-{run}" }, result: { logs: [], going: [] } },
      step("forget", SESSION, { result: { receipt: { target: "session" } } }),
      step("readSession", SESSION, { result: { state: "archived", title: "[forgotten]" } }),
      { call: "listForgettings", input: {}, result: { unfinished: 0 } },
      { call: "forget", input: { query_exact: "abc" }, error: { code: "INVALID_PARAMS" } },
      {
        call: "forget",
        input: { session_id: "00000000-0000-7000-8000-000000000000" },
        error: { code: "SESSION_NOT_FOUND" },
      },
    ],
  },
  {
    name: "agent-memory",
    title: "an agent remembers, takes notes, and its memories become a summary",
    steps: [
      {
        call: "remember",
        input: { agent: "ada-{run}", content: "A heron stood in the pond.", metadata: { place: "pond" } },
        result: { count: 1, compaction_due: false },
      },
      {
        call: "remember",
        input: { agent: "ada-{run}", content: "It flew away." },
        result: { count: 2, compaction_due: false },
      },
      { call: "takeNote", input: { agent: "ada-{run}", content: "Herons are shy." }, result: { notes: 1 } },
      {
        call: "readAgentContext",
        input: { agent: "ada-{run}" },
        result: {
          immediate: [
            { seq: 1, content: "A heron stood in the pond.", metadata: { place: "pond" } },
            { seq: 2, content: "It flew away." },
          ],
        },
      },
      {
        call: "compactAgent",
        input: { agent: "ada-{run}" },
        result: { compacted: true, recent_summary: "A heron stood in the pond." },
      },
      {
        call: "readAgentStatus",
        input: { agent: "ada-{run}" },
        result: { count: 2, notes: 1, compactions: 1, recent_range: { from_seq: 1, to_seq: 1 }, immediate_count: 1 },
      },
      {
        call: "readAgentHistory",
        input: { agent: "ada-{run}" },
        result: {
          summaries: [
            {
              ...{ tier: "recent", from: 1, to: 1, summary: "A heron stood in the pond.", by: "model" },
              receipt: { total: 0, lost: 0, invented: 0, unverified: 0 },
            },
          ],
        },
        keep: { compaction: "summaries.0.seq" },
      },
      {
        call: "readAgentReceipt",
        input: { agent: "ada-{run}" },
        result: {
          ...{ seq: "{compaction}", at_count: 2, forced: true, notes: [] },
          recent: { from: 1, to: 1, by: "model", receipt: { total: 0, lost: 0, invented: [], invented_cut: false } },
        },
      },
      { call: "readAgentReceipt", input: { agent: "ada-{run}", seq: 1 }, error: { code: "SESSION_NOT_FOUND" } },
      {
        call: "exportAgent",
        input: { agent: "ada-{run}", limit: 2 },
        result: {
          entries: [
            { seq: 1, span: 1, body: { kind: "memory_added", number: 1, content: "A heron stood in the pond." } },
            { seq: 2, span: 1, body: { kind: "memory_added", number: 2, content: "It flew away." } },
          ],
          next_after: 2,
        },
      },
      { call: "listAgents", input: {} },
    ],
  },
];
