import type { Signals } from "../ports/store.ts";

/** Who hears which session in this process. */
export interface SessionListeners extends Pick<Signals, "emit" | "subscribe"> {
  /** The sessions somebody hears. */
  received(): readonly string[];
  hasListeners(sessionId: string): boolean;
}

/** `changed` is called when a session is heard for the first time, and when nobody hears it any more. */
export function createSessionListeners(changed: () => void = () => {}): SessionListeners {
  const listeners = new Map<string, Set<(seq: number) => void>>();
  return {
    emit: (sessionId, seq) => {
      for (const received of listeners.get(sessionId) ?? []) received(seq);
    },
    subscribe: (sessionId, received) => {
      // Its own, so that whoever hears twice is told twice and ends each by itself.
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
