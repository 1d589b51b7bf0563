import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { defaultConfig } from "@rkat/core/config/settings";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { openRuntime } from "@rkat/node/open-runtime";
import { afterAll, describe, expect, it } from "vitest";
import { useCommandLine } from "./support/command-line.ts";
import { databaseFor, withPostgres } from "./support/postgres.ts";

const root = mkdtempSync(join(tmpdir(), "rkat-in-database-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const newFolder = () => mkdtempSync(join(root, "folder-"));

const PASSWORD = "not-for-anybody";

/** The same database by an address with a password, which a server of tests does not ask for. */
function withPassword(url: string): string {
  const address = new URL(url);
  address.password = PASSWORD;
  return address.href;
}

const base = { env: {}, model: "offline" } as const;

withPostgres("a runtime whose realm is in a database", () => {
  it("[F11] needs no folder, and another one finds its sessions, agents, blobs and configuration", async () => {
    const store = await databaseFor("runtime");
    const one = await openRuntime({ ...base, store });
    const session = await one.createSession("My name is Ada.");
    await one.dispatch("remember", { agent: "ann", content: "The harbour is teal." });
    await one.dispatch("patchConfig", { patch: { agent: { max_turns: 7 } } });
    await one.close();

    const two = await openRuntime({ ...base, store });
    expect((await two.session(session.id).turn("What is my name?")).text).toContain("Ada");
    expect((await two.dispatch("listAgents", {})).agents).toMatchObject([{ agent: "ann" }]);
    expect(await two.dispatch("readConfig", {})).toMatchObject({ generation: 1, config: { agent: { max_turns: 7 } } });
    await two.close();

    const other = await openRuntime({ ...base, store, realm: { realm_id: "other" } });
    expect(await other.listSessions()).toEqual([]);
    expect(await other.dispatch("readConfig", {})).toMatchObject({ generation: 0, realm_id: "other" });
    await other.close();
  });

  it("[F11] a change of the configuration at one is followed by the other", async () => {
    const store = await databaseFor("runtime");
    const [one, two] = [await openRuntime({ ...base, store }), await openRuntime({ ...base, store })];
    await one.dispatch("patchConfig", { patch: { agent: { max_turns: 7 } } });
    await expect
      .poll(async () => (await two.dispatch("readConfig", {})).config, { timeout: 60_000 })
      .toMatchObject({ agent: { max_turns: 7 } });
    await one.close();
    await two.close();
  });

  it("[F11] writes files when they are asked for, apart from those of a folder's own realm", async () => {
    const store = await databaseFor("files");
    const [without, stateFolder] = [newFolder(), newFolder()];
    const config = { ...defaultConfig(), features: ["session-store" as const] };
    const plain = await openRuntime({ ...base, store, config, stateFolder: without });
    await plain.createSession("Hello.");
    await plain.close();
    expect(readdirSync(without)).toEqual([]);

    const filed = { ...config, store: { ...config.store, files: true } };
    const runtime = await openRuntime({ ...base, store, config: filed, stateFolder });
    const { id } = await runtime.createSession("Hello.");
    await runtime.close();
    const [beside = ""] = readdirSync(stateFolder);
    expect(beside).toMatch(/^database-[0-9a-f]{10}$/);
    expect(readdirSync(join(stateFolder, beside, ".rkat/sessions")).join()).toContain(id);
    const folderOnly = await openRuntime({
      ...base,
      config: { ...config, store: { ...config.store, files: false } },
      stateFolder,
    });
    await folderOnly.createSession("Hello.");
    await folderOnly.close();
    expect(existsSync(join(stateFolder, ".rkat"))).toBe(false);
  });

  it("[H2] never tells the password: not to who asks for the configuration, nor in what is kept", async () => {
    const store = withPassword(await databaseFor("secrets"));
    const reported = { name: "told", description: "Tells.", inputSchema: { type: "object" }, execute: () => PASSWORD };
    const model = createScriptedModel((_request, index) =>
      index === 0 ? { calls: [{ name: "told" }] } : { text: "Yes." },
    );
    const runtime = await openRuntime({ ...base, model, tools: [reported], store });
    const answer = await runtime.dispatch("readConfig", {});
    expect(answer.config).toMatchObject({ store: { url: expect.stringContaining("@127.0.0.1") } });
    expect(JSON.stringify(answer)).not.toContain(PASSWORD);
    await runtime.dispatch("setConfig", { config: answer.config });
    await expect(
      runtime.dispatch("patchConfig", { patch: { store: { url: "postgres://elsewhere.example.com/x" } } }),
    ).rejects.toMatchObject({ code: "INVALID_PARAMS", message: expect.stringContaining("store cannot be set") });
    const session = await runtime.createSession("Were you told?");
    const history = JSON.stringify(await runtime.session(session.id).history());
    expect(history).toContain("[redacted]");
    expect(history).not.toContain(PASSWORD);
    await runtime.close();
    const closed = withPassword("postgres://user@127.0.0.1:1/none");
    const failed = await openRuntime({ ...base, store: closed }).catch((error: Error) => error.message);
    expect(failed).toContain("cannot open the database 127.0.0.1:1/none: ");
    expect(failed).not.toContain(PASSWORD);
  });

  it("[F11] an address that is none, and no place at all, are refused", async () => {
    await expect(openRuntime({ ...base, store: "mysql://host/db" })).rejects.toMatchObject({
      code: "INVALID_PARAMS",
      message:
        "openRuntime: store.url is not usable; write an address of PostgreSQL, like postgres://rkat@db.example.com/rkat",
    });
    for (const store of [`postgres://rkat:${PASSWORD}%zz@host/db`, "postgres://%zz@host/db"]) {
      await expect(openRuntime({ ...base, store })).rejects.toMatchObject({
        code: "INVALID_PARAMS",
        message: expect.stringMatching(/^openRuntime: store.url is not usable; .* with its signs percent-encoded$/),
      });
    }
    const attributes = "postgres://rkat@host/db?target_session_attrs=fast";
    await expect(openRuntime({ ...base, store: attributes })).rejects.toThrow(
      "write ?target_session_attrs= with one of",
    );
    await expect(openRuntime(base)).rejects.toThrow("stateFolder is missing");
    const config = { ...defaultConfig(), memory: { ...defaultConfig().memory, index: "database" as const } };
    await expect(openRuntime({ ...base, config, stateFolder: newFolder() })).rejects.toThrow(
      'memory.index is "database", and there is none: set [store] url, or write "auto"',
    );
  });

  describe("on the command line", () => {
    const line = useCommandLine();

    it("[F11] RKAT_STORE_URL chooses it, and --realm, RKAT_STORE_REALM and default the realm, in this order", async () => {
      const url = withPassword(await databaseFor("cli"));
      const env = { RKAT_STORE_URL: url };
      expect((await line.run(["run", "My name is Ada.", "-m", "offline"], { env })).code).toBe(0);
      expect((await line.run(["session", "list"], { env })).stdout).toContain("My name is Ada.");
      const json = ["config", "get", "--json", "--with-generation"];
      const reported = JSON.parse((await line.run(json, { env })).stdout);
      expect(reported).toMatchObject({ realm_id: "default", backend: "postgres" });
      expect(reported).not.toHaveProperty("resolved_paths");
      expect(JSON.stringify(reported)).not.toContain(PASSWORD);
      const team = { ...env, RKAT_STORE_REALM: "team" };
      expect(JSON.parse((await line.run(json, { env: team })).stdout).realm_id).toBe("team");
      expect((await line.run(["session", "list"], { env: team })).stdout).not.toContain("Ada");
      expect(JSON.parse((await line.run([...json, "--realm", "mine"], { env: team })).stdout).realm_id).toBe("mine");
      const kept = await line.run(["config", "patch", "--json", '{"agent":{"max_turns":7}}'], { env });
      expect(kept.stdout).toBe("Kept in the database, realm default, generation 1.\n");
    });

    it("[F11] the doctor says where it is and who works there, or what is wrong, and no password", async () => {
      const url = withPassword(await databaseFor("doctor"));
      const look = (at: string) => line.run(["doctor"], { env: { RKAT_STORE_URL: at } });
      expect((await look(url)).stdout).toMatch(
        /database +PostgreSQL \d+\.\d+ at 127.0.0.1:\d+\/doctor_\w+, [\d.]+ ms away; empty/,
      );
      await line.run(["run", "Hello.", "-m", "offline"], { env: { RKAT_STORE_URL: url } });
      expect((await look(url)).stdout).toContain("1 session and 0 agents in realm default; 0 turns running");
      const { code, stdout } = await look(withPassword("postgres://user@127.0.0.1:1/none"));
      expect(code).toBe(1);
      expect(stdout).toContain(
        "cannot ask the database 127.0.0.1:1/none: the database cannot be reached: ECONNREFUSED",
      );
      expect(stdout).not.toContain(PASSWORD);
    });
  });
});

describe("the driver of PostgreSQL", () => {
  const openIn = (options: string, hook: string) => `
    import { registerHooks } from "node:module";
    const urls = [];
    registerHooks({ load: (url, context, next) => (urls.push(url), next(url, context)), ${hook} });
    const { openRuntime } = await import(${JSON.stringify(join(import.meta.dirname, "../packages/node/src/index.ts"))});
    try {
      const runtime = await openRuntime({ env: {}, model: "offline", ${options} });
      await runtime.createSession("Hello.");
      await runtime.close();
      console.log(JSON.stringify(urls.filter((url) => /\\/postgres\\/|node_modules\\/pg/.test(url))));
    } catch (error) {
      console.log(error.code, error.message);
    }
  `;
  const run = async (script: string) =>
    (await promisify(execFile)(process.execPath, ["--input-type=module", "-e", script])).stdout.trim();

  it("[F2] is not loaded where no database is chosen", async () => {
    expect(await run(openIn(`stateFolder: ${JSON.stringify(newFolder())}`, ""))).toBe("[]");
  });

  it("[F11] one that is not installed is told with what to do", async () => {
    const missing = `resolve: (name, context, next) => {
      if (name === "pg") throw Object.assign(new Error("Cannot find package"), { code: "ERR_MODULE_NOT_FOUND" });
      return next(name, context);
    }`;
    expect(await run(openIn(`store: "postgres://localhost/x"`, missing))).toBe(
      "SESSION_STORE_ERROR the driver of PostgreSQL is not installed; run npm install pg, or install rkat again",
    );
  });
});
