import { readFileSync } from "node:fs";
import { request } from "node:http";
import { ERRORS } from "@rkat/core/contract/error";
import { MEMORY_RETRIEVAL } from "@rkat/core/contract/memory";
import { OPERATIONS } from "@rkat/core/contract/operations";
import { createRuntime } from "@rkat/core/create-runtime";
import { describe, expect, it } from "vitest";
import { REALM, serveRest, serveRuntime } from "../../../../test/support/rest-server.ts";

const NOBODY = "01900000-0000-7000-8000-000000000000";

/** The path of a row with something in every place. */
const pathOf = (http: string): string =>
  http.replace(/\{(\w+)\}/g, (_, name) => ({ seq: "1", agent: "ada", blob_id: "b" })[name as string] ?? NOBODY);

describe("the routes", () => {
  it("[G3] serves every operation of the table, and nothing else", async () => {
    const { call } = await serveRest();
    const answers = await Promise.all(Object.values(OPERATIONS).map(({ http }) => call(pathOf(http))));
    expect(answers.map(({ body }) => body.code)).not.toContain("METHOD_NOT_FOUND");
    // What was refused leaves the connection as it was.
    expect((await call("GET /nope")).headers.get("connection")).toBe("keep-alive");
    expect((await call(`HEAD /sessions/${NOBODY}/events`)).status).toBe(200);
    for (const route of ["GET /nope", "GET /sessions/", "GET /", "POST /sessions/a/b/c"]) {
      expect(await call(route)).toMatchObject({ status: 404, body: { code: "METHOD_NOT_FOUND" } });
    }
  });

  it("[V2] have the documentation for models, open as the console's page is, and nothing beside it", async () => {
    const { url } = await serveRest({}, { token: "a-token-of-the-test" });
    const read = async (path: string) => {
      const response = await fetch(`${url}${path}`);
      return [response.status, response.headers.get("content-type"), await response.text()] as const;
    };
    const index = await read("/llms.txt");
    expect(index.slice(0, 2)).toEqual([200, "text/plain; charset=utf-8"]);
    const [, path = ""] = /\]\((docs\/skills\.md)\)/.exec(index[2]) ?? [];
    expect(await read(`/${path}`)).toEqual([
      200,
      "text/markdown; charset=utf-8",
      `${readFileSync("docs/skills.md", "utf8")}\n`,
    ]);
    const [status, , full] = await read("/llms-full.txt");
    expect([status, full.includes("\n# Skills\n")]).toEqual([200, true]);
    for (const other of ["/docs/spec.md", "/docs/..%2F..%2Fpackage.json", "/docs/nope.md"]) {
      expect((await read(other))[0], other).toBe(404);
    }
    expect((await read("/sessions"))[0]).toBe(401);
  });

  it("[G3] runs a session from its creation to its archive in the wire's shapes", async () => {
    const { call } = await serveRest();
    const created = await call("POST /sessions", { prompt: "What is 2 + 3?", labels: { team: "a=b" } });
    const session_id = String(created.body.session_id);
    const at = `/sessions/${session_id}`;
    expect(created).toMatchObject({
      status: 200,
      body: { session_ref: `${REALM}:${session_id}`, text: expect.stringContaining("5"), turns: 1, tool_calls: 0 },
    });

    expect(await call(`POST ${at}/messages`, { session_id, prompt: "What is 4 + 4?" })).toMatchObject({
      status: 200,
      body: { session_id, text: expect.stringContaining("8") },
    });
    const read = (await call(`GET /sessions/${REALM}:${session_id}`)).body;
    expect(read).toMatchObject({ session_id, message_count: 4, total_tokens: expect.any(Number) });
    expect(String(read.created_at)).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
    expect(String(read.updated_at)).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
    expect((await call(`GET ${at}/status`)).body).toEqual({ session_id, state: "idle" });
    expect((await call(`GET ${at}/history?offset=1&limit=2`)).body).toMatchObject({
      offset: 1,
      limit: 2,
      has_more: true,
    });
    expect((await call("GET /sessions?label=team%3Da%3Db&limit=5")).body).toMatchObject({ sessions: [{ session_id }] });
    expect((await call("GET /sessions?label=team%3Dother")).body).toEqual({ sessions: [] });
    expect((await call(`GET ${at}/events/cursor`)).body).toMatchObject({ cursor: { sequence: expect.any(Number) } });
    expect((await call(`GET ${at}/events/list?cursor=2&limit=1`)).body).toMatchObject({
      from_cursor: { sequence: 2 },
      events: [{ cursor: { sequence: 3 } }],
      has_more: true,
    });
    expect((await call(`POST ${at}/system_context`, { text: "Be brief." })).body).toEqual({ status: "staged" });
    expect((await call(`POST ${at}/interrupt`)).body).toEqual({ session_id, interrupted: true });
    expect((await call(`DELETE ${at}`)).body).toEqual({ session_id, archived: true });
    expect((await call(`DELETE /sessions/${NOBODY}`)).status).toBe(404);
  });

  it("[G3] tells of itself", async () => {
    const { call } = await serveRest();
    expect(await call("GET /health")).toMatchObject({ status: 200, body: { text: "ok" } });
    expect((await call("HEAD /health")).status).toBe(200);
    expect((await call("GET /capabilities")).body).toMatchObject({ contract_version: { major: 0, minor: 6 } });
    expect((await call("GET /models/catalog")).status).toBe(200);
    expect((await call("GET /runtime/health")).body).toMatchObject({ status: "ok" });
    const { body } = await call("GET /runtime/host_info");
    expect(body).toMatchObject({ process_name: "meerkat-rest", realm: { realm_id: REALM } });
    expect(JSON.stringify(body)).not.toContain("_root");
    expect((await call("GET /config")).body).toMatchObject({ config: { agent: { max_turns: 100 } }, generation: 0 });
    expect((await call("GET /skills")).body).toEqual({ skills: [] });
    const remembering = await serveRest({ memory: {} });
    expect((await remembering.call("GET /skills")).body).toEqual({ skills: [MEMORY_RETRIEVAL] });
  });
});

describe("what is refused", () => {
  it("[H1] [F2] is what was asked for and is not there, in a new session and in a further turn", async () => {
    const { call } = await serveRest();
    const { session_id } = (await call("POST /sessions", { prompt: "hi", enable_mob: false, peer_meta: null })).body;
    const asks = [{ enable_web_search: true }, { external_tools: [{}] }];
    for (const route of ["POST /sessions", `POST /sessions/${session_id}/messages`]) {
      for (const fields of asks) {
        const { status, body } = await call(route, { prompt: "hi", ...fields });
        expect([status, body.code]).toEqual([501, "CAPABILITY_UNAVAILABLE"]);
      }
      const { status, body } = await call(route, { prompt: "hi", skill_refs: [{ source_uuid: "a", skill_name: "b" }] });
      expect([status, body.code]).toEqual([404, "SKILL_NOT_FOUND"]);
    }
  });

  it("[H5] a body nested too deeply is refused, and brackets in a text do not count", async () => {
    const { call } = await serveRest();
    const nested = (field: string, open: string, close: string) =>
      `{"prompt":"${"[".repeat(500)}","${field}":${open.repeat(20_000)}0${close.repeat(20_000)}}`;
    const refused = {
      status: 400,
      body: { code: "INVALID_PARAMS", message: expect.stringMatching(/deeper than 128/) },
    };
    expect(await call("POST /sessions", nested("app_context", "[", "]"))).toMatchObject(refused);
    expect(await call("POST /sessions", nested("scope", '{"scope":', "}"))).toMatchObject(refused);
    expect((await call("POST /sessions", { prompt: "[".repeat(500) })).status).toBe(200);
  });

  it("[H1] a restriction that is misspelt or contradicts itself is refused, not ignored", async () => {
    const { call } = await serveRest();
    const both = { prompt: "hi", tool_filter: { Allow: ["datetime"], Deny: ["datetime"] } };
    expect(await call("POST /sessions", both)).toMatchObject({ status: 400, body: { code: "INVALID_PARAMS" } });
    const { session_id } = (await call("POST /sessions", { prompt: "hi" })).body;
    const misspelt = { prompt: "hi", flow_tool_overlay: { blocked: ["datetime"] } };
    const refused = await call(`POST /sessions/${session_id}/messages`, misspelt);
    expect(refused).toMatchObject({ status: 400, body: { code: "INVALID_PARAMS" } });
    expect(refused.body.message).toContain("blocked");
  });

  it("[H5] a body of very many values is refused before they are made", async () => {
    const { call } = await serveRest();
    const many = `{"prompt":"hi","app_context":[${"[],".repeat(300_000)}[]]}`;
    const message = "the body holds more than 250000 values";
    expect(await call("POST /sessions", many)).toMatchObject({
      status: 400,
      body: { code: "INVALID_PARAMS", message },
    });
  });

  it("[H1] names the field, with the table's code and status", async () => {
    const { call } = await serveRest({ compaction: true });
    const { session_id } = (await call("POST /sessions", { prompt: "hi", initial_turn: "deferred" })).body;
    const at = `/sessions/${session_id}`;
    const wrong: readonly (readonly [string, unknown, RegExp])[] = [
      ["POST /sessions", {}, /prompt/],
      ["POST /sessions", { prompt: "" }, /prompt/],
      ["POST /sessions", "{not json", /not JSON/],
      ["POST /sessions", "[1]", /JSON object/],
      [`POST ${at}/messages`, { session_id: NOBODY, prompt: "hi" }, /^session_id: the body has .* and the path/],
      ["GET /sessions?limit=many", undefined, /limit/],
      ["GET /sessions?limit=1&limit=2", undefined, /limit: write it once/],
      ["GET /sessions?limti=1", undefined, /limti: there is no such query parameter/],
      ["GET /sessions?label=team", undefined, /label: write it as key=value/],
      [`DELETE ${at}`, { force: true }, /force: write it in the query/],
      ["GET /sessions/no-id", undefined, /session_id/],
      [`GET /sessions/other:${session_id}`, undefined, /realm/],
      ["GET /sessions/%E0%A4%A", undefined, /percent-encoding/],
      [`PUT ${at}/pins/x`, undefined, /seq/],
      [`GET ${at}/context?at_seq=0`, undefined, /at_seq/],
      [`GET ${at}/events?last_event_id=x`, undefined, /Last-Event-ID/],
      [`GET ${at}/events?last_event_id=999`, undefined, /Last-Event-ID.* end at/],
    ];
    for (const [route, body, pattern] of wrong) {
      const { status, body: reported } = await call(route, body);
      expect({ route, status, ...reported }).toMatchObject({
        route,
        status: 400,
        code: "INVALID_PARAMS",
        category: "validation",
      });
      expect(reported.error).toMatch(pattern);
      expect(reported.message).toBe(reported.error);
    }
    expect((await call("GET /sessions")).body).toMatchObject({ sessions: [{ session_id, message_count: 0 }] });
    expect(await call(`POST /sessions/${NOBODY}/messages`, { prompt: "hi" })).toMatchObject({
      status: ERRORS.SESSION_NOT_FOUND.http,
      body: { code: "SESSION_NOT_FOUND" },
    });
  });

  it("[H1] takes JSON in UTF-8 and nothing else", async () => {
    const { url } = await serveRest();
    const send = async (type: string, body: string | Uint8Array<ArrayBuffer>, more: Record<string, string> = {}) => {
      const response = await fetch(`${url}/sessions`, {
        method: "POST",
        headers: { "content-type": type, ...more },
        body,
      });
      return { status: response.status, ...((await response.json()) as object) };
    };
    const refused = { status: 400, code: "INVALID_PARAMS" };
    expect(await send("text/plain", '{"prompt":"hi"}')).toMatchObject(refused);
    expect(await send("application/x-www-form-urlencoded", '{"prompt":"hi"}')).toMatchObject(refused);
    expect(await send("application/json", '{"prompt":"hi"}', { "content-encoding": "gzip" })).toMatchObject(refused);
    expect(await send("application/json", Uint8Array.of(0x22, 0xff, 0x22))).toMatchObject({
      ...refused,
      error: /UTF-8/,
    });
    expect(await send("application/json; charset=utf-8", '{"prompt":"hi"}')).toMatchObject({ status: 200 });
  });

  it("[G3] says which methods a path takes", async () => {
    const { call } = await serveRest();
    const answer = await call(`PATCH /sessions/${NOBODY}`);
    expect(answer).toMatchObject({ status: 405, body: { code: "METHOD_NOT_FOUND" } });
    expect(answer.headers.get("allow")).toBe("DELETE, GET, HEAD");
    expect((await call("PUT /skills", {})).status).toBe(405);
  });

  it("[H5] a body over 16 MiB, without reading it to its end", async () => {
    const { url, call } = await serveRest();
    const post = (headers: Record<string, string | number>, write: (send: (block: Buffer) => void) => void) =>
      new Promise<{ status: number | undefined; text: string }>((resolve, reject) => {
        const sent = request(`${url}/sessions`, { method: "POST", headers }, async (response) => {
          let text = "";
          for await (const chunk of response) text += chunk;
          sent.destroy();
          resolve({ status: response.statusCode, text });
        });
        sent.on("error", reject);
        write((block) => sent.write(block));
      });
    const tooLarge = { status: 413, text: expect.stringContaining("PAYLOAD_TOO_LARGE") };
    // It says how much is to come, and never sends it.
    const declared = { "content-type": "application/json", "content-length": 17 * 1_024 * 1_024 };
    expect(await post(declared, (send) => send(Buffer.from("{")))).toEqual(tooLarge);
    const block = Buffer.alloc(1_024 * 1_024, " ");
    const chunked = await post({ "content-type": "application/json" }, (send) => {
      for (let sent = 0; sent < 17; sent += 1) send(block);
    });
    expect(chunked).toEqual(tooLarge);
    const asking = { ...declared, expect: "100-continue" };
    expect(await post(asking, () => {})).toEqual(tooLarge);
    expect((await call("GET /health")).status).toBe(200);
  });

  it("[F3] [G3] answers 501 for what was not composed", async () => {
    const { call, url } = await serveRuntime(createRuntime({ model: "offline", env: {} }));
    const created = await call("POST /sessions", { prompt: "What is 2 + 3?" });
    const { session_id } = created.body;
    expect(created.status).toBe(200);
    const disabled = { status: 501, body: { code: "SESSION_PERSISTENCE_DISABLED", category: "capability" } };
    for (const route of [`GET /sessions/${session_id}`, "GET /sessions", `DELETE /sessions/${session_id}`]) {
      expect(await call(route)).toMatchObject(disabled);
    }
    expect(await call(`GET /sessions/${session_id}/history`)).toMatchObject(disabled);
    expect(await call(`POST /sessions/${session_id}/messages`, { prompt: "and 4 + 4?" })).toMatchObject({
      status: 200,
    });
    const unknown = "/sessions/01999999-0000-7000-8000-000000000001/messages";
    expect(await call(`POST ${unknown}`, { prompt: "and 4 + 4?" })).toMatchObject(disabled);
    expect(await call("GET /memory/search?query=x")).toMatchObject({
      status: 501,
      body: { code: "MEMORY_STORE_DISABLED" },
    });
    expect(await call("POST /sessions", { prompt: "x", enable_memory: true })).toMatchObject({
      status: 501,
      body: { code: "MEMORY_STORE_DISABLED" },
    });
    expect(await call("POST /sessions", { prompt: "x", compaction: {} })).toMatchObject({
      status: 501,
      body: { code: "SESSION_COMPACTION_DISABLED" },
    });
    // Its events can be followed all the same, as long as it lives.
    const stream = await fetch(`${url}/sessions/${session_id}/events`, { headers: { "last-event-id": "0" } });
    const { value } = (await stream.body?.getReader().read()) ?? {};
    expect(new TextDecoder().decode(value)).toContain("event: session_loaded");
  });
});
