import type { IncomingHttpHeaders } from "node:http";
import { RuntimeError } from "../../contract/error.ts";

/** What a browser is told about pages of other origins. */
export interface CrossOrigin {
  /** What goes with every answer to a page that is allowed; nothing to others. */
  headersFor(headers: IncomingHttpHeaders): Readonly<Record<string, string>>;
  /** What a browser is told that asks first, before it sends what a page wants; undefined when that is no such question. */
  preflight(method: string, headers: IncomingHttpHeaders): Readonly<Record<string, string>> | undefined;
}

const METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE";
const SENT =
  "Authorization, Content-Type, Last-Event-ID, X-Meerkat-Request-Id, Idempotency-Key, Mcp-Session-Id, MCP-Protocol-Version";
const EXPOSED = "Retry-After, Idempotent-Replayed, WWW-Authenticate, Allow, Mcp-Session-Id";
/** How long a browser may go without asking again. */
const MAX_AGE_SECS = 600;

/** Lets pages of these origins read answers; without any, nothing is said and browsers keep pages from it. */
export function createCrossOrigin(allowedOrigins: readonly string[]): CrossOrigin {
  const allowed = new Set(allowedOrigins);
  const headersFor = ({ origin }: IncomingHttpHeaders): Readonly<Record<string, string>> => {
    if (allowed.size === 0) return {};
    // The same address is answered differently to different pages, so nobody in between may mix them up.
    if (origin === undefined || !allowed.has(origin)) return { vary: "Origin" };
    return { vary: "Origin", "access-control-allow-origin": origin, "access-control-expose-headers": EXPOSED };
  };
  return {
    headersFor,
    preflight: (method, headers) => {
      const asks = method === "OPTIONS" && headers["access-control-request-method"] !== undefined;
      if (!asks || headers.origin === undefined || !allowed.has(headers.origin)) return undefined;
      // A page of the wide web may ask for a server of this machine only when that is allowed in so many words.
      const isPrivate = headers["access-control-request-private-network"] === "true";
      return {
        ...headersFor(headers),
        "access-control-allow-methods": METHODS,
        "access-control-allow-headers": SENT,
        "access-control-max-age": String(MAX_AGE_SECS),
        ...(isPrivate ? { "access-control-allow-private-network": "true" } : {}),
      };
    },
  };
}

/** An origin as browsers write it; throws INVALID_PARAMS for what is none. */
export function originOf(given: string): string {
  const { origin, href } = URL.canParse(given) ? new URL(given) : { origin: "null", href: "" };
  if (origin !== "null" && (href === `${origin}/` || href === origin)) return origin;
  const advice = "write one such as https://app.example, without a path; may be repeated";
  throw new RuntimeError("INVALID_PARAMS", `--allow-origin ${given}: ${advice}`);
}
