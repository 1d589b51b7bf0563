import { readFileSync } from "node:fs";
import { unpackedIn } from "@rkat/node/tables/packing";

/** Whether a file of a state folder holds a text, as it stands or packed. */
export function holdsText(path: string, text: string): boolean {
  const bytes = readFileSync(path);
  return [bytes, ...unpackedIn(bytes)].some((kept) => kept.includes(text));
}
