interface ErrorRow {
  readonly rpc: number;
  readonly http: number;
  readonly exit: number;
  readonly category: string;
  readonly meaning: string;
}

/** The one error table: every surface looks its number up here. */
export const ERRORS = {
  SESSION_NOT_FOUND: {
    rpc: -32001,
    http: 404,
    exit: 10,
    category: "session",
    meaning: "no session has this id, or it was archived and cannot run turns",
  },
  SESSION_BUSY: {
    rpc: -32002,
    http: 409,
    exit: 11,
    category: "session",
    meaning: "the session is running a turn; wait for it or interrupt it",
  },
  SESSION_NOT_RUNNING: {
    rpc: -32003,
    http: 409,
    exit: 12,
    category: "session",
    meaning: "the operation needs a running turn and there is none",
  },
  DUPLICATE_INPUT: {
    rpc: -32004,
    http: 409,
    exit: 13,
    category: "session",
    meaning: "the same input was already accepted",
  },
  REQUEST_CANCELLED: {
    rpc: -32005,
    http: 499,
    exit: 14,
    category: "request",
    meaning: "the request was cancelled or its turn interrupted; what was streamed is kept",
  },
  SESSION_STORE_ERROR: {
    rpc: -32006,
    http: 500,
    exit: 31,
    category: "session",
    meaning: "the store could not read or write; nothing was acknowledged",
  },
  PROVIDER_ERROR: {
    rpc: -32010,
    http: 502,
    exit: 20,
    category: "provider",
    meaning: "the model provider failed, after retries where they could help",
  },
  BUDGET_EXHAUSTED: {
    rpc: -32011,
    http: 429,
    exit: 21,
    category: "budget",
    meaning: "a budget ran out; the session stays usable",
  },
  HOOK_DENIED: { rpc: -32012, http: 403, exit: 22, category: "hook", meaning: "a hook refused the step" },
  AGENT_ERROR: { rpc: -32013, http: 500, exit: 30, category: "agent", meaning: "the turn failed for another reason" },
  CAPABILITY_UNAVAILABLE: {
    rpc: -32020,
    http: 501,
    exit: 40,
    category: "capability",
    meaning: "this runtime was composed without the capability",
  },
  SESSION_PERSISTENCE_DISABLED: {
    rpc: -32020,
    http: 501,
    exit: 40,
    category: "capability",
    meaning: "the operation needs `session-store`, which is absent",
  },
  SESSION_COMPACTION_DISABLED: {
    rpc: -32020,
    http: 501,
    exit: 40,
    category: "capability",
    meaning: "the operation needs `session-compaction`, which is absent",
  },
  MEMORY_STORE_DISABLED: {
    rpc: -32020,
    http: 501,
    exit: 40,
    category: "capability",
    meaning: "the operation needs `memory-store`, which is absent",
  },
  SKILL_NOT_FOUND: { rpc: -32021, http: 404, exit: 41, category: "skill", meaning: "no skill has this name" },
  SKILL_RESOLUTION_FAILED: {
    rpc: -32022,
    http: 422,
    exit: 42,
    category: "skill",
    meaning: "the skill exists but could not be loaded",
  },
  SCHEDULE_NOT_FOUND: { rpc: -32023, http: 404, exit: 43, category: "session", meaning: "no schedule has this id" },
  SUPERVISOR_ROTATION_INCOMPLETE: {
    rpc: -32024,
    http: 409,
    exit: 44,
    category: "session",
    meaning: "reserved by the wire contract",
  },
  UNAUTHORIZED: {
    rpc: -32030,
    http: 401,
    exit: 50,
    category: "request",
    meaning: "the bearer token is missing or wrong",
  },
  FORBIDDEN_ORIGIN: {
    rpc: -32031,
    http: 403,
    exit: 51,
    category: "request",
    meaning: "the request's Host or Origin is not allowed",
  },
  PERMISSION_DENIED: {
    rpc: -32034,
    http: 403,
    exit: 54,
    category: "permission",
    meaning: "more is asked for than this server, or the configuration's file, allows",
  },
  DUPLICATE_REQUEST_ID: {
    rpc: -32033,
    http: 409,
    exit: 53,
    category: "request",
    meaning: "a request with this id is running",
  },
  PAYLOAD_TOO_LARGE: {
    rpc: -32032,
    http: 413,
    exit: 52,
    category: "request",
    meaning: "the request is larger than the limit it names",
  },
  COMPACTION_THRESHOLD_UNREACHABLE: {
    rpc: -32602,
    http: 400,
    exit: 2,
    category: "validation",
    meaning: "the threshold lies below what a compaction always keeps",
  },
  METHOD_NOT_FOUND: {
    rpc: -32601,
    http: 404,
    exit: 2,
    category: "validation",
    meaning: "there is no such operation",
  },
  INVALID_PARAMS: {
    rpc: -32602,
    http: 400,
    exit: 2,
    category: "validation",
    meaning: "an input is missing or wrong; the message names the field",
  },
  INTERNAL_ERROR: { rpc: -32603, http: 500, exit: 1, category: "internal", meaning: "a defect of rkat itself" },
} as const satisfies Record<string, ErrorRow>;

export type ErrorCode = keyof typeof ERRORS;

/** The `reason_type` of a store that cannot be reached now, and may be later. */
export const STORE_AWAY = "store_away";

/** The details of an error about an unknown model. */
export const NO_MODEL = { reason: { failure_kind: "model_not_found" } };

/** The body every surface sends for a failure. */
export interface WireError {
  readonly code: string;
  readonly category: string;
  readonly message: string;
  readonly details?: unknown;
}

/** The one error class: a code of the table and a sentence that names what and which. */
export class RuntimeError extends Error {
  override readonly name = "RuntimeError";
  readonly code: ErrorCode;
  readonly details: unknown;

  constructor(code: ErrorCode, message: string, options: { cause?: unknown; details?: unknown } = {}) {
    super(message, options.cause === undefined ? {} : { cause: options.cause });
    this.code = code;
    this.details = options.details;
  }

  /** By its shape: a program that a command loads may have another copy of this class. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    if (!(value instanceof Error) || value.name !== "RuntimeError") return false;
    return "code" in value && typeof value.code === "string" && Object.hasOwn(ERRORS, value.code);
  }

  /** The wire form, the same on every surface. */
  toWire(): WireError {
    const { category } = ERRORS[this.code];
    const wire = { code: this.code, category, message: this.message };
    return this.details === undefined ? wire : { ...wire, details: this.details };
  }
}

export function hasCode(thrown: unknown, code: ErrorCode): thrown is RuntimeError {
  return thrown instanceof RuntimeError && thrown.code === code;
}

/** The error of a wrong input; the sentence names the input and the fix. */
export function invalid(message: string, cause?: unknown): RuntimeError {
  return new RuntimeError("INVALID_PARAMS", message, { cause });
}

/** Any thrown value as an error of the table; what is not ours is a defect. */
export function asRuntimeError(thrown: unknown): RuntimeError {
  if (thrown instanceof RuntimeError) return thrown;
  return new RuntimeError("INTERNAL_ERROR", messageOf(thrown), { cause: thrown });
}

/** What a thrown value says. Anything can be thrown, also what cannot be made a text. */
export function messageOf(thrown: unknown): string {
  try {
    return String(thrown instanceof Error ? thrown.message : thrown);
  } catch {
    return "something was thrown that cannot be shown";
  }
}
