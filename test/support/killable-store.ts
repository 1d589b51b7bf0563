import type { Hold, Store } from "@rkat/core/ports/store";

/** A store as one process of several sees it. */
interface KillableStore {
  readonly store: Store;
  /** From now on nothing that the process writes arrives, and what it holds is free. */
  kill(): Promise<void>;
  /** The process stands still so long that others may take what it holds; then it goes on, not knowing. */
  pause(): Promise<() => void>;
  /** Writes fail until the returned function is called. */
  lose(): () => void;
}

export function killableStore(shared: Store): KillableStore {
  let isDead = false;
  let isAway = false;
  let paused: Promise<void> | undefined;
  const holds = new Set<Hold>();
  const never = new Promise<never>(() => {});
  const reaching = async (): Promise<void> => {
    if (isDead) await never;
    await paused;
    if (isDead) await never;
    if (isAway) throw new Error("the database is away");
  };
  const expire = async (): Promise<void> => {
    await Promise.all([...holds].map((hold) => hold.abandon?.()));
    holds.clear();
  };
  const store: Store = {
    ...shared,
    log: {
      ...shared.log,
      append: async (...given) => {
        await reaching();
        return shared.log.append(...given);
      },
    },
    locks: {
      ...shared.locks,
      hold: async (sessionId) => {
        await reaching();
        const hold = await shared.locks.hold(sessionId);
        // Its end came while the lock was on the way.
        if (isDead) {
          await hold.abandon?.();
          await never;
        }
        holds.add(hold);
        const release = async (): Promise<void> => {
          if (isDead) return never;
          // A hold that has expired is no longer this process's to release.
          if (holds.delete(hold)) await hold.release();
        };
        const abandon = async (): Promise<void> => {
          if (isDead) return never;
          if (holds.delete(hold)) await hold.abandon?.();
        };
        const onNote = (listener: (note: string) => void) =>
          hold.onNote?.((note) => (isDead ? undefined : listener(note)));
        return { ...hold, onNote, release, abandon };
      },
    },
    close: async () => {},
  };
  return {
    store,
    kill: async () => {
      isDead = true;
      await expire();
    },
    pause: async () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      paused = promise;
      await expire();
      return () => {
        paused = undefined;
        resolve();
      };
    },
    lose: () => {
      isAway = true;
      return () => {
        isAway = false;
      };
    },
  };
}
