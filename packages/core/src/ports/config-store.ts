/** The stored configuration layer of a realm. */
export interface KeptLayer {
  /** The number of changes; 0 before the first. */
  readonly generation: number;
  readonly layer: Readonly<Record<string, unknown>>;
}

export interface LayerBefore {
  readonly generation: number;
  layer(): KeptLayer["layer"];
}

/** Stores the configuration layer of a realm. */
export interface ConfigStore {
  /** Its name in error sentences. */
  readonly name: string;
  /** The current layer; throws INVALID_PARAMS with the file if it is unreadable. */
  read(): KeptLayer;
  /** Whether the stored layer differs from the last one read or written here. Cheap: called before every turn. */
  hasChanged(): boolean;
  /**
   * Stores the result of `make`, one writer at a time across processes; resolves when it is durable. An error of `make`
   * rejects without a change. The old layer is read only on request, so that an unreadable one can be replaced.
   */
  change(make: (before: LayerBefore) => KeptLayer["layer"]): Promise<KeptLayer>;
}
