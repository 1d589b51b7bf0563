/** Time, randomness and ids, handed in so that a test can replay a schedule from a seed. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  /**
   * Resolves after `ms` (Infinity: never), or at once when `signal` aborts; it never rejects. What sleeps `behind`
   * everything else does not keep the process from ending.
   */
  sleep(ms: number, signal: AbortSignal, how?: "background"): Promise<void>;
  /** A number in [0, 1). */
  random(): number;
  /** A new UUID v7. */
  newId(): string;
  /**
   * Lets whatever else waits have its turn. Long work asks after every piece of it; where the last time is only a
   * moment ago there is nothing to wait for.
   */
  yieldToEventLoop(): Promise<void> | undefined;
}
