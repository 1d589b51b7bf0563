import type { Hold, Store } from "@rkat/core/ports/store";

/** A store as one process of several sees it. After `kill` nothing it writes arrives, and what it holds is free. */
export function killableStore(shared: Store): { readonly store: Store; kill(): Promise<void> } {
  let isDead = false;
  const holds = new Set<Hold>();
  const never = new Promise<never>(() => {});
  const store: Store = {
    ...shared,
    log: {
      ...shared.log,
      append: async (...given) => (isDead ? never : shared.log.append(...given)),
    },
    locks: {
      ...shared.locks,
      hold: async (sessionId) => {
        if (isDead) return never;
        const hold = await shared.locks.hold(sessionId);
        holds.add(hold);
        const release = async (): Promise<void> => {
          if (isDead) return never;
          holds.delete(hold);
          await hold.release();
        };
        return { interrupted: hold.interrupted, release };
      },
    },
    close: async () => {},
  };
  return {
    store,
    kill: async () => {
      isDead = true;
      await Promise.all([...holds].map((hold) => hold.release()));
    },
  };
}
