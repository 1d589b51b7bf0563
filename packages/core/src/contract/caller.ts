import { RuntimeError } from "./error.ts";
import { z } from "./schema.ts";

const SCOPES = ["read", "run", "tools", "approve", "config", "admin"] as const;

/** What a caller may do: read, run turns, give them shell and file tools, answer approvals, configure, everything. */
export const Scope = z.enum(SCOPES, { error: `write one of ${SCOPES.join(", ")}` });
export type Scope = z.infer<typeof Scope>;

/** Who asks for an operation. */
export interface Caller {
  /** How logs and audits call it; never its secret. */
  readonly name: string;
  readonly scopes: ReadonlySet<Scope>;
  /** Only sessions with these labels, and what is theirs, are there for it. */
  readonly labels: Readonly<Record<string, string>>;
  /** Aborts when it may do nothing any more: what it runs is interrupted, what it listens to ends. */
  readonly until?: AbortSignal;
  /** US dollars that its calls may cost in a day, by UTC; absent for no limit. */
  readonly maxCostPerDay?: number;
}

/** The caller, as it is reported. */
const Access = z.object({
  name: z.string().optional().describe("the name of the token; absent for the user of the process"),
  scopes: z.array(Scope).describe("what the caller may do"),
  labels: z.record(z.string(), z.string()).describe("it sees only sessions with these labels"),
});

/** The operation on the caller itself. */
export const ACCESS_OPERATIONS = {
  readAccess: {
    summary: "Show the caller's identity and scopes.",
    input: z.object({}),
    output: Access,
    rpc: "access/get",
    http: "GET /access",
    mcp: "meerkat_access",
    mcpListed: false,
    cli: "rkat whoami",
    scope: "read",
    sees: "public",
  },
} as const;

export function describeAccess(caller: Caller | undefined): z.infer<typeof Access> {
  const scopes = SCOPES.filter((scope) => hasScope(caller, scope));
  return { ...(caller === undefined ? {} : { name: caller.name }), scopes, labels: { ...caller?.labels } };
}

/** What is recorded of a change that a caller may have to answer for, besides who made it; never what was said. */
export interface Audited {
  readonly action: string;
  /** Fields of the output that say how many it was of: numbers, and lists by their length. */
  readonly counts?: readonly string[];
}

/** Without a caller the operation is the process's own, which may do everything. */
export function hasScope(caller: Caller | undefined, scope: Scope): boolean {
  return caller === undefined || caller.scopes.has(scope) || caller.scopes.has("admin");
}

/** Throws PERMISSION_DENIED, naming the scope; `what` is what needs it. */
export function requireScope(caller: Caller | undefined, scope: Scope, what: string): void {
  if (hasScope(caller, scope)) return;
  const message = `${what} needs the scope ${scope}, which ${caller?.name} does not have`;
  throw new RuntimeError("PERMISSION_DENIED", message);
}

const NAME = /^[a-z0-9][a-z0-9._-]{0,63}$/;

/** What a token may be called: its file has the name, too. */
export const TokenName = z.string().regex(NAME, {
  error: "write 1 to 64 small letters, digits, dots, _ and -, the first a letter or digit",
});

/** A token as it is kept: its secret is not in it. */
export const Token = z.strictObject({
  name: TokenName.describe("how logs and audits call it"),
  /** A secret of 256 random bits cannot be guessed, so a slow hash would only slow down requests. */
  sha256: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .describe("of the secret"),
  scopes: z.array(Scope).min(1).describe("what it may do"),
  labels: z.record(z.string(), z.string()).describe("only sessions that have all of them are there for it"),
  created_at: z.iso.datetime().describe("when it was made"),
  expires_at: z.iso.datetime().optional().describe("when it ends; without it, it does not"),
  max_cost_per_day: z.number().positive().optional().describe("what its turns may cost between two midnights, UTC"),
  rate: z
    .strictObject({
      requests: z.int().positive().describe("so many requests"),
      per_ms: z.int().positive().describe("in so many milliseconds"),
    })
    .optional()
    .describe("how often it may ask; without it, as often as it likes"),
});
export type Token = z.infer<typeof Token>;
