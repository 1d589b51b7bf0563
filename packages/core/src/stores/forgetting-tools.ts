import { createHmac, randomBytes } from "node:crypto";
import { verifyReceipt } from "./receipts.ts";
import { createFinder } from "./scan.ts";

/** Tells whether a text says one of some texts, in any of the forms that files are scanned for. */
function textFinder(texts: readonly string[]): (text: string | Uint8Array) => boolean {
  const finder = createFinder(texts);
  return (text) => {
    finder.read(typeof text === "string" ? Buffer.from(text) : text);
    return finder.end().length > 0;
  };
}

/** A keyed hash whose key is made now and kept nowhere: what it was made of cannot be guessed by it. */
function newMac(): (text: string) => string {
  const key = randomBytes(32);
  return (text) => createHmac("sha256", key).update(text).digest("hex");
}

/** What a forgetting needs of this machine. */
export const FORGETTING_TOOLS = { finder: textFinder, newMac, verify: verifyReceipt };
