import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { newRealmKey } from "../src/sealed-realm.ts";
import { useCommandLine } from "./support/command-line.ts";

const line = useCommandLine();
const { run } = line;
const [one, two] = [newRealmKey(), newRealmKey()];
const env = { ONE_KEY: one, TWO_KEY: two, RKAT_TRUST: "1" };

const useKey = (name: string): void =>
  writeFileSync(join(line.cwd, "rkat.toml"), `[encryption]\nkey_env = "${name}"\n`);
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
    expect((await run(["doctor"], { env })).stdout).toMatch(/encryption +sealed by the key [0-9a-f]{16}/);
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
    const told = await run(["session", "list"], { env: { ...env, ONE_KEY: "hunter2" } });
    const { stderr } = await run(["run", "Hello.", "--model", "offline"], { env: { ...env, ONE_KEY: "hunter2" } });
    expect(stderr).toBe(
      "Error: the variable of encryption.key_env, ONE_KEY, does not hold a key; write 32 bytes as base64 or hex, as rkat encryption key prints them\n",
    );
    expect(told.stdout + told.stderr).not.toContain("hunter2");
    const without = await run(["encryption", "rotate", "--to-env", "A", "--to-file", "b"], { env });
    expect(without.stderr).toContain("name the next key once: --to-file, --to-env or --to-command");
  });
});
