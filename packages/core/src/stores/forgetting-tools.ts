import { createHmac, randomBytes } from "node:crypto";
import { verifyReceipt } from "./receipts.ts";
import { createFinder } from "./scan.ts";

/** Whether a text contains one of some texts, in any of the forms that files are scanned for. */
function textFinder(texts: readonly string[]): (text: string | Uint8Array) => boolean {
  const finder = createFinder(texts);
  return (text) => {
    finder.read(typeof text === "string" ? Buffer.from(text) : text);
    return finder.end().length > 0;
  };
}

/** A keyed hash with a new key that is never stored, so that its input cannot be guessed. */
function newMac(): (text: string) => string {
  const key = randomBytes(32);
  return (text) => createHmac("sha256", key).update(text).digest("hex");
}

/** What an erasure needs of Node. */
export const FORGETTING_TOOLS = { finder: textFinder, newMac, verify: verifyReceipt };
