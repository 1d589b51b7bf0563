import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { caller, createClient } from "./support/mcp-connection.ts";
import { usePausedModel } from "./support/paused-model.ts";
import { type Caller, createCaller } from "./support/rest-server.ts";
import { startRpc } from "./support/rpc-process.ts";

// Each test starts several processes, and the machine may be busy.
vi.setConfig({ testTimeout: 120_000 });

const cli = join(import.meta.dirname, "../packages/rkat/dist/cli.js");
const ASKS = "run `echo rk$((40+2))`";
const DENIED = { status: 403, body: { code: "PERMISSION_DENIED", category: "permission" } };

let folder: string;
const started: ChildProcessWithoutNullStreams[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "rkat-doors-"));
});
afterEach(async () => {
  await Promise.all(
    started.splice(0).map(async (child) => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const closed = new Promise((resolve) => child.once("close", resolve));
      child.kill("SIGKILL");
      await closed;
    }),
  );
  rmSync(folder, { recursive: true });
});

function start(words: readonly string[], env: Record<string, string> = {}) {
  const own = { PATH: process.env.PATH, HOME: folder, RKAT_MODEL: "offline", ...env };
  const child = spawn(process.execPath, [cli, ...words], { cwd: folder, env: own });
  started.push(child);
  child.stdin.end();
  const said = { stdout: "", stderr: "" };
  for (const stream of ["stdout", "stderr"] as const) {
    child[stream].on("data", (data) => {
      said[stream] += data;
    });
  }
  const exited = new Promise<{ code: number | null; stdout: string; stderr: string }>((resolve) =>
    child.on("close", (code) => resolve({ code, ...said })),
  );
  return { child, said, exited };
}

/** `rkat serve` of the folder on a free port. */
async function serve(flags: readonly string[] = [], env: Record<string, string> = {}) {
  const { child, said, exited } = start(["serve", "--port", "0", "--json", ...flags], env);
  await expect.poll(() => said.stdout, { timeout: 60_000 }).toContain("\n");
  const { url } = JSON.parse(said.stdout) as { url: string }; // What `--json` promises.
  return { child, exited, said, url, call: createCaller(url) as Caller };
}

/** A client of the MCP server that says this. */
async function connectMcp(said: { readonly stderr: string }) {
  await expect.poll(() => said.stderr, { timeout: 60_000 }).toMatch(/listening on/);
  const client = createClient();
  const transport = new StreamableHTTPClientTransport(new URL(/http:\S+/.exec(said.stderr)?.[0] ?? ""));
  // The SDK's own class, whose optional fields are written in another way than its interface's.
  await client.connect(transport as Parameters<typeof client.connect>[0]);
  return client;
}

async function command(...words: string[]) {
  const { code, stdout, stderr } = await start(words).exited;
  return { code, stdout, stderr };
}

describe("a server that anybody on this machine can ask", () => {
  it("[H4] has no shell and no file tools, and says how it can have them", async () => {
    const { call } = await serve();
    for (const asked of [{ tool_preset: "full" }, { tool_preset: "workspace" }, { enable_shell: true }]) {
      const refused = await call("POST /sessions", { prompt: ASKS, ...asked });
      expect(refused).toMatchObject(DENIED);
      expect(refused.body.message).toMatch(/^(?:tool_preset \w+|enable_shell): .*--tools workspace$/);
    }
    const seed = { prompt: ASKS, enable_memory: true, enable_builtins: true };
    const granted = await call("POST /sessions", seed);
    expect(granted.status).toBe(200);
    expect(granted.body.text).not.toContain("rk42");
    expect((await call("POST /sessions", { prompt: "What time is it?", enable_builtins: true })).body).toMatchObject({
      tool_calls: 1,
    });
  });

  it("[H4] does not run the shell of a session that another door gave one, nor that of its fork", async () => {
    const made = await command("run", ASKS, "--tools", "full", "--json");
    expect(made.stdout).toContain("rk42");
    const { session_id } = JSON.parse(made.stdout);
    const { call } = await serve();
    const resumed = await call(`POST /sessions/${session_id}/messages`, {
      prompt: ASKS,
      flow_tool_overlay: { allowed_tools: ["shell"] },
    });
    expect(resumed.status).toBe(200);
    expect(resumed.body).toMatchObject({ tool_calls: 0 });
    const fork = (await call(`POST /sessions/${session_id}/fork`, { message_index: 2 })).body.session_id;
    const forked = await call(`POST /sessions/${fork}/messages`, { prompt: ASKS });
    expect(forked.body).toMatchObject({ tool_calls: 0 });
  });

  it("[H4] cannot be given them by its configuration, which stays as it is for other doors", async () => {
    const { call } = await serve();
    for (const tools of [{ shell_enabled: true }, { builtins_enabled: true }]) {
      expect(await call("PATCH /config", { tools })).toMatchObject(DENIED);
      expect(await call("PUT /config", { config: { tools } })).toMatchObject(DENIED);
    }
    expect((await command("run", ASKS)).stdout).not.toContain("rk42");
  });

  it("[H4] has them when it is started with them", async () => {
    const { call } = await serve(["--tools", "workspace"]);
    const run = await call("POST /sessions", { prompt: ASKS, tool_preset: "full" });
    expect(run.body.text).toContain("rk42");
    expect((await call("PATCH /config", { tools: { shell_enabled: true } })).status).toBe(200);
  });

  it("[H4] says at the start what its file asks for in vain", async () => {
    writeFileSync(join(folder, "rkat.toml"), "[tools]\nshell_enabled = true\n");
    const { call, said } = await serve();
    expect(said.stderr).toMatch(/tools\.shell_enabled .*--tools workspace/);
    expect((await call("POST /sessions", { prompt: ASKS })).body.text).not.toContain("rk42");
    const read = (await call("GET /config")).body;
    expect(await call("PUT /config", { config: read.config })).toMatchObject({ status: 200 });
  });
});

describe("an MCP server that anybody on this machine can ask", () => {
  it("[H4] [G4] has the same ceiling, and the same lock on its configuration", async () => {
    const { said } = start(["mcp", "--http", "--port", "0"]);
    const client = await connectMcp(said);
    const call = caller(client);
    const denied = { isError: true, payload: { code: "PERMISSION_DENIED" } };
    expect(await call("meerkat_run", { prompt: ASKS, tool_preset: "full" })).toMatchObject(denied);
    const nested = { prompt: ASKS, builtin_config: { enable_shell: true } };
    expect(await call("meerkat_run", nested)).toMatchObject(denied);
    const patch = { providers: { openai: { api_key_env: "HOME" } } };
    expect(await call("meerkat_config", { action: "patch", patch })).toMatchObject(denied);
    const granted = await call("meerkat_run", { prompt: "What time is it?", enable_builtins: true });
    expect(granted).toMatchObject({ isError: false, payload: { tool_calls: 1 } });
    await client.close();
  });
});

describe("what a file says false to", () => {
  it("[H4] no request switches on: over HTTP, by JSON-RPC, by the command line", async () => {
    writeFileSync(join(folder, "rkat.toml"), "[tools]\nshell_enabled = false\n");
    const { call } = await serve(["--tools", "full"]);
    for (const asked of [{ tool_preset: "full" }, { enable_shell: true }]) {
      const refused = await call("POST /sessions", { prompt: ASKS, ...asked });
      expect(refused).toMatchObject(DENIED);
      expect(refused.body.message).toMatch(/tools\.shell_enabled = false/);
    }
    expect(await call("PATCH /config", { tools: { shell_enabled: true } })).toMatchObject(DENIED);
    expect((await call("POST /sessions", { prompt: "hi", enable_builtins: true })).status).toBe(200);
    expect(await command("run", ASKS, "--tools", "full")).toMatchObject({
      code: 54,
      stderr: expect.stringMatching(/tools\.shell_enabled = false/),
    });
    expect((await command("run", ASKS)).code).toBe(0);
    const { client, child, exited } = startRpc(folder, [], { env: { RKAT_MODEL: "offline" } });
    const denied = { number: -32034, data: { code: "PERMISSION_DENIED" } };
    const create = client.request("session/create", { prompt: ASKS, enable_shell: true });
    await expect(create).rejects.toMatchObject(denied);
    const patch = client.request("config/patch", { tools: { shell_enabled: true } });
    await expect(patch).rejects.toMatchObject(denied);
    child.stdin.end();
    await exited;
  });

  it("[H4] is off in a session that had it before", async () => {
    const made = await command("run", ASKS, "--tools", "workspace", "--json");
    const { session_id } = JSON.parse(made.stdout);
    writeFileSync(join(folder, "rkat.toml"), "[tools]\nshell_enabled = false\nbuiltins_enabled = false\n");
    const resumed = await command("resume", session_id, ASKS, "--json");
    expect(JSON.parse(resumed.stdout)).toMatchObject({ tool_calls: 0 });
    expect(JSON.parse((await command("run", "What time is it?", "--json")).stdout)).toMatchObject({ tool_calls: 0 });
  });
});

describe("the configuration over HTTP", () => {
  let listener: Server;
  const received: string[] = [];
  beforeAll(async () => {
    listener = createServer((request, response) => {
      received.push(String(request.headers.authorization));
      response.writeHead(401).end("{}");
    });
    await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  });
  afterAll(() => listener.close());

  it("[G2] [H3] names no address, variable or program anew, and nothing of the environment leaves", async () => {
    // A listening server has an address of this shape.
    const base_url = `http://127.0.0.1:${(listener.address() as AddressInfo).port}/v1`;
    const { call } = await serve([], { AWS_SECRET_ACCESS_KEY: "aws-s3cret" });
    const patches: readonly (readonly [string, object])[] = [
      ["providers.mine.base_url", { providers: { mine: { base_url, api_key_env: "AWS_SECRET_ACCESS_KEY" } } }],
      ["providers.openai.api_key_env", { providers: { openai: { api_key_env: "HOME" } } }],
      ["self_hosted.servers.s.base_url", { self_hosted: { servers: { s: { base_url } } } }],
      ["profiles.p.base_url", { profiles: { p: { model: "m", base_url } } }],
      ["shell.program", { shell: { program: "/bin/evil" } }],
      ["rest.host", { rest: { host: "0.0.0.0" } }],
      ["telemetry.endpoint", { telemetry: { enabled: true, endpoint: base_url } }],
      ["memory.embedder", { memory: { embedder: "remote", embedding_model: "openai/e", embedding_dimensions: 8 } }],
    ];
    for (const [key, patch] of patches) {
      const refused = await call("PATCH /config", patch);
      expect({ key, ...refused }).toMatchObject({ key, ...DENIED });
      expect(refused.body.message).toContain(key === "telemetry.endpoint" ? "telemetry.enabled" : key);
      expect(await call("PUT /config", { config: patch })).toMatchObject(DENIED);
    }
    const asked = { prompt: "hi", model: "mine/x", provider: "mine" };
    expect((await call("POST /sessions", asked)).status).toBe(400);
    expect(received).toEqual([]);
    expect((await call("PATCH /config", { agent: { max_turns: 9 } })).status).toBe(200);
  });
});

describe("a request that is not from here", () => {
  /** Sends a request as it stands, and answers with the status. */
  const raw = (url: string, lines: readonly string[]): Promise<number> =>
    new Promise((resolve, reject) => {
      const socket = connect(Number(new URL(url).port), "127.0.0.1", () => {
        socket.write(`${[...lines, "Connection: close", "Content-Length: 0"].join("\r\n")}\r\n\r\n`);
      });
      let reply = "";
      socket.on("data", (data) => {
        reply += data;
      });
      socket.on("error", reject);
      socket.on("close", () => resolve(Number(reply.slice(9, 12))));
    });

  it("[G3] [G4] is refused by its Host, its address, its Origin or where its page is, on both servers", async () => {
    const rest = (await serve()).url;
    const { said } = start(["mcp", "--http", "--port", "0"]);
    await expect.poll(() => said.stderr, { timeout: 60_000 }).toMatch(/listening on/);
    const mcp = /http:\S+/.exec(said.stderr)?.[0] ?? "";
    for (const [base, path] of [
      [rest, "/sessions"],
      [mcp, "/mcp"],
    ] as const) {
      const { host } = new URL(base);
      const get = (...headers: string[]) => raw(base, [`GET ${path} HTTP/1.1`, ...headers]);
      const open = await get(`Host: ${host}`);
      expect([401, 403]).not.toContain(open);
      expect(await get(`Host: ${host}`, `Origin: http://${host}`)).toBe(open);
      for (const site of ["same-origin", "none"])
        expect(await get(`Host: ${host}`, `Sec-Fetch-Site: ${site}`)).toBe(open);

      expect(await get(`Host: ${host}`, "Host: evil.example")).toBe(400);
      expect(await get(`Host: ${host}`, `Host: ${host}`)).toBe(400);
      expect(await get("Host: evil.example")).toBe(403);
      for (const other of [
        "http://evil.example",
        `http://${host}@evil.example`,
        `https://evil.example:${host.split(":")[1]}`,
      ])
        expect(await raw(base, [`GET ${other}${path} HTTP/1.1`, `Host: ${host}`])).toBe(403);
      for (const origin of ["http://localhost:3000", "http://127.0.0.1", "null", "", "http://[::1]:1"])
        expect(await get(`Host: ${host}`, `Origin: ${origin}`)).toBe(403);
      for (const site of ["cross-site", "same-site", "same-origin, cross-site", "x"])
        expect(await get(`Host: ${host}`, `Sec-Fetch-Site: ${site}`)).toBe(403);
    }
  });

  it("[G3] may lead a reader to a page, which nobody can frame", async () => {
    const { url } = await serve();
    const { host } = new URL(url);
    const from = (path: string, mode: string, dest: string) =>
      raw(url, [
        `GET ${path} HTTP/1.1`,
        `Host: ${host}`,
        "Sec-Fetch-Site: cross-site",
        `Sec-Fetch-Mode: ${mode}`,
        `Sec-Fetch-Dest: ${dest}`,
      ]);
    expect(await from("/", "navigate", "document")).toBe(200);
    expect(await from("/", "navigate", "iframe")).toBe(403);
    expect(await from("/", "no-cors", "image")).toBe(403);
    expect(await from("/sessions", "navigate", "document")).toBe(403);
    const page = await fetch(`${url}/`);
    expect(page.headers.get("x-frame-options")).toBe("DENY");
    expect(page.headers.get("content-security-policy")).toContain("frame-ancestors 'none'");
  });
});

describe("the end of a server", () => {
  const model = usePausedModel();
  const { env, finish } = model;
  const calls = () => expect.poll(() => model.asked.length, { timeout: 60_000 });

  it("[G3] waits for the turns that run, those behind their answer included, and says so", async () => {
    const { child, call, said, exited } = await serve([], env());
    const turn = call("POST /sessions", { prompt: "Tell." });
    const { session_id } = (await call("POST /sessions", { prompt: "Tell.", keep_alive: true })).body;
    await calls().toBe(2);
    child.kill("SIGTERM");
    const sentence = "waits at most 30s for 2 turns to end; a second signal leaves at once\n";
    await expect.poll(() => said.stderr, { timeout: 60_000 }).toContain(sentence);
    finish();
    expect(await turn).toMatchObject({ status: 200, body: { text: "Once upon a time." } });
    const ended = await exited;
    expect(ended.code).toBe(143);
    expect(ended.stderr).not.toContain("interrupts");
    const again = await serve();
    expect((await again.call(`GET /sessions/${session_id}`)).body).toMatchObject({
      state: "idle",
      last_assistant_text: "Once upon a time.",
    });
  });

  it("[G3] comes at once with a second signal", async () => {
    const { child, call, said, exited } = await serve(["--grace", "1h"], env());
    const turn = call("POST /sessions", { prompt: "Tell." }).catch(() => "cut off");
    await calls().toBe(1);
    child.kill("SIGINT");
    await expect.poll(() => said.stderr, { timeout: 60_000 }).toContain("waits at most 1h for 1 turn to end");
    child.kill("SIGINT");
    expect((await exited).code).toBe(130);
    expect(await turn).toBe("cut off");
  });

  it("[G4] waits for the turns of MCP clients, too, and takes no more", async () => {
    const { child, said, exited } = start(["mcp", "--http", "--port", "0"], env());
    const client = await connectMcp(said);
    const turn = caller(client)("meerkat_run", { prompt: "Tell." });
    await calls().toBe(1);
    child.kill("SIGTERM");
    await expect.poll(() => said.stderr, { timeout: 60_000 }).toContain("waits at most 30s for 1 turn to end");
    // Whatever the turn may still need of its client is heard, and another turn is not begun.
    await client.ping();
    const refused = await caller(client)("meerkat_run", { prompt: "Tell." });
    expect(refused).toMatchObject({ isError: true, payload: { error: "this server is ending" } });
    finish();
    expect((await turn).payload.content).toEqual([{ type: "text", text: "Once upon a time." }]);
    expect((await exited).code).toBe(143);
    await client.close();
  });
});
