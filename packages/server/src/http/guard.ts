import type { IncomingHttpHeaders } from "node:http";
import { isIP, isIPv6 } from "node:net";
import type { Caller } from "@rkat/core/contract/caller";
import { invalid, RuntimeError } from "@rkat/core/contract/error";
import type { TokenStore } from "@rkat/core/ports/store";
import { type Callers, isLoopback, NOBODY } from "./callers.ts";
import type { Asked } from "./exchange.ts";

export interface Admission {
  readonly host: string;
  /** Further names it goes by, such as that of a proxy in front of it. */
  readonly allowedHosts: readonly string[];
  /** The origins of pages elsewhere that may speak to it. */
  readonly allowedOrigins?: readonly string[];
  /** What gives every right. */
  readonly token: string | undefined;
  readonly tokens?: TokenStore | undefined;
  /** Identifies callers instead of tokens; throws UNAUTHORIZED for a request without one. */
  readonly identify?: ((request: Asked) => Promise<Caller>) | undefined;
  /** Whether it is part of another application: then no route is open to a request without a caller. */
  readonly isMounted?: boolean;
}

/** Returns the caller; throws unless Host and Origin are allowed and the token is valid. */
export type Guard = (
  request: Asked,
  /** `isOpen`: no token is needed; `isPage`: pages of other origins may link to it. */
  options: { readonly isOpen: boolean; readonly isPage?: boolean },
) => Caller | Promise<Caller>;

export function createGuard(admission: Admission, callers: Pick<Callers, "identify">): Guard {
  const isOurs = nameCheck(admission);
  const origins = new Set(admission.allowedOrigins);
  return (request, { isOpen, isPage = false }) => {
    const { origin, authorization } = request.headers;
    const host = hostOf(request);
    // DNS rebinding: a page whose name resolves to this machine still sends its own name.
    if (host === undefined || !isOurs(hostnameOf(`http://${host}`))) {
      throw forbidden(
        `the Host ${quoted(host)} is not one of this server; use its address, or allow it with --allowed-host or allowedHosts`,
      );
    }
    const isAllowed = origin !== undefined && origins.has(origin);
    if (origin !== undefined && !isAllowed && !isOwnPage(origin, host)) {
      throw forbidden(
        `the Origin ${quoted(origin)} is not this server's own; allow it with --allow-origin or allowedOrigins`,
      );
    }
    if (!isAllowed && isFromElsewhere(request) && !(isPage && isVisit(request))) {
      throw forbidden(
        "this request comes from a page of another origin; allow it with --allow-origin or allowedOrigins",
      );
    }
    if (isOpen) return NOBODY;
    return admission.identify === undefined ? callers.identify(authorization) : admission.identify(request);
  };
}

/** The required token; throws INVALID_PARAMS where other machines can reach the address and there is none. */
export function tokenFor(host: string, given: string | undefined, hasOthers = false): string | undefined {
  const token = given === undefined || given.trim() === "" ? undefined : given;
  if (token !== undefined && !/^[\x21-\x7e]+$/.test(token)) {
    throw invalid("the token must be visible characters without blanks");
  }
  if (token === undefined && !hasOthers && !isLoopback(host)) {
    const advice = "set RKAT_TOKEN or --token, make one with rkat token create, or listen at 127.0.0.1";
    throw invalid(`${host} can be reached by other machines, so a token is needed: ${advice}`);
  }
  return token;
}

export function urlHost(host: string): string {
  return isIPv6(host) ? `[${host}]` : host;
}

const WILDCARDS: readonly string[] = ["0.0.0.0", "::"];

function nameCheck({ host, allowedHosts }: Admission): (name: string | undefined) => boolean {
  const names = new Set([host, ...allowedHosts].map(bare));
  const isWildcard = WILDCARDS.includes(bare(host));
  return (name) => {
    if (name === undefined) return false;
    // Bound to every address it has, it is reached by each of them; a name must still be given.
    return isLoopback(name) || names.has(bare(name)) || (isWildcard && isIP(bare(name)) !== 0);
  };
}

/** The Host of a request; throws when it names two, which a proxy may read differently. */
function hostOf({ headers: { host }, rawHeaders, url = "" }: Asked): string | undefined {
  const hosts = rawHeaders.filter((name, index) => index % 2 === 0 && name.toLowerCase() === "host");
  if (hosts.length > 1) throw invalid("send the Host header once");
  const [, authority] = /^[a-z][a-z\d+.-]*:\/\/([^/?#]*)/i.exec(url) ?? [];
  if (authority !== undefined && authority.toLowerCase() !== host?.toLowerCase()) {
    throw forbidden(`the request's address names ${quoted(authority)} and its Host ${quoted(host)}; send the same`);
  }
  return host;
}

function isOwnPage(origin: string, host: string): boolean {
  return hostnameOf(origin) !== undefined && new URL(origin).host === new URL(`http://${host}`).host;
}

/** Whether a browser reports another site. Another server on this machine is the same site, but another origin. */
function isFromElsewhere({ headers }: Asked): boolean {
  const site = headers["sec-fetch-site"];
  return site !== undefined && site !== "same-origin" && site !== "none";
}

/** Whether it is a navigation to a document, and not an embedding in another page. */
function isVisit({ method, headers }: Asked): boolean {
  const isRead = method === "GET" || method === "HEAD";
  return isRead && headers["sec-fetch-mode"] === "navigate" && headers["sec-fetch-dest"] === "document";
}

function hostnameOf(url: string): string | undefined {
  if (!URL.canParse(url)) return undefined;
  const { protocol, hostname, username, password, pathname } = new URL(url);
  const isPlain = username === "" && password === "" && pathname === "/" && /^https?:$/.test(protocol);
  return isPlain && hostname !== "" ? hostname : undefined;
}

function bare(host: string): string {
  return host.toLowerCase().replace(/^\[(.*)\]$/, "$1");
}

const QUOTED_CHARS_MAX = 100;

function quoted(text: string | undefined): string {
  return text === undefined ? "that is missing" : JSON.stringify(text.slice(0, QUOTED_CHARS_MAX));
}

function forbidden(message: string): RuntimeError {
  return new RuntimeError("FORBIDDEN_ORIGIN", message);
}

export interface CrossOrigin {
  /** The headers of every answer to an allowed page; none for others. */
  headersFor(headers: IncomingHttpHeaders): Readonly<Record<string, string>>;
  /** The answer to a preflight request; undefined for any other request. */
  preflight(method: string, headers: IncomingHttpHeaders): Readonly<Record<string, string>> | undefined;
}

const METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE";
const SENT =
  "Authorization, Content-Type, Last-Event-ID, X-Meerkat-Request-Id, X-Request-Id, Idempotency-Key, Mcp-Session-Id, MCP-Protocol-Version";
const EXPOSED = "Retry-After, Idempotent-Replayed, WWW-Authenticate, Allow, Mcp-Session-Id, X-Request-Id";
const MAX_AGE_SECS = 600;

/** Allows pages of these origins to read answers; without origins, browsers allow none. */
export function createCrossOrigin(allowedOrigins: readonly string[]): CrossOrigin {
  const allowed = new Set(allowedOrigins);
  const headersFor = ({ origin }: IncomingHttpHeaders): Readonly<Record<string, string>> => {
    if (allowed.size === 0) return {};
    // The answer depends on the origin, so caches must distinguish them.
    if (origin === undefined || !allowed.has(origin)) return { vary: "Origin" };
    return { vary: "Origin", "access-control-allow-origin": origin, "access-control-expose-headers": EXPOSED };
  };
  return {
    headersFor,
    preflight: (method, headers) => {
      const asks = method === "OPTIONS" && headers["access-control-request-method"] !== undefined;
      if (!asks || headers.origin === undefined || !allowed.has(headers.origin)) return undefined;
      // Private network access needs an explicit header.
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
  throw invalid(`--allow-origin ${given}: ${advice}`);
}
