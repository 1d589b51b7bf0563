import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInMemoryStore } from "@rkat/core/create-runtime";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { createCallers } from "@rkat/server/http/callers";
import { tokenFor } from "@rkat/server/http/guard";
import { openTokenFiles } from "@rkat/server/http/token-files";
import { describe, expect, it } from "vitest";
import { useCommandLine } from "../support/command-line.ts";
import { readEvents, serveOperated } from "../support/rest-server.ts";
import { configWith, scriptedRuntime } from "../support/runtime.ts";
import { composedRuntime, serveBoth, tokenFolder } from "../support/tokens.ts";
import { createVirtualClock } from "../support/virtual-clock.ts";

const line = useCommandLine();
const PLACE = { host: "127.0.0.1", token: undefined };

/** A clock that a test moves. */
function handClock(startMs = Date.now()) {
  let now = startMs;
  return {
    now: () => now,
    sleep: async () => new Promise<void>(() => {}),
    pass: (ms: number) => {
      now += ms;
    },
  };
}

describe("a token", () => {
  it("[I4] is kept as a hash, readable by its owner alone, and its secret is shown once", async () => {
    const made = await line.run(["token", "create", "--name", "web", "--scope", "run,read", "--label", "team=a"]);
    expect(made).toMatchObject({ code: 0, stdout: expect.stringMatching(/^rkat_[\w-]{43}\n$/) });
    const secret = made.stdout.trim();
    const files = readdirSync(line.cwd, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
    for (const { parentPath, name } of files)
      expect(readFileSync(join(parentPath, name), "utf8")).not.toContain(secret);
    const kept = files.find(({ name }) => name === "web.json");
    expect(statSync(join(kept?.parentPath ?? "", "web.json")).mode & 0o777).toBe(0o600);
    expect(statSync(kept?.parentPath ?? "").mode & 0o777).toBe(0o700);
    const listed = await line.run(["token", "list", "--json"]);
    expect(JSON.parse(listed.stdout)).toEqual({
      tokens: [{ name: "web", scopes: ["run", "read"], labels: { team: "a" }, created_at: expect.any(String) }],
    });
    expect((await line.run(["token", "list"])).stdout).toMatch(/^NAME .*\nweb +run,read +team=a +none +never\n$/);
    expect(await line.run(["token", "revoke", "web"])).toMatchObject({ code: 0, stdout: "Revoked web.\n" });
    expect((await line.run(["token", "list"])).stdout).toBe("There are no tokens; rkat token create makes one.\n");
  });

  it("[I4] [H1] is refused in a sentence where it says too little, or what is none", async () => {
    const create = (...more: string[]) => line.run(["token", "create", ...more]);
    const wrong: readonly (readonly [string[], RegExp])[] = [
      [["--scope", "run"], /--name/],
      [["--name", "web"], /--scope: say what it may do/],
      [["--name", "web", "--scope", "walk"], /write some of read, run, tools/],
      [["--name", "../web", "--scope", "run"], /cannot name a token/],
      [["--name", "web", "--scope", "run", "--max-cost", "5"], /like 5\/day/],
      [["--name", "web", "--scope", "run", "--expires", "soon"], /duration like 12h or 30d/],
      [["--name", "web", "--scope", "run", "--rate", "0/min"], /like 60\/min/],
      [["--name", "web", "--scope", "run", "--label", "team"], /key=value/],
    ];
    for (const [flags, reported] of wrong)
      expect(await create(...flags)).toMatchObject({ code: 2, stderr: expect.stringMatching(reported) });
    await create("--name", "web", "--scope", "run");
    expect((await create("--name", "web", "--scope", "run")).stderr).toMatch(/there is such a token; revoke it first/);
    expect((await line.run(["token", "revoke", "wbe"])).stderr).toMatch(/there is no token wbe; there are web/);
  });

  it("[I4] is obeyed by a server that runs as soon as it is made, and no more when it is revoked", async () => {
    const { stateFolder, create, files } = tokenFolder();
    const { call } = await serveBoth(stateFolder);
    expect((await call("GET /sessions")).status).toBe(200);
    const web = await create("web", { scopes: ["read"] });
    expect((await call("GET /sessions")).status).toBe(401);
    expect((await call("GET /sessions", undefined, web)).status).toBe(200);
    await files.revoke("web");
    expect((await call("GET /sessions", undefined, web)).status).toBe(401);
    // The last token that goes does not open the door.
    expect((await call("GET /sessions")).status).toBe(401);
  });

  it("[I4] that cannot be read lets nobody in", async () => {
    const { stateFolder, create } = tokenFolder();
    const web = await create("web", { scopes: ["read"] });
    writeFileSync(join(stateFolder, "tokens", "web.json"), "{");
    const { call } = await serveBoth(stateFolder);
    expect((await call("GET /sessions", undefined, web)).status).toBe(401);
  });

  it("[I4] is enough beyond this machine, where without one no server starts", async () => {
    expect(() => tokenFor("0.0.0.0", undefined, false)).toThrow(/so a token is needed: .*rkat token create/);
    expect(tokenFor("0.0.0.0", undefined, true)).toBeUndefined();
    const { stateFolder } = tokenFolder();
    const callers = createCallers({
      host: "0.0.0.0",
      token: undefined,
      tokens: openTokenFiles(stateFolder),
      clock: handClock(),
    });
    expect(() => callers.identify(undefined)).toThrow(/Bearer TOKEN/);
  });

  it("[I4] that is revoked in the middle ends its streams, over REST and over MCP", async () => {
    const { stateFolder, create, files } = tokenFolder();
    const web = await create("web", { scopes: ["read", "run"] });
    const { url, call, mcpUrl } = await serveBoth(stateFolder);
    const { body } = await call("POST /sessions", { prompt: "Hello!" }, web);
    const accept = "application/json, text/event-stream";
    const greeting = {
      jsonrpc: "2.0",
      id: 1,
      method: "initialize",
      params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "t", version: "1" } },
    };
    const greeted = await fetch(mcpUrl, {
      method: "POST",
      headers: { ...web, accept, "content-type": "application/json" },
      body: JSON.stringify(greeting),
    });
    const connection = {
      ...web,
      accept: "text/event-stream",
      "mcp-session-id": String(greeted.headers.get("mcp-session-id")),
    };
    const standing = await fetch(mcpUrl, { headers: connection });
    expect(standing.status).toBe(200);
    const seen: string[] = [];
    for await (const { type, data } of readEvents(`${url}/sessions/${body.session_id}/events`, web)) {
      seen.push(type);
      if (type === "session_loaded") await files.revoke("web");
      if (type === "done") expect(data).toEqual({});
    }
    expect(seen).toEqual(["session_loaded", "done"]);
    expect(await standing.text().catch(() => "broken off")).toMatch(/^$|broken off|^:|^id:/);
    expect((await call("GET /sessions", undefined, web)).status).toBe(401);
  });

  it("[I4] that is revoked has its running turn interrupted", async () => {
    const { stateFolder, create, files, tokens } = tokenFolder();
    const web = await create("web", { scopes: ["read", "run"] });
    const model = createScriptedModel(() => ({ text: "Half of it", ends: "silent" }));
    const { url } = await serveBoth(stateFolder, composedRuntime({ model }));
    const response = await fetch(`${url}/sessions`, {
      method: "POST",
      headers: { ...web, "content-type": "application/json", accept: "text/event-stream" },
      body: JSON.stringify({ prompt: "Hello!" }),
    });
    let text = "";
    for await (const chunk of response.body ?? []) {
      text += new TextDecoder().decode(chunk);
      if (text.includes("Half of it") && tokens.read().length > 0) await files.revoke("web");
    }
    expect(text).toMatch(/event: error\ndata: .*REQUEST_CANCELLED/);
  });

  it("[I4] may ask as often as it says: beyond it is 429 with the seconds to wait, and then it may again", async () => {
    const { stateFolder, create } = tokenFolder();
    const web = await create("web", { scopes: ["read"], rate: { requests: 2, per_ms: 60_000 } });
    const { call, mcpUrl } = await serveBoth(stateFolder);
    for (const _ of [1, 2]) expect((await call("GET /sessions", undefined, web)).status).toBe(200);
    const third = await call("GET /sessions", undefined, web);
    expect(third).toMatchObject({
      status: 429,
      body: { code: "AGENT_ERROR", message: /^token web has made its 2 requests/ },
    });
    expect(Number(third.headers.get("retry-after"))).toBeGreaterThan(0);
    expect((await fetch(mcpUrl, { method: "POST", headers: web, body: "{}" })).status).not.toBe(401);
    const clock = handClock();
    const { identify } = createCallers({ ...PLACE, tokens: openTokenFiles(stateFolder), clock });
    for (const _ of [1, 2]) expect(identify(web.authorization).name).toBe("web");
    expect(() => identify(web.authorization)).toThrow(/wait 30 s$/);
    clock.pass(30_000);
    expect(identify(web.authorization).name).toBe("web");
  });

  it("[I4] that has expired lets nobody in", async () => {
    const { stateFolder, create } = tokenFolder();
    const clock = handClock();
    const expires_at = new Date(clock.now() + 1_000).toISOString();
    const { authorization } = await create("web", { scopes: ["read"], expires_at });
    const { identify } = createCallers({ ...PLACE, tokens: openTokenFiles(stateFolder), clock });
    expect(identify(authorization).name).toBe("web");
    clock.pass(1_000);
    expect(() => identify(authorization)).toThrow("the token web has expired");
  });

  it("[I4] [I7] begins no turn once it has cost what it may a day, also after a restart, until midnight", async () => {
    const prices = { scripted: { input: 1_000_000, output: 0, as_of: "2026-03-01" } };
    const config = configWith({ prices });
    const clock = createVirtualClock(Date.parse("2026-03-01T12:00:00Z"));
    const store = createInMemoryStore({ now: clock.now });
    const open = () => scriptedRuntime(() => ({ text: "Hello." }), { config, store, clock }).runtime;
    const caller = { name: "web", scopes: new Set(["run"] as const), labels: {}, maxCostPerDay: 15 };
    const ask = (runtime = open()) => runtime.dispatch("createSession", { prompt: "Hello?" }, { caller });
    const { usage } = Object(await ask());
    expect(usage.cost).toMatchObject({ amount: 10 });
    await ask();
    const refused = { code: "BUDGET_EXHAUSTED", message: /^token web has spent the 15 dollars it may cost a day/ };
    await expect(ask()).rejects.toMatchObject({ code: refused.code, message: expect.stringMatching(refused.message) });
    await open().dispatch("createSession", { prompt: "Hello?" }, { caller: { ...caller, name: "other" } });
    clock.advance(12 * 3_600_000);
    await ask();
  });

  it("[I4] leaves a trace of what it changed and was refused, by its name and without its secret", async () => {
    const { stateFolder, create, files } = tokenFolder();
    const web = await create("web", { scopes: ["run", "config"] });
    const service = { tokens: openTokenFiles(stateFolder) };
    const { call, reported } = await serveOperated({ model: createScriptedModel([{ text: "Hello." }]) }, service);
    const { body } = await call("POST /sessions", { prompt: "Hello!" }, web);
    const { session_id: session } = body;
    await call("PATCH /config", { agent: { max_turns: 9 } }, web);
    await call("PATCH /config", { shell: { program: "x" } }, web);
    await call(`DELETE /sessions/${session}`, undefined, web);
    await call("GET /sessions", undefined, web);
    await call("GET /sessions", undefined, { authorization: "Bearer nobody" });
    await files.revoke("web");
    await call("GET /sessions", undefined, web);
    const denied = { action: "denied", detail: "PERMISSION_DENIED", token: "web" };
    const lines = await reported("audit", 7);
    const isEnd = ({ action }: { action?: unknown }) => action === "token_ended";
    expect(lines.filter((line) => !isEnd(line))).toMatchObject([
      { action: "config_changed", detail: "agent.max_turns", token: "web", operation: "patchConfig" },
      { ...denied, operation: "patchConfig" },
      { action: "session_archived", token: "web", operation: "archiveSession", session },
      { ...denied, operation: "listSessions" },
      { action: "denied", detail: "UNAUTHORIZED" },
      { action: "denied", detail: "UNAUTHORIZED" },
    ]);
    expect(lines.filter(isEnd)).toMatchObject([{ action: "token_ended", detail: "web was revoked" }]);
    expect(JSON.stringify(lines)).not.toContain(web.authorization.slice("Bearer ".length));
  });
});
