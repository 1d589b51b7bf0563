/** Turns texts into vectors whose angle says how alike they are. */
export interface Embedder {
  /** Names the vectors it makes; those of another id cannot be compared with them. */
  readonly id: string;
  readonly dimensions: number;
  /** The mean of its vectors of unrelated texts; where it is absent, it is made of a dozen of them. */
  readonly unrelated?: Float32Array;
  /** Vectors of length 1, one a text, in their order. Some models treat a question differently from what answers it. */
  embed(texts: readonly string[], kind: "passage" | "query", signal: AbortSignal): Promise<readonly Float32Array[]>;
  /** How much of a text's meaning its vectors hold, 0 to 1; where it is absent, all of it in every language. */
  grasp?(text: string): Promise<number>;
  close(): Promise<void>;
}
