/**
 * Signals between processes that a session's log grew: ids and seqs, never content. The receiver reads the log. A
 * signal may be lost or repeated; growth is noticed within a second anyway.
 */
export interface Signals {
  /**
   * Signals to all subscribers of the session, in any process, that its log reaches `seq`. Never throws, never waits.
   */
  emit(sessionId: string, seq: number): void;
  /**
   * Calls `listener` when the log may have grown to `seq`; returns the function that unsubscribes. `listener` returns
   * at once.
   */
  subscribe(sessionId: string, listener: (seq: number) => void): () => void;
  close(): Promise<void>;
}
