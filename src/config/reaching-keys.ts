import { isJsonTable, type JsonTable } from "../contract/input/merge-patch.ts";

/**
 * The keys that name a program, an address, a variable or a file: whoever sets one decides what is started, or where
 * keys and conversations are sent. A star stands for any name of a table.
 */
const REACHING_KEYS: readonly string[] = [
  "shell.program",
  "rest.host",
  "telemetry.enabled",
  "telemetry.endpoint",
  "telemetry.capture_content",
  "profiles.*.base_url",
  "providers.*.base_url",
  "providers.*.api_key_env",
  "self_hosted.servers.*.base_url",
  "self_hosted.servers.*.api_key_env",
];

export interface ReachingKey {
  readonly path: readonly string[];
  readonly value: unknown;
}

/** The reaching keys that a table sets, in the order of the list above. */
export function reachingKeysOf(table: JsonTable): readonly ReachingKey[] {
  return REACHING_KEYS.flatMap((pattern) => matches(table, pattern.split("."), []));
}

function matches(value: unknown, pattern: readonly string[], path: readonly string[]): readonly ReachingKey[] {
  const [name, ...rest] = pattern;
  if (name === undefined) return [{ path, value }];
  if (!isJsonTable(value)) return [];
  const names = name === "*" ? Object.keys(value) : [name].filter((key) => Object.hasOwn(value, key));
  return names.flatMap((key) => matches(value[key], rest, [...path, key]));
}
