import { RuntimeError } from "@rkat/core/contract/error";
import type { Clock } from "@rkat/core/ports/clock";
import { fingerprintOf } from "../http/once.ts";
import type { RestRequest } from "../http/router.ts";

/** Sessions in which a request has just failed: a client that sends it again is answered there. */
export interface Retries {
  /** The session where this request failed within the last minute; returned once. */
  take(request: RestRequest): string | undefined;
  note(request: RestRequest, session_id: string): void;
}

const RETRY_MS_MAX = 60_000;
const REQUESTS_MAX = 1_024;

export function createRetries({ now }: Pick<Clock, "now">): Retries {
  /** By caller, path and body; the oldest first. */
  const failed = new Map<string, { readonly session_id: string; readonly untilMs: number }>();
  return {
    take: (request) => {
      const key = keyOf(request);
      const known = failed.get(key);
      failed.delete(key);
      return known !== undefined && now() < known.untilMs ? known.session_id : undefined;
    },
    note: (request, session_id) => {
      failed.set(keyOf(request), { session_id, untilMs: now() + RETRY_MS_MAX });
      const [oldest] = failed.keys();
      if (failed.size > REQUESTS_MAX && oldest !== undefined) failed.delete(oldest);
    },
  };
}

/** No name of a caller has a blank. */
function keyOf(request: RestRequest): string {
  return `${request.caller.name} ${fingerprintOf(request)}`;
}

/** Errors before a turn began: the session is archived, busy, or was answered. */
const CANNOT = ["SESSION_NOT_FOUND", "SESSION_BUSY", "SESSION_NOT_RUNNING"];

/** A turn in the session where its request failed before; undefined where that cannot be, and nothing was begun. */
export async function retried<T>(again: Promise<T>): Promise<T | undefined> {
  try {
    return await again;
  } catch (thrown) {
    if (thrown instanceof RuntimeError && CANNOT.includes(thrown.code)) return undefined;
    throw thrown;
  }
}
