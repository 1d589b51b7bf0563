/**
 * Signals between processes that a session's log grew: ids and seqs, never content. A receiver reads the log.
 * A word may be lost, or come twice; that the log grew is heard within a second all the same.
 */
export interface Signals {
  /** Notifies the session's subscribers, in any process, that its log reaches `seq`. Never throws, never waits. */
  emit(sessionId: string, seq: number): void;
  /** Calls `listener` when the log may have grown to `seq`; what is returned ends it. `listener` returns at once. */
  subscribe(sessionId: string, listener: (seq: number) => void): () => void;
  close(): Promise<void>;
}
