import { isJsonTable, type JsonTable } from "../contract/input.ts";
import type { PermissionRules } from "../contract/permission.ts";

/** Rules of the configuration with whose they are; those of different owners are never mixed. */
export interface ConfiguredRules {
  readonly from: "user" | "project";
  readonly rules: PermissionRules;
}

/** The rules of one file as a layer; none where it says nothing. */
export function layersOf(
  rules: PermissionRules,
  from: ConfiguredRules["from"] = "project",
): readonly ConfiguredRules[] {
  const said = Object.values(rules).some((patterns) => patterns !== undefined && patterns.length > 0);
  return said ? [{ from, rules }] : [];
}

/** The rules of the project by the keys of its file. */
export function spellRules(layers: readonly ConfiguredRules[]): JsonTable {
  return layers
    .filter(({ from }) => from === "project")
    .reduce<JsonTable>((table, { rules }) => joinRules(table, rules), {});
}

/** A table with the rules of both: the realm's own layer adds to what the file says and takes nothing of it away. */
export function withBothRules(merged: JsonTable, file: JsonTable, realm: JsonTable): JsonTable {
  if (!isJsonTable(file.permissions) || !isJsonTable(realm.permissions)) return merged;
  return { ...merged, permissions: joinRules(file.permissions, realm.permissions) };
}

function joinRules(first: JsonTable, second: JsonTable): JsonTable {
  const keys = new Set([...Object.keys(first), ...Object.keys(second)]);
  return Object.fromEntries(
    [...keys].map((key) => {
      const [one, other] = [first[key], second[key]];
      if (Array.isArray(one) && Array.isArray(other)) return [key, [...new Set([...one, ...other])]];
      return [key, other ?? one];
    }),
  );
}
