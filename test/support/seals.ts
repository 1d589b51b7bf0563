import { createHash } from "node:crypto";
import { join } from "node:path";
import type { Seal } from "@rkat/core/ports/store";
import { openKeyFile } from "@rkat/node/log/key-file";

/** A realm's key that follows from a name. */
export function realmKey(name: string): Buffer {
  return createHash("sha256").update(name).digest();
}

/** What a folder is sealed by. */
export function sealIn(folder: string, key: Uint8Array = realmKey("a realm")): Seal {
  return openKeyFile(join(folder, "keys"), key, () => ({}));
}
