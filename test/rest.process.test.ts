import { spawn } from "node:child_process";
import { accessSync, constants, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Caller, createCaller, eventsUntil, readEvents, serveRest } from "./support/rest-server.ts";
import { testSeed } from "./support/seed.ts";

const root = join(import.meta.dirname, "..");
const door = join(root, "packages/rkat/src/rest.ts");
const cli = join(root, "packages/rkat/dist/cli.js");

let home: string;
beforeAll(() => {
  home = mkdtempSync(join(tmpdir(), "rkat-rest-"));
});
afterAll(() => rmSync(home, { recursive: true }));

/** Starts a server as a process, in an empty home; without flags of its own it takes a free port. */
function start(words: readonly string[], env: Record<string, string> = {}) {
  const child = spawn(process.execPath, words, { cwd: home, env: { PATH: process.env.PATH, HOME: home, ...env } });
  child.stdin.end();
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
  const listening = async (): Promise<{ url: string; call: Caller }> => {
    while (!stdout.includes("\n")) {
      if (child.exitCode !== null) throw new Error(`it ended: ${stderr}`);
      await Promise.race([exited, new Promise((resolve) => child.stdout.once("data", resolve))]);
    }
    const { url } = JSON.parse(stdout);
    return { url, call: createCaller(url) };
  };
  return { child, exited, listening };
}

const free = ["--port", "0", "--json"];

describe("rkat-rest", () => {
  it("can be started as a file of its own", () => {
    expect(() => accessSync(door, constants.X_OK)).not.toThrow();
    expect(readFileSync(door, "utf8")).toMatch(/^#!\/usr\/bin\/env node\n/);
  });

  it("[G3] [F5] finds a realm's sessions and events again after a restart", async () => {
    const flags = [door, ...free, "--realm", "team", "--state-root", join(home, "state")];
    const first = start(flags);
    const one = await first.listening();
    expect(one.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    const created = await one.call("POST /sessions", { prompt: "What is 2 + 3?", model: "offline" });
    const { session_id } = created.body;
    expect(created).toMatchObject({ status: 200, body: { session_ref: `team:${session_id}` } });
    const at = `/sessions/${session_id}/events`;
    const [, , third] = await eventsUntil(readEvents(`${one.url}${at}?last_event_id=0`), "run_completed");
    first.child.kill("SIGTERM");
    const ended = await first.exited;
    expect(ended.code).toBe(143);
    expect(ended.stderr).toContain(`listening at ${one.url}`);
    expect(ended.stderr).toContain(`curl ${one.url}/sessions`);

    const second = start(flags);
    const two = await second.listening();
    expect(await two.call(`POST /sessions/${session_id}/messages`, { prompt: "thanks" })).toMatchObject({
      status: 200,
    });
    expect((await two.call(`GET /sessions/${session_id}`)).body).toMatchObject({ message_count: 4 });
    const resumed = await eventsUntil(
      readEvents(`${two.url}${at}`, { "last-event-id": `${third?.id}` }),
      "run_completed",
    );
    expect(resumed.find(({ id }) => id !== undefined)?.id).toBe((third?.id ?? 0) + 1);
    second.child.kill("SIGINT");
    expect((await second.exited).code).toBe(130);
    expect(readdirSync(join(home, "state")).filter((name) => !name.startsWith("."))).toEqual(["team"]);
  });

  it("[F3] loads no store that is not wanted", async () => {
    const { child, exited, listening } = start([door, ...free, "--realm", "unkept"], { RKAT_FEATURES: "none" });
    const { call } = await listening();
    const { session_id } = (await call("POST /sessions", { prompt: "hi", model: "offline" })).body;
    expect(await call(`GET /sessions/${session_id}`)).toMatchObject({
      status: 501,
      body: { code: "SESSION_PERSISTENCE_DISABLED" },
    });
    child.kill("SIGTERM");
    await exited;
    expect(existsSync(join(home, ".local/share/rkat/realms/unkept"))).toBe(false);
  });

  it("[H1] refuses what it cannot follow in one sentence, with the table's exit code", async () => {
    const sentence = (pattern: RegExp) => ({ code: 2, stdout: "", stderr: expect.stringMatching(pattern) });
    const all = await Promise.all([
      start([door, "--host", "0.0.0.0"]).exited,
      start([door, "--port", "70000"]).exited,
      start([door, "--nope"]).exited,
      start([door, "--realm", "a", "--isolated"]).exited,
      start([door, "--token", "a b"]).exited,
    ]);
    expect(all).toEqual([
      sentence(/^rkat-rest: 0\.0\.0\.0 can be reached by other machines.*RKAT_TOKEN.*\n$/),
      sentence(/^rkat-rest: --port 70000: .*\n$/),
      sentence(/^rkat-rest: Unknown option '--nope'.*\n$/),
      sentence(/^rkat-rest: .*--isolated.*\n$/),
      sentence(/^rkat-rest: the token .*\n$/),
    ]);
    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, "127.0.0.1", resolve));
    // A listening server has an address of this shape.
    const { port } = taken.address() as AddressInfo;
    expect(await start([door, "--port", String(port)]).exited).toEqual(
      sentence(/^rkat-rest: cannot listen at .*--port.*\n$/),
    );
    taken.close();
  });

  it("[G3] [H3] listens beyond loopback with a token, which it tells nobody", async () => {
    const { child, exited, listening } = start([door, ...free, "--host", "0.0.0.0"], { RKAT_TOKEN: "tok-3n-of-mine" });
    const { url } = await listening();
    const near = createCaller(url.replace("0.0.0.0", "127.0.0.1"));
    const bearer = { authorization: "Bearer tok-3n-of-mine" };
    expect(await near("GET /health")).toMatchObject({ status: 200 });
    expect(await near("GET /sessions")).toMatchObject({ status: 401, body: { code: "UNAUTHORIZED" } });
    expect(await near("GET /sessions", undefined, bearer)).toMatchObject({ status: 200 });
    expect(JSON.stringify(await near("GET /config", undefined, bearer))).not.toContain("tok-3n");
    child.kill("SIGTERM");
    expect(JSON.stringify(await exited)).not.toContain("tok-3n");
  });
});

describe("rkat serve", () => {
  it("[G3] serves the project's own sessions", async () => {
    const said = await start([cli, "run", "What is 2 + 3?", "-m", "offline", "--json"]).exited;
    const { session_id } = JSON.parse(said.stdout);
    const { child, exited, listening } = start([cli, "serve", ...free]);
    const { call } = await listening();
    expect((await call("GET /sessions")).body).toMatchObject({ sessions: [{ session_id }] });
    child.kill("SIGTERM");
    expect((await exited).code).toBe(143);
  });

  it("explains itself, with examples", async () => {
    const { code, stdout } = await start([cli, "serve", "--help"]).exited;
    expect(code).toBe(0);
    expect(stdout).toContain("rkat serve [options]");
    expect(stdout).toContain("curl -N http://127.0.0.1:8080/sessions/SESSION_ID/events");
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

  it("[G3] [P1] a signal leaves the turn to another process after a grace, answers, and ends streams with done", async () => {
    const flags = [door, ...free, "--grace", "500ms", "--realm", "cut", "--state-root", join(home, "cut")];
    const { child, exited, listening } = start(flags, env);
    const { url, call } = await listening();
    const { session_id } = (await call("POST /sessions", { prompt: "x", model: "openai/m", initial_turn: "deferred" }))
      .body;
    const following = eventsUntil(readEvents(`${url}/sessions/${session_id}/events?last_event_id=0`), "done");
    const turn = call(`POST /sessions/${session_id}/messages`, { prompt: "go" });
    await eventsUntil(readEvents(`${url}/sessions/${session_id}/events`), "text_delta").catch(() => []);
    child.kill("SIGTERM");
    expect(await turn).toMatchObject({ status: 499, body: { code: "REQUEST_CANCELLED" } });
    const events = await following;
    const ended = await exited;
    expect(ended.code).toBe(143);
    expect(ended.stderr).toContain("stops 1 turn after 500ms; what was said is kept\n");
    expect(events.map(({ type }) => type)).not.toContain("run_failed");

    const next = start(flags);
    const after = await next.listening();
    const read = (await after.call(`GET /sessions/${session_id}`)).body;
    expect(read).toMatchObject({
      state: "interrupted",
      unfinished_turn: { attempt: 1, missing: [expect.stringMatching(/^model /)] },
    });
    next.child.kill("SIGTERM");
    await next.exited;
  }, 30_000);
});

describe("a server that is sent garbage", () => {
  const REQUESTS = 300;
  const seed = testSeed();

  it(`[H1] [H5] answers an error or closes, and goes on (seed ${seed})`, async () => {
    const { url, call } = await serveRest();
    const { port } = new URL(url);
    const random = mulberry(seed);
    const replies: string[] = [];
    for (let sent = 0; sent < REQUESTS; sent += 10) {
      const batch = Array.from({ length: 10 }, () => throwAt(Number(port), garbage(random)));
      replies.push(...(await Promise.all(batch)));
    }
    for (const reply of replies) expect(reply === "" || /^HTTP\/1\.1 [2345]\d\d /.test(reply)).toBe(true);
    const statuses = replies.map((reply) => reply.slice(9, 12));
    expect(statuses).not.toContain("500");
    expect(statuses).toContain("400");
    expect(await call("GET /health")).toMatchObject({ status: 200 });
    expect(await call("POST /sessions", { prompt: "What is 2 + 3?" })).toMatchObject({ status: 200 });
  }, 60_000);
});

/** Small, and the same everywhere. */
function mulberry(start: number): () => number {
  let state = start;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Something between noise and a request that is nearly right. */
function garbage(random: () => number): Buffer {
  const pick = <T>(choices: readonly [T, ...T[]]): T => choices[Math.floor(random() * choices.length)] ?? choices[0];
  const noise = (): Buffer => Buffer.from(Array.from({ length: 1 + Math.floor(random() * 400) }, () => random() * 256));
  const body = pick(["", "{", '{"prompt":1}', '{"__proto__":{"a":1}}', "[".repeat(5_000), "null", '"\u0000"', "{}{}"]);
  const method = pick([
    "GET",
    "POST",
    "DELETE",
    "PUT",
    "PATCH",
    "OPTIONS",
    "TRACE",
    "CONNECT",
    "get",
    "G\u0000T",
    "PRI",
  ]);
  const path = pick([
    "/",
    "/sessions",
    "//",
    "*",
    "/sessions/%00",
    "/sessions/../..",
    "/%",
    "http://a/b",
    "/blobs/%2e%2e%2f",
    "/requests//cancel",
    `/${"a".repeat(9_000)}`,
    "/sessions?limit=1e9&limit[]=2",
    "/memory/search?query=%FF",
  ]);
  const length = pick([
    `content-length: ${body.length}`,
    "content-length: -1",
    "content-length: 5, 6",
    "transfer-encoding: chunked",
    "transfer-encoding: x",
    `content-length: ${body.length}\r\ntransfer-encoding: chunked`,
    "content-length: 99999999999999999999",
    "",
  ]);
  const extra = pick([
    "",
    "expect: 100-continue",
    "upgrade: websocket\r\nconnection: upgrade",
    `x: ${"y".repeat(20_000)}`,
    "a:b:c",
    ": none",
    "last-event-id: \u00ff",
    "idempotency-key: ",
  ]);
  const host = pick(["host: localhost", "host: localhost", "host: evil.example", "host: a\r\nhost: b", ""]);
  const lines = [
    `${method} ${path} ${pick(["HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/9.9", "FTP"])}`,
    host,
    "content-type: application/json",
    length,
    extra,
  ];
  const text = Buffer.from(
    `${lines.filter((line) => line !== "").join(pick(["\r\n", "\r\n", "\r\n", "\n"]))}\r\n\r\n${body}`,
    "latin1",
  );
  const kind = random();
  if (kind < 0.15) return noise();
  if (kind < 0.3) return text.subarray(0, Math.floor(random() * text.length));
  if (kind < 0.4) return Buffer.concat([text, noise()]);
  return text;
}

/** Sends bytes and the end of them, and resolves with what comes back until the connection is closed. */
function throwAt(port: number, bytes: Buffer): Promise<string> {
  return new Promise((resolve) => {
    let reply = "";
    const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: false }, () => socket.end(bytes));
    socket.on("data", (data) => {
      reply += data.toString("latin1");
    });
    socket.on("error", () => {}); // A reset is a close.
    socket.on("close", () => resolve(reply.replace("HTTP/1.1 100 Continue\r\n\r\n", "")));
  });
}
