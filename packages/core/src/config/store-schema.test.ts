import { mkdtempSync, rmSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { formatToml, parseToml } from "@rkat/node/config/config-file";
import { loadConfig } from "@rkat/node/config/load-config";
import { afterAll, describe, expect, it } from "vitest";
import { composeOver, ownLayer } from "./config-layers.ts";
import { ConfigFile } from "./config-schema.ts";
import { defaultConfig } from "./settings.ts";
import { describeConfig, spellConfig } from "./spell-config.ts";
import { passwordsOf } from "./store-schema.ts";

const root = mkdtempSync(join(tmpdir(), "rkat-store-config-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const URL = "postgres://rkat:a%2Fsecret-word@db.example.com/rkat?sslmode=verify-full";

async function load(
  env: Record<string, string>,
  files: { project?: string; home?: string; realm?: string; isTrusted?: boolean } = {},
) {
  const folder = mkdtempSync(join(root, "load-"));
  const [cwd, home, stateFolder] = [join(folder, "project"), join(folder, "home"), join(folder, "state")];
  await mkdir(join(home, ".rkat"), { recursive: true });
  await mkdir(cwd);
  await mkdir(stateFolder);
  if (files.project !== undefined) await writeFile(join(cwd, "rkat.toml"), files.project);
  if (files.home !== undefined) await writeFile(join(home, ".rkat/config.toml"), files.home);
  if (files.realm !== undefined) await writeFile(join(stateFolder, "config.toml"), files.realm);
  const read = (path: string) => readFile(path, "utf8").catch(() => undefined);
  return loadConfig({ cwd, home, env, readFile: read, stateFolder, isTrusted: files.isTrusted });
}

describe("[store] of the configuration", () => {
  it("[F11] is read from a file, and the environment wins over it", async () => {
    const home = `[store]\nurl = "${URL}"\nrealm = "team"\npool = 3\npooled = true\ngroup_commit = false\nlease = "2s"\n`;
    const { config } = await load({}, { home });
    expect(config.store).toEqual({
      url: URL,
      realm: "team",
      pool: 3,
      pooled: true,
      group_commit: false,
      lease_ms: 2_000,
    });
    const other = "postgresql://other.example.com/x";
    const { config: won, sources } = await load({ RKAT_STORE_URL: other, RKAT_STORE_REALM: "ours" }, { home });
    expect(won.store).toMatchObject({ url: other, realm: "ours", pool: 3 });
    expect(sources.slice(-2)).toEqual(["RKAT_STORE_URL", "RKAT_STORE_REALM"]);
  });

  it("[H1] refuses what names no database in one sentence that does not repeat it", async () => {
    const wrong = {
      "mysql://user:a-secret@host/db": "write an address of PostgreSQL",
      "postgres:///db": "write the host, too",
      "a-secret": "write an address like postgres://",
      "postgres://host/db?sslmode=sure": "write ?sslmode= with one of disable, prefer, require, verify-full",
      "postgres://host/db?password=a-secret": "write user and password before the host",
    };
    for (const [url, sentence] of Object.entries(wrong)) {
      const failed = await load({ RKAT_STORE_URL: url }).catch((error: Error) => error.message);
      expect(failed).toContain(`RKAT_STORE_URL: store.url is not usable; ${sentence}`);
      expect(failed).not.toContain("a-secret");
    }
    await expect(load({ RKAT_STORE_REALM: "no/realm" })).rejects.toThrow("RKAT_STORE_REALM: store.realm is");
  });

  it("[H2] a project's file cannot send sessions elsewhere before somebody trusts it, and the password is not shown", async () => {
    const project = `[store]\nurl = "${URL}"\nrealm = "theirs"\npool = 2\n`;
    const { config, leftOut, brought } = await load({}, { project });
    expect(config.store).toMatchObject({ pool: 2 });
    expect(config.store).not.toHaveProperty("url");
    expect(config.store).not.toHaveProperty("realm");
    expect(leftOut).toContain("store.url, store.realm of ");
    const wanted = brought.flatMap(({ requests }) => requests.map(({ text }) => text));
    expect(wanted).toEqual([
      'sets store.url to "postgres://rkat@db.example.com/rkat?sslmode=verify-full"',
      'sets store.realm to "theirs"',
    ]);
    expect((await load({}, { project, isTrusted: true })).config.store.url).toBe(URL);
  });

  it("[F11] the layer of a folder is not that of a realm in a database, and can name none itself", async () => {
    const realm = '[agent]\nmodel = "of-the-folder"\n';
    expect((await load({}, { realm })).config.agent.model).toBe("of-the-folder");
    expect((await load({ RKAT_STORE_URL: URL }, { realm })).config.agent.model).toBeUndefined();
    const sneaky = `[store]\nurl = "${URL}"\n`;
    await expect(load({}, { realm: sneaky })).rejects.toThrow("store cannot be set in the realm's own layer");
  });

  it("[H2] is told without its password, and what was told can be written back", () => {
    const config = composeOver({ ...defaultConfig(), store: { ...defaultConfig().store, url: URL } })({}, "test");
    expect(config.store.url).toBe(URL);
    const reported = describeConfig(config);
    expect(reported.store).toMatchObject({
      url: "postgres://rkat@db.example.com/rkat?sslmode=verify-full",
      lease: "10s",
    });
    expect(JSON.stringify(reported)).not.toContain("secret");
    expect(ownLayer(reported, config)).not.toHaveProperty("store");
    const changed = { store: { url: "postgres://elsewhere/x" } };
    expect(ownLayer(changed, config)).toBe(changed);
    expect(() => composeOver(config)(changed, "patch")).toThrow("patch: store cannot be set in the realm's own layer");
    expect(parseToml(formatToml(spellConfig(config)), "test").store).toMatchObject({ url: URL });
  });

  it("[H2] the password is a secret as it is written and as it is meant", () => {
    expect(passwordsOf(URL)).toEqual([URL, "a%2Fsecret-word", "a/secret-word"]);
    expect(passwordsOf("postgres://rkat@db.example.com/rkat")).toEqual([]);
  });
});

describe("[encryption] of the configuration", () => {
  const read = (given: object) => {
    const found = ConfigFile.safeParse({ encryption: given });
    return found.success ? found.data.encryption : found.error.issues.map(({ message }) => message);
  };

  it("[K2] names one key, by an absolute path, a variable or a command", () => {
    expect(read({})).toEqual({});
    expect(read({ key_file: "/etc/rkat/realm.key" })).toEqual({ key_file: "/etc/rkat/realm.key" });
    expect(read({ key_file: "~/realm.key" })).toEqual({ key_file: "~/realm.key" });
    expect(read({ key_file: "realm.key" })).toEqual(["write an absolute path, or one that begins with ~/"]);
    expect(read({ key_env: "A", key_command: "cat key" })).toEqual([
      "name the key once: write one of key_file, key_env and key_command, and remove the others",
    ]);
  });

  it("[K2] is not for the realm's own layer to say, whoever may write to it", () => {
    expect(() => composeOver(undefined)({ encryption: { key_env: "A" } }, "patch")).toThrow(
      "patch: encryption cannot be set in the realm's own layer, which is kept there; write it to rkat.toml",
    );
  });
});
