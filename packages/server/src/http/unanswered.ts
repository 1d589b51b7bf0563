/** The requests of a connection that are not answered yet. */
export interface Unanswered {
  add(id: unknown): void;
  /** It was answered, or taken back. */
  forget(id: unknown): void;
  /** Resolves once every request that was heard has been answered or taken back. */
  none(): Promise<void>;
}

export function createUnanswered(): Unanswered {
  const ids = new Set<unknown>();
  let onNone: (() => void) | undefined;
  return {
    add: (id) => void ids.add(id),
    forget: (id) => {
      ids.delete(id);
      if (ids.size === 0) onNone?.();
    },
    none: () =>
      new Promise((resolve) => {
        if (ids.size === 0) resolve();
        else onNone = resolve;
      }),
  };
}
