import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Caller } from "@rkat/core/contract/caller";
import { createInMemoryStore, createRuntime, type RuntimeOptions } from "@rkat/core/create-runtime";
import type { ToolCallContext } from "@rkat/core/ports/tool";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { isRunning, openModernServer, pidsOf, program, reported, runtimeWith } from "../support/mcp-servers.ts";

let folder: string;
let notes: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "rkat-session-servers-"));
  notes = join(folder, "notes");
});
afterEach(() => rmSync(folder, { recursive: true }));

const OK = { text: "ok" };
const call = (name: string) => ({ calls: [{ name }] });
const callerWith = (scopes: readonly ("run" | "admin")[], labels: Record<string, string> = {}): Caller => ({
  name: "ci",
  scopes: new Set(["read", ...scopes]),
  labels,
});

describe("MCP servers of one session", () => {
  it("[T1] have their tools from the next turn on, in no other session, and after a restart and in a fork", async () => {
    const store = createInMemoryStore();
    const first = runtimeWith([OK, OK, OK, OK], { store });
    const session = await first.runtime.createSession("Go.");
    const other = await first.runtime.createSession("Go.");
    const added = await session.addMcpServer({ name: "t", ...program(notes) });
    expect(added).toEqual({
      sessionId: session.id,
      operation: "add",
      serverName: "t",
      status: "staged",
      persisted: false,
      appliedAtTurn: 2,
    });
    expect(pidsOf(notes)).toEqual([]);
    await other.turn("Again.");
    expect(first.offered()).not.toContain("mcp__t__echo");
    await session.turn("Again.");
    expect(first.offered()).toContain("mcp__t__echo");
    const kept = { ...store, close: async () => {} };
    const again = runtimeWith([OK, call("mcp__t__pid"), OK], { store: kept });
    const resumed = again.runtime.session(session.id);
    await resumed.turn("Once more.");
    expect(again.offered()).toContain("mcp__t__echo");
    await (await resumed.fork(2)).turn("In the fork.");
    // The fork has the connection of its source.
    expect(again.results()).toEqual([{ content: String(pidsOf(notes).at(-1)), is_error: false }]);
    expect(pidsOf(notes)).toHaveLength(2);
    await Promise.all([first.runtime.close(), again.runtime.close()]);
    await expect.poll(() => pidsOf(notes).filter(isRunning)).toEqual([]);
  });

  it("[T1] are gone from the next turn on when they are removed, configured ones too, and end", async () => {
    const { runtime, offered } = runtimeWith([OK, OK, OK], {
      mcpServers: [{ name: "all", ...program(join(folder, "all")) }],
    });
    const session = await runtime.createSession("Go.");
    await session.addMcpServer({ name: "t", ...program(notes) });
    await session.turn("Go.");
    expect(offered()).toEqual(expect.arrayContaining(["mcp__all__echo", "mcp__t__echo"]));
    await session.removeMcpServer("t");
    await expect.poll(() => pidsOf(notes).filter(isRunning)).toEqual([]);
    await session.removeMcpServer("all");
    await session.turn("Go.");
    expect(offered().filter((name) => name.startsWith("mcp__"))).toEqual([]);
    expect(pidsOf(join(folder, "all")).filter(isRunning)).toHaveLength(1);
    await expect(session.removeMcpServer("all")).rejects.toThrow(
      `serverName: session ${session.id} has no MCP server all; it has none`,
    );
    await runtime.close();
  });

  it("[T1] that are added while a turn runs leave it as it is, and are not lost to settings the next turn changes", async () => {
    const server = await openModernServer();
    const model = createScriptedModel([call("grow"), OK, OK]);
    const runtime = createRuntime({ model, store: createInMemoryStore(), env: {} });
    const grow = {
      name: "grow",
      description: "adds a server",
      inputSchema: { type: "object" },
      execute: async (_: unknown, { sessionId }: ToolCallContext) =>
        runtime.session(sessionId).addMcpServer({ name: "docs", url: server.url }),
    };
    const session = await runtime.createDeferredSession("Go.", { tools: [grow] });
    await session.turn("Go.");
    await session.turn("Again.", { changeSettings: { maxTokens: 77 } });
    const has = model.requests.map(({ tools }) => tools.some(({ name }) => name === "mcp__docs__echo"));
    expect(has).toEqual([false, false, true]);
    await runtime.close();
    await server.close();
  });

  it("[T1] are connected again by a reload, and a call that runs meanwhile keeps its connection", async () => {
    const { runtime, results } = runtimeWith([call("mcp__t__wait"), call("mcp__t__pid"), OK], {
      mcpServers: [{ name: "t", ...program(notes) }],
    });
    const busy = await runtime.createDeferredSession("Wait.");
    const waiting = busy.turn("Now.").catch((thrown: unknown) => thrown);
    await expect.poll(() => reported(notes)).toContain("waiting");
    const session = await runtime.createDeferredSession("Go.");
    expect(await session.reloadMcpServers()).toMatchObject({ operation: "reload", status: "staged" });
    await session.turn("Go.");
    const [first = 0, second = 0, ...more] = pidsOf(notes);
    expect({ answered: results()[0]?.content, more, isRunning: isRunning(first) }).toEqual({
      answered: String(second),
      more: [],
      isRunning: true,
    });
    await busy.interrupt();
    await waiting;
    await expect.poll(() => [first, second].map(isRunning)).toEqual([false, true]);
    expect(reported(notes)).toContain("cancelled");
    await expect(session.reloadMcpServers({ serverName: "u" })).rejects.toThrow(
      `serverName: session ${session.id} has no MCP server u; it has t`,
    );
    await runtime.close();
  });

  it("[T1] end with their session when it is archived", async () => {
    const { runtime } = runtimeWith([OK, OK], {});
    const session = await runtime.createSession("Go.");
    await session.addMcpServer({ name: "t", ...program(notes) });
    await session.turn("Go.");
    await session.archive();
    await expect.poll(() => pidsOf(notes).filter(isRunning)).toEqual([]);
    await runtime.close();
  });
});

describe("what may not be added", () => {
  const open = async (options: RuntimeOptions = {}) => {
    const { runtime } = runtimeWith([OK, OK], { env: { DOCS_KEY: "k-1234567890" }, ...options });
    const { id } = await runtime.createSession("Go.");
    const add = (server_config: object, caller?: Caller) =>
      runtime.dispatch("addMcpServer", { session_id: id, server_config }, caller && { caller });
    return { runtime, id, add };
  };
  const docs = { name: "docs", url: "http://127.0.0.1:1/mcp" };

  it("[T1] [H1] is refused with one sentence, and nothing is stored", async () => {
    const { runtime, id, add } = await open();
    const last = async () =>
      (await runtime.dispatch("readEventCursor", { scope: { type: "session", session_id: id } })).cursor;
    const before = await last();
    const plain = "the session's log would keep what gives access; write the name of a variable of the runtime instead";
    for (const [config, message] of [
      [{ name: "a" }, "server_config.command: write the program to start, or the server's address as url"],
      [{ ...docs, command: "x" }, "server_config.command: a server has a command or a url"],
      [{ ...docs, args: ["x"] }, "server_config.args: args are for a command, so remove the key"],
      [{ name: "", command: "x" }, "server_config.name: write a name of 1 to 64 characters"],
      [{ name: "a", url: "http://u:p@a.test/" }, "server_config.url: write the address without a user name"],
      [{ ...docs, comand: "x" }, "server_config.comand"],
      [{ ...docs, headers: { Authorization: "Bearer abc" } }, `server_config.headers.Authorization: ${plain}`],
      [{ ...docs, url: "https://a.test/?api_key=abcdefgh" }, `server_config.url: ${plain}`],
      [{ name: "a", command: "x", env: { API_KEY: "abcdefgh" } }, `server_config.env.API_KEY: ${plain}`],
      [{ name: "a", command: "x", args: ["k-1234567890"] }, `server_config: ${plain}`],
    ] as const) {
      await expect(add(config)).rejects.toMatchObject({
        code: "INVALID_PARAMS",
        message: expect.stringContaining(message),
      });
    }
    await expect(
      runtime.dispatch("addMcpServer", { session_id: id, server_config: docs, persisted: true }),
    ).rejects.toThrow("persisted: the session keeps its servers; write a server of every session into .rkat/mcp.toml");
    expect(await last()).toEqual(before);
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is filled in when the server is connected.
    await add({ ...docs, headers: { Authorization: "Bearer ${DOCS_KEY}" } });
    expect(
      JSON.stringify(await runtime.session(id).addMcpServer({ name: "x", command: "x", env: { aB_c: "1" } })),
    ).toContain('"x"');
    const { entries } = await runtime.dispatch("exportSession", { session_id: id });
    expect(JSON.stringify(entries)).not.toContain("DOCS_KEY");
    await expect(add(docs)).rejects.toThrow(`server_config.name: session ${id} has a server docs; remove it first`);
    for (let n = 3; n <= 16; n += 1) await add({ ...docs, name: `docs${n}` });
    await expect(add({ ...docs, name: "more" })).rejects.toThrow("has 16 added servers; remove one first");
    await runtime.close();
  });

  it("[T1] [I2] is what a caller's rights, the ceiling or the session's tools do not allow", async () => {
    const { runtime, id, add } = await open({
      ceiling: "safe",
      mcpServers: [{ name: "off", command: "never", enabled: false }],
    });
    const denied = (message: string) => ({ code: "PERMISSION_DENIED", message });
    await expect(add(docs, callerWith(["run"]))).rejects.toMatchObject(
      denied("mcp/add needs the scope admin, which ci does not have"),
    );
    await expect(add({ name: "a", command: "x" })).rejects.toMatchObject(
      denied("server_config.command: this server has no shell; start it with --tools workspace"),
    );
    await runtime.dispatch("createSession", { prompt: "x", labels: { team: "a" }, initial_turn: "deferred" });
    const [row] = (await runtime.dispatch("listSessions", { labels: { team: "a" } })).sessions;
    const ofTeam = { session_id: row?.session_id, server_config: docs };
    await expect(
      runtime.dispatch("addMcpServer", ofTeam, { caller: callerWith(["admin"], { team: "a" }) }),
    ).rejects.toMatchObject(
      denied("server_config: it decides what is started and where things are sent, and this token has labels"),
    );
    await add(docs, callerWith(["admin"]));
    await expect(
      runtime.dispatch("removeMcpServer", { session_id: id, server_name: "docs" }, { caller: callerWith([]) }),
    ).rejects.toMatchObject({ code: "PERMISSION_DENIED" });
    await runtime.dispatch("removeMcpServer", { session_id: id, server_name: "docs" }, { caller: callerWith(["run"]) });
    const bare = await runtime.createDeferredSession("x", { toolPreset: "none" });
    await expect(bare.addMcpServer({ ...docs })).rejects.toThrow(`session ${bare.id} was created without tools`);
    await runtime.close();
  });

  it("[T1] starts nothing where the ceiling is lower than where it was added", async () => {
    const store = createInMemoryStore();
    const first = runtimeWith([OK], { store });
    const session = await first.runtime.createSession("Go.");
    await session.addMcpServer({ name: "t", ...program(notes) });
    const lower = runtimeWith([OK], { store: { ...store, close: async () => {} }, ceiling: "safe" });
    await lower.runtime.session(session.id).turn("Go.");
    expect({ offered: lower.offered().filter((name) => name.startsWith("mcp__")), pids: pidsOf(notes) }).toEqual({
      offered: [],
      pids: [],
    });
    await Promise.all([first.runtime.close(), lower.runtime.close()]);
  });

  it("[T1] comes with no import: an export leaves it out, and a log that has one is refused", async () => {
    const { runtime, id, add } = await open();
    await add(docs);
    const { entries, last_seq } = await runtime.dispatch("exportSession", { session_id: id });
    expect(JSON.stringify(entries)).not.toContain("127.0.0.1:1");
    const imported = { source_session_id: id, entries, last_seq, blobs: [], beside: true };
    await expect(runtime.dispatch("importSession", imported)).resolves.toMatchObject({ complete: true });
    const forged = entries.map((entry) => {
      const { settings } = Object(entry.body);
      if (settings?.mcp_servers === undefined) return entry;
      const mcp_servers = { added: [{ id: "x", name: "evil", command: "touch", args: [notes] }] };
      return { ...entry, body: { ...Object(entry.body), settings: { ...settings, mcp_servers } } };
    });
    await expect(runtime.dispatch("importSession", { ...imported, entries: forged })).rejects.toThrow(
      /body\.settings\.mcp_servers\.added: an import starts no servers/,
    );
    await runtime.close();
  });
});
