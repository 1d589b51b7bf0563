import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign, verify } from "node:crypto";
import type { SignedReceipt } from "../ports/store.ts";

const KIND = "ed25519";

/** A private key for a realm, as PEM. */
export function makeKey(): string {
  const { privateKey } = generateKeyPairSync(KIND);
  return privateKey.export({ type: "pkcs8", format: "pem" }).toString();
}

/** Signs the exact bytes of a receipt; throws for an invalid key. */
export function signReceipt(receipt: string, key: string): SignedReceipt {
  const privateKey = createPrivateKey(key);
  const public_key = createPublicKey(privateKey).export({ type: "spki", format: "pem" }).toString();
  return { receipt, signature: sign(null, Buffer.from(receipt), privateKey).toString("base64"), public_key };
}

/** Whether a receipt is exactly what the owner of its key signed; who that is must be known otherwise. */
export function verifyReceipt({ receipt, signature, public_key }: SignedReceipt): boolean {
  const key = publicKey(public_key);
  if (key === undefined) return false;
  const bytes = Buffer.from(signature, "base64");
  // Node skips invalid base64; only the canonical spelling is accepted.
  return bytes.toString("base64") === signature && verify(null, Buffer.from(receipt), key, bytes);
}

function publicKey(pem: string): KeyObject | undefined {
  try {
    const key = createPublicKey(pem);
    return key.asymmetricKeyType === KIND ? key : undefined;
  } catch {
    // An invalid key has signed nothing.
    return undefined;
  }
}
