import type { OperationName } from "../../contract/operations.ts";
import type { OpenApiOperation, OpenApiParameter } from "./openapi.ts";

const text = { type: "string" };
const sessionId: OpenApiParameter = { name: "session_id", in: "path", required: true, schema: text };

const turnHeaders: readonly OpenApiParameter[] = [
  {
    name: "X-Meerkat-Request-Id",
    in: "header",
    required: false,
    schema: text,
    description: "A name to cancel the request by.",
  },
  {
    name: "Idempotency-Key",
    in: "header",
    required: false,
    schema: text,
    description: "The same request with the same key is given the first answer, as long as the server lives.",
  },
];

const failure = {
  description: "A failure, with the status of its code.",
  content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } },
};

/** What every route may answer instead; common tools look for the range. */
export const FAILURES = { "4XX": failure, default: failure };

/** The headers that operations take besides their input. */
export const HEADERS: Readonly<Partial<Record<OperationName, readonly OpenApiParameter[]>>> = {
  createSession: turnHeaders,
  startTurn: turnHeaders,
};

const resume =
  "The id of the last event that was seen: what follows it is sent first. 0 sends all, without it nothing.";

/** What is served besides the operations of the table. */
export const EXTRA_PATHS: Readonly<Record<string, Readonly<Record<string, OpenApiOperation>>>> = {
  "/health": {
    get: {
      ...told("health", "Say that the server is there; no token is needed.", "text/plain"),
      security: [{}],
    },
  },
  "/sessions/{session_id}/status": {
    get: {
      ...told("sessionStatus", "Read whether a session is idle, running, interrupted or archived."),
      parameters: [sessionId],
    },
  },
  "/sessions/{session_id}/events": {
    get: {
      ...told("sessionEvents", "Follow a session's events as a stream of server-sent events.", "text/event-stream"),
      description:
        "First session_loaded, then each event by its type with its envelope as data, at the end done, with archived true where none can come any more. Durable events have an id.",
      parameters: [
        sessionId,
        { name: "Last-Event-ID", in: "header", required: false, schema: text, description: resume },
        { name: "last_event_id", in: "query", required: false, schema: text, description: resume },
      ],
    },
  },
  "/requests/{request_id}/cancel": {
    post: {
      ...told("cancelRequest", "Interrupt the turn of a request that was given a name; the request answers 499."),
      parameters: [{ name: "request_id", in: "path", required: true, schema: text }],
    },
  },
  "/runtime/host_info": { get: told("hostInfo", "Say what this server is and serves.") },
  "/runtime/capabilities": { get: told("hostCapabilities", "Say which features this server has.") },
  "/runtime/health": { get: told("hostHealth", "Say that the server is there, in JSON.") },
  "/skills": { get: told("listSkills", "List the skills of this server.") },
  "/openapi.json": { get: told("openapi", "Read this document.") },
  "/docs": { get: told("docs", "Read this document as a page.", "text/html") },
};

function told(operationId: string, summary: string, type = "application/json"): OpenApiOperation {
  return {
    operationId,
    summary,
    parameters: [],
    responses: {
      200: { description: "Done.", content: { [type]: { schema: type === "application/json" ? {} : text } } },
      ...FAILURES,
    },
  };
}
