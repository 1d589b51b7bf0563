import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { listen, typesOf } from "../../../test/support/runtime.ts";
import { type ConnectOptions, connect } from "./index.ts";

const failure = (code: string, message: RegExp) =>
  expect.objectContaining({ name: "RuntimeError", code, message: expect.stringMatching(message) });

let home: string;
beforeAll(() => {
  home = mkdtempSync(join(tmpdir(), "rkat-client-"));
});
afterAll(() => rmSync(home, { recursive: true }));
const env = () => ({ PATH: process.env.PATH, HOME: home });

/** A server that says what a test wrote for it: `answer` is code, of a frame, that gives frames. */
function strangeServer(answer: string): ConnectOptions {
  const code = `
    const hello = { contract_version: "0.6.99" };
    const answer = ${answer};
    require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
      const frame = JSON.parse(line);
      const told = frame.method === "initialize" || frame.method === "capabilities/get"
        ? [{ id: frame.id, result: hello }] : answer(frame);
      for (const one of told ?? []) console.log(typeof one === "string" ? one : JSON.stringify(one));
    });`;
  return { command: process.execPath, args: ["-e", code] };
}

async function strange(answer: string) {
  const client = await connect(strangeServer(answer));
  onTestFinished(() => client.close());
  return client;
}

describe("connecting over stdio", () => {
  it("[G6] starts the package's own server, whose sessions outlive it in a realm", async () => {
    const lines: string[] = [];
    const options = { args: ["--realm", "demo", "--realm-backend", "jsonl"], cwd: home, env: env() };
    const one = await connect({ ...options, log: (line) => lines.push(line) });
    const { id, text } = await one.createSession("What is 2 + 3?", { model: "offline", enableMemory: true });
    expect(text).toContain("5");
    await one.close();
    expect(lines.join("\n")).toContain("rkat-rpc: ");
    const two = await connect(options);
    expect(await two.readSession(id)).toMatchObject({ messageCount: 2 });
    await two.close();
  });

  it("[G6] [H5] is told what the server does not even parse, and goes on", async () => {
    const client = await connect({ args: ["--isolated"], cwd: home, env: env() });
    onTestFinished(() => client.close());
    const appContext = Array(260_000).fill(1);
    const tooMuch = client.createSession("hi", { model: "offline", appContext });
    await expect(tooMuch).rejects.toEqual(failure("INVALID_PARAMS", /more than 250000 values/));
    expect((await client.createSession("What is 2 + 3?", { model: "offline" })).text).toContain("5");
  });

  it("[G6] starts what MEERKAT_BIN_PATH names instead, and `rkat` by its word for it", async () => {
    const rkat = join(home, "rkat");
    const door = join(import.meta.dirname, "../../rkat/src/cli.ts");
    writeFileSync(rkat, `#!/bin/sh\nexec "${process.execPath}" "${door}" "$@"\n`, { mode: 0o700 });
    const named = { ...env(), MEERKAT_BIN_PATH: rkat };
    const client = await connect({ command: "no-such-command", args: ["--isolated"], cwd: home, env: named });
    expect((await client.dispatch("readCapabilities", {})).contract_version.minor).toBe(6);
    await client.close();
  });

  it("[G6] says in one sentence why a command is no server", async () => {
    const node = process.execPath;
    const isNo = (options: ConnectOptions, code: string, message: RegExp) =>
      expect(connect(options)).rejects.toEqual(failure(code, message));
    await isNo({ command: "no-such-command" }, "INVALID_PARAMS", /^command: cannot start no-such-command: there is no/);
    await isNo(
      { command: node, args: ["-e", "console.log('Hi')"] },
      "AGENT_ERROR",
      /wrote a line that is not JSON-RPC: "Hi"/,
    );
    await isNo({ command: node, args: ["-e", ""] }, "AGENT_ERROR", /^\S*node -e {2}ended with exit code 0$/);
    await isNo({ args: ["--nope"] }, "AGENT_ERROR", /^rkat-rpc --nope ended with exit code 2; its output: .*--nope/);
    await isNo({ command: "cat" }, "METHOD_NOT_FOUND", /this client has no method initialize/);
    const other = strangeServer("() => []");
    const args = "args" in other ? other.args?.map((word) => word.replace("0.6.99", "0.7.0")) : [];
    await isNo({ command: node, args: args ?? [] }, "CAPABILITY_UNAVAILABLE", /speaks 0\.7 and this client .* 0\.6/);
    await isNo({ comand: "x" } as never, "INVALID_PARAMS", /comand is no option/);
    await isNo("rkat-rpc" as never, "INVALID_PARAMS", /options as an object/);
    await isNo({ runtime: {} } as never, "INVALID_PARAMS", /^runtime: /);
  });

  it("[G6] hears a server that does not say which request an event is of, where there is no doubt", async () => {
    const client = await strange(`({ id, method, params }) => {
      const session_id = "s" + id;
      const tell = (type) => ({ method: "session/event", params: { session_id: params.session_id ?? session_id, event: { type, seq: 0 } } });
      if (params.prompt === "never") return [tell("warning")];
      return [tell("run_started"), tell("run_completed"), { id, result: { session_id, text: "" } }];
    }`);
    const first = client.createSessionStreaming("one");
    expect(typesOf((await listen(first)).events)).toEqual(["run_started", "run_completed"]);
    void client.createSession("never").catch(() => {});
    const turn = await listen((await first.session).stream("two"));
    expect(typesOf(turn.events)).toEqual(["run_started", "run_completed"]);
  });

  it("[G6] keeps an error's words whose code it does not know, and skips what it does not understand", async () => {
    const client = await strange(`({ id, params }) => [
      "", { method: "session/unheard_of", params: [] }, { id: 999, result: {} }, { id: "srv-1", method: "no/such" },
      { id, error: { code: -32099, message: "short", data: { code: "BRAND_NEW", message: "all of it", details: [1] } } },
    ]`);
    const error = await client.createSession("hi").catch((thrown) => thrown);
    expect([error, error.details]).toEqual([failure("INTERNAL_ERROR", /^all of it$/), [1]]);
    const circular: Record<string, unknown> = {};
    circular.self = circular;
    await expect(client.createSession("hi", { providerParams: circular })).rejects.toEqual(
      failure("INVALID_PARAMS", /cannot be written as JSON/),
    );
  });

  it("[G6] [A3] catches up from the log when events came faster than they were read", async () => {
    const client = await strange(`({ id, method }) => {
      const scope = { type: "session", session_id: "s" };
      const event = (seq, type) => ({ seq, timestamp_ms: 5, payload: { type } });
      const tell = (event) => ({ method: "session/stream_event", params: { stream_id: "1", event } });
      if (method === "events/latest_cursor") return [{ id, result: { cursor: { scope, sequence: 6 } } }];
      if (method === "session/stream_open") {
        return [...Array(5000).fill(tell(event(0, "text_delta"))), tell(event(7, "run_completed")), { id, result: { stream_id: "1" } }];
      }
      if (method !== "events/list_since") return [{ id, result: {} }];
      globalThis.lists = (globalThis.lists ?? 0) + 1;
      const kept = { cursor: { scope, sequence: 7 }, timestamp_ms: 5, payload: { type: "run_completed" } };
      return [{ id, result: { events: globalThis.lists === 1 ? [] : [kept], has_more: false } }];
    }`);
    const types: string[] = [];
    for await (const { seq, event } of client.subscribe("s")) {
      types.push(event.type);
      if (seq === 7) break;
    }
    expect(types.filter((type) => type === "text_delta")).toHaveLength(4_096);
    expect(types.slice(4_096)).toEqual(["stream_truncated", "run_completed"]);
  });

  it("[G6] [H5] ends with a server whose line has no end", async () => {
    const client = await strange(`() => { process.stdout.write("x".repeat(65 * 1024 * 1024)); }`);
    await expect(client.createSession("hi")).rejects.toEqual(failure("PAYLOAD_TOO_LARGE", /longer than 67108864/));
    await expect(client.createSession("hi")).rejects.toEqual(failure("PAYLOAD_TOO_LARGE", /./));
  });
});
