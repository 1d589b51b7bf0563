import { describe, expect, it } from "vitest";
import { serveRest } from "../../../../test/support/rest-server.ts";
import { createScriptedModel } from "./scripted.ts";

describe("the configuration over HTTP", () => {
  it("[G2] [G3] is read, set and patched, with no word of where it is kept", async () => {
    const { call } = await serveRest({ realm: { realm_id: "team", backend: "embedded" } });
    const read = await call("GET /config");
    expect(read).toMatchObject({ status: 200, body: { generation: 0, realm_id: "team", backend: "embedded" } });
    expect(read.body).not.toHaveProperty("resolved_paths");
    const set = await call("PUT /config", { config: read.body.config, expected_generation: 0 });
    expect(set).toMatchObject({ status: 200, body: { ...read.body, generation: 1 } });
    const bare = { agent: { max_turns: 9, system_prompt: "Be brief." } };
    expect(await call("PATCH /config", bare)).toMatchObject({ status: 200, body: { generation: 2, config: bare } });
    const patch = { patch: { agent: { system_prompt: null } } };
    const patched = await call("PATCH /config", patch);
    expect(patched.body.config).toMatchObject({ agent: { max_turns: 9 } });
    expect(JSON.stringify(patched.body)).not.toContain("Be brief.");
  });

  it("[G2] [H1] refuses what is wrong, late or too much at once", async () => {
    const { call } = await serveRest();
    expect(await call("PATCH /config", { agent: { modle: "x" } })).toMatchObject({
      status: 400,
      body: { code: "INVALID_PARAMS", message: "patch: agent.modle is not a known key; did you mean agent.model?" },
    });
    expect(await call("PUT /config", { config: {}, expected_generation: 4 })).toMatchObject({
      status: 400,
      body: {
        code: "INVALID_PARAMS",
        message: "Generation conflict: expected 4, current 0",
        details: { type: "generation_conflict", expected_generation: 4, current_generation: 0 },
      },
    });
    expect(await call("PUT /config", {})).toMatchObject({ status: 400, body: { code: "INVALID_PARAMS" } });
    expect((await call("GET /config")).body).toMatchObject({ generation: 0 });
    expect((await call("DELETE /config")).headers.get("allow")).toBe("GET, HEAD, PATCH, PUT");
  });
});

describe("an external event over HTTP", () => {
  it("[G3] is shown to the model at its next call", async () => {
    const model = createScriptedModel(() => ({ text: "ok" }));
    const { call } = await serveRest({ model });
    const { session_id } = (await call("POST /sessions", { prompt: "hi" })).body;
    const event = { event_type: "deploy", payload: { to: "web-7" }, idempotency_key: "d1" };
    const path = `POST /sessions/${session_id}/external-events`;
    expect(await call(path, event)).toMatchObject({ status: 200, body: { outcome_type: "accepted", input_id: "d1" } });
    expect((await call(path, event)).body).toEqual({ outcome_type: "deduplicated", existing_id: "d1" });
    await call(`POST /sessions/${session_id}/messages`, { prompt: "and?" });
    expect(JSON.stringify(model.requests.at(-1)?.messages)).toContain("web-7");
    expect(await call(path, { event_type: "x", kind: "other" })).toMatchObject({ status: 400 });
  });

  it("[G3] a session that is kept alive answers at once", async () => {
    const { call, runtime } = await serveRest();
    const { status, body } = await call("POST /sessions", { prompt: "What is 2 + 3?", keep_alive: true });
    expect({ status, body }).toMatchObject({ status: 200, body: { text: "", turns: 0 } });
    const id = String(body.session_id);
    const ended = { state: "idle", lastAssistantText: "2 + 3 = 5" };
    await expect.poll(() => runtime.readSession(id), { timeout: 20_000 }).toMatchObject(ended);
    expect((await call("POST /sessions", { prompt: "What is 2 + 3?", keep_alive: null })).body.turns).toBe(1);
  });
});
