import { AsyncLocalStorage } from "node:async_hooks";
import type { IncomingMessage } from "node:http";
import type { Audited } from "@rkat/core/contract/caller";
import { asRuntimeError, type ErrorCode } from "@rkat/core/contract/error";
import { OPERATIONS, type OperationName } from "@rkat/core/contract/operations";
import type { Dispatch } from "@rkat/core/runtime/dispatch";
import { isRecord } from "./incoming.ts";

/** The facts of a request for its log line, added as they become known. */
export interface RequestRecord {
  readonly id: string;
  readonly method: string;
  /** The route's template, without the client's values. */
  route: string | undefined;
  operation: OperationName | undefined;
  sessionId: string | undefined;
  /** The name of the caller's token. */
  caller: string | undefined;
  error: { readonly code: ErrorCode; readonly message: string } | undefined;
  /** Told when its answer becomes a stream of events, which may go on for hours. */
  streams(): void;
}

const current = new AsyncLocalStorage<RequestRecord>();

/** The current request; undefined for work without one. */
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
  { method = "", headers }: IncomingMessage,
  newId: () => string,
  streams: () => void,
): RequestRecord {
  const given = headers["x-request-id"];
  const id = typeof given === "string" && SANE_ID.test(given) ? given : newId();
  const unknown = { route: undefined, operation: undefined, sessionId: undefined, caller: undefined, error: undefined };
  return { id, method: METHOD.test(method) ? method : "-", ...unknown, streams };
}

/** A change that is told besides its request. */
export interface AuditFact {
  readonly action: string;
  readonly detail?: string | undefined;
  /** How many it was of. */
  readonly count?: number | undefined;
}

/** Calls operations, writes down for the request which one it was and how it went, and has changes told. */
export function noteCalls(dispatch: Dispatch, audit: (fact: AuditFact) => void): Dispatch {
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

const KEYS_TOLD_MAX = 20;
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
    .slice(0, KEYS_TOLD_MAX)
    .map((key) => key.slice(0, KEY_CHARS_MAX))
    .join(",");
}
