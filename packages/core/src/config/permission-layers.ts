import { isJsonTable, type JsonTable } from "../contract/input.ts";
import { PermissionRules } from "../contract/permission.ts";
import { fieldOf, type z } from "../contract/schema.ts";

/** Rules of the configuration with their owner; rules of different owners are never mixed. */
export interface ConfiguredRules {
  /** `answer`: what people have allowed for the project by their answers. */
  readonly from: "user" | "project" | "answer";
  readonly rules: PermissionRules;
}

const answered = fieldOf(PermissionRules, "allow")
  .clone()
  .describe("what people have allowed for the project by their answers; rkat writes it");

export const FileRules = PermissionRules.extend({ answered });

/** The rules of one file as a layer; none where it says nothing. */
export function layersOf({ answered: allow = [], ...rules }: z.infer<typeof FileRules>): readonly ConfiguredRules[] {
  const layers: readonly ConfiguredRules[] = [
    { from: "project", rules },
    { from: "answer", rules: { allow } },
  ];
  return layers.filter((layer) => Object.values(layer.rules).some((patterns) => (patterns ?? []).length > 0));
}

/** The rules of the project by the keys of its file. */
export function spellRules(layers: readonly ConfiguredRules[]): JsonTable {
  const own = layers.filter(({ from }) => from !== "user");
  return own.reduce<JsonTable>(
    (table, { from, rules }) => joinRules(table, from === "answer" ? { answered: rules.allow } : rules),
    {},
  );
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
