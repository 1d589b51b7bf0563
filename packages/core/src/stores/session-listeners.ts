import type { Signals } from "../ports/store.ts";

/** The subscribers of each session in this process. */
export interface SessionListeners extends Pick<Signals, "emit" | "subscribe"> {
  received(): readonly string[];
  hasListeners(sessionId: string): boolean;
}

/** Calls `changed` when a session gets its first subscriber, and when it loses its last. */
export function createSessionListeners(changed: () => void = () => {}): SessionListeners {
  const listeners = new Map<string, Set<(seq: number) => void>>();
  return {
    emit: (sessionId, seq) => {
      for (const received of listeners.get(sessionId) ?? []) received(seq);
    },
    subscribe: (sessionId, received) => {
      // A function per subscription, so that a caller who subscribes twice is called twice and ends each separately.
      const own = (seq: number): void => received(seq);
      const others = listeners.get(sessionId);
      if (others === undefined) listeners.set(sessionId, new Set([own]));
      else others.add(own);
      if (others === undefined) changed();
      return () => {
        const all = listeners.get(sessionId);
        if (all?.delete(own) !== true || all.size > 0) return;
        listeners.delete(sessionId);
        changed();
      };
    },
    received: () => [...listeners.keys()],
    hasListeners: (sessionId) => listeners.has(sessionId),
  };
}
