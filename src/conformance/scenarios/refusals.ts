import type { ErrorCode } from "../../contract/error.ts";
import type { OperationName } from "../../contract/operations.ts";
import type { CallStep, Scenario } from "../scenario.ts";

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
      {
        call: "createSession",
        input: { prompt: "Hello, {run}.", model: "conformance-plain", tool_preset: "none" },
        keep: { session: "session_id" },
      },
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
    ],
  },
];

function missing(call: OperationName, more: object = {}): CallStep {
  return { call, input: { ...NOBODY, ...more }, error: { code: "SESSION_NOT_FOUND" } };
}

function wrong(call: OperationName, input: CallStep["input"], code: ErrorCode = "INVALID_PARAMS"): CallStep {
  return { call, input, error: { code }, events: [] };
}
