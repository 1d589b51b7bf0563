import { statfs, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { asRuntimeError, messageOf } from "@rkat/core/contract/error";
import type { Clock } from "@rkat/core/ports/clock";
import type { Observer, Vitals } from "@rkat/core/ports/telemetry";
import type { Runtime } from "@rkat/core/runtime/runtime-calls";
import { type AuditFact, currentRequest, onBehalfOf, type RequestRecord, recordOf } from "./calls.ts";
import type { HttpRequest, HttpResponse } from "./exchange.ts";
import type { Facts, Journal, Level } from "./journal.ts";
import { countTurns, createMetrics, failureFacts, measureProcess } from "./metrics.ts";

/** The operator's view of a server: log lines, metrics and readiness. */
export interface Operator extends Observer {
  audit(fact: AuditFact): void;
  /** Starts a request: it gets an id, and a log line when it is over. */
  begin(request: HttpRequest, response: HttpResponse): SeenRequest;
  /** Counts an answer to input that never became a request. */
  refuseBroken(status: number): void;
  ready(): Promise<Readiness>;
  end(): void;
  /** Everything that is counted, in the text format of Prometheus. */
  numbers(): string;
}

export interface SeenRequest {
  readonly record: RequestRecord;
  /** Runs the work that answers it; log lines written meanwhile carry its id. */
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

/** What can be known of a runtime that a program composed, without an observer. */
export function vitalsOf({ dispatch }: Pick<Runtime, "dispatch">): Vitals {
  return {
    probeStore: async () => {
      try {
        await dispatch("listSessions", { limit: 1 });
      } catch (thrown) {
        // Without a store there is nothing to probe.
        if (asRuntimeError(thrown).code !== "SESSION_PERSISTENCE_DISABLED") throw thrown;
      }
    },
    probeModel: async () => {},
    memory: () => undefined,
    redact: (text) => text,
  };
}

interface Seen {
  readonly response: HttpResponse;
  readonly socket: HttpRequest["socket"];
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

interface Check {
  readonly ok: boolean;
  readonly why?: string;
}

interface Readiness {
  /** `degraded`: it serves, and a part of it does not work. `unready`: send it no requests. */
  readonly status: "ready" | "degraded" | "unready";
  readonly checks: Readonly<Record<string, Check>>;
}

interface ReadinessParts {
  readonly clock: Clock;
  /** Undefined without a store. */
  readonly stateFolder: string | undefined;
  readonly hasDatabase?: boolean | undefined;
  vitals(): Vitals | undefined;
  isEnding(): boolean;
  readonly freeBytesMin?: number | undefined;
}

/** Free bytes below which it is degraded: a turn may store several megabytes. */
const FREE_BYTES_MIN = 64 * 1_024 * 1_024;
/** More frequent probes get the last result. */
const FRESH_MS = 1_000;
const PROBE_MS_MAX = 2_000;
/** The checks whose failure makes it unready; the others make it degraded. */
const NEEDED: readonly string[] = ["server", "disk", "store"];

/** Checks what a server needs; concurrent calls share one check. It does not reject. */
function createReadiness(parts: ReadinessParts): () => Promise<Readiness> {
  const { clock, isEnding } = parts;
  let found: { readonly atMs: number; readonly checks: Promise<Readiness["checks"]> } | undefined;
  return async () => {
    const nowMs = clock.now();
    if (found === undefined || Math.abs(nowMs - found.atMs) >= FRESH_MS) found = { atMs: nowMs, checks: lookAt(parts) };
    const seen = await found.checks;
    const checks = isEnding() ? { server: { ok: false, why: "this server is ending" }, ...seen } : seen;
    const failed = Object.keys(checks).filter((name) => checks[name]?.ok === false);
    if (failed.length === 0) return { status: "ready", checks };
    return { status: failed.some((name) => NEEDED.includes(name)) ? "unready" : "degraded", checks };
  };
}

async function lookAt(parts: ReadinessParts): Promise<Readiness["checks"]> {
  const { clock, stateFolder } = parts;
  const vitals = parts.vitals();
  if (vitals === undefined) return { server: { ok: false, why: "the server is starting" } };
  const check = async (probe: Promise<unknown>): Promise<Check> => {
    try {
      await inTime(clock, probe);
      return { ok: true };
    } catch (thrown) {
      return { ok: false, why: vitals.redact(messageOf(thrown)) };
    }
  };
  const disk = stateFolder === undefined ? [] : [["disk", check(probeDisk(stateFolder, parts))] as const];
  const isKept = stateFolder !== undefined || parts.hasDatabase === true;
  const kept = [...disk, ...(isKept ? [["store", check(vitals.probeStore())] as const] : [])];
  const memory = vitals.memory();
  const probes = [
    ...kept,
    ...(memory === undefined ? [] : [["index", check(probeMemory(memory.problem))] as const]),
    ["model", check(vitals.probeModel())] as const,
  ];
  return Object.fromEntries(await Promise.all(probes.map(async ([name, checked]) => [name, await checked] as const)));
}

async function inTime(clock: Clock, probe: Promise<unknown>): Promise<void> {
  const done = new AbortController();
  const late = clock.sleep(PROBE_MS_MAX, done.signal).then(() => {
    if (!done.signal.aborted) throw new Error(`no answer within ${PROBE_MS_MAX / 1_000} seconds`);
  });
  try {
    await Promise.race([probe, late]);
  } finally {
    done.abort("done");
    probe.catch(() => {}); // It has timed out already.
  }
}

async function probeDisk(folder: string, { clock, freeBytesMin = FREE_BYTES_MIN }: ReadinessParts): Promise<void> {
  const { bavail, bsize, files, ffree } = await statfs(folder);
  const free = bavail * bsize;
  if (free < freeBytesMin) throw new Error(`${mebibytes(free)} are free, less than ${mebibytes(freeBytesMin)}`);
  // A file system that does not count its files says that it has none.
  if (files > 0 && ffree === 0) throw new Error("no more files can be made");
  // A random name, so that no link can be there.
  const path = join(folder, `.ready-${clock.newId()}`);
  await writeFile(path, "ready\n", { flag: "wx", mode: 0o600 });
  await unlink(path);
}

async function probeMemory(problem: string | undefined): Promise<void> {
  if (problem !== undefined) throw new Error(`what is said is not all findable: ${problem}`);
}

function mebibytes(bytes: number): string {
  return `${Math.floor(bytes / 1_048_576)} MiB`;
}
