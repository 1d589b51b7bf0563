import { createHash } from "node:crypto";
import { join } from "node:path";
import type { Seal } from "../../src/ports/seal.ts";
import { openKeyFile } from "../../src/stores/embedded/key-file.ts";

/** A realm's key that follows from a name. */
export function realmKey(name: string): Buffer {
  return createHash("sha256").update(name).digest();
}

/** What a folder is sealed by. */
export function sealIn(folder: string, key: Uint8Array = realmKey("a realm")): Seal {
  return openKeyFile(join(folder, "keys"), key, () => ({}));
}
