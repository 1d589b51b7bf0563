/**
 * A part that is created after those that use it, because they need each other. Its users call `get` when they work, which
 * is after everything is composed.
 */
export interface LateBound<T> {
  get(): T;
  set(part: T): T;
}

export function lateBound<T extends object>(name: string): LateBound<T> {
  let bound: T | undefined;
  return {
    get: () => {
      if (bound === undefined) throw new Error(`${name}: used before it is composed`);
      return bound;
    },
    set: (part) => {
      bound = part;
      return part;
    },
  };
}
