import { mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Audited } from "@rkat/core/contract/caller";
import { OPERATIONS } from "@rkat/core/contract/operations";
import { createInMemoryStore, type RuntimeOptions } from "@rkat/core/create-runtime";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import { createMemoryStoreInMemory } from "@rkat/core/stores/recall-in-memory";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { eventsUntil, readEvents, serveOperated } from "../../../../test/support/rest-server.ts";
import { serveCalls } from "./calls.ts";

const ID = expect.stringMatching(/^[0-9a-f-]{36}$/);
const TIME = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
const NUMBER = expect.any(Number);
const TOKEN = "tok-of-mine-0123456789";

describe("a request", () => {
  it("[I6] has a line that says which, how it went and how long it took", async () => {
    const { call, reported } = await serveOperated();
    const { body, headers } = await call("POST /sessions", { prompt: "Hello." });
    const { session_id } = body;
    await call(`GET /sessions/${session_id}?x=1`);
    const [made, refused] = await reported("request", 2);
    expect(made).toEqual({
      time: TIME,
      level: "info",
      kind: "request",
      id: headers.get("x-request-id"),
      token: "anonymous",
      operation: "createSession",
      session: session_id,
      method: "POST",
      route: "/sessions",
      status: 200,
      ms: NUMBER,
      bytes: NUMBER,
    });
    expect(refused).toEqual({
      time: TIME,
      level: "warn",
      kind: "request",
      id: ID,
      token: "anonymous",
      operation: "readSession",
      method: "GET",
      route: "/sessions/{session_id}",
      status: 400,
      ms: NUMBER,
      bytes: NUMBER,
      code: "INVALID_PARAMS",
      error: "an input is missing or wrong; the message names the field",
    });
  });

  it("[I6] keeps the id it brings where that is sane, and is given one otherwise", async () => {
    const { call, reported } = await serveOperated();
    const idFor = async (given: string) =>
      (await call("GET /health", undefined, { "x-request-id": given })).headers.get("x-request-id");
    expect(await idFor("req-7/a.b:c")).toBe("req-7/a.b:c");
    for (const wrong of ["a b", 'a"b', "a;b", "x".repeat(129), "ä"]) expect(await idFor(wrong)).toEqual(ID);
    expect((await reported("request", 6)).map(({ id }) => id)).toEqual(["req-7/a.b:c", ID, ID, ID, ID, ID]);
  });

  it("[I6] is told of by the name of whoever asks, where that is known", async () => {
    const { operator, runtime, reported, call } = await serveOperated({}, {});
    const { dispatch } = serveCalls(runtime, { clock: createSystemClock(), log: () => {}, operator });
    await call("GET /health");
    const caller = { name: "web", scopes: new Set(["read" as const]), labels: {} };
    // What a server that knows its callers does for each request.
    const { createServer } = await import("node:http");
    const server = createServer((request, response) => {
      const seen = operator.begin(request, response);
      void seen.serve(() => dispatch("listSessions", {}, { caller })).then(() => response.end("{}"));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close());
    const address = server.address();
    if (address === null || typeof address === "string") throw new Error("it listens at no port");
    await (await fetch(`http://127.0.0.1:${address.port}/`)).text();
    expect((await reported("request", 2)).at(-1)).toMatchObject({
      token: "web",
      operation: "listSessions",
      status: 200,
    });
  });

  it("[I6] [H3] leaves nothing in the log of what was said, its query, its token or a key", async () => {
    const secret = "s3cret-of-the-environment";
    const { call, lines, reported } = await serveOperated({ env: { MY_API_KEY: secret } }, { token: TOKEN });
    const bearer = { authorization: `Bearer ${TOKEN}` };
    const content = "the canary sings at night and nobody but me is to know of it";
    const made = await call("POST /sessions", { prompt: content, system_prompt: content }, bearer);
    await call(`POST /sessions/${made.body.session_id}/messages`, { prompt: content, model: content }, bearer);
    await call("POST /sessions", { prompt: { text: content } }, bearer);
    await call("POST /sessions", `{"prompt": "${content}`, bearer);
    await call(`GET /sessions?q=${encodeURIComponent("canary")}&token=${TOKEN}`, undefined, bearer);
    await call("GET /sessions", undefined, { authorization: "Bearer another-token-0123456789" });
    await call(`GET /${secret}`, undefined, bearer);
    await call("POST /sessions", { prompt: "x", model: `sk-${"a1".repeat(20)}` }, bearer);
    await call("POST /sessions", `{"prompt": the canary sings}`, bearer);
    await call("POST /sessions", { prompt: "x", "the canary sings": 1 }, bearer);
    expect((await reported("request", 10)).at(2)).toMatchObject({ code: "INVALID_PARAMS", field: "prompt" });
    const log = lines.join("\n");
    for (const never of ["sings", "token-0123456789", TOKEN, secret, "a1a1a1"]) expect(log).not.toContain(never);
    expect(log).toContain("[redacted]");
  });

  it("[I6] is seen also when it is refused before anybody knows what it is", async () => {
    const { call, reported, url } = await serveOperated({}, { token: TOKEN });
    await call("GET /sessions");
    await call("GET /health", undefined, { origin: "https://evil.example" });
    const { port } = new URL(url);
    await new Promise((resolve) => {
      const socket = connect(Number(port), "127.0.0.1", () => socket.write("NONSENSE\r\n\r\n"));
      socket.on("data", () => {}).on("close", resolve);
    });
    expect(await reported("request", 3)).toMatchObject([
      { status: 401, level: "warn", code: "UNAUTHORIZED", route: "/sessions", operation: "listSessions" },
      { status: 403, level: "warn", code: "FORBIDDEN_ORIGIN", route: "/health" },
      { status: 400, level: "warn", route: "-", method: "-" },
    ]);
    expect(await reported("audit", 1)).toMatchObject([{ action: "denied", detail: "UNAUTHORIZED" }]);
  });

  it("[I6] that streams has a line when it begins and one when it ends", async () => {
    const { call, reported, url } = await serveOperated();
    const { session_id } = (await call("POST /sessions", { prompt: "Hello." })).body;
    await eventsUntil(readEvents(`${url}/sessions/${session_id}/events?last_event_id=0`), "run_completed");
    const [begun] = await reported("stream", 1);
    const [ended] = await reported("stream_end", 1);
    const path = "/sessions/{session_id}/events";
    const route = { method: "GET", route: path, operation: "listEvents", session: session_id };
    expect(begun).toMatchObject({ ...route, level: "info" });
    expect(ended).toMatchObject({ ...route, id: begun?.id, status: 200, left: true, bytes: NUMBER, ms: NUMBER });
    const answer = await call("POST /sessions", { prompt: "Hello." }, { accept: "text/event-stream" });
    expect(answer.status).toBe(200);
    expect((await reported("stream_end", 2)).at(-1)).toMatchObject({ operation: "createSession", status: 200 });
  });

  it("[I6] that changes the configuration or archives a session is told once more, without the values", async () => {
    const { call, reported } = await serveOperated();
    const { session_id } = (await call("POST /sessions", { prompt: "Hello." })).body;
    await call("PATCH /config", { agent: { max_turns: 7, system_prompt: "You know the canary." } });
    await call(`DELETE /sessions/${session_id}`);
    await call("PATCH /config", { agent: { max_turns: -1 } });
    const id = ID;
    expect(await reported("audit", 2)).toEqual([
      {
        time: TIME,
        level: "info",
        kind: "audit",
        id,
        token: "anonymous",
        operation: "patchConfig",
        action: "config_changed",
        detail: "agent.max_turns,agent.system_prompt",
      },
      {
        time: TIME,
        level: "info",
        kind: "audit",
        id,
        token: "anonymous",
        operation: "archiveSession",
        session: session_id,
        action: "session_archived",
      },
    ]);
  });
});

describe("an operation that changes something", () => {
  it("[I6] says in the table whether it is audited, and one that reads does not", () => {
    for (const [name, row] of Object.entries(OPERATIONS)) {
      const isChange = !row.http.startsWith("GET ");
      expect({ name, says: "audited" in row }).toEqual({ name, says: isChange });
      const audited: Audited | false = "audited" in row && row.audited;
      const fields = audited === false ? [] : (audited.counts ?? []);
      // What is counted is a field of what it answers.
      const answer = row.output instanceof z.ZodObject ? Object.keys(row.output.shape) : [];
      expect({ name, unknown: fields.filter((field) => !answer.includes(field)) }).toEqual({ name, unknown: [] });
    }
  });

  it("[I6] is recorded with who did it and of how many, and never with what was said", async () => {
    const model = createScriptedModel(() => ({ text: "They spoke of a canary." }));
    const { call: ask, reported } = await serveOperated(
      { model, compaction: { recentTurnBudget: 1 } },
      { token: TOKEN },
    );
    const call = (route: string, body?: unknown) => ask(route, body, { authorization: `Bearer ${TOKEN}` });
    const { session_id } = (await call("POST /sessions", { prompt: "The canary sings." })).body;
    for (let turn = 0; turn < 4; turn += 1) {
      await call(`POST /sessions/${session_id}/messages`, {
        session_id,
        prompt: `And then, canary ${turn}? ${"It rained. ".repeat(200)}`,
      });
    }
    const { entries, last_seq } = (await call(`GET /sessions/${session_id}/export`)).body;
    await call("POST /sessions/import", { source_session_id: session_id, entries, last_seq });
    const { compaction } = (await call(`POST /sessions/${session_id}/compact`, {})).body;
    await call(`POST /sessions/${session_id}/compactions/${Object(compaction).compaction_id}/undo`, {});
    await call("POST /memory/forget", { query_exact: "canary", dry_run: true });
    await call("POST /memory/forget", { query_exact: "canary" });
    await call("PATCH /config", { retention: { sessions: "90d" } });
    await call("POST /memory/prune", { dry_run: true });
    await call("POST /memory/prune", {});
    const lines = await reported("audit", 5);
    expect(lines.map(({ action, token, operation, count }) => ({ action, token, operation, count }))).toEqual([
      { action: "session_imported", token: "RKAT_TOKEN", operation: "importSession", count: last_seq },
      { action: "compaction_undone", token: "RKAT_TOKEN", operation: "undoCompaction", count: 1 },
      { action: "erased", token: "RKAT_TOKEN", operation: "forget", count: NUMBER },
      { action: "config_changed", token: "RKAT_TOKEN", operation: "patchConfig", count: undefined },
      { action: "sessions_pruned", token: "RKAT_TOKEN", operation: "prune", count: 0 },
    ]);
    expect(Number(lines[2]?.count)).toBeGreaterThan(4);
    expect(JSON.stringify(lines)).not.toContain("canary");
  });
});

describe("a turn that fails behind its answer", () => {
  it("[I6] is told with the id of the request that began it", async () => {
    const model = createScriptedModel(() => ({
      ends: { failure: { kind: "invalid_request", message: "no such thing" } },
    }));
    const { call, reported } = await serveOperated({ model });
    const { headers, body } = await call("POST /sessions", { prompt: "Go.", keep_alive: true });
    expect(await reported("turn", 1)).toMatchObject([
      { level: "warn", id: headers.get("x-request-id"), session: body.session_id, code: expect.any(String) },
    ]);
  });
});

describe("/metrics", () => {
  it("[I6] counts requests, turns, tokens, tools and compactions", async () => {
    const steps = [{ calls: [{ name: "datetime" }] }, { text: "Noon." }];
    const model = createScriptedModel((_request, index) => steps[index] ?? { text: "Done." });
    const { call } = await serveOperated({ model, compaction: true, memory: {} });
    const { session_id } = (await call("POST /sessions", { prompt: "When?", tool_preset: "safe" })).body;
    await call(`POST /sessions/${session_id}/messages`, { prompt: "And now?" });
    await call("GET /sessions/nope");
    const { status, headers, body } = await call("GET /metrics");
    expect(status).toBe(200);
    expect(headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
    const text = String(body.text);
    for (const row of [
      'rkat_http_requests_total{method="POST",route="/sessions",status="200"} 1',
      'rkat_http_requests_total{method="GET",route="/sessions/{session_id}",status="400"} 1',
      'rkat_http_request_duration_seconds_count{route="/sessions"} 1',
      'rkat_turns_total{cause="completed"} 2',
      "rkat_turn_duration_seconds_count 2",
      "rkat_turns_running 0",
      'rkat_model_calls_total{provider="scripted",model="scripted"} 3',
      'rkat_tool_calls_total{tool="datetime",outcome="ok"} 1',
      "rkat_http_requests_open 1",
      "rkat_http_streams_open 0",
      "rkat_log_lines_dropped_total 0",
      "rkat_memory_failing 0",
    ]) {
      expect(text.split("\n")).toContain(row);
    }
    expect(text).toMatch(/^rkat_model_tokens_total\{provider="scripted",model="scripted",kind="input"\} [1-9]/m);
    expect(text).toMatch(/^process_resident_memory_bytes [1-9]/m);
    // What the format allows, and nothing else.
    for (const line of text.trimEnd().split("\n")) {
      expect(line).toMatch(
        /^(?:# (?:HELP|TYPE) \S+ .+|[a-z_]+(?:\{[a-z]+="[^"\n]*"(?:,[a-z]+="[^"\n]*")*\})? -?[\d.e+-]+)$/,
      );
    }
  });

  it("[I6] tells how late the event loop is, from the second time on", async () => {
    const { call } = await serveOperated();
    await call("GET /metrics");
    await expect
      .poll(async () => String((await call("GET /metrics")).body.text), { timeout: 20_000 })
      .toMatch(/^rkat_event_loop_delay_seconds\{quantile="0.99"\} [\d.e-]+$/m);
  });

  it("[I6] needs the token where there is one, and is asked for with GET", async () => {
    const { call } = await serveOperated({}, { token: TOKEN });
    expect(await call("GET /metrics")).toMatchObject({ status: 401 });
    expect(await call("GET /metrics", undefined, { authorization: `Bearer ${TOKEN}` })).toMatchObject({ status: 200 });
    expect(await call("POST /metrics", {})).toMatchObject({ status: 401 });
    const bearer = { authorization: `Bearer ${TOKEN}` };
    expect(await call("POST /metrics", {}, bearer)).toMatchObject({ status: 405, body: { code: "METHOD_NOT_FOUND" } });
  });
});

describe("/ready", () => {
  const folderOf = (): string => {
    const folder = mkdtempSync(join(tmpdir(), "rkat-ready-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    return folder;
  };
  const fails = (why: RegExp) => ({ ok: false, why: expect.stringMatching(why) });
  const OK = { ok: true };

  it("[I6] says that everything works when it does, and changes nothing for it", async () => {
    const stateFolder = folderOf();
    const { call } = await serveOperated({ memory: {} }, { stateFolder });
    expect(await call("GET /ready")).toMatchObject({
      status: 200,
      body: { status: "ready", checks: { disk: OK, store: OK, index: OK, model: OK } },
    });
    expect((await call("GET /sessions")).body).toEqual({ sessions: [] });
    const { readdirSync } = await import("node:fs");
    expect(readdirSync(stateFolder)).toEqual([]);
  });

  it("[I6] [H1] tells no more than a word to whoever has no token", async () => {
    const { call } = await serveOperated({}, { token: TOKEN });
    expect(await call("GET /ready")).toMatchObject({ status: 200, body: { status: "ready" } });
    expect((await call("GET /ready")).body).toEqual({ status: "ready" });
    const known = (await call("GET /ready", undefined, { authorization: `Bearer ${TOKEN}` })).body;
    expect(known).toEqual({ status: "ready", checks: { model: OK } });
  });

  it("[I6] is unready with a disk that is full, or that is gone", async () => {
    const full = await serveOperated({}, { stateFolder: folderOf(), freeBytesMin: Number.MAX_SAFE_INTEGER });
    expect(await full.call("GET /ready")).toMatchObject({
      status: 503,
      body: { status: "unready", checks: { disk: fails(/^\d+ MiB are free, less than \d+ MiB$/), store: OK } },
    });
    const gone = await serveOperated({}, { stateFolder: join(folderOf(), "gone") });
    expect(await gone.call("GET /ready")).toMatchObject({ status: 503, body: { checks: { disk: fails(/ENOENT/) } } });
  });

  it("[I6] is unready with a store that fails, and ready again when it works", async () => {
    const kept = createInMemoryStore();
    let fault: Error | undefined = new Error("the disk says EIO");
    const store: NonNullable<RuntimeOptions["store"]> = {
      ...kept,
      locks: {
        ...kept.locks,
        hold: async (id) => {
          if (fault !== undefined) throw fault;
          return kept.locks.hold(id);
        },
      },
    };
    const { call } = await serveOperated({ store }, { stateFolder: folderOf() });
    expect(await call("GET /ready")).toMatchObject({
      status: 503,
      body: { status: "unready", checks: { store: fails(/EIO/), disk: OK } },
    });
    fault = undefined;
    await expect.poll(async () => (await call("GET /ready")).status, { timeout: 20_000 }).toBe(200);
  });

  it("[I6] is degraded when what is said cannot be found, and says why", async () => {
    const memory = createMemoryStoreInMemory();
    const store = { ...memory, add: async () => Promise.reject(new Error("the index is full")) };
    const { call } = await serveOperated({ memory: { store } });
    await call("POST /sessions", { prompt: "Hello." });
    // What was said is taken in now and then, and before it is searched.
    await call("GET /memory/search?query=Hello");
    await expect
      .poll(async () => (await call("GET /ready")).body, { timeout: 20_000 })
      .toMatchObject({ status: "degraded", checks: { index: fails(/index is full/) } });
    expect((await call("GET /ready")).status).toBe(200);
    expect(String((await call("GET /metrics")).body.text)).toContain("rkat_memory_failing 1\n");
  });

  it("[I6] [H3] is degraded without the key of its model, and shows none that is there", async () => {
    const options: RuntimeOptions = { model: "anthropic/claude-sonnet-4-5" };
    const keyless = await serveOperated({ ...options, env: {} });
    expect(await keyless.call("GET /ready")).toMatchObject({
      status: 200,
      body: { status: "degraded", checks: { model: fails(/ANTHROPIC_API_KEY/) } },
    });
    const keyed = await serveOperated({ ...options, env: { ANTHROPIC_API_KEY: "sk-ant-0123456789abcdef" } });
    const { body } = await keyed.call("GET /ready");
    expect(body).toMatchObject({ status: "ready", checks: { model: OK } });
    expect(JSON.stringify(body)).not.toContain("sk-ant");
  });

  it("[I6] is unready from when the server is asked to end, which /health outlives", async () => {
    const { server, operator, call } = await serveOperated();
    operator.end();
    expect(await call("GET /ready")).toMatchObject({
      status: 503,
      body: { status: "unready", checks: { server: fails(/ending/) } },
    });
    expect(await call("GET /health")).toMatchObject({ status: 200, body: { text: "ok" } });
    await server.close();
  });
});
