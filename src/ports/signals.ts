/**
 * A word between processes that a session's log grew: ids and seqs, never what was said. Whoever hears it reads the log.
 * A word may be lost, or come twice; that the log grew is heard within a second all the same.
 */
export interface Signals {
  /** Tells whoever hears the session, in this process or another, that its log reaches `seq`. Never throws, never waits. */
  tell(sessionId: string, seq: number): void;
  /** Calls `heard` when the log may have grown to `seq`; what is returned ends it. `heard` returns at once. */
  hear(sessionId: string, heard: (seq: number) => void): () => void;
  close(): Promise<void>;
}
