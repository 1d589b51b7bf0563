import { RuntimeError } from "../../contract/error.ts";
import type { SessionLocks } from "../../ports/store.ts";
import type { Leases } from "./leases.ts";

const LISTEN_MS = 250;
/** A beat every five seconds: a sixth of the silence after which a holder is taken for dead. */
const LISTENS_PER_BEAT = 20;

interface HeldLocks extends SessionLocks {
  /** Whether another process has taken a session that is held here. */
  isLost(sessionId: string): boolean;
  close(): void;
}

/** One holder a session, over all processes of the folder; an interrupt reaches it when it next listens. */
export function createSessionLocks(leases: Leases): HeldLocks {
  const held = new Map<string, { readonly interrupted: AbortController; readonly timer: NodeJS.Timeout }>();
  const release = (sessionId: string): void => {
    clearInterval(held.get(sessionId)?.timer);
    if (held.delete(sessionId)) leases.give(nameOf(sessionId));
  };
  return {
    hold: async (sessionId) => {
      const name = nameOf(sessionId);
      if (held.has(sessionId) || !leases.take(name)) {
        throw new RuntimeError("SESSION_BUSY", `session ${sessionId} is already running a turn`);
      }
      const interrupted = new AbortController();
      let listens = 0;
      const listen = (): void => {
        if (leases.isInterrupted(name)) interrupted.abort();
        if (++listens % LISTENS_PER_BEAT === 0) leases.beat(name);
      };
      const timer = setInterval(() => {
        try {
          listen();
        } catch {
          // A disk that fails is told of by the turn's own appends; the next listening tries again.
        }
      }, LISTEN_MS).unref();
      held.set(sessionId, { interrupted, timer });
      return {
        interrupted: interrupted.signal,
        release: async () => {
          if (held.get(sessionId)?.timer === timer) release(sessionId);
        },
      };
    },
    isLost: (sessionId) => held.has(sessionId) && !leases.isOurs(nameOf(sessionId)),
    isHeld: async (sessionId) => leases.isTaken(nameOf(sessionId)),
    interrupt: async (sessionId) => {
      const own = held.get(sessionId);
      if (own === undefined) leases.interrupt(nameOf(sessionId));
      else own.interrupted.abort();
    },
    close: () => {
      for (const sessionId of [...held.keys()]) release(sessionId);
    },
  };
}

function nameOf(sessionId: string): string {
  return `session ${sessionId}`;
}
