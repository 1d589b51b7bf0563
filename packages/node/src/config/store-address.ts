import { readdirSync } from "node:fs";
import { join } from "node:path";
import { invalid } from "@rkat/core/contract/error";

const DATABASE = /^postgres(?:ql)?:\/\//i;
export const ADDRESS = /^[a-z][a-z0-9+.-]*:\/\//i;

/** Never with the text itself: it may hold a password. */
export function requireUrl(place: string): string {
  if (!DATABASE.test(place)) {
    const scheme = ADDRESS.exec(place)?.[0] ?? "";
    throw invalid(`a store at ${scheme} is not known; name a folder, or a database as postgres://USER@HOST/DATABASE`);
  }
  if (URL.canParse(place)) return place;
  throw invalid("the address of the database is no URL; write postgres://USER@HOST/DATABASE");
}

/** What lies in a state folder and hardly in another. */
const STATE_NAMES: readonly string[] = ["log", "agents", "config_state.json"];

export function isState(folder: string): boolean {
  return namesIn(folder).some((name) => STATE_NAMES.includes(name));
}

export function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** Opening a folder makes a store of it: a slip in its name must not. */
export function requireState(folder: string): void {
  if (isState(folder)) return;
  const near = [join(folder, ".rkat", "realms"), join(folder, "realms"), folder]
    .flatMap((parent) => namesIn(parent).map((name) => join(parent, name)))
    .filter(isState);
  const hint =
    near.length === 0 ? "rkat doctor says where sessions are kept" : `did you mean ${near.slice(0, 3).join(" or ")}?`;
  throw invalid(`nothing is kept in ${folder}; ${hint}`);
}
