// Seals for owners in a folder's keys, or changes its realm's key to and fro until it is killed, telling what it did.
import { join } from "node:path";
import { openKeyFile, rotateKeyFile } from "@rkat/node/log/key-file";
import { realmKey } from "../support/seals.ts";

const [what = "", folder = "", ...owners] = process.argv.slice(2);
const path = join(folder, "keys");

if (what === "seal") {
  const seal = openKeyFile(path, realmKey("one"), () => ({}));
  for (const owner of owners) {
    const sealed = Buffer.from(seal.seal(owner, Buffer.from(`said by ${owner}`), Buffer.from(owner)));
    process.stdout.write(`${owner} ${sealed.toString("base64")}\n`);
  }
} else {
  for (;;) {
    for (const [from, to] of [
      ["one", "two"],
      ["two", "one"],
    ] as const) {
      rotateKeyFile(path, realmKey(from), realmKey(to));
      process.stdout.write(`${to}\n`);
    }
  }
}
