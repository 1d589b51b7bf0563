import { AsyncLocalStorage } from "node:async_hooks";
import type { Audited, Caller } from "@rkat/core/contract/caller";
import { asRuntimeError, type ErrorCode, hasCode, RuntimeError } from "@rkat/core/contract/error";
import { spellDuration } from "@rkat/core/contract/input";
import { isRecord } from "@rkat/core/contract/json";
import { OPERATIONS, type OperationName } from "@rkat/core/contract/operations";
import { WIRE_TABLE } from "@rkat/core/contract/wire/wire-table";
import type { Clock } from "@rkat/core/ports/clock";
import type { CallContext, Dispatch } from "@rkat/core/runtime/dispatch";
import type { Runtime } from "@rkat/core/runtime/runtime-calls";
import type { HttpRequest } from "./exchange.ts";

/** The part of a runtime that surfaces call. */
export type CallerRuntime = Pick<Runtime, "dispatch" | "subscribe">;

/** The same runtime for one caller: every call and every subscription carries it. */
export function forCaller({ dispatch, subscribe }: CallerRuntime, caller: Caller): CallerRuntime {
  return {
    dispatch: (name, input, call = {}) => dispatch(name, input, { ...call, caller }),
    subscribe: (sessionId, options = {}) => subscribe(sessionId, { ...options, caller }),
  };
}

/** The runtime of a server over HTTP, which can wait for its turns before the server ends. */
export interface ServedRuntime extends CallerRuntime {
  /** Refuses new turns, waits for running ones up to a limit, and logs how many there are. */
  drain(graceMs: number): Promise<void>;
}

interface ServedParts {
  readonly clock: Clock;
  readonly log: (sentence: string) => void;
  /** Receives an audit line for each change; absent where requests are not logged. */
  readonly operator?: { audit(fact: AuditFact): void } | undefined;
}

export const IS_ENDING = "this server is ending";

/** How often the log reports that turns still run. */
const REPORT_MS = 10_000;
/** Many turns may end at once. */
const REPORT_AGAIN_MS = 1_000;

/** Every call of a server over HTTP: refused while the server ends, tracked to its end, recorded for its request. */
export function serveCalls(
  { dispatch, subscribe }: CallerRuntime,
  { clock, log, operator }: ServedParts,
): ServedRuntime {
  const running = new Set<Promise<void>>();
  // A pending approval is in the log and outlives this process.
  const leaving = new AbortController();
  let isEnding = false;
  // Also turns that continue after the answer; the caller gets their outcome.
  const track = (turn: Promise<unknown>): void => {
    const end = (): void => void running.delete(ended);
    const ended = turn.then(end, end);
    running.add(ended);
  };
  const recorded: Dispatch = operator === undefined ? dispatch : recordCalls(dispatch, operator);
  return {
    subscribe,
    dispatch: (name, input, call = {}) => {
      if (!WIRE_TABLE[name].hasEvents) return recorded(name, input, call);
      if (isEnding) return Promise.reject(new RuntimeError("AGENT_ERROR", IS_ENDING));
      const answer = recorded(name, input, { ...call, background: track, leaving: leaving.signal });
      track(answer);
      return answer;
    },
    drain: async (graceMs) => {
      isEnding = true;
      leaving.abort("the server is ending");
      if (running.size === 0) return;
      const grace = spellDuration(graceMs);
      log(`waits at most ${grace} for ${turns(running.size)} to end; a second signal leaves at once`);
      const untilMs = clock.now() + graceMs;
      let reported = { count: running.size, atMs: clock.now() };
      // A turn that ends may start another: the first turn of a session continues after its creation.
      for (let leftMs = graceMs; leftMs > 0 && running.size > 0; leftMs = untilMs - clock.now()) {
        const isNews = running.size !== reported.count;
        const quietMs = reported.atMs + (isNews ? REPORT_AGAIN_MS : REPORT_MS) - clock.now();
        // Turns that ended since are reported in a moment, with those that end until then.
        const work = isNews ? Promise.all(running) : Promise.race(running);
        if (quietMs > 0) await within(clock, Math.min(leftMs, quietMs), work);
        else {
          reported = { count: running.size, atMs: clock.now() };
          log(`still waits for ${turns(running.size)}`);
        }
      }
      if (running.size > 0) log(`stops ${turns(running.size)} after ${grace}; what was said is kept`);
    },
  };
}

/** Records for the log line of the request which operation it called and how that went, and audits changes. */
function recordCalls(dispatch: Dispatch, { audit }: { audit(fact: AuditFact): void }): Dispatch {
  return async (name, input, call = {}) => {
    const record = currentRequest();
    if (record === undefined) return dispatch(name, input, call);
    record.operation ??= name;
    record.caller ??= call.caller?.name;
    record.sessionId ??= sessionIn(input);
    try {
      const output = await dispatch(name, input, call);
      // What failed before may have been the first of two ways.
      record.error = undefined;
      record.sessionId ??= sessionIn(output);
      const row = OPERATIONS[name];
      const audited: Audited | false = "audited" in row && row.audited;
      if (audited !== false && Object(output).dry_run !== true) {
        const { action, counts } = audited;
        const detail = action === "config_changed" ? changedKeys(input) : undefined;
        audit({ action, detail, count: counts === undefined ? undefined : countOf(output, counts) });
      }
      return output;
    } catch (thrown) {
      const { code, message, details } = asRuntimeError(thrown);
      record.error = { code, message };
      record.sessionId ??= sessionIn(details);
      throw thrown;
    }
  };
}

function countOf(output: unknown, fields: readonly string[]): number {
  const counted = fields.map((field): unknown => Object(output)[field]);
  return counted.reduce((sum: number, value) => sum + (Array.isArray(value) ? value.length : Number(value ?? 0)), 0);
}

const ID = /^[0-9a-f-]{36}$/i;

/** The session id in an unchecked input, if it has the form of one. */
function sessionIn(value: unknown): string | undefined {
  if (!isRecord(value)) return undefined;
  const { session_id, scope } = value;
  if (typeof session_id === "string") return ID.test(session_id) ? session_id : undefined;
  return isRecord(scope) ? sessionIn(scope) : undefined;
}

const KEYS_REPORTED_MAX = 20;
const KEY_CHARS_MAX = 60;

/** Which keys of the configuration a change names; never their values. */
function changedKeys(input: unknown): string | undefined {
  if (!isRecord(input)) return undefined;
  // A patch over HTTP may stand by itself.
  const { expected_generation, ...bare } = input;
  const table = input.patch ?? input.config ?? bare;
  if (!isRecord(table)) return undefined;
  const keys = Object.entries(table).flatMap(([name, value]) =>
    isRecord(value) ? Object.keys(value).map((key) => `${name}.${key}`) : [name],
  );
  return keys
    .slice(0, KEYS_REPORTED_MAX)
    .map((key) => key.slice(0, KEY_CHARS_MAX))
    .join(",");
}

function turns(count: number): string {
  return count === 1 ? "1 turn" : `${count} turns`;
}

/** Waits for work, and not for longer than this. */
export async function within(clock: Clock, ms: number, work: Promise<unknown>): Promise<void> {
  const done = new AbortController();
  await Promise.race([work, clock.sleep(ms, done.signal)]);
  done.abort("done");
}

/** The reason of a signal that a client aborted, rather than the end of its connection or of the server. */
export const CANCELLED_BY_CLIENT = "cancelled by the client";

/** Archives the session of a creation that its client cancelled; it stays readable. */
export async function takeBack(dispatch: Dispatch, session_id: string): Promise<void> {
  try {
    await dispatch("archiveSession", { session_id });
  } catch (thrown) {
    // Without a store the session ends with the process anyway.
    if (!hasCode(thrown, "SESSION_PERSISTENCE_DISABLED")) throw thrown;
  }
}

/**
 * Runs a further turn where one name stands for both operations: a session that this process knows continues in every
 * build, and any other is resumed, which without a store is refused for what it lacks.
 */
export async function furtherTurn(dispatch: Dispatch, input: unknown, call: CallContext): Promise<unknown> {
  try {
    return await dispatch("startTurn", input, call);
  } catch (thrown) {
    if (!hasCode(thrown, "SESSION_NOT_FOUND")) throw thrown;
    return dispatch("resumeSession", input, call);
  }
}

/** The facts of a request for its log line, added as they become known. */
export interface RequestRecord {
  readonly id: string;
  readonly method: string;
  /** The route's template, without the client's values. */
  route: string | undefined;
  operation: OperationName | undefined;
  sessionId: string | undefined;
  caller: string | undefined;
  error: { readonly code: ErrorCode; readonly message: string } | undefined;
  /** Called when its answer becomes a stream of events, which may last for hours. */
  streams(): void;
}

const current = new AsyncLocalStorage<RequestRecord>();

export function currentRequest(): RequestRecord | undefined {
  return current.getStore();
}

export function onBehalfOf<T>(record: RequestRecord, work: () => T): T {
  return current.run(record, work);
}

/** Client ids must fit into a log line and a header. */
const SANE_ID = /^[\w.:+/=@-]{1,128}$/;
const METHOD = /^[A-Z]{1,16}$/;

/** The record of a new request; its own id is kept, so that proxies can correlate it. */
export function recordOf(
  { method = "", headers }: HttpRequest,
  newId: () => string,
  streams: () => void,
): RequestRecord {
  const given = headers["x-request-id"];
  const id = typeof given === "string" && SANE_ID.test(given) ? given : newId();
  const unknown = { route: undefined, operation: undefined, sessionId: undefined, caller: undefined, error: undefined };
  return { id, method: METHOD.test(method) ? method : "-", ...unknown, streams };
}

/** A change that is logged besides its request. */
export interface AuditFact {
  readonly action: string;
  readonly detail?: string | undefined;
  readonly count?: number | undefined;
}
