import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { messageOf } from "@rkat/core/contract/error";
import type { Seal } from "@rkat/core/ports/store";
import { toNewEntries } from "@rkat/core/state/entry-events";
import { rotateKeyFile } from "@rkat/node/log/key-file";
import { openEmbeddedStore } from "@rkat/node/open-runtime";
import { afterAll, describe, expect, it } from "vitest";
import { byEffort } from "../support/effort.ts";
import { created, idOf, said } from "../support/entries.ts";
import { realmKey, sealIn } from "../support/seals.ts";
import { testSeed } from "../support/seed.ts";
import { createRandom } from "./random.ts";

const root = mkdtempSync(join(tmpdir(), "rkat-keys-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const newFolder = () => mkdtempSync(join(root, "folder-"));
const TIMEOUT_MS = 600_000;
const KILLS = byEffort({ usual: 3, full: 100 });
const OWNERS = Array.from({ length: byEffort({ usual: 40, full: 400 }) }, (_, at) => `owner ${at}`);

const place = (owner: string) => Buffer.from(owner);
const sealedBy = (seal: Seal, owner: string) => seal.seal(owner, Buffer.from(`said by ${owner}`), place(owner));
const openedBy = (seal: Seal, owner: string, sealed: Uint8Array) =>
  Buffer.from(seal.open(owner, sealed, place(owner))).toString();

/** Starts the process beside; `until` is asked with every line, and kills it when it is true. */
async function run(words: readonly string[], until: (lines: readonly string[]) => boolean = () => false) {
  const script = join(import.meta.dirname, "sealing-process.ts");
  const child = spawn(process.execPath, [script, ...words], { stdio: ["ignore", "pipe", "pipe"] });
  let [output, errors] = ["", ""];
  child.stderr.on("data", (chunk) => {
    errors += chunk;
  });
  child.stdout.on("data", (chunk) => {
    output += chunk;
    if (until(output.split("\n").slice(0, -1))) child.kill("SIGKILL");
  });
  const [code, signal] = await new Promise<[number | null, string | null]>((resolve) =>
    child.on("close", (...ended) => resolve(ended)),
  );
  return { lines: output.split("\n").slice(0, -1), errors, code, signal };
}

describe("the keys of a realm", () => {
  it(
    "[K2] two processes that seal for the same owners at once have the same keys, and lose none",
    async () => {
      const folder = newFolder();
      const backwards = [...OWNERS].reverse();
      const ended = await Promise.all([run(["seal", folder, ...OWNERS]), run(["seal", folder, ...backwards])]);
      expect(ended.map(({ code, errors }) => ({ code, errors }))).toEqual([
        { code: 0, errors: "" },
        { code: 0, errors: "" },
      ]);
      const seal = sealIn(folder, realmKey("one"));
      for (const line of ended.flatMap(({ lines }) => lines)) {
        const [owner = "", sealed = ""] = [line.slice(0, line.lastIndexOf(" ")), line.slice(line.lastIndexOf(" ") + 1)];
        expect(openedBy(seal, owner, Buffer.from(sealed, "base64"))).toBe(`said by ${owner}`);
      }
      const lines = readFileSync(join(folder, "keys"), "utf8").split("\n").slice(1, -1);
      expect(lines).toHaveLength(OWNERS.length);
    },
    TIMEOUT_MS,
  );

  it(
    `[K2] killed at ${KILLS} moments of a change of the key, a realm has the one or the other, and everything opens`,
    async () => {
      const folder = newFolder();
      const seed = testSeed();
      const random = createRandom(seed);
      const first = sealIn(folder, realmKey("one"));
      const kept = OWNERS.map((owner) => [owner, sealedBy(first, owner)] as const);
      for (let kill = 0; kill < KILLS; kill += 1) {
        const after = 1 + Math.floor(random() * 20);
        const spins = Math.floor(random() * 2_000_000);
        const { signal, errors } = await run(["rotate", folder], (lines) => {
          for (let spin = 0; lines.length >= after && spin < spins; spin += 1);
          return lines.length >= after;
        });
        expect({ seed, kill, signal, errors }).toEqual({ seed, kill, signal: "SIGKILL", errors: "" });
        const opened = ["one", "two"].filter((name) => {
          try {
            const seal = sealIn(folder, realmKey(name));
            return kept.every(([owner, sealed]) => openedBy(seal, owner, sealed) === `said by ${owner}`);
          } catch (error) {
            expect(messageOf(error)).toContain("names another key than this realm's");
            return false;
          }
        });
        expect({ seed, kill, opened: opened.length }).toEqual({ seed, kill, opened: 1 });
        // To the key that the process begins with; what it has already is no fault.
        rotateKeyFile(join(folder, "keys"), realmKey("two"), realmKey("one"));
      }
    },
    TIMEOUT_MS,
  );

  it("[K2] a key is in the file before its first use, and a process that has the realm's old key makes no more", () => {
    const folder = newFolder();
    const seal = sealIn(folder, realmKey("one"));
    const sealed = sealedBy(seal, "ann");
    expect(openedBy(sealIn(folder, realmKey("one")), "ann", sealed)).toBe("said by ann");
    rotateKeyFile(join(folder, "keys"), realmKey("one"), realmKey("two"));
    expect(openedBy(seal, "ann", sealed)).toBe("said by ann");
    expect(() => sealedBy(seal, "ben")).toThrow("names another key than this realm's");
    expect(openedBy(sealIn(folder, realmKey("two")), "ann", sealed)).toBe("said by ann");
    expect(rotateKeyFile(join(folder, "keys"), realmKey("one"), realmKey("two"))).toBe(false);
  });

  it("[K2] sealed bytes open for their owner, at their place and as they were, and nowhere else", () => {
    const seal = sealIn(newFolder());
    const sealed = sealedBy(seal, "ann");
    sealedBy(seal, "ben");
    expect(() => seal.open("ben", sealed, place("ann"))).toThrow("was changed since, or moved here from elsewhere");
    expect(() => seal.open("ann", sealed, place("ben"))).toThrow("was changed since, or moved here from elsewhere");
    for (let at = 0; at < sealed.length; at += 1) {
      const flipped = Buffer.from(sealed);
      flipped[at] = (flipped[at] ?? 0) ^ 1;
      expect(() => seal.open("ann", flipped, place("ann"))).toThrow("was changed since");
      expect(() => seal.open("ann", sealed.subarray(0, at), place("ann"))).toThrow("was changed since");
    }
    expect(Buffer.from(sealed).equals(Buffer.from(sealedBy(seal, "ann")))).toBe(false);
  });

  it("[K2] torn at any byte loses what is not whole and nothing else, and is never written over", async () => {
    const folder = newFolder();
    const ids = [1, 2, 3].map(idOf);
    const store = await openEmbeddedStore(folder, { seal: sealIn(folder) });
    for (const id of ids) await store.log.append(id, 0, toNewEntries([created, said(`from ${id}`)]));
    await store.close();
    const path = join(folder, "keys");
    const whole = readFileSync(path);
    const headEnd = whole.indexOf(10) + 1;
    const step = byEffort({ usual: 23, full: 1 });
    for (let bytes = 0; bytes <= whole.length; bytes += step) {
      writeFileSync(path, whole.subarray(0, bytes));
      if (bytes < headEnd) {
        expect(() => sealIn(folder)).toThrow(
          "is damaged at its beginning; restore it from a backup, nothing was changed",
        );
        expect(readFileSync(path)).toEqual(whole.subarray(0, bytes));
        continue;
      }
      const lines = whole.subarray(0, bytes).toString().split("\n").slice(0, -1);
      const hasKey = (owner: string) => lines.some((line) => line.includes(`"owner":"${owner}"`));
      const torn = await openEmbeddedStore(folder, { seal: sealIn(folder) });
      for (const id of ids) {
        const reported = await torn.log.read(id, 1, 10).then((entries) => entries.length, messageOf);
        expect(reported).toBe(
          hasKey(id) ? 2 : `the key of ${id} is gone: what was sealed with it cannot be read again`,
        );
        if (!hasKey(id)) await expect(torn.log.append(id, 2, toNewEntries([said("more")]))).rejects.toThrow("is gone");
      }
      await torn.close();
      // What stands there is a beginning of what stood there; only what the index is sealed by may be made again.
      expect(readFileSync(path).subarray(0, headEnd)).toEqual(whole.subarray(0, headEnd));
    }
  });

  it("[K2] a key that is destroyed is nowhere in the folder, and its log alone is unreadable", async () => {
    const folder = newFolder();
    const [gone, stays] = [idOf(1), idOf(2)];
    const seal = sealIn(folder);
    const store = await openEmbeddedStore(folder, { seal });
    for (const id of [gone, stays]) await store.log.append(id, 0, toNewEntries([created, said("hello")]));
    const line =
      readFileSync(join(folder, "keys"), "utf8")
        .split("\n")
        .find((one) => one.includes(gone)) ?? "";
    await seal.destroy(gone);
    await seal.destroy(gone);
    await store.close();
    expect(line).not.toBe("");
    expect(readFileSync(join(folder, "keys"), "utf8")).not.toContain(gone);
    expect(existsSync(join(folder, "keys.new"))).toBe(false);
    const again = await openEmbeddedStore(folder, { seal: sealIn(folder) });
    await expect(again.log.read(gone, 1, 10)).rejects.toThrow(`the key of ${gone} is gone`);
    expect(await again.log.read(stays, 1, 10)).toHaveLength(2);
    await again.log.append(stays, 2, toNewEntries([said("more")]));
    await again.close();
  });

  it("[K2] a damaged line stops a change of the key, which would lose it", () => {
    const folder = newFolder();
    const path = join(folder, "keys");
    const seal = sealIn(folder, realmKey("one"));
    for (const owner of ["ann", "ben"]) sealedBy(seal, owner);
    const text = readFileSync(path, "utf8").replace("ann", "Ann");
    writeFileSync(path, text);
    expect(() => rotateKeyFile(path, realmKey("one"), realmKey("two"))).toThrow("is damaged at line 2; restore it");
    expect(readFileSync(path, "utf8")).toBe(text);
  });
});
