import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openKeyFile } from "@rkat/node/log/key-file";
import { openEmbeddedStore } from "@rkat/node/open-runtime";
import { newRealmKey } from "@rkat/node/sealed-realm";
import { describe, expect, it } from "vitest";
import { useCommandLine } from "./support/command-line.ts";

const line = useCommandLine();
const { run } = line;
const [one, two] = [newRealmKey(), newRealmKey()];
const env = { ONE_KEY: one, TWO_KEY: two, OTHER_KEY: newRealmKey(), RKAT_TRUST: "1" };

const useKey = (name: string | undefined): void =>
  writeFileSync(
    join(line.cwd, "rkat.toml"),
    `[memory]\nembedder = "hashing"\n${name === undefined ? "" : `[encryption]\nkey_env = "${name}"\n`}`,
  );
const filesHere = (): readonly string[] =>
  readdirSync(line.cwd, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));

describe("rkat encryption", () => {
  it("[K2] makes keys, of which no two are the same", async () => {
    const [first, second] = [await run(["encryption", "key"]), await run(["encryption", "key"])];
    expect(first.stdout).toMatch(/^[A-Za-z0-9+/]{43}=\n$/);
    expect(second.stdout).not.toBe(first.stdout);
  });

  it("[K2] seals what is said, says so, and changes the key", async () => {
    expect((await run(["encryption", "status", "--json"], { env })).stdout).toContain('"sealed": false');
    useKey("ONE_KEY");
    expect(await run(["run", "Remember zanzibarword.", "--model", "offline"], { env })).toMatchObject({ code: 0 });
    expect(filesHere().filter((path) => readFileSync(path).includes("zanzibarword"))).toEqual([]);
    expect((await run(["session", "list"], { env })).stdout).toContain("zanzibarword");
    expect((await run(["doctor"], { env })).stdout).toMatch(/encryption +encrypted with the key [0-9a-f]{16}/);
    expect((await run(["doctor", "--verify"], { env })).stdout).toContain("every checksum is right");

    expect(await run(["encryption", "rotate", "--to-env", "TWO_KEY"], { env })).toMatchObject({ code: 0 });
    expect(await run(["session", "list"], { env })).toMatchObject({
      code: 31,
      stderr: expect.stringContaining("[encryption] names another key than this realm's"),
    });
    expect((await run(["encryption", "rotate", "--to-env", "TWO_KEY"], { env })).stdout).toContain(
      "has this key already",
    );
    useKey("TWO_KEY");
    expect((await run(["session", "list"], { env })).stdout).toContain("zanzibarword");
    for (const key of [one, two]) expect(filesHere().filter((path) => readFileSync(path).includes(key))).toEqual([]);
  });

  it("[K2] refuses what is no key in one sentence, without a letter of it", async () => {
    useKey("ONE_KEY");
    const reported = await run(["session", "list"], { env: { ...env, ONE_KEY: "hunter2" } });
    const { stderr } = await run(["run", "Hello.", "--model", "offline"], { env: { ...env, ONE_KEY: "hunter2" } });
    expect(stderr).toBe(
      "Error: the variable of encryption.key_env, ONE_KEY, does not hold a key; write 32 bytes as base64 or hex, as rkat encryption key prints them\n",
    );
    expect(reported.stdout + reported.stderr).not.toContain("hunter2");
    const without = await run(["encryption", "rotate", "--to-env", "A", "--to-file", "b"], { env });
    expect(without.stderr).toContain("name the next key once: --to-file, --to-env or --to-command");
  });
});

const REALM = ["--state-root", "state", "--realm", "main"];
const inRealm = (...words: readonly string[]) => run([...words, ...REALM], { env });
const folder = (): string => join(line.cwd, "state", "main");
const say = (text: string) => inRealm("run", text, "--model", "offline");

/** What a realm keeps, byte by byte. */
function bytesOf(place: string): ReadonlyMap<string, string> {
  const files = readdirSync(place, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const kept = files.map((entry) => join(entry.parentPath, entry.name)).filter((path) => !/leases-|-lock$/.test(path));
  return new Map(kept.map((path) => [path, readFileSync(path).toString("base64")]));
}

describe("an encrypted realm, a key, and an operation", () => {
  const KEYS = {
    "the right key": { key: "ONE_KEY", isRotated: false },
    "a wrong key": { key: "OTHER_KEY", isRotated: false },
    "the new key after a rotation": { key: "TWO_KEY", isRotated: true },
    "the old key after a rotation": { key: "ONE_KEY", isRotated: true },
    "no key": { key: undefined, isRotated: false },
  } as const;
  /** The words of each operation; those of `keyed` name the key by a flag in place of the configuration. */
  const OPERATIONS = {
    "restore of a back-up made before": (_: string | undefined) => ["restore", "before.tar", "--to", "restored"],
    "restore of a back-up made after": (_: string | undefined) => ["restore", "after.tar", "--to", "restored"],
    "restore of the first with --key-file": (_: string | undefined) => [
      "restore",
      "before.tar",
      "--to",
      "restored",
      "--key-file",
      "ONE_KEY",
    ],
    copy: (key: string | undefined) => [
      "store",
      "copy",
      folder(),
      join(line.cwd, "copied"),
      ...(key === undefined ? [] : ["--from-key-file", join(line.cwd, key)]),
    ],
    export: (_: string | undefined) => ["session", "export", "--all", "-o", "exported/", ...REALM],
    import: (_: string | undefined) => ["session", "import", "elsewhere.jsonl", ...REALM],
  };
  // prettier-ignore
  const TABLE: Readonly<Record<keyof typeof KEYS, Readonly<Record<keyof typeof OPERATIONS, number>>>> = {
    "the right key": table(0, 0, 0, 0, 0, 0),
    "a wrong key": table(31, 31, 0, 31, 31, 31),
    "the new key after a rotation": table(31, 0, 0, 0, 0, 0),
    "the old key after a rotation": table(0, 31, 0, 31, 31, 31),
    "no key": table(31, 31, 0, 31, 31, 31),
  };
  function table(...codes: readonly number[]) {
    const names = Object.keys(OPERATIONS) as (keyof typeof OPERATIONS)[]; // The keys of the literal above.
    return Object.fromEntries(names.map((name, at) => [name, codes[at] ?? -1])) as Record<
      (typeof names)[number],
      number
    >;
  }

  for (const name of Object.keys(KEYS) as (keyof typeof KEYS)[]) // The keys of the literal above.
    it(`[K2] ${name}: restore, copy, export and import work or refuse in one sentence and change nothing`, async () => {
      const { key, isRotated } = KEYS[name];
      for (const [file, held] of Object.entries(env)) writeFileSync(join(line.cwd, file), held);
      await run(["run", "From elsewhere.", "--model", "offline", "--state-root", "other", "--realm", "plain"], { env });
      const plain = ["session", "export", "last", "-o", "elsewhere.jsonl", "--state-root", "other", "--realm", "plain"];
      expect(await run(plain, { env })).toMatchObject({ code: 0 });
      useKey("ONE_KEY");
      expect(await say("Remember zanzibarword.")).toMatchObject({ code: 0 });
      expect(await inRealm("backup", "before.tar")).toMatchObject({ code: 0 });
      if (isRotated) expect(await inRealm("encryption", "rotate", "--to-env", "TWO_KEY")).toMatchObject({ code: 0 });
      expect(await inRealm("backup", "after.tar")).toMatchObject({ code: 0 });
      useKey(key);
      const found: Record<string, number> = {};
      for (const [operation, words] of Object.entries(OPERATIONS)) {
        const before = bytesOf(folder());
        const { code, stderr } = await run(words(key), { env });
        found[operation] = code;
        if (operation !== "import" && operation !== "export")
          expect({ operation, kept: bytesOf(folder()) }).toEqual({ operation, kept: before });
        if (code === 0) {
          if (operation.startsWith("restore")) expect(existsSync(join(line.cwd, "restored", "keys"))).toBe(true);
          if (operation === "copy") expect(allBytesIn("copied")).toContain("zanzibarword");
          if (operation === "export") expect(allBytesIn("exported")).toContain("zanzibarword");
        } else {
          const without = /is encrypted; name its key .*--from-key-file/;
          expect(stderr).toMatch(key === undefined ? without : /names another key than this realm's.*--from-key-file/);
          if (operation.startsWith("restore")) expect(stderr).toContain("with --key-file");
          expect(bytesOf(folder())).toEqual(before);
          for (const made of ["restored", "exported"]) expect(existsSync(join(line.cwd, made))).toBe(false);
        }
        for (const made of ["restored", "restored.restoring", "copied", "exported"])
          rmSync(join(line.cwd, made), { recursive: true, force: true });
      }
      expect(found).toEqual(TABLE[name]);
    });

  const allBytesIn = (place: string): string =>
    [...bytesOf(join(line.cwd, place)).values()].map((bytes) => Buffer.from(bytes, "base64").toString("latin1")).join();

  it("[K2] is restored from a back-up, as a folder and as a tar, and goes on; a blob of it counts as whole", async () => {
    useKey("ONE_KEY");
    await say("Remember zanzibarword.");
    const store = await openEmbeddedStore(folder(), {
      seal: openKeyFile(join(folder(), "keys"), Buffer.from(one, "base64")),
    });
    await store.blobs.put({ mediaType: "text/plain", data: Buffer.from("kept by reference") });
    await store.close();
    for (const place of ["copies", "copies.tar"]) {
      expect(await inRealm("backup", place)).toMatchObject({ code: 0, stderr: "" });
      expect(await run(["backup", "verify", place], { env })).toMatchObject({ code: 0, stderr: "" });
      const back = ["--state-root", "back", "--realm", place.replace(".", "-")];
      expect(await run(["restore", place, ...back], { env })).toMatchObject({ code: 0, stderr: "" });
      expect((await run(["session", "list", ...back], { env })).stdout).toContain("zanzibarword");
      expect(await run(["run", "And on.", "--model", "offline", ...back], { env })).toMatchObject({ code: 0 });
      expect((await run(["doctor", "--verify", ...back], { env })).stdout).toContain("every checksum is right");
    }
  });
});

describe("a plain realm under a key", () => {
  /** What the previous version made of a plain realm that was only searched under a key. */
  async function sealByReading(): Promise<void> {
    for (const name of readdirSync(folder()).filter((entry) => /^(?:index|memory)/.test(entry)))
      rmSync(join(folder(), name), { recursive: true });
    const seal = openKeyFile(join(folder(), "keys"), Buffer.from(one, "base64"), () => ({ plain_before: true }));
    useKey("ONE_KEY");
    expect((await inRealm("memory", "history", "plainword")).stdout).toContain("plainword");
    expect(seal.has("memory")).toBe(true);
  }

  it("[K2] is not changed by reading, nor encrypted by a turn; each says that it is plain, and how to change that", async () => {
    await say("Remember plainword.");
    await inRealm("session", "list");
    const before = bytesOf(folder());
    useKey("ONE_KEY");
    for (const words of [["session", "list"], ["session", "show", "last"], ["doctor"], ["doctor", "--verify"]])
      expect({ words, code: (await inRealm(...words)).code }).toEqual({ words, code: 0 });
    expect(bytesOf(folder())).toEqual(before);
    const listed = await inRealm("session", "list");
    expect(listed.stderr).toMatch(
      /^! .*main is not encrypted although \[encryption\] names a key; rkat encryption enable .*\n$/,
    );
    expect((await inRealm("encryption", "status", "--json")).stdout).toContain('"sealed": false');
    expect((await inRealm("doctor")).stdout).toMatch(/encryption +not encrypted/);
    await say("And on.");
    useKey(undefined);
    expect(await inRealm("session", "list")).toMatchObject({ code: 0, stderr: "" });
  });

  it("[K2] is encrypted from rkat encryption enable on, which needs a key and may be run again", async () => {
    await say("Remember plainword.");
    expect(await inRealm("encryption", "enable")).toMatchObject({
      code: 2,
      stderr: "Error: [encryption] names no key; set key_file, key_env or key_command, then run this again\n",
    });
    useKey("ONE_KEY");
    expect((await inRealm("encryption", "enable")).stdout).toMatch(
      /^New data in .*main is encrypted from now on\..*--to-key-file/,
    );
    expect((await inRealm("encryption", "enable")).stdout).toMatch(/main is encrypted with this key\.$/m);
    useKey(undefined);
    expect(await inRealm("session", "list")).toMatchObject({
      code: 31,
      stderr: expect.stringContaining("--from-key-file"),
    });
    useKey("ONE_KEY");
    expect((await inRealm("session", "list")).stdout).toContain("plainword");
    await say("Remember sealedword.");
    const holding = (word: string) =>
      filesHere().filter((path) => !path.includes("/.rkat/") && readFileSync(path).includes(word));
    expect(holding("sealedword")).toEqual([]);
    expect(holding("plainword").map((path) => path.slice(folder().length))).toEqual(["/log/00000001.log"]);
  });

  it("[K2] that the previous version sealed by reading opens without its key and says so once; with it, it stays", async () => {
    await say("Remember plainword.");
    await sealByReading();
    useKey("ONE_KEY");
    expect(await inRealm("session", "list")).toMatchObject({
      stdout: expect.stringContaining("plainword"),
      stderr: "",
    });
    for (const key of [undefined, "OTHER_KEY"]) {
      useKey(key);
      const first = await inRealm("session", "list");
      expect(first).toMatchObject({ code: 0, stdout: expect.stringContaining("plainword") });
      expect(first.stderr).toMatch(
        /^! .*main is plain: an earlier version had encrypted its index and memory when it was read/,
      );
      useKey(undefined);
      expect(await inRealm("session", "list")).toMatchObject({ code: 0, stderr: "" });
      expect((await inRealm("memory", "history", "plainword")).stdout).toContain("plainword");
      await sealByReading();
    }
    useKey("ONE_KEY");
    await say("Remember sealedword.");
    useKey(undefined);
    expect(await inRealm("session", "list")).toMatchObject({
      code: 31,
      stderr: expect.stringContaining("--from-key-file"),
    });
  });

  it("[K2] is not sealed by a copy to it or from it", async () => {
    await say("Remember plainword.");
    writeFileSync(join(line.cwd, "one.key"), one);
    await run(["store", "copy", folder(), join(line.cwd, "to")], { env });
    const before = bytesOf(folder());
    expect(
      await run(["store", "copy", folder(), join(line.cwd, "new"), "--from-key-file", join(line.cwd, "one.key")], {
        env,
      }),
    ).toMatchObject({
      code: 0,
    });
    expect(bytesOf(folder())).toEqual(before);
    expect(
      await run(["store", "copy", folder(), join(line.cwd, "to"), "--to-key-file", join(line.cwd, "one.key")], { env }),
    ).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/to is not encrypted, .*; name a new folder/),
    });
    expect(existsSync(join(line.cwd, "to", "keys"))).toBe(false);
  });
});
