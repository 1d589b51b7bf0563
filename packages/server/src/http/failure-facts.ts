import { ERRORS, type ErrorCode } from "@rkat/core/contract/error";
import type { OperationName } from "@rkat/core/contract/operations";
import { operationSchema } from "@rkat/core/contract/wire/requests";
import type { Facts } from "./journal.ts";

export interface LoggedFailure {
  /** Absent for what is no failure of the table. */
  readonly code?: ErrorCode | undefined;
  readonly message: string;
}

const SENTENCE_CHARS_MAX = 300;

/**
 * What the log tells of a failure. The sentence about a wrong input may say again what was sent, so of that only the
 * field is told, and only one that we have named; of other sentences what they quote at length is left out.
 */
export function failureFacts(
  { code, message }: LoggedFailure,
  { operation, redact }: { readonly operation?: OperationName | undefined; redact(text: string): string },
): Facts {
  if (code === "INVALID_PARAMS") {
    return { code, field: operation && fieldIn(message, operation), error: ERRORS[code].meaning };
  }
  const quiet = redact(message).replace(/"(?:[^"\\]|\\.){41,}"/g, '"…"');
  const error = quiet.length > SENTENCE_CHARS_MAX ? `${quiet.slice(0, SENTENCE_CHARS_MAX)}…` : quiet;
  return { code, error };
}

/** The names of inputs' fields; a table is slow to read, and its rows are few. */
const fields = new Map<OperationName, ReadonlySet<string>>();

function fieldIn(message: string, operation: OperationName): string | undefined {
  const [, name = ""] = /^(\w{1,60})[.:[]/.exec(message) ?? [];
  let known = fields.get(operation);
  if (known === undefined) {
    known = new Set(Object.keys(operationSchema(operation, "input").properties ?? {}));
    fields.set(operation, known);
  }
  return known.has(name) ? name : undefined;
}
