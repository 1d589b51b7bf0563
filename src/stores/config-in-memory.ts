import type { ConfigStore, KeptLayer } from "../ports/config-store.ts";

/** A realm's own layer of the configuration that lasts as long as the process. */
export function createConfigInMemory(): ConfigStore {
  let kept: KeptLayer = { generation: 0, layer: {} };
  return {
    name: "configuration",
    read: () => kept,
    hasChanged: () => false,
    change: async (make) => {
      kept = { generation: kept.generation + 1, layer: make({ generation: kept.generation, layer: () => kept.layer }) };
      return kept;
    },
  };
}
