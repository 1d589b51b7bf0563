import type { Caller } from "../contract/caller.ts";
import { RuntimeError } from "../contract/error.ts";
import type { RunResult } from "../contract/session.ts";
import type { Store } from "../ports/store.ts";
import type { CallContext, Service } from "../runtime/dispatch.ts";
import type { Hash } from "../state/context.ts";
import { isWaiting } from "../state/session-state.ts";
import { resultOf } from "./approvals.ts";
import type { LiveSession, LiveSessions } from "./live-sessions.ts";

/** A request that was made before, possibly at another process: it gets the end of its turn. */
export type Repeat = (session: LiveSession, key: string, call: CallContext) => Promise<RunResult | undefined>;

/** The key of a request in the log: its caller's key, and its content. */
export function requestKeyOf(
  { idempotency_key, ...input }: { readonly idempotency_key?: string | undefined },
  caller: Caller | undefined,
  hash: Hash,
): { readonly key: string; readonly sessionId: string } | undefined {
  if (idempotency_key === undefined) return undefined;
  const id = hash(JSON.stringify([caller?.name ?? "", idempotency_key]));
  const [, ...groups] = /^(.{8})(.{4}).(.{3}).(.{3})(.{12})/.exec(id) ?? [];
  const [first, second, third, fourth, last] = groups;
  // A version 8 UUID: the same request names the same new session at every server.
  const sessionId = `${first}-${second}-8${third}-8${fourth}-${last}`;
  return { key: `${id.slice(0, KEY_CHARS)}.${hash(JSON.stringify(input)).slice(0, KEY_CHARS)}`, sessionId };
}

const KEY_CHARS = 32;

export function createRepeats(parts: {
  readonly store: Store;
  readonly live: LiveSessions;
  untilOver(session: LiveSession, call: CallContext): Promise<RunResult>;
  readonly finishTurn: Service["finishTurn"];
}): Repeat {
  const { store, live } = parts;
  return async (session, key, call) => {
    await live.refresh(session);
    const { state } = session;
    const seq = state.requests.get(key);
    if (seq === undefined) {
      const [id] = key.split(".");
      if (![...state.requests.keys()].some((other) => other.startsWith(`${id}.`))) return undefined;
      throw new RuntimeError("DUPLICATE_INPUT", "idempotency_key: it was used for another request");
    }
    const over = await resultOf(store, session, seq);
    if (over !== undefined || seq !== state.turn?.seq) return over;
    const isHeld = session.isRunning || (await store.locks.isHeld(state.sessionId));
    if (isHeld || isWaiting(state)) return parts.untilOver(session, call);
    return parts.finishTurn({ session_id: state.sessionId }, call);
  };
}
