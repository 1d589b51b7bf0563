import { timingSafeEqual } from "node:crypto";
import { isIP } from "node:net";
import { isDeepStrictEqual } from "node:util";
import type { Caller, Scope, Token } from "@rkat/core/contract/caller";
import { RuntimeError } from "@rkat/core/contract/error";
import type { Clock } from "@rkat/core/ports/clock";
import type { TokenStore } from "@rkat/core/ports/store";
import type { Operator } from "./operator.ts";
import { digestOf } from "./token-files.ts";

export interface Callers {
  /**
   * The caller of this header; throws UNAUTHORIZED for an unknown token, and AGENT_ERROR with the seconds to wait for
   * one that sends too many requests.
   */
  identify(authorization: string | undefined): Caller;
  close(): void;
}

export interface CallerParts {
  readonly host: string;
  /** What gives every right. */
  readonly token: string | undefined;
  /** The tokens of the realm; without it there are none. */
  readonly tokens?: TokenStore | undefined;
  readonly clock: Pick<Clock, "now" | "sleep">;
  readonly log?: (sentence: string) => void;
  readonly operator?: Pick<Operator, "audit"> | undefined;
}

/** The caller without a token: every scope, below the server's ceiling. */
const OPEN: Caller = {
  name: "anonymous",
  scopes: new Set<Scope>(["read", "run", "tools", "config"]),
  labels: {},
};
/** The caller of open routes, without any scope. */
export const NOBODY: Caller = { name: "nobody", scopes: new Set(), labels: {} };
const OWNER: Caller = { name: "RKAT_TOKEN", scopes: new Set<Scope>(["admin"]), labels: {} };

/** How soon a token that was revoked, or has expired, ends what it has open. */
const LOOK_MS = 500;

interface Known {
  readonly token: Token;
  readonly digest: Buffer;
  readonly caller: Caller;
  readonly ending: AbortController;
  readonly takeOne: () => void;
}

export function createCallers(parts: CallerParts): Callers {
  const { clock, token, tokens, operator, log = () => {} } = parts;
  const owner = token === undefined ? undefined : digestOf(token);
  const known = new Map<string, Known>();
  const closing = new AbortController();
  let state: string | undefined;

  const add = (row: Token): void => {
    const ending = new AbortController();
    const { name, max_cost_per_day } = row;
    const limit = max_cost_per_day === undefined ? {} : { maxCostPerDay: max_cost_per_day };
    const caller = { name, scopes: new Set(row.scopes), labels: row.labels, until: ending.signal, ...limit };
    const digest = Buffer.from(row.sha256, "hex");
    known.set(row.sha256, { token: row, digest, caller, ending, takeOne: createTaker(row, clock) });
  };
  const end = ({ token: { name, sha256 }, ending }: Known, why: string): void => {
    known.delete(sha256);
    operator?.audit({ action: "token_ended", detail: `${name} ${why}` });
    ending.abort(`the token ${name} ${why}`);
  };
  const refresh = (): void => {
    if (tokens === undefined) return;
    const now = tokens.state(clock.now());
    if (now !== undefined && now === state) return;
    state = now;
    const rows = new Map(tokens.read().map((row) => [row.sha256, row]));
    for (const one of known.values()) if (!rows.has(one.token.sha256)) end(one, "was revoked");
    for (const row of rows.values()) if (!known.has(row.sha256)) add(row);
  };
  const endExpired = (): void => {
    for (const one of known.values()) if (isExpired(one.token, clock.now())) one.ending.abort("the token has expired");
  };
  const watch = async (): Promise<void> => {
    while (!closing.signal.aborted) {
      try {
        refresh();
        endExpired();
      } catch (thrown) {
        log(`the tokens cannot be read: ${thrown instanceof Error ? thrown.message : thrown}`);
      }
      await clock.sleep(LOOK_MS, closing.signal);
    }
  };
  if (tokens !== undefined) void watch();

  const find = (authorization: string): Caller => {
    // The scheme is not case-sensitive.
    const [, secret = ""] = /^bearer +(\S+)$/i.exec(authorization) ?? [];
    const given = digestOf(secret);
    let found: Known | undefined;
    // Every one is compared, and equal digests take as long as different ones.
    for (const one of known.values()) if (timingSafeEqual(one.digest, given)) found = one;
    if (owner !== undefined && timingSafeEqual(owner, given)) return OWNER;
    if (found === undefined) {
      const wrong = secret === "" ? "" : "this token is not one of the server's; ";
      throw unauthorized(`${wrong}send the server's token as Authorization: Bearer TOKEN`);
    }
    if (isExpired(found.token, clock.now())) throw unauthorized(`the token ${found.token.name} has expired`);
    found.takeOne();
    return found.caller;
  };
  return {
    identify: (authorization = "") => {
      refresh();
      const isOpen = owner === undefined && tokens?.isInUse() !== true && isLoopback(parts.host);
      return isOpen ? OPEN : find(authorization);
    },
    close: () => closing.abort("closed"),
  };
}

/** What a caller that began a turn lacks to run one now; undefined if it may. */
export function lackOf(
  { name, scopes, labels }: { readonly name: string } & Pick<Token, "scopes" | "labels">,
  tokens: TokenStore,
  nowMs: number,
): string | undefined {
  if (name === OWNER.name || (name === OPEN.name && !tokens.isInUse())) return undefined;
  const token = tokens.read().find((one) => one.name === name);
  if (token === undefined) return `the token ${name}, which was revoked`;
  if (isExpired(token, nowMs)) return `the token ${name}, which has expired`;
  const isLess = scopes.some((scope) => !token.scopes.includes(scope)) || !isDeepStrictEqual(labels, token.labels);
  return isLess ? `the rights that the token ${name} had` : undefined;
}

/** What is a caller's own over many requests is kept by this: with other labels it is another, also under one name. */
export function ownerOf({ name, labels }: Caller): string {
  return JSON.stringify([name, Object.entries(labels).sort()]);
}

/** Whether only this machine can reach an address. */
export function isLoopback(host: string): boolean {
  const name = host.toLowerCase().replace(/^\[(.*)\]$/, "$1");
  if (name === "localhost" || name.endsWith(".localhost")) return true;
  return name === "::1" || (isIP(name) === 4 && name.startsWith("127."));
}

function isExpired({ expires_at }: Token, nowMs: number): boolean {
  return expires_at !== undefined && Date.parse(expires_at) <= nowMs;
}

/** Takes one of the requests that a token has left; they come back evenly. Throws AGENT_ERROR when there is none. */
function createTaker({ name, rate }: Token, clock: Pick<Clock, "now">): () => void {
  if (rate === undefined) return () => {};
  const { requests, per_ms } = rate;
  let left = requests;
  let at = clock.now();
  return () => {
    const now = clock.now();
    left = Math.min(requests, left + ((now - at) * requests) / per_ms);
    at = now;
    if (left < 1) {
      const retry_after_secs = Math.ceil(((1 - left) * per_ms) / requests / 1_000);
      const message = `token ${name} has made its ${requests} requests; wait ${retry_after_secs} s`;
      throw new RuntimeError("AGENT_ERROR", message, { details: { retry_after_secs } });
    }
    left -= 1;
  };
}

function unauthorized(message: string): RuntimeError {
  return new RuntimeError("UNAUTHORIZED", message);
}
