import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { messageOf, RuntimeError } from "../contract/error.ts";

/** A file that ships with the package, and what it must hold. */
export interface Asset {
  readonly name: string;
  readonly sha256: string;
  /** Where it lies, instead of the package's `assets/`. */
  readonly folder?: string;
}

const VOCABULARY: Asset = {
  name: "vocab.txt",
  sha256: "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
};

/** The bytes of an asset; rejects with CAPABILITY_UNAVAILABLE when it is missing or not the one that was measured. */
export async function readAsset(asset: Asset): Promise<NonSharedBuffer> {
  const bytes = await readFile(join(asset.folder ?? assetsFolder(), asset.name)).catch((cause: unknown) => {
    throw new RuntimeError("CAPABILITY_UNAVAILABLE", `${asset.name} cannot be read: ${messageOf(cause)}`, { cause });
  });
  // Off the event loop, unlike `createHash`: 34 MB would hold up a turn.
  const digest = await crypto.subtle.digest("SHA-256", bytes);
  if (Buffer.from(digest).toString("hex") === asset.sha256) return bytes;
  throw new RuntimeError("CAPABILITY_UNAVAILABLE", `${asset.name} is damaged: its sha256 is not ${asset.sha256}`);
}

export async function readVocabulary(): Promise<readonly string[]> {
  return new TextDecoder()
    .decode(await readAsset(VOCABULARY))
    .trimEnd()
    .split("\n");
}

/** By the package's own name: sources and bundle lie at different depths. */
function assetsFolder(): string {
  return join(dirname(createRequire(import.meta.url).resolve("rkat/package.json")), "assets");
}
