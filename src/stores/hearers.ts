import type { Signals } from "../ports/signals.ts";

/** Who hears which session in this process. */
export interface Hearers extends Pick<Signals, "tell" | "hear"> {
  /** The sessions somebody hears. */
  heard(): readonly string[];
  isHeard(sessionId: string): boolean;
}

/** `changed` is called when a session is heard for the first time, and when nobody hears it any more. */
export function createHearers(changed: () => void = () => {}): Hearers {
  const hearers = new Map<string, Set<(seq: number) => void>>();
  return {
    tell: (sessionId, seq) => {
      for (const heard of hearers.get(sessionId) ?? []) heard(seq);
    },
    hear: (sessionId, heard) => {
      // Its own, so that whoever hears twice is told twice and ends each by itself.
      const own = (seq: number): void => heard(seq);
      const others = hearers.get(sessionId);
      if (others === undefined) hearers.set(sessionId, new Set([own]));
      else others.add(own);
      if (others === undefined) changed();
      return () => {
        const all = hearers.get(sessionId);
        if (all?.delete(own) !== true || all.size > 0) return;
        hearers.delete(sessionId);
        changed();
      };
    },
    heard: () => [...hearers.keys()],
    isHeard: (sessionId) => hearers.has(sessionId),
  };
}
