/** Time, randomness and ids as a parameter, so that a test can replay a schedule from a seed. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  /**
   * Resolves after `ms` (Infinity: never), or at once when `signal` aborts; it never rejects. A `background` sleep does
   * not keep the process alive.
   */
  sleep(ms: number, signal: AbortSignal, how?: "background"): Promise<void>;
  /** A number in [0, 1). */
  random(): number;
  /** A new UUID v7. */
  newId(): string;
  /**
   * Yields to the event loop. Long work calls it after every piece; it returns undefined if the last yield was only a
   * moment ago.
   */
  yieldToEventLoop(): Promise<void> | undefined;
}
