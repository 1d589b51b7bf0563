import { RuntimeError } from "../contract/error.ts";
import { isJsonTable, type JsonTable } from "../contract/input.ts";
import { type Config, SWITCHES } from "./config-schema.ts";
import { spellConfig } from "./spell-config.ts";
import { reachingKeysOf } from "./trust-requests.ts";

/** A requested change: the configuration before and after it, and the realm's own layer. */
export interface ConfigChange {
  readonly before: Config;
  readonly after: Config;
  readonly layerBefore: JsonTable;
  readonly layer: JsonTable;
}

/** Who requests a change: the owner of the process, or a caller below its ceiling. */
export type ConfigAsker =
  | "owner"
  | {
      readonly ceiling: { readonly builtins: "none" | "safe" | "all"; readonly shell: boolean };
      /** Whether it may change what is started, and where things are sent. */
      readonly mayReach: boolean;
    };

/** Throws PERMISSION_DENIED for a change that enables forbidden tools, or sets keys that only the owner may. */
export function requirePermitted(change: ConfigChange, asker: ConfigAsker): void {
  requireAllowed(change);
  if (asker === "owner") return;
  const { ceiling, mayReach } = asker;
  const { before, after } = change;
  const hasAll = { builtins: ceiling.builtins === "all", shell: ceiling.shell };
  for (const name of ["builtins", "shell"] as const) {
    const key = SWITCHES[name];
    if (before.tools[key] || !after.tools[key] || hasAll[name]) continue;
    throw denied(`tools.${key}: this server cannot switch it on; start it with --tools workspace`);
  }
  if (!mayReach) requireSameReach(change);
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
    if (key === CEILING) throw denied(`${key}: no request passes it, so it cannot be changed over HTTP`);
    throw denied(`${key}: it decides what is started or where things are sent, so it cannot be changed over HTTP`);
  }
}

const CEILING = "ceiling";

function valuesOf(table: JsonTable): ReadonlyMap<string, string> {
  const keys = reachingKeysOf(table).map(({ path, value }) => [path.join("."), JSON.stringify(value)] as const);
  const { memory, permissions } = table;
  // A remote embedder receives the text of all sessions.
  const isRemote = isJsonTable(memory) && memory.embedder === "remote";
  const ceiling = isJsonTable(table.ceiling) && Object.keys(table.ceiling).length > 0;
  return new Map([
    ...keys,
    ...(isRemote ? [["memory.embedder", JSON.stringify(memory)] as const] : []),
    // A price of 0 would disable every cost limit.
    ...(isJsonTable(table.prices) ? [["prices", JSON.stringify(table.prices)] as const] : []),
    ...(ceiling ? [[CEILING, JSON.stringify(table.ceiling)] as const] : []),
    // Removing an `ask` rule starts programs just as adding an `allow` rule does.
    ...(isJsonTable(permissions) ? [["permissions", JSON.stringify(permissions)] as const] : []),
  ]);
}

function denied(message: string): RuntimeError {
  return new RuntimeError("PERMISSION_DENIED", message);
}
