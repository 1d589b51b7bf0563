import { RuntimeError } from "../contract/error.ts";
import { isJsonTable, type JsonTable } from "../contract/input/merge-patch.ts";
import { type Config, SWITCHES } from "./config-schema.ts";
import { reachingKeysOf } from "./reaching-keys.ts";
import { spellConfig } from "./spell-config.ts";

/** A change that somebody asks for: what holds before and after it, and the realm's own layer. */
export interface ConfigChange {
  readonly before: Config;
  readonly after: Config;
  readonly layerBefore: JsonTable;
  readonly layer: JsonTable;
}

/** What requests cannot pass; undefined where whoever asks is whoever started the process. */
export type ConfigCeiling = { readonly builtins: "none" | "safe" | "all"; readonly shell: boolean } | undefined;

/** Throws PERMISSION_DENIED for a change that switches on what is forbidden, or sets what only a person may. */
export function requirePermitted(change: ConfigChange, ceiling: ConfigCeiling): void {
  requireAllowed(change);
  if (ceiling === undefined) return;
  const { before, after } = change;
  const hasAll = { builtins: ceiling.builtins === "all", shell: ceiling.shell };
  for (const name of ["builtins", "shell"] as const) {
    const key = SWITCHES[name];
    if (before.tools[key] || !after.tools[key] || hasAll[name]) continue;
    throw denied(`tools.${key}: this server cannot switch it on; start it with --tools workspace`);
  }
  requireSameReach(change);
}

function requireAllowed({ after, layer, layerBefore }: ConfigChange): void {
  const saysTrue = ({ tools }: JsonTable, key: string) => isJsonTable(tools) && tools[key] === true;
  for (const key of after.forbidden.map((name) => SWITCHES[name])) {
    if (!saysTrue(layer, key) || saysTrue(layerBefore, key)) continue;
    throw denied(`tools.${key}: the configuration's file says tools.${key} = false, so change it there`);
  }
}

/**
 * Keys that name programs, addresses, variables or files stay what they are: as the layer has them, or as they hold,
 * which is what a client reads and writes back. What holds is not enough to look at, for a variable may hide the layer.
 */
function requireSameReach({ before, layerBefore, layer }: ConfigChange): void {
  const [now, then, held] = [layer, layerBefore, spellConfig(before)].map(valuesOf);
  for (const key of new Set([...(now?.keys() ?? []), ...(then?.keys() ?? [])])) {
    const value = now?.get(key);
    if (value === then?.get(key) || value === held?.get(key)) continue;
    throw denied(`${key}: it decides what is started or where things are sent, so it cannot be changed over HTTP`);
  }
}

function valuesOf(table: JsonTable): ReadonlyMap<string, string> {
  return new Map(reachingKeysOf(table).map(({ path, value }) => [path.join("."), JSON.stringify(value)]));
}

function denied(message: string): RuntimeError {
  return new RuntimeError("PERMISSION_DENIED", message);
}
