import { PassThrough } from "node:stream";
import { createInMemoryStore, createRuntime, type RuntimeOptions } from "@rkat/core/create-runtime";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import { describe, expect, it } from "vitest";
import { createServers } from "./server.ts";
import { serveStdio } from "./start.ts";

type Answer = Record<string, unknown> & { id?: unknown; error?: { code: number } };

function connect(options: RuntimeOptions = {}) {
  const runtime = createRuntime({ model: "offline", env: {}, store: createInMemoryStore(), ...options });
  const clock = createSystemClock();
  const input = new PassThrough();
  const output = new PassThrough();
  const interrupt = new AbortController();
  const parts = { runtime, realm: "r", version: "1", memoryOnly: false, clock };
  let written = "";
  output.on("data", (data) => {
    written += data;
  });
  const ended = serveStdio({ createServer: createServers(parts), input, output, clock, signal: interrupt.signal });
  const say = (message: object) => input.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  const answers = (): Answer[] =>
    written
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line));
  const answered = (id: number) => expect.poll(() => answers().some((answer) => answer.id === id)).toBe(true);
  return { runtime, input, output, interrupt, ended, say, answers, answered };
}

const capabilities = { protocolVersion: "2024-11-05", capabilities: {}, clientInfo: { name: "t", version: "1" } };

describe("MCP on two streams", () => {
  it("[G4] answers a client that greets without a word, as existing servers do", async () => {
    const { say, input, ended, answers } = connect();
    say({ id: 1, method: "initialize", params: {} });
    say({ id: 2, method: "initialize", params: { capabilities: 7 } });
    input.end();
    await ended;
    expect(answers()).toEqual([
      expect.objectContaining({ id: 2, error: expect.objectContaining({ code: -32602 }) }),
      expect.objectContaining({ id: 1, result: expect.objectContaining({ protocolVersion: "2024-11-05" }) }),
    ]);
  });

  it("negotiates the version of an older client, answers ping, and ends with the input", async () => {
    const { say, input, ended, answers } = connect();
    say({ id: 1, method: "initialize", params: capabilities });
    say({ method: "notifications/initialized" });
    say({ id: 2, method: "ping" });
    say({ id: 3, method: "resources/list" });
    say({ id: "four", method: "tools/call", params: { name: "meerkat_run", arguments: { prompt: "What is 2 + 3?" } } });
    input.end();
    await ended;
    const byId = Object.fromEntries(answers().map((answer) => [String(answer.id), answer]));
    expect(byId).toMatchObject({
      "1": { result: { protocolVersion: "2024-11-05", serverInfo: { name: "rkat-mcp" } } },
      "2": { result: {} },
      "3": { error: { code: -32601 } },
      four: { result: { content: [{ type: "text", text: expect.stringContaining("5") }] } },
    });
  });

  it("[H1] answers or ignores what is no message, whatever it is, and goes on", async () => {
    const seed = 20_261_115;
    const { say, input, ended, answers, answered } = connect();
    const lines = garbage(seed, 400);
    for (const line of lines) input.write(Buffer.concat([line, Buffer.from("\n")]));
    say({ id: 77, method: "ping" });
    await answered(77);
    const others = answers().filter(({ id }) => id !== 77);
    expect(others.length, `seed ${seed}`).toBeGreaterThan(lines.length / 4);
    expect(others.filter(({ error }) => error === undefined)).toEqual([]);
    input.end();
    await ended;
  });

  it("[H1] names what is wrong in a request of its own, and serves one that asks for a task without it", async () => {
    const { say, input, ended, answers } = connect();
    const call = { name: "meerkat_capabilities", arguments: {} };
    say({ id: 1, method: "tools/call", params: { ...call, arguments: "none" } });
    say({ id: 2, method: "tools/call" });
    say({ id: 3, method: "logging/setLevel", params: { level: "loud" } });
    say({ id: 4, method: "initialize", params: { protocolVersion: 7 } });
    say({ id: 5, method: "tools/call", params: { ...call, task: { ttl: 1 } } });
    input.end();
    await ended;
    const refused = (id: number, message: RegExp) => ({
      id,
      error: { code: -32602, message: expect.stringMatching(message), data: { code: "INVALID_PARAMS" } },
    });
    expect(answers().sort((one, other) => Number(one.id) - Number(other.id))).toMatchObject([
      refused(1, /^params\.arguments: /),
      refused(2, /^params: /),
      refused(3, /^params\.level: /),
      refused(4, /^params\.protocolVersion: /),
      { id: 5, result: { content: [{ type: "text", text: expect.stringContaining("contract_version") }] } },
    ]);
  });

  it("[H5] reads no more from a client that does not read its answers, and answers all once it does", async () => {
    const { say, input, output, ended, answers } = connect();
    output.pause();
    const pings = 5_000;
    for (let id = 0; id < pings; id += 1) say({ id, method: "ping" });
    for (let round = 0; round < 500; round += 1) await new Promise((resolve) => setImmediate(resolve));
    expect(input.readableLength + input.writableLength).toBeGreaterThan(0);
    output.resume();
    input.end();
    await ended;
    expect(answers().map(({ id }) => id)).toEqual(Array.from({ length: pings }, (_, id) => id));
  });

  it("[H5] refuses a line over 64 MiB once and reads the next", async () => {
    const { say, input, ended, answers, answered } = connect();
    const block = Buffer.alloc(16 * 1_024 * 1_024, "x");
    for (let blocks = 0; blocks < 5; blocks += 1) input.write(block);
    input.write("\n");
    say({ id: 1, method: "ping" });
    await answered(1);
    expect(answers()).toMatchObject([{ id: null, error: { code: -32032 } }, { id: 1 }]);
    input.end();
    await ended;
  });

  it("interrupts a turn at the end, however it comes", async () => {
    for (const how of ["signal", "output", "input"] as const) {
      const { say, input, output, interrupt, ended, runtime } = connect({
        model: createScriptedModel([{ text: "half", ends: "silent" }]),
      });
      say({ id: 1, method: "tools/call", params: { name: "meerkat_run", arguments: { prompt: "wait" } } });
      await expect.poll(async () => (await runtime.listSessions()).map(({ state }) => state)).toEqual(["running"]);
      if (how === "signal") interrupt.abort(143);
      else if (how === "output") output.destroy(new Error("EPIPE"));
      else input.destroy(new Error("EIO"));
      await ended;
      await expect.poll(async () => (await runtime.listSessions()).map(({ state }) => state)).toEqual(["idle"]);
      await runtime.close();
    }
  });
});

const PIECES = [
  "{}",
  "[]",
  "null",
  "7",
  '"x"',
  "{not json",
  '{"jsonrpc":"2.0"}',
  '{"jsonrpc":"1.0","id":5,"method":"ping"}',
  '{"jsonrpc":"2.0","id":{},"method":"ping"}',
  '{"jsonrpc":"2.0","id":null,"method":"ping"}',
  '{"jsonrpc":"2.0","id":6,"method":7}',
  '{"jsonrpc":"2.0","id":8,"method":"tools/call","params":[]}',
  '{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":4}}',
  '{"jsonrpc":"2.0","id":10,"method":"__proto__"}',
  '{"jsonrpc":"2.0","id":11,"result":{}}',
  '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"none"}}',
  '{"jsonrpc":"2.0","method":"notifications/cancelled","params":3}',
  `${"[".repeat(300)}`,
  "\u0000\u0001",
  "é😀",
];

/** Lines made of pieces that are cut, doubled and spoilt, the same for the same seed. */
function garbage(seed: number, count: number): readonly Buffer[] {
  let state = seed;
  const next = (below: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state % below;
  };
  return Array.from({ length: count }, () => {
    const line = Buffer.from(PIECES[next(PIECES.length)] ?? "");
    switch (next(4)) {
      case 0:
        return line.subarray(0, next(line.length + 1));
      case 1:
        return Buffer.concat([line, line]);
      case 2:
        line[next(line.length)] = 128 + next(127);
        return line;
      default:
        return line;
    }
  });
}
