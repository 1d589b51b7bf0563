/** Turns texts into vectors whose angle measures similarity. */
export interface Embedder {
  /** Identifies its vectors; those of another id are not comparable. */
  readonly id: string;
  readonly dimensions: number;
  /** The mean vector of unrelated texts; if absent, it is computed from a dozen. */
  readonly unrelated?: Float32Array;
  /** Vectors of length 1, one per text, in order. Some models treat questions differently. */
  embed(texts: readonly string[], kind: "passage" | "query", signal: AbortSignal): Promise<readonly Float32Array[]>;
  /** How much of a text's meaning its vectors hold, 0 to 1; if absent, all of it in every language. */
  grasp?(text: string): Promise<number>;
  close(): Promise<void>;
}
