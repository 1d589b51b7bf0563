/** A realm's own layer of the configuration, as it is kept. */
export interface KeptLayer {
  /** Counts the changes; 0 before the first. */
  readonly generation: number;
  readonly layer: Readonly<Record<string, unknown>>;
}

/** The same, to be changed. */
export interface LayerBefore {
  readonly generation: number;
  layer(): KeptLayer["layer"];
}

/** Where a realm's own layer of the configuration is kept. */
export interface ConfigStore {
  /** How sentences about what is wrong with the layer call it. */
  readonly name: string;
  /** What is kept now; throws INVALID_PARAMS, naming the file, when it cannot be read. */
  read(): KeptLayer;
  /** Whether something else is kept than was last read or changed here. Cheap: every turn asks. */
  hasChanged(): boolean;
  /**
   * Keeps what `make` makes of the layer, one writer at a time over all processes, and resolves when that survives
   * the end of the process. What `make` throws rejects, and nothing has changed. The layer from before is only read
   * when it is asked for, so that one that cannot be read can be replaced.
   */
  change(make: (before: LayerBefore) => KeptLayer["layer"]): Promise<KeptLayer>;
}
