import type { IncomingMessage, ServerResponse } from "node:http";
import type { Clock } from "@rkat/core/ports/clock";
import type { Observer, Vitals } from "@rkat/core/ports/telemetry";
import type { Dispatch } from "@rkat/core/runtime/dispatch";
import { failureFacts } from "./failure-facts.ts";
import type { Facts, Journal, Level } from "./journal.ts";
import { createMetrics } from "./metrics.ts";
import { measureProcess } from "./process-metrics.ts";
import { createReadiness, type Readiness } from "./readiness.ts";
import {
  type AuditFact,
  currentRequest,
  noteCalls,
  onBehalfOf,
  type RequestRecord,
  recordOf,
} from "./request-record.ts";
import { countTurns } from "./turn-metrics.ts";

/** The operator's view of a server: log lines, metrics and readiness. */
export interface Operator extends Observer {
  /** Writes an audit line. */
  audit(fact: AuditFact): void;
  /** Calls operations, and writes down what the line of their request tells. */
  watchCalls(dispatch: Dispatch): Dispatch;
  /** A request has come: it gets an id, and a line when it is over. */
  begin(request: IncomingMessage, response: ServerResponse): SeenRequest;
  /** What never became a request was answered with this. */
  refuseBroken(status: number): void;
  ready(): Promise<Readiness>;
  /** From now on it is not ready any more. */
  end(): void;
  /** Everything that is counted, in the text format of Prometheus. */
  numbers(): string;
}

export interface SeenRequest {
  readonly record: RequestRecord;
  /** Does what answers it, so that whatever is told meanwhile is told of it. */
  serve<T>(work: () => T): T;
}

export interface OperatorParts {
  readonly journal: Journal;
  readonly clock: Clock;
  readonly version: string;
  /** Undefined where nothing is kept. */
  readonly stateFolder: string | undefined;
  readonly hasDatabase?: boolean | undefined;
  /** Below this `/ready` says that the disk is full. */
  readonly freeBytesMin?: number | undefined;
}

const REQUEST_SECS = [0.005, 0.025, 0.1, 0.25, 1, 2.5, 10, 30, 60, 300];
/** What nginx calls a request whose client did not wait for its answer. */
const CLIENT_LEFT = 499;
const UNKNOWN = "-";

export function createOperator(parts: OperatorParts): Operator {
  const { journal, clock } = parts;
  let vitals: Vitals | undefined;
  let isEnding = false;
  const metrics = createMetrics();
  const requests = metrics.counter({
    name: "rkat_http_requests_total",
    help: "Requests that were answered, streams included when they ended.",
    labels: ["method", "route", "status"],
  });
  const requestSecs = metrics.histogram({
    name: "rkat_http_request_duration_seconds",
    help: "How long requests took; streams of events are not among them.",
    labels: ["route"],
    buckets: REQUEST_SECS,
  });
  const open = { requests: 0, streams: 0 };
  metrics.gauge(
    { name: "rkat_http_requests_open", help: "Requests that are being answered, streams included." },
    () => [[[], open.requests]],
  );
  metrics.gauge({ name: "rkat_http_streams_open", help: "Streams of events that are open." }, () => [
    [[], open.streams],
  ]);
  measureProcess(metrics, { version: parts.version, dropped: journal.dropped, vitals: () => vitals });

  const redact = (text: string): string => (vitals === undefined ? text : vitals.redact(text));
  const audit = (fact: AuditFact): void => {
    journal.log("info", "audit", { ...whoAsks(currentRequest()), ...fact });
  };
  const turns = countTurns(metrics, {
    failed: (kind, sessionId, error) => {
      const id = currentRequest()?.id;
      journal.log("warn", kind, { id, session: sessionId, ...failureFacts(error, { redact }) });
    },
  });
  const finish = (record: RequestRecord, seen: Seen): void => {
    const { method, route = UNKNOWN, error } = record;
    const status = seen.response.headersSent ? seen.response.statusCode : CLIENT_LEFT;
    requests.add([method, route, String(status)]);
    if (!seen.isStream) requestSecs.observe([route], (performance.now() - seen.begunMs) / 1_000);
    journal.log(levelOf(status, error), seen.isStream ? "stream_end" : "request", {
      ...whoAsks(record),
      method,
      route,
      status,
      ms: Math.round((performance.now() - seen.begunMs) * 10) / 10,
      bytes: bytesOf(seen),
      ...(seen.response.writableFinished ? {} : { left: true }),
      ...(error === undefined ? {} : failureFacts(error, { operation: record.operation, redact })),
    });
    if (error?.code === "UNAUTHORIZED" || error?.code === "PERMISSION_DENIED") {
      journal.log("warn", "audit", { ...whoAsks(record), action: "denied", detail: error.code });
    }
  };
  return {
    telemetry: turns,
    attach: (handed) => {
      vitals = handed;
    },
    audit,
    watchCalls: (dispatch) => noteCalls(dispatch, audit),
    begin: (request, response) => {
      const seen: Seen = {
        response,
        socket: request.socket,
        sentBefore: request.socket.bytesWritten,
        begunMs: performance.now(),
        isStream: false,
      };
      const record = recordOf(request, clock.newId, () => {
        if (seen.isStream) return;
        seen.isStream = true;
        open.streams += 1;
        journal.log("info", "stream", { ...whoAsks(record), method: record.method, route: record.route });
      });
      response.setHeader("x-request-id", record.id);
      open.requests += 1;
      response.once("close", () => {
        open.requests -= 1;
        if (seen.isStream) open.streams -= 1;
        finish(record, seen);
      });
      return { record, serve: (work) => onBehalfOf(record, work) };
    },
    refuseBroken: (status) => {
      requests.add([UNKNOWN, UNKNOWN, String(status)]);
      journal.log("warn", "request", { method: UNKNOWN, route: UNKNOWN, status });
    },
    ready: createReadiness({ ...parts, vitals: () => vitals, isEnding: () => isEnding }),
    end: () => {
      isEnding = true;
    },
    numbers: metrics.text,
  };
}

interface Seen {
  readonly response: ServerResponse;
  readonly socket: IncomingMessage["socket"];
  readonly sentBefore: number;
  readonly begunMs: number;
  isStream: boolean;
}

function whoAsks(record: RequestRecord | undefined): Facts {
  if (record === undefined) return {};
  const { id, caller: token, operation, sessionId: session } = record;
  return { id, token, operation, session };
}

/** A failure is to be seen also where its answer is one that HTTP calls a success: of a tool, or in a stream. */
function levelOf(status: number, error: RequestRecord["error"]): Level {
  if (status >= 500) return "error";
  return status >= 400 || error !== undefined ? "warn" : "info";
}

/** Of the body where its length was said, and of all that was sent where it came in pieces. */
function bytesOf({ response, socket, sentBefore }: Seen): number {
  const length = Number(response.getHeader("content-length"));
  return Number.isFinite(length) ? length : Math.max(0, socket.bytesWritten - sentBefore);
}
