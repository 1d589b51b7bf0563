import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, openSync, rmSync } from "node:fs";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { caller, createClient } from "./support/mcp-connection.ts";
import { usePausedModel } from "./support/paused-model.ts";
import { createCaller } from "./support/rest-server.ts";

// Each test starts processes, and the machine may be busy.
vi.setConfig({ testTimeout: 120_000 });

const cli = join(import.meta.dirname, "../packages/rkat/dist/cli.js");
const TIMEOUT = { timeout: 60_000 };

let folder: string;
const started: ChildProcess[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "rkat-operator-"));
});
afterEach(async () => {
  await Promise.all(
    started.splice(0).map(async (child) => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const closed = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGKILL");
      await closed;
    }),
  );
  rmSync(folder, { recursive: true });
});

/** Starts the command; what it says on stderr is kept, unless it is to go elsewhere. */
function start(words: readonly string[], env: Record<string, string> = {}, stderr: "pipe" | number = "pipe") {
  const own = { PATH: process.env.PATH, HOME: folder, RKAT_MODEL: "offline", ...env };
  const child = spawn(process.execPath, [cli, ...words], { cwd: folder, env: own, stdio: ["ignore", "pipe", stderr] });
  started.push(child);
  const said = { stdout: "", stderr: "" };
  child.stdout?.on("data", (data) => {
    said.stdout += data;
  });
  child.stderr?.on("data", (data) => {
    said.stderr += data;
  });
  const exited = new Promise<number | null>((resolve) => child.on("exit", (code) => resolve(code)));
  return { child, said, exited };
}

/** `rkat serve` of the folder on a free port. */
async function serve(flags: readonly string[] = [], ...rest: [env?: Record<string, string>, stderr?: number]) {
  const process = start(["serve", "--port", "0", "--json", ...flags], ...rest);
  await expect.poll(() => process.said.stdout, TIMEOUT).toContain("\n");
  const { url } = JSON.parse(process.said.stdout) as { url: string }; // What `--json` promises.
  return { ...process, url, call: createCaller(url) };
}

const linesOf = ({ stderr }: { readonly stderr: string }) => stderr.trimEnd().split("\n");

describe("the log of a server in a process of its own", () => {
  it("[I6] is text unless it is told otherwise, and begins with the lines it always had", async () => {
    const { call, said, url } = await serve();
    await call("GET /sessions");
    await expect.poll(() => said.stderr, TIMEOUT).toContain("operation=listSessions");
    const [first, second, third] = linesOf(said);
    expect(first).toBe(`rkat serve: listening at ${url} (console at ${url}/); try`);
    expect(second).toMatch(/^ {2}curl /);
    expect(third).toMatch(
      /^time=\S+ level=info kind=request id=\S+ token=anonymous operation=listSessions method=GET route=\/sessions status=200 ms=\S+ bytes=\d+$/,
    );
  });

  it("[I6] is JSON from the first line to the last where that is asked for, by a flag or by the environment", async () => {
    for (const [flags, env] of [[["--log", "json"], {}] as const, [[], { RKAT_LOG: "json" }] as const]) {
      const { call, child, said, exited } = await serve(flags, env);
      await call("POST /sessions", { prompt: "Hello." });
      await call("GET /nothing");
      child.kill("SIGTERM");
      expect(await exited).toBe(143);
      const lines = linesOf(said).map((line) => JSON.parse(line));
      expect(lines.map(({ kind }) => kind)).toEqual(["notice", "request", "request"]);
    }
  });

  it("[I6] is off where that is asked for; any other word is refused", async () => {
    const { call, child, said, exited } = await serve(["--log", "off"]);
    await call("GET /nothing");
    child.kill("SIGTERM");
    expect(await exited).toBe(143);
    expect(linesOf(said).length).toBe(2);
    const wrong = start(["serve", "--log", "loud"]);
    expect(await wrong.exited).toBe(2);
    expect(wrong.said.stderr).toBe("rkat serve: --log loud: write one of text, json, off\n");
    const unset = start(["serve"], { RKAT_LOG: "loud" });
    expect(await unset.exited).toBe(2);
    expect(unset.said.stderr).toBe("rkat serve: RKAT_LOG loud: write one of text, json, off\n");
  });

  it("[I6] [G4] tells of the calls of MCP clients, and the same numbers are there", async () => {
    const { said } = start(["mcp", "--http", "--port", "0", "--log", "json"]);
    await expect.poll(() => said.stderr, TIMEOUT).toContain("listening on");
    const address = new URL(/http:[^\s"]+/.exec(said.stderr)?.[0] ?? "");
    const client = createClient();
    // The SDK's own class, whose optional fields are written in another way than its interface's.
    const transport = new StreamableHTTPClientTransport(address) as Parameters<typeof client.connect>[0];
    await client.connect(transport);
    const { payload } = await caller(client)("meerkat_run", { prompt: "Hello." });
    await caller(client)("meerkat_read", { session_id: "01900000-0000-7000-8000-000000000000" });
    await expect.poll(() => said.stderr, TIMEOUT).toContain("SESSION_NOT_FOUND");
    const lines = linesOf(said).map((line) => JSON.parse(line));
    const ran = {
      kind: "request",
      route: "/mcp",
      operation: "createSession",
      session: payload.session_id,
      status: 200,
    };
    expect(lines).toContainEqual(expect.objectContaining({ ...ran, level: "info" }));
    expect(lines).toContainEqual(expect.objectContaining({ operation: "readSession", level: "warn", status: 200 }));
    await client.close();
    const call = createCaller(address.origin);
    expect(await call("GET /ready")).toMatchObject({ status: 200, body: { status: "ready" } });
    expect(String((await call("GET /metrics")).body.text)).toContain('rkat_turns_total{cause="completed"} 1\n');
  });

  it("[I6] [H5] that nobody reads neither stops the server nor fills its memory", async () => {
    const { child, url, call, exited } = await serve();
    child.stderr?.removeAllListeners("data");
    child.stderr?.pause();
    const dropped = async () =>
      Number(/^rkat_log_lines_dropped_total (\d+)$/m.exec(String((await call("GET /metrics")).body.text))?.[1]);
    await askOften(url, `/${"x".repeat(400)}`, 4_000);
    expect(await dropped()).toBeGreaterThan(0);
    expect(await call("POST /sessions", { prompt: "What is 2 + 3?" })).toMatchObject({ status: 200 });
    // Whoever reads again is told how many are missing.
    let text = "";
    child.stderr?.on("data", (data) => {
      text += data;
    });
    child.stderr?.resume();
    await expect
      .poll(async () => {
        await call("GET /health");
        return text;
      }, TIMEOUT)
      .toMatch(/ kind=dropped lines=\d+\n/);
    child.kill("SIGTERM");
    expect(await exited).toBe(143);
  });

  it("[I6] that was closed does not end the server", async () => {
    const { child, call, exited } = await serve();
    child.stderr?.destroy();
    for (let asked = 0; asked < 20; asked += 1) await call("GET /nothing");
    expect(await call("POST /sessions", { prompt: "What is 2 + 3?" })).toMatchObject({ status: 200 });
    expect(String((await call("GET /metrics")).body.text)).toMatch(/^rkat_log_lines_dropped_total [1-9]/m);
    child.kill("SIGTERM");
    expect(await exited).toBe(143);
  });

  it.skipIf(!existsSync("/dev/full"))("[I6] that lies on a full disk does not end the server", async () => {
    const { child, call, exited } = await serve([], {}, openSync("/dev/full", "w"));
    for (let asked = 0; asked < 5; asked += 1) await call("GET /nothing");
    expect(await call("POST /sessions", { prompt: "What is 2 + 3?" })).toMatchObject({ status: 200 });
    child.kill("SIGTERM");
    expect(await exited).toBe(143);
  });
});

describe("a server whose folder is taken away", () => {
  it("[I6] is alive and not ready", async () => {
    const { call } = await serve();
    expect(await call("GET /ready")).toMatchObject({ status: 200, body: { status: "ready" } });
    rmSync(join(folder, ".rkat"), { recursive: true });
    await expect.poll(async () => (await call("GET /ready")).status, TIMEOUT).toBe(503);
    expect((await call("GET /ready")).body).toMatchObject({ status: "unready", checks: { disk: { ok: false } } });
    expect(await call("GET /health")).toMatchObject({ status: 200, body: { text: "ok" } });
  });
});

describe("a server that is asked to end", () => {
  const model = usePausedModel();

  it("[I6] begins no turn, serves what a running one may need, and says how many it waits for", async () => {
    const { child, call, said, exited } = await serve(["--grace", "10m", "--log", "off"], model.env());
    const turns = [call("POST /sessions", { prompt: "One." }), call("POST /sessions", { prompt: "Two." })];
    await expect.poll(() => model.asked.length, TIMEOUT).toBe(2);
    child.kill("SIGTERM");
    await expect.poll(() => said.stderr, TIMEOUT).toContain("waits at most 10m for 2 turns to end");
    const refused = await call("POST /sessions", { prompt: "Three." });
    expect(refused).toMatchObject({ status: 503, body: { error: "this server is ending" } });
    expect(refused.headers.get("retry-after")).toBe("1");
    expect(await call("GET /sessions")).toMatchObject({ status: 200 });
    expect(await call("GET /health")).toMatchObject({ status: 200, body: { text: "ok" } });
    expect(await call("GET /ready")).toMatchObject({ status: 503, body: { status: "unready" } });
    expect(String((await call("GET /metrics")).body.text)).toContain("rkat_turns_running 2\n");
    model.finish([model.asked[0]]);
    await expect.poll(() => said.stderr, TIMEOUT).toContain("rkat serve: still waits for 1 turn\n");
    model.finish([model.asked[1]]);
    expect((await Promise.all(turns)).map(({ status, body }) => [status, body.text])).toEqual([
      [200, "Once upon a time."],
      [200, "Once upon a time."],
    ]);
    expect(await exited).toBe(143);
    expect(said.stderr).not.toContain("interrupts");
  });
});

/** Asks the same thing often, over a few connections. */
async function askOften(url: string, path: string, times: number): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 8 });
  const ask = () =>
    new Promise<void>((resolve, reject) => {
      const sent = request(`${url}${path}`, { agent }, (response) => response.resume().on("end", resolve));
      sent.on("error", reject).end();
    });
  await Promise.all(Array.from({ length: times }, ask));
  agent.destroy();
}
