import type { Scenario } from "./scenario.ts";

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
      {
        call: "exportSession",
        input: { session_id: "{session}" },
        keep: { entries: "entries", last: "last_seq", first: "entries.0", second: "entries.1" },
      },
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
      { call: "readSession", input: { session_id: "{session}" }, result: { message_count: 2 } },
      {
        call: "importSession",
        input: { source_session_id: "{session}", last_seq: "{last}", entries: ["{second}", "{first}"] },
        error: { code: "INVALID_PARAMS", message: "entries[0]: seq: it is 2, and 1 follows" },
      },
    ],
  },
];
