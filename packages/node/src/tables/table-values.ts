import { RuntimeError } from "@rkat/core/contract/error";
import type { Seal } from "@rkat/core/ports/seal";
import { isSealed, isUnreadable } from "@rkat/core/stores/sealing";
import { DamagedDb } from "./table-file.ts";

export type Encoding = "json" | "binary";

/** By what the values of tables are sealed, and whose they are. */
export interface SealedValues {
  readonly by: Seal;
  readonly owner: string;
}

/** How the values of a table are kept. */
export function codecOf<V>(
  table: string,
  encoding: Encoding,
  { path, sealed }: { readonly path: string; readonly sealed: SealedValues | undefined },
) {
  return {
    decode: (value: Buffer, key: Buffer): V => {
      const bytes = sealed === undefined ? value : opened(path, sealed, { value, place: placeIn(table, key) });
      if (sealed === undefined && encoding === "json" && isSealed(bytes)) throw keysAreGone(path);
      // What is read is what was put: every checksum on the way to it was right.
      return (encoding === "json" ? JSON.parse(bytes.toString()) : bytes) as V;
    },
    encode: (value: V, key: Buffer): Buffer => {
      const bytes = encodeValue(value);
      return sealed === undefined ? bytes : Buffer.from(sealed.by.seal(sealed.owner, bytes, placeIn(table, key)));
    },
  };
}

function keysAreGone(path: string): RuntimeError {
  const message = `${path} is sealed, and the keys of its realm are not there; restore the file keys from a backup`;
  return new RuntimeError("SESSION_STORE_ERROR", message);
}

/** A value opens only where it was put: none can be moved in place of another. */
function placeIn(table: string, key: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`${table} `), key]);
}

/** What does not open was not put by this realm, or was put before it was sealed. */
function opened(
  path: string,
  { by, owner }: SealedValues,
  { value, place }: { readonly value: Buffer; readonly place: Buffer },
): Buffer {
  try {
    const plain = by.open(owner, value, place);
    return Buffer.from(plain.buffer, plain.byteOffset, plain.length);
  } catch (error) {
    if (isUnreadable(error)) throw new DamagedDb(path, "a value in it does not open with this realm's key");
    throw error;
  }
}

function encodeValue(value: unknown): Buffer {
  return Buffer.from(value instanceof Uint8Array ? value : JSON.stringify(value));
}
