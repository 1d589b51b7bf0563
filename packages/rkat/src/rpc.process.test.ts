import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { accessSync, constants, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { asFrame, createRpcClient, readAsClient, streamEvents, turnEvents } from "../../../test/support/rpc-client.ts";

const root = join(import.meta.dirname, "..");
const door = join(root, "dist/rpc.js");

let home: string;
beforeAll(() => {
  home = mkdtempSync(join(tmpdir(), "rkat-rpc-"));
});
afterAll(() => rmSync(home, { recursive: true }));

/** Starts the server as the clients of the 0.6 line do: directly, with pipes, in an empty home. */
function start(args: readonly string[] = [], env: Record<string, string> = {}) {
  const child: ChildProcessWithoutNullStreams = spawn(process.execPath, [door, ...args], {
    cwd: home,
    env: { PATH: process.env.PATH, HOME: home, ...env },
  });
  child.stdin.on("error", () => {}); // A server that refuses its flags closes it early.
  let stderr = "";
  child.stderr.on("data", (data) => {
    stderr += data;
  });
  const exited = new Promise<{ code: number | null; stderr: string }>((resolve) =>
    child.on("close", (code) => resolve({ code, stderr })),
  );
  return { child, client: createRpcClient(child.stdin, child.stdout), exited };
}

describe("rkat-rpc", () => {
  it("can be started as a file of its own", () => {
    const bin = join(root, "bin/rkat-rpc.js");
    expect(() => accessSync(bin, constants.X_OK)).not.toThrow();
    expect(readFileSync(bin, "utf8")).toMatch(/^#!\/usr\/bin\/env node\n/);
  });

  it("[A2] [F1] serves a client of the 0.6 line from connect to close", async () => {
    const { client, exited } = start(["--isolated", "--instance", "one"]);
    expect(await client.request("initialize", {})).toMatchObject({ contract_version: "0.6.30" });
    expect(await client.request("capabilities/get", {})).toMatchObject({ contract_version: { major: 0, minor: 6 } });

    const created = await client.request("session/create", {
      prompt: "What is 2 + 3?",
      model: "offline",
      provider: "offline",
    });
    const { session_id } = created;
    const types = turnEvents(client.frames, String(session_id)).map(readAsClient);
    expect(client.frames.at(-1)).toMatchObject({ result: { session_id } });
    expect(types[0]).toBe("run_started");
    expect(types.at(-1)).toBe("run_completed");
    expect(types.filter((type) => type.startsWith("malformed"))).toEqual([]);
    expect(created).toMatchObject({ text: expect.stringContaining("5"), turns: 1, tool_calls: 0 });

    const { stream_id } = await client.request("session/stream_open", { session_id });
    await client.request("turn/start", { session_id, prompt: "What is 4 + 4?" });
    await client.request("session/stream_close", { stream_id });
    const streamed = streamEvents(client.frames, stream_id).map((frame) => asFrame(asFrame(frame.event).payload));
    expect(streamed.map(readAsClient).at(-1)).toBe("run_completed");
    expect(await client.request("turn/interrupt", { session_id })).toEqual({ interrupted: true });
    expect(await client.request("session/history", { session_id })).toMatchObject({ message_count: 4 });

    client.end();
    expect(await exited).toEqual({ code: 0, stderr: "" });
  });

  it("[F1] finds a realm's sessions again after a restart", async () => {
    const flags = ["--realm", "team", "--state-root", join(home, "state"), "--realm-backend", "sqlite"];
    const first = start(flags);
    const { session_id, session_ref } = await first.client.request("session/create", {
      prompt: "What is 2 + 3?",
      model: "offline",
    });
    first.client.end();
    expect(await first.exited).toEqual({ code: 0, stderr: expect.stringMatching(/^rkat-rpc: .*our own backend.*\n$/) });

    const second = start(flags);
    expect(session_ref).toBe(`team:${session_id}`);
    expect(await second.client.request("session/list")).toMatchObject({ sessions: [{ session_id }] });
    expect(await second.client.request("turn/start", { session_id: session_ref, prompt: "thanks" })).toMatchObject({
      session_id,
    });
    expect(await second.client.request("session/history", { session_id })).toMatchObject({ message_count: 4 });
    second.client.end();
    await second.exited;
    expect(readdirSync(join(home, "state"))).toEqual(["team"]);
  });

  it("[F2] [F3] loads no store that is not wanted", async () => {
    const { client, exited } = start(["--realm", "unkept"], { RKAT_FEATURES: "none" });
    const { session_id } = await client.request("session/create", { prompt: "hi", model: "offline" });
    await expect(client.request("session/read", { session_id })).rejects.toMatchObject({
      number: -32020,
      data: { code: "SESSION_PERSISTENCE_DISABLED" },
    });
    client.end();
    await exited;
    expect(existsSync(join(home, ".local/share/rkat/realms/unkept"))).toBe(false);
  });

  it("[H1] refuses flags it cannot follow in one sentence, with the table's exit code", async () => {
    const sentence = (pattern: RegExp) => ({ code: 2, stderr: expect.stringMatching(pattern) });
    expect(await start(["--realm", "a", "--isolated"]).exited).toEqual(sentence(/^rkat-rpc: .*--isolated.*\n$/));
    expect(await start(["--realm", "a/b"]).exited).toEqual(sentence(/^rkat-rpc: .*cannot name a realm.*\n$/));
    expect(await start(["--tcp", "127.0.0.1:0"]).exited).toEqual(sentence(/^rkat-rpc: --tcp is not served.*\n$/));
    expect(await start(["--nope"]).exited).toEqual(sentence(/^rkat-rpc: Unknown option '--nope'.*\n$/));
    expect(await start(["serve"]).exited).toEqual(sentence(/^rkat-rpc: Unexpected argument 'serve'.*\n$/));
  });
});

describe("with a model that never ends", () => {
  let server: Server;
  let env: Record<string, string>;

  beforeAll(async () => {
    server = createServer((request, response) => {
      request.resume();
      response.writeHead(200, { "content-type": "text/event-stream" });
      const chunk = { id: "1", choices: [{ index: 0, delta: { role: "assistant", content: "Once upon" } }] };
      response.write(`data: ${JSON.stringify(chunk)}\n\n`); // And never another word.
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    // A listening server has an address of this shape.
    const { port } = server.address() as AddressInfo;
    env = { OPENAI_BASE_URL: `http://127.0.0.1:${port}`, OPENAI_API_KEY: "sk-test" };
  });
  afterAll(() => {
    server.closeAllConnections();
    server.close();
  });

  const speaking = async (flags: readonly string[] = []) => {
    const started = start(flags, env);
    const turn = started.client.start("session/create", { prompt: "go", model: "openai/m" });
    await started.client.frame((frame) => JSON.stringify(frame).includes("Once upon"));
    return { ...started, ...turn };
  };

  it("an interrupt ends the turn and keeps what was said", async () => {
    const { client, result, exited } = await speaking();
    const [started] = client.frames;
    const { session_id } = asFrame(started?.params);
    expect(await client.request("turn/interrupt", { session_id })).toEqual({ interrupted: true });
    await expect(result).rejects.toMatchObject({ number: -32005, data: { code: "REQUEST_CANCELLED" } });
    expect(await client.request("session/read", { session_id })).toMatchObject({ last_assistant_text: "Once upon" });
    client.end();
    expect(await exited).toMatchObject({ code: 0 });
  });

  it("answers what was asked before the end of stdin, when that takes no time", async () => {
    const { client, exited } = start(["--realm", "piped", "--state-root", join(home, "piped")]);
    const answers = [
      client.request("session/create", { prompt: "What is 2 + 3?", model: "offline" }),
      client.request("session/list"),
    ];
    client.end();
    expect(await Promise.all(answers)).toMatchObject([{ text: expect.stringContaining("5") }, {}]);
    expect(await exited).toEqual({ code: 0, stderr: "" });
  });

  it("the end of stdin interrupts the turn, and the session can go on in another process", async () => {
    const flags = ["--realm", "cut", "--state-root", join(home, "cut")];
    const { client, result, exited } = await speaking(flags);
    client.end();
    const error = await result.catch((thrown) => thrown);
    expect(error).toMatchObject({ number: -32005 });
    expect(await exited).toEqual({ code: 0, stderr: "" });

    const next = start(flags);
    const { session_id } = error.data;
    const answer = await next.client.request("turn/start", { session_id, prompt: "What is 2 + 3?", model: "offline" });
    expect(answer).toMatchObject({ session_id, text: expect.stringContaining("5") });
    next.client.end();
    await next.exited;
  });

  it("stdin and SIGTERM together end it in time, also when nobody reads", async () => {
    const { child, client, exited } = await speaking();
    child.stdout.pause();
    client.end();
    child.kill("SIGTERM");
    await new Promise((resolve) => child.on("exit", resolve));
    child.stdout.resume();
    expect(await exited).toMatchObject({ stderr: "" });
  });
});
