/** A file with the user's instructions for models, as it is now. */
export interface AgentsMdFile {
  /** Its name for people and for the log: the path from the project's folder. */
  readonly key: string;
  /** Undefined if it cannot be read, or is not trusted as it is now: a version that a session has stays. */
  readonly text: string | undefined;
}

/** Reads the files at the start of a turn, the farthest first, with a sentence about each new problem. */
export type ReadAgentsMd = () => Promise<{
  readonly files: readonly AgentsMdFile[];
  readonly warnings: readonly string[];
}>;
