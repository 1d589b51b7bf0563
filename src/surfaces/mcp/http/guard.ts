import { hash, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { RuntimeError } from "../../../contract/error.ts";

export interface GuardOptions {
  /** The address that is listened on. */
  readonly host: string;
  readonly token: string | undefined;
}

/** Says why a request may not pass; undefined when it may. */
export type Guard = (headers: IncomingHttpHeaders) => RuntimeError | undefined;

const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[?::1\]?)$/i;

/** Whether an address is reached from this machine alone. */
function isLoopback(host: string): boolean {
  return LOOPBACK.test(host);
}

/**
 * Lets in who names this machine and, where there is a token, brings it. A page of another site, or a name of another
 * site that was made to point here, must not speak with a server of this machine. Throws INVALID_PARAMS when the address
 * can be reached from elsewhere and there is no token.
 */
export function createGuard({ host, token }: GuardOptions): Guard {
  if (!isLoopback(host) && token === undefined) {
    const message = `--host ${host} can be reached from elsewhere: set RKAT_TOKEN to what clients must bring, or give --token`;
    throw new RuntimeError("INVALID_PARAMS", message);
  }
  return (headers) => {
    const named = hostnameOf(`http://${headers.host}`);
    if (isLoopback(host) && (named === undefined || !isLoopback(named))) return forbidden("Host", headers.host);
    const { origin } = headers;
    const originName = origin === undefined ? named : hostnameOf(origin);
    const isOwn = originName !== undefined && (originName === named || isLoopback(originName));
    if (origin !== undefined && !isOwn) return forbidden("Origin", origin);
    if (token === undefined || isSame(bearerIn(headers.authorization), token)) return undefined;
    return new RuntimeError("UNAUTHORIZED", "the bearer token is missing or wrong");
  };
}

function hostnameOf(url: string): string | undefined {
  return URL.canParse(url) ? new URL(url).hostname : undefined;
}

function bearerIn(authorization = ""): string {
  return /^Bearer +(\S+) *$/i.exec(authorization)?.[1] ?? "";
}

/** Compares hashes, which are of one length, so the time it takes tells nothing. */
function isSame(given: string, token: string): boolean {
  return timingSafeEqual(hash("sha256", given, "buffer"), hash("sha256", token, "buffer"));
}

function forbidden(header: string, value: string | undefined): RuntimeError {
  return new RuntimeError("FORBIDDEN_ORIGIN", `${header} ${value ?? "(none)"} is not allowed here`);
}
