import type { Caller } from "../contract/caller.ts";
import { type ConfigEnvelope, type ConfiguredRealm, withSubAgents } from "../contract/config.ts";
import { asRuntimeError, invalid, RuntimeError } from "../contract/error.ts";
import { mergePatch } from "../contract/input.ts";
import type { JsonTable } from "../contract/json.ts";
import type { ConfigStore, LayerBefore } from "../ports/store.ts";
import type { Service } from "./dispatch.ts";

type ConfigOperations = Pick<Service, "readConfig" | "setConfig" | "patchConfig">;

/** The configuration of a runtime and the operations that change it. */
export interface Configuration<D> {
  /** The current settings, including changes of other processes; running work keeps the settings it began with. */
  current(): D;
  readonly operations: ConfigOperations;
  /** How many of the realm's settings contain the text; throws PERMISSION_DENIED if the caller may not remove them. */
  saying(finds: Finds, caller: Caller | undefined): number;
  /** Removes those settings for a caller that was checked before; the file is rewritten without comments. */
  erase(finds: Finds): Promise<void>;
}

type Finds = (text: string) => boolean;

export interface ConfigurationParts<C, D> {
  readonly config: C;
  readonly store: ConfigStore;
  /** Merges the realm's own layer, which error sentences call by `name`; throws INVALID_PARAMS. */
  compose(layer: JsonTable, name: string): C;
  /** The part of a requested layer that is stored. */
  own(layer: JsonTable, config: C): JsonTable;
  /** Derives the settings from a configuration; throws if it is unusable. */
  derive(config: C): D;
  /** The configuration by the keys of its file. */
  spell(config: C): JsonTable;
  fixed(config: C): Readonly<Record<string, unknown>>;
  /** Throws PERMISSION_DENIED for a change the caller may not make. */
  permit(
    change: {
      readonly before: C;
      readonly after: C;
      readonly layerBefore: JsonTable;
      readonly layer: JsonTable;
    },
    caller: Caller | undefined,
  ): void;
  readonly realm: ConfiguredRealm;
  /** Called when a layer written by another process is unusable. */
  readonly warn: (sentence: string) => void;
}

export function createConfiguration<C, D>(parts: ConfigurationParts<C, D>): Configuration<D> {
  const { store, compose, derive, realm } = parts;
  const fixed = parts.fixed(parts.config);
  const made = (layer: JsonTable, name: string) => {
    const config = compose(layer, name);
    return { config, derived: derive(config) };
  };
  const first = store.read();
  let { generation } = first;
  // Another process may have changed it since it was read at start.
  let now = generation === 0 ? { config: parts.config, derived: derive(parts.config) } : made(first.layer, store.name);
  const refresh = (): void => {
    if (!store.hasChanged()) return;
    try {
      const kept = store.read();
      now = made(kept.layer, store.name);
      generation = kept.generation;
    } catch (thrown) {
      parts.warn(`${asRuntimeError(thrown).message}; the configuration from before is used until this is fixed`);
    }
  };
  const envelope = (): ConfigEnvelope => {
    const pending = Object.entries(parts.fixed(now.config)).filter(
      ([key, value]) => JSON.stringify(value) !== JSON.stringify(fixed[key]),
    );
    const restart = pending.length === 0 ? {} : { restart_required: pending.map(([key]) => key) };
    return { config: structuredClone(parts.spell(now.config)), generation, ...restart, ...realm };
  };
  const change = async (
    make: (layer: () => JsonTable) => JsonTable,
    { name, expected, caller }: Asked,
  ): Promise<ConfigEnvelope> => {
    refresh();
    let next = now;
    const kept = await store.change((before) => {
      requireGeneration(expected, before);
      const layer = parts.own(make(before.layer), now.config);
      next = made(layer, name);
      const change = { before: now.config, after: next.config, layerBefore: layerOrNothing(before), layer };
      parts.permit(change, caller);
      return layer;
    });
    now = next;
    generation = kept.generation;
    return envelope();
  };
  /** A layer without the settings that contain the text; a section that requires such a setting is removed whole. */
  const cleaned = (before: JsonTable, finds: Finds) => {
    const isSaid = (value: unknown): boolean => textsIn(value).some(finds);
    const sections = Object.fromEntries(Object.entries(before).filter(([, section]) => !isSaid(section)));
    for (const left of [withoutSaying(before, finds), sections]) {
      const layer = parts.own(left, now.config);
      try {
        return { layer, next: made(layer, store.name) };
      } catch (thrown) {
        if (left === sections) throw thrown;
      }
    }
    return { layer: before, next: now };
  };
  return {
    saying: (finds, caller) => {
      refresh();
      const layerBefore = layerOrNothing({ generation, layer: () => store.read().layer });
      const count = textsIn(layerBefore).filter(finds).length;
      if (count === 0) return 0;
      const { layer, next } = cleaned(layerBefore, finds);
      parts.permit({ before: now.config, after: next.config, layerBefore, layer }, caller);
      return count;
    },
    erase: async (finds) => {
      if (!textsIn(layerOrNothing({ generation, layer: () => store.read().layer })).some(finds)) return;
      let next = now;
      const kept = await store.change((before) => {
        const left = cleaned(layerOrNothing(before), finds);
        next = left.next;
        return left.layer;
      });
      now = next;
      generation = kept.generation;
    },
    current: () => {
      refresh();
      return now.derived;
    },
    operations: {
      readConfig: async () => {
        refresh();
        return envelope();
      },
      setConfig: ({ config, expected_generation }, { caller }) =>
        change(() => config, { name: "config", expected: expected_generation, caller }),
      patchConfig: ({ patch, expected_generation }, { caller }) =>
        change((layer) => mergePatch(withSubAgents(readable(layer)), patch), {
          name: "patch",
          expected: expected_generation,
          caller,
        }),
    },
  };
}

/** The text values of a layer; setting names are not user data. */
function textsIn(value: unknown): readonly string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(textsIn) : [];
}

/** A layer without the values and list items that contain the text. */
function withoutSaying<V>(value: V, finds: Finds): V {
  if (typeof value !== "object" || value === null) return value;
  const left = Object.entries(value).filter(([, field]) => typeof field !== "string" || !finds(field));
  const cleaned = left.map(([name, field]) => [name, withoutSaying(field, finds)] as const);
  // The same shape with fewer fields.
  return (Array.isArray(value) ? cleaned.map(([, field]) => field) : Object.fromEntries(cleaned)) as V;
}

interface Asked {
  /** How error sentences call the input. */
  readonly name: string;
  readonly expected: number | null | undefined;
  readonly caller: Caller | undefined;
}

/** An unreadable layer can be replaced. */
function layerOrNothing(before: LayerBefore): JsonTable {
  try {
    return before.layer();
  } catch {
    return {};
  }
}

/** Paths are shown to the operator of the process, not to its clients. */
function readable(layer: () => JsonTable): JsonTable {
  try {
    return layer();
  } catch (cause) {
    const message = "the realm's config.toml cannot be read, so it cannot be patched; set it as a whole, or fix it";
    throw invalid(message, cause);
  }
}

function requireGeneration(expected: number | null | undefined, { generation: current }: LayerBefore): void {
  if (expected === undefined || expected === null || expected === current) return;
  const details = { type: "generation_conflict", expected_generation: expected, current_generation: current };
  const message = `Generation conflict: expected ${expected}, current ${current}`;
  throw new RuntimeError("INVALID_PARAMS", message, { details });
}
