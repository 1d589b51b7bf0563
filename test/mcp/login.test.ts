import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInMemoryStore, createRuntime } from "@rkat/core/create-runtime";
import type { McpLogins } from "@rkat/core/ports/tool";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { createLoginFiles } from "@rkat/node/mcp-login";
import { newRealmKey } from "@rkat/node/sealed-realm";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Faults, openAuthorizationServer } from "../support/authorization-server.ts";
import { NO_INPUT, useCommandLine } from "../support/command-line.ts";
import { openModernServer } from "../support/mcp-servers.ts";

const line = useCommandLine();
let authority: Awaited<ReturnType<typeof openAuthorizationServer>>;
let server: Awaited<ReturnType<typeof openModernServer>>;
beforeEach(async () => {
  authority = await openAuthorizationServer();
  server = await openModernServer(async (request) => authority.guard(server.url, request));
});
afterEach(async () => {
  await server.close();
  await authority.close();
});

const env = { PATH: process.env.PATH, NO_COLOR: "1" };
const home = () => join(line.cwd, "home");
const run = (args: readonly string[], given = {}) => line.run(args, { env, home: home(), ...given });
const addServer = () => run(["mcp", "add", "docs", "--url", server.url]);

/** Where a browser ends that opens an address and consents. */
async function browse(address: string): Promise<string> {
  const { headers } = await fetch(address, { redirect: "manual" });
  return headers.get("location") ?? "";
}

/** Logs in with a browser on this machine, or pastes what `pasted` makes of the address the browser would end at. */
async function logIn(pasted?: (ended: string) => string) {
  const { promise: ended, resolve } = Promise.withResolvers<string>();
  let stdout = "";
  const write = (written: string): void => {
    stdout += written;
    const [address] = /http:\/\/\S+\/authorize\?\S+/.exec(written) ?? [];
    if (address === undefined) return;
    void browse(address).then(async (at) => {
      if (pasted === undefined) await fetch(at);
      resolve(at);
    });
  };
  const stdin = {
    ...NO_INPUT,
    kind: pasted === undefined ? "none" : "stream",
    read: async function* () {
      if (pasted !== undefined) yield new TextEncoder().encode(`${pasted(await ended)}\n`);
    },
  };
  const output = { isTerminal: false, columns: undefined, write };
  const { code, stderr } = await run(["mcp", "login", "docs"], { stdout: output, stdin });
  return { code, stdout, stderr };
}

function filesBelow(folder: string): readonly string[] {
  const files = readdirSync(folder, { withFileTypes: true, recursive: true });
  return files.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
}
const loginFiles = () => filesBelow(line.cwd).filter((path) => path.includes("mcp-logins"));

describe("rkat mcp login", () => {
  it("[T1] [H3] logs in with a browser on this machine; the login is a file of mode 600 and nowhere else", async () => {
    await addServer();
    const before = await run(["mcp", "list"]);
    expect(before).toMatchObject({
      code: 1,
      stdout: "✗ docs  it requires a login; run rkat mcp login docs, or set its headers\n",
    });
    expect(await logIn()).toEqual({
      code: 0,
      stdout: expect.stringMatching(/^Open this address in a browser:\n\nhttp:\S+\n\nLogged in at docs: 5 tools\.\n$/),
      stderr: "",
    });
    const [file = "", ...more] = loginFiles();
    expect(more).toEqual([]);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(await run(["run", "Hello", "-m", "offline"])).toMatchObject({
      code: 0,
      stderr: expect.not.stringContaining("docs"),
    });
    const holding = filesBelow(line.cwd).filter((path) =>
      authority.secrets().some((secret) => readFileSync(path, "latin1").includes(secret)),
    );
    expect(holding).toEqual([file]);
    expect(await run(["mcp", "logout", "docs"])).toMatchObject({ code: 0, stdout: "Logged out at docs.\n" });
    expect(loginFiles()).toEqual([]);
    expect(await run(["mcp", "list"])).toMatchObject({ code: 1 });
  });

  it("[T1] takes the address that a browser on another machine ended at", async () => {
    await addServer();
    expect(await logIn((ended) => ended)).toMatchObject({ code: 0, stderr: "" });
    expect(await run(["mcp", "list"])).toMatchObject({ code: 0 });
  });

  it("[T1] refuses the address of another login", async () => {
    await addServer();
    const other = (ended: string): string => ended.replace(/state=[^&]*/, "state=another");
    const { code, stderr } = await logIn(other);
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: expect.stringContaining("not that of the login that was started"),
    });
    expect(loginFiles()).toEqual([]);
  });

  it.each<[string, Faults, RegExp]>([
    ["comes back from another issuer", { iss: "https://other.test" }, /issuer/i],
    ["describes itself as another issuer", { issuer: "https://other.test" }, /issuer/i],
    ["gives a token for another server", { audience: "https://other.test/mcp" }, /does not accept what/],
  ])("[T1] keeps nothing where the authorization server %s", async (_, faults, sentence) => {
    Object.assign(authority.faults, faults);
    await addServer();
    const { code, stdout, stderr } = await logIn();
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringMatching(sentence) });
    for (const secret of authority.secrets()) expect(stdout + stderr).not.toContain(secret);
    expect(loginFiles()).toEqual([]);
  });

  it("[T1] refuses a resource that describes itself as another", async () => {
    await server.close();
    server = await openModernServer(async (request) => authority.guard("https://other.test/mcp", request));
    await addServer();
    expect(await logIn()).toMatchObject({ code: 2, stderr: expect.stringMatching(/resource/i) });
  });

  it("[T1] refuses what takes no login", async () => {
    await run(["mcp", "add", "program", "--", "x"]);
    await run(["mcp", "add", "headed", "--url", server.url, "--header", "Authorization=Bearer x"]);
    expect(await run(["mcp", "login", "program"])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("is a program"),
    });
    expect(await run(["mcp", "login", "headed"])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("remove it first"),
    });
    expect(await run(["mcp", "login", "gone"])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("program, headed"),
    });
  });

  it("[T1] [K2] is sealed with an encrypted realm", async () => {
    await addServer();
    mkdirSync(home(), { recursive: true });
    writeFileSync(join(home(), "key"), newRealmKey(), { mode: 0o600 });
    mkdirSync(join(home(), ".rkat"), { recursive: true });
    writeFileSync(join(home(), ".rkat/config.toml"), `[encryption]\nkey_file = "${join(home(), "key")}"\n`);
    expect(await logIn()).toMatchObject({ code: 0 });
    const [file = ""] = loginFiles();
    const kept = readFileSync(file);
    for (const secret of authority.secrets()) {
      expect(kept.toString()).not.toContain(secret);
      expect(Buffer.from(kept.toString(), "base64").toString("latin1")).not.toContain(secret);
    }
    expect(await run(["mcp", "list"])).toMatchObject({ code: 0 });
  });
});

describe("a turn whose server wants a login", () => {
  const script = [
    {
      calls: [
        { name: "mcp__docs__echo", args: { text: "one" } },
        { name: "mcp__docs__echo", args: { text: "two" } },
      ],
    },
    { text: "ok" },
  ];
  const runtimeOf = (mcpLogins: McpLogins | undefined, given: Parameters<typeof createScriptedModel>[0] = script) => {
    const warnings: string[] = [];
    const model = createScriptedModel(given);
    const mcpServers = [{ name: "docs", url: server.url }];
    const warn = (sentence: string): number => warnings.push(sentence);
    const store = createInMemoryStore();
    return { runtime: createRuntime({ model, store, env: {}, warn, mcpServers, mcpLogins }), warnings, model };
  };
  const loggedIn = async () => {
    await addServer();
    await logIn();
    const [file = ""] = loginFiles();
    return createLoginFiles(join(file, "../.."), undefined);
  };
  const resultsOf = async (session: Awaited<ReturnType<ReturnType<typeof createRuntime>["createSession"]>>) => {
    const { messages } = await session.history();
    return messages
      .flatMap((message) => (message.role === "tool_results" ? message.results : []))
      .map(({ content }) => content);
  };

  it("[T1] [G9] says in one sentence how to log in, and goes on without it", async () => {
    const { runtime, warnings } = runtimeOf(undefined, [{ text: "ok" }]);
    await runtime.createSession("Go.");
    expect(warnings).toEqual([
      "MCP server docs is left out: it requires a login; run rkat mcp login docs, or set its headers",
    ]);
    await runtime.close();
  });

  it("[T1] renews a token that has expired once for calls at the same time", async () => {
    const logins = await loggedIn();
    const { runtime, warnings } = runtimeOf(logins, [{ text: "hi" }, ...script]);
    const session = await runtime.createSession("Hello.");
    authority.expire();
    const before = authority.asked.filter((path) => path === "/token").length;
    await session.turn("Go.");
    expect(await resultsOf(session)).toEqual(["You said: one", "You said: two"]);
    expect(authority.asked.filter((path) => path === "/token")).toHaveLength(before + 1);
    expect(warnings).toEqual([]);
    await runtime.close();
  });

  it("[T1] [H3] is told of a login that was revoked, without its tokens", async () => {
    const logins = await loggedIn();
    const secrets = authority.secrets();
    const { runtime, warnings } = runtimeOf(logins, [{ text: "hi" }, ...script, { text: "and now" }]);
    const session = await runtime.createSession("Hello.");
    authority.revoke();
    await session.turn("Go.");
    const sentence = "MCP server docs cannot be used: it requires a login; run rkat mcp login docs, or set its headers";
    expect(await resultsOf(session)).toEqual([sentence, sentence]);
    await session.turn("Again.");
    expect(warnings).toEqual([
      "MCP server docs is left out: it requires a login; run rkat mcp login docs, or set its headers",
    ]);
    const seen = JSON.stringify([await session.history(), warnings]);
    for (const secret of secrets) expect(seen).not.toContain(secret);
    await runtime.close();
  });

  it("[T1] sends a login to no other address than the one it was made for", async () => {
    const logins = await loggedIn();
    const given = logins.read({ name: "docs", url: server.url });
    expect(given).toContain("access-");
    expect(logins.read({ name: "docs", url: "https://other.test/mcp" })).toBeUndefined();
    expect(logins.read({ name: "other", url: server.url })).toBeUndefined();
  });
});
