import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  type KeyObject,
  randomBytes,
  randomFillSync,
} from "node:crypto";
import { RuntimeError } from "../contract/error.ts";
import type { Seal } from "../ports/store.ts";

/** The store of the wrapped keys of owners. */
export interface KeyRing {
  /** Whether unencrypted data was stored before there were keys. */
  readonly hasPlain: boolean;
  find(owner: string): string | undefined;
  /** Stores a key durably unless the owner has one by now; returns the valid one. */
  add(owner: string, wrapped: string): string;
  remove(owner: string): void;
}

const ALGORITHM = "aes-256-gcm";
export const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
/** No plain text of ours begins with it, so the first byte shows whether data is sealed. */
const SEALED = 1;
const HEAD_BYTES = 1 + NONCE_BYTES + TAG_BYTES;
export const SEAL_BYTES = HEAD_BYTES;
const KEYS_MAX = 10_000;

/** Whether bytes are sealed, if the plain data is text. */
export function isSealed(bytes: Uint8Array): boolean {
  return bytes[0] === SEALED;
}

/** Seals with AES-256-GCM, by keys that the realm's key wraps. */
export function createSeal(realmKey: KeyObject, ring: KeyRing): Seal {
  const keys = new Map<string, KeyObject>();
  const known = (owner: string): KeyObject | undefined => {
    const at = keys.get(owner);
    if (at !== undefined) return at;
    const wrapped = ring.find(owner);
    return wrapped === undefined ? undefined : remember(owner, unwrapKey(realmKey, owner, wrapped));
  };
  const remember = (owner: string, key: Buffer): KeyObject => {
    if (keys.size >= KEYS_MAX) keys.clear();
    const object = createSecretKey(key);
    keys.set(owner, object);
    return object;
  };
  const keyOf = (owner: string): KeyObject => {
    const there = known(owner);
    if (there !== undefined) return there;
    const wrapped = ring.add(owner, wrapKey(realmKey, owner, randomBytes(KEY_BYTES)));
    return remember(owner, unwrapKey(realmKey, owner, wrapped));
  };
  return {
    hasPlain: ring.hasPlain,
    has: (owner) => known(owner) !== undefined,
    seal: (owner, plain, place) => sealWith(keyOf(owner), plain, place),
    open: (owner, sealed, place) => {
      const key = known(owner);
      if (key === undefined)
        throw unreadable(`the key of ${owner} is gone: what was sealed with it cannot be read again`);
      return openWith(key, sealed, { owner, place });
    },
    secret: (owner, purpose) => createHmac("sha256", keyOf(owner)).update(purpose).digest(),
    destroy: async (owner) => {
      keys.delete(owner);
      ring.remove(owner);
    },
  };
}

/** The key for stored data, undefined if it is plain; throws if it must not be plain. */
export function sealOn(kept: Uint8Array, seal: Seal | undefined, what: string): Seal | undefined {
  if (!isSealed(kept)) {
    if (seal?.hasPlain !== false) return undefined;
    throw unreadable(`${what} is plain, and this realm was always sealed: it was put there since`);
  }
  if (seal !== undefined) return seal;
  throw unreadable(`${what} is sealed; name the realm's key in [encryption]`);
}

export function idOfKey(realmKey: KeyObject): string {
  return createHmac("sha256", realmKey).update("the id of a realm's key").digest("hex").slice(0, ID_DIGITS);
}

const ID_DIGITS = 16;

export function wrapKey(realmKey: KeyObject, owner: string, key: Uint8Array): string {
  return sealWith(realmKey, key, Buffer.from(owner)).toString("base64");
}

export function unwrapKey(realmKey: KeyObject, owner: string, wrapped: string): Buffer {
  return openWith(realmKey, Buffer.from(wrapped, "base64"), { owner, place: Buffer.from(owner) });
}

const nonces = Buffer.alloc(NONCE_BYTES * 256);
let nextNonce = nonces.length;

/** From the system's random source, many at a time: one call per nonce took longer than sealing. */
function takeNonce(): Buffer {
  if (nextNonce >= nonces.length) {
    randomFillSync(nonces);
    nextNonce = 0;
  }
  nextNonce += NONCE_BYTES;
  return nonces.subarray(nextNonce - NONCE_BYTES, nextNonce);
}

function sealWith(key: KeyObject, plain: Uint8Array, place: Uint8Array): Buffer {
  const sealed = Buffer.allocUnsafe(HEAD_BYTES + plain.length);
  const nonce = takeNonce();
  const cipher = createCipheriv(ALGORITHM, key, nonce, { authTagLength: TAG_BYTES });
  cipher.setAAD(place);
  sealed[0] = SEALED;
  nonce.copy(sealed, 1);
  cipher.update(plain).copy(sealed, HEAD_BYTES);
  cipher.final();
  cipher.getAuthTag().copy(sealed, 1 + NONCE_BYTES);
  return sealed;
}

function openWith(
  key: KeyObject,
  sealed: Uint8Array,
  { owner, place }: { readonly owner: string; readonly place: Uint8Array },
): Buffer {
  if (sealed.length < HEAD_BYTES || !isSealed(sealed)) throw changed(owner);
  const decipher = createDecipheriv(ALGORITHM, key, sealed.subarray(1, 1 + NONCE_BYTES), { authTagLength: TAG_BYTES });
  decipher.setAAD(place);
  decipher.setAuthTag(sealed.subarray(1 + NONCE_BYTES, HEAD_BYTES));
  const plain = decipher.update(sealed.subarray(HEAD_BYTES));
  try {
    decipher.final();
  } catch {
    throw changed(owner);
  }
  return plain;
}

const UNREADABLE = new Error("what was sealed cannot be opened");

function changed(owner: string): RuntimeError {
  return unreadable(
    `what was sealed for ${owner} was changed since, or moved here from elsewhere; restore it from a backup`,
  );
}

function unreadable(message: string): RuntimeError {
  return new RuntimeError("SESSION_STORE_ERROR", message, { cause: UNREADABLE });
}

/** Whether the cause of a failure is unreadable sealed bytes, which concern one owner only. */
export function isUnreadable(thrown: unknown): boolean {
  return thrown instanceof RuntimeError && thrown.cause === UNREADABLE;
}
