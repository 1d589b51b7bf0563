import { type ChildProcessWithoutNullStreams, spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { OPERATIONS } from "@rkat/core/contract/operations";
import { EXTRA_TOOLS } from "@rkat/core/contract/wire/mcp-tools";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { caller, createClient } from "./support/mcp-connection.ts";

const root = join(import.meta.dirname, "..");
const door = join(root, "packages/rkat/dist/mcp.js");
const cli = join(root, "packages/rkat/dist/cli.js");

let home: string;
beforeAll(() => {
  home = mkdtempSync(join(tmpdir(), "rkat-mcp-"));
});
afterAll(() => rmSync(home, { recursive: true }));

const environment = (env: Record<string, string> = {}) => ({ PATH: process.env.PATH ?? "", HOME: home, ...env });

function folder(name: string): string {
  const path = join(home, name);
  mkdirSync(path, { recursive: true });
  return path;
}

/** The real process, spoken with as any client of the SDK does. */
async function connect(cwd: string, args: readonly string[], env: Record<string, string> = {}) {
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [...args],
    cwd,
    env: environment(env),
    stderr: "pipe",
  });
  let stderr = "";
  transport.stderr?.on("data", (data) => {
    stderr += data;
  });
  const client = createClient();
  await client.connect(transport);
  return { client, call: caller(client), pid: transport.pid ?? 0, stderr: () => stderr };
}

/** The process alone, with pipes. */
function start(cwd: string, args: readonly string[], env: Record<string, string> = {}) {
  const child: ChildProcessWithoutNullStreams = spawn(process.execPath, [door, ...args], {
    cwd,
    env: environment(env),
  });
  child.stdin.on("error", () => {}); // A server that refuses its flags closes it early.
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (data) => {
    stdout += data;
  });
  child.stderr.on("data", (data) => {
    stderr += data;
  });
  const exited = new Promise<{ code: number | null; stdout: string; stderr: string }>((resolve) =>
    child.on("close", (code) => resolve({ code, stdout, stderr })),
  );
  return { child, exited, stderr: () => stderr };
}

describe("rkat-mcp on stdin and stdout", () => {
  it("[G4] serves the table's tools to a client of the SDK, and finds its sessions again", async () => {
    const cwd = folder("project");
    const first = await connect(cwd, [door]);
    const { tools } = await first.client.listTools();
    const rows = Object.values(OPERATIONS).flatMap((row) => ("mcp" in row && !("mcpListed" in row) ? [row.mcp] : []));
    expect(new Set(tools.map(({ name }) => name))).toEqual(new Set([...rows, ...Object.keys(EXTRA_TOOLS)]));
    const steps: unknown[] = [];
    const ran = await first.client.callTool(
      { name: "meerkat_run", arguments: { prompt: "What is 2 + 3?", model: "offline" } },
      undefined,
      { onprogress: ({ message }) => steps.push(message) },
    );
    expect(steps).toEqual(["model call 1"]);
    // The text is the payload, which the client has checked against the tool's schema.
    const { session_id, content } = ran.structuredContent as { session_id: string; content: unknown };
    expect(content).toEqual([{ type: "text", text: expect.stringContaining("5") }]);
    await first.client.close();
    expect(first.stderr()).toBe("");

    // The same project by the other door: `rkat mcp` is the same server.
    const second = await connect(cwd, [cli, "mcp"]);
    expect((await second.call("meerkat_sessions")).payload).toMatchObject({ sessions: [{ session_id }] });
    const { payload } = await second.call("meerkat_resume", { session_id, prompt: "What is 4 + 4?" });
    expect(payload.content[0].text).toContain("8");
    const { payload: hits } = await second.call("search_project_history", { query: "what is 2 + 3" });
    expect(hits[0]).toMatchObject({ session_id });
    await second.client.close();
    expect(readFileSync(join(cwd, ".rkat/realms/.gitignore"), "utf8")).toBe("*\n");
  });

  it("[G4] is a memory for any client with --memory-only, which lasts", async () => {
    const cwd = folder("remembering");
    const first = await connect(cwd, [cli, "mcp", "--memory-only"]);
    expect(first.client.getInstructions()).toMatch(/^This server is a long-term memory/);
    await first.call("agent_remember", { agent: "ada", content: "The staging host is called tern." });
    await first.client.close();
    const second = await connect(cwd, [door, "--memory-only"]);
    const { tools } = await second.client.listTools();
    expect(tools.map(({ name }) => name).filter((name) => /run|resume/.test(name))).toEqual([]);
    expect((await second.call("agent_context", { agent: "ada" })).payload.prompt).toContain("tern");
    const { payload } = await second.call("search_project_history", { query: "staging host" });
    expect(payload[0]).toMatchObject({ agent: "ada", content: expect.stringContaining("tern") });
    await second.client.close();
  });

  it("[U3] recalls every fact that a compaction of Claude Code removed, from the transcript that its hook names", async () => {
    const cwd = folder("compacted elsewhere");
    const said = (of: object, at: number) =>
      JSON.stringify({
        uuid: `00000000-0000-4000-8000-${String(at).padStart(12, "0")}`,
        parentUuid: at === 0 ? null : `00000000-0000-4000-8000-${String(at - 1).padStart(12, "0")}`,
        sessionId: "0a1b2c3d-1111-4222-8333-444455556666",
        cwd,
        timestamp: `2026-11-18T10:00:${String(at).padStart(2, "0")}.000Z`,
        ...of,
      });
    const user = (content: string) => ({ type: "user", message: { role: "user", content } });
    const facts = Array.from({ length: 10 }, (_, at) => ({ host: `pond${at}-heron`, port: 41_000 + 37 * at }));
    const lines = [
      ...facts.map(({ host, port }) => user(`The host ${host} has port ${port}.`)),
      {
        type: "system",
        subtype: "compact_boundary",
        content: "",
        compactMetadata: { trigger: "auto", preTokens: 900 },
      },
      { ...user("Summary: hosts and ports were listed."), isCompactSummary: true },
      user("Which hosts were there?"),
    ].map(said);
    const transcript_path = join(folder("transcripts"), "it's one.jsonl");
    writeFileSync(transcript_path, `${lines.join("\n")}\n`);
    const input = JSON.stringify({ transcript_path, cwd, hook_event_name: "PreCompact" });
    const hooked = spawnSync(process.execPath, [cli, "connect-hook"], { cwd, env: environment({}), input });
    expect({ code: hooked.status, stderr: String(hooked.stderr) }).toEqual({ code: 0, stderr: "" });

    const { client, call } = await connect(cwd, [cli, "mcp", "--memory-only"]);
    for (const { host, port } of facts) {
      const { payload } = await call("recall_compacted", { query: `which port has ${host}`, limit: 1 });
      expect(payload.results[0].content).toBe(`The host ${host} has port ${port}.`);
      const [{ receipt, not_in_summary }] = payload.compactions;
      expect(receipt.lost).toBe(0);
      expect(not_in_summary.map(({ text }: { text: string }) => text)).toContain(String(port));
    }
    await client.close();
  });

  it("keeps what it is told in the user's folder when a client starts it in the root of the file system", async () => {
    const { client, call } = await connect("/", [door, "--memory-only"], { XDG_DATA_HOME: join(home, "data") });
    await call("agent_remember", { agent: "ada", content: "x" });
    await client.close();
    expect(readdirSync(join(home, "data/rkat/realms"))).toContain("default");
  });

  it("[F3] [D11] without capabilities, answers with their codes and makes no folder", async () => {
    const cwd = folder("unkept");
    const { client, call } = await connect(cwd, [door], { RKAT_FEATURES: "none" });
    expect(await call("meerkat_sessions")).toMatchObject({
      isError: true,
      payload: { code: "SESSION_PERSISTENCE_DISABLED" },
    });
    expect(await call("memory_search", { query: "x" })).toMatchObject({
      isError: true,
      payload: { code: "MEMORY_STORE_DISABLED" },
    });
    await client.close();
    expect(existsSync(join(cwd, ".rkat"))).toBe(false);
  });

  it("[H1] outlives garbage, and ends with its input, writing nothing but messages to stdout", async () => {
    const { child, exited } = start(folder("garbage"), []);
    for (let line = 0; line < 200; line += 1) child.stdin.write(`${"{[\"'x\\".slice(line % 7)}${line}\u0000\n`);
    child.stdin.write(Uint8Array.of(0xff, 0xfe, 0x0a));
    child.stdin.write('{"jsonrpc":"2.0","id":1,"method":"ping"}\n');
    child.stdin.end();
    const { code, stdout, stderr } = await exited;
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const answers = stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(answers.at(-1)).toEqual({ jsonrpc: "2.0", id: 1, result: {} });
  });

  it("[H1] refuses flags it cannot follow in one sentence, with the table's exit code", async () => {
    const sentence = (pattern: RegExp) => ({ code: 2, stdout: "", stderr: expect.stringMatching(pattern) });
    const cwd = folder("flags");
    const refused = (...args: string[]) => start(cwd, args).exited;
    expect(await refused("--port", "1")).toEqual(sentence(/^rkat-mcp: --port is for a server over HTTP.*\n$/));
    expect(await refused("--http", "--host", "0.0.0.0")).toEqual(sentence(/^rkat-mcp: 0\.0\.0\.0 .*RKAT_TOKEN.*\n$/));
    expect(await refused("--realm", "a/b")).toEqual(sentence(/^rkat-mcp: .*cannot name a realm.*\n$/));
  });
});

describe("rkat-mcp over HTTP", () => {
  it("[G4] serves on a port of this machine until a signal, and asks for its token", async () => {
    const { child, exited, stderr } = start(folder("http"), ["--http", "--port", "0"], { RKAT_TOKEN: "s3cret" });
    await expect.poll(stderr, { timeout: 60_000 }).toMatch(/listening on http:\/\/127\.0\.0\.1:\d+\/mcp\n/);
    const [url = ""] = /http:\S+/.exec(stderr()) ?? [];
    expect((await fetch(url, { method: "POST", body: "{}" })).status).toBe(401);
    const client = createClient();
    const headers = { authorization: "Bearer s3cret" };
    const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
    // The SDK's own class, whose optional fields are written in another way than its interface's.
    await client.connect(transport as Parameters<typeof client.connect>[0]);
    const { payload } = await caller(client)("meerkat_run", { prompt: "What is 2 + 3?", model: "offline" });
    expect(payload.content[0].text).toContain("5");
    child.kill("SIGTERM");
    expect(await exited).toMatchObject({ code: 143, stdout: "" });
    expect(stderr()).not.toContain("s3cret");
    await client.close();
  });
});
