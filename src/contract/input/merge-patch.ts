export type JsonTable = Readonly<Record<string, unknown>>;

/** What we keep is a few tables deep; whatever lies deeper is taken as it is, for a schema to refuse. */
const DEPTH_MAX = 16;

/** A table after a patch of RFC 7396: tables are merged, null removes, anything else replaces. */
export function mergePatch(target: JsonTable, patch: JsonTable, depth = 1): JsonTable {
  const merged = new Map(Object.entries(target));
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) merged.delete(key);
    else if (!isJsonTable(value) || depth >= DEPTH_MAX) merged.set(key, value);
    else {
      const before = merged.get(key);
      merged.set(key, mergePatch(isJsonTable(before) ? before : {}, value, depth + 1));
    }
  }
  return Object.fromEntries(merged);
}

/** True of a plain object, not of a list or of what a parser makes of a date. */
export function isJsonTable(value: unknown): value is JsonTable {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}
