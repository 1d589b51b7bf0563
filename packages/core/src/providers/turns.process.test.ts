import { describe, expect, it } from "vitest";
import { serveRest } from "../../../../test/support/rest-server.ts";
import { createScriptedModel } from "./scripted.ts";

const named = (id: string) => ({ "x-meerkat-request-id": id });
const keyed = (key: string) => ({ "idempotency-key": key });
const silent = () => createScriptedModel(() => ({ text: "half", ends: "silent" }));

describe("a request with a name", () => {
  it("[G3] can be cancelled: it answers 499, and what a creation began is archived", async () => {
    const { call, runtime } = await serveRest({ model: silent() });
    const created = call("POST /sessions", { prompt: "wait" }, named("one"));
    await expect.poll(async () => (await runtime.listSessions()).length).toBe(1);
    expect(await call("POST /sessions", { prompt: "wait" }, named("one"))).toMatchObject({
      status: 409,
      body: { code: "DUPLICATE_REQUEST_ID" },
    });
    expect((await call("POST /requests/one/cancel")).body).toEqual({ request_id: "one", cancelled: true });
    const { status, body } = await created;
    expect({ status, body }).toMatchObject({ status: 499, body: { code: "REQUEST_CANCELLED" } });
    expect(await runtime.listSessions()).toEqual([]);
    const { session_id } = body.details as { session_id: string };
    expect(await runtime.readSession(session_id)).toMatchObject({ state: "archived", lastAssistantText: "half" });
    const late = { request_id: "one", cancelled: false, reason: "already_terminal" };
    expect((await call("POST /requests/one/cancel")).body).toEqual(late);
  });

  it("[G3] that is done stays done, and one that is unknown is not found", async () => {
    const { call } = await serveRest();
    expect(await call("POST /sessions", { prompt: "hi" }, named("a/b"))).toMatchObject({ status: 200 });
    const late = { request_id: "a/b", cancelled: false, reason: "already_terminal" };
    expect((await call("POST /requests/a%2Fb/cancel")).body).toEqual(late);
    expect(await call("POST /requests/nobody/cancel")).toMatchObject({ status: 404 });
    expect(await call("POST /sessions", { prompt: "hi" }, named("x".repeat(201)))).toMatchObject({ status: 400 });
  });

  it("[F9] a second turn at once is refused, and an interrupt ends the first", async () => {
    const { call } = await serveRest({ model: silent() });
    const { session_id } = (await call("POST /sessions", { prompt: "x", initial_turn: "deferred" })).body;
    const turn = call(`POST /sessions/${session_id}/messages`, { prompt: "wait" });
    await expect.poll(async () => (await call(`GET /sessions/${session_id}/status`)).body.state).toBe("running");
    expect(await call(`POST /sessions/${session_id}/messages`, { prompt: "me too" })).toMatchObject({
      status: 409,
      body: { code: "SESSION_BUSY" },
    });
    expect((await call(`POST /sessions/${session_id}/interrupt`)).body).toEqual({ session_id, interrupted: true });
    expect(await turn).toMatchObject({ status: 499, body: { session_id, details: { session_id } } });
  });

  it("[G3] a turn goes on when its client leaves", async () => {
    const { url, runtime } = await serveRest();
    const leaving = new AbortController();
    const headers = { "content-type": "application/json" };
    const body = JSON.stringify({ prompt: "What is 2 + 3?" });
    const left = fetch(`${url}/sessions`, { method: "POST", headers, body, signal: leaving.signal }).catch(
      () => "left",
    );
    await expect.poll(async () => (await runtime.listSessions()).length).toBe(1);
    leaving.abort();
    await left;
    await expect.poll(async () => (await runtime.listSessions())[0]).toMatchObject({ state: "idle", messageCount: 2 });
  });
});

describe("an Idempotency-Key", () => {
  it("[G3] gives the first answer again, also while the first is running, and runs one turn", async () => {
    const { call, runtime } = await serveRest();
    const ask = () => call("POST /sessions", { prompt: "What is 2 + 3?" }, keyed("k1"));
    const [first, second] = await Promise.all([ask(), ask()]);
    const third = await ask();
    expect(second.body).toEqual(first.body);
    expect(third.body).toEqual(first.body);
    expect(third.headers.get("idempotent-replayed")).toBe("true");
    const at = `/sessions/${first.body.session_id}/messages`;
    const turn = () => call(`POST ${at}`, { prompt: "and 4 + 4?" }, keyed("k2"));
    expect((await turn()).body).toEqual((await turn()).body);
    expect(await runtime.listSessions()).toMatchObject([{ messageCount: 4 }]);
  });

  it("[H1] of another request is refused; a request that changed nothing may be tried again", async () => {
    const { call, runtime } = await serveRest();
    expect(await call("POST /sessions", { prompt: "" }, keyed("k"))).toMatchObject({ status: 400 });
    expect(await call("POST /sessions", { prompt: "one" }, keyed("k"))).toMatchObject({ status: 200 });
    expect(await call("POST /sessions", { prompt: "two" }, keyed("k"))).toMatchObject({
      status: 409,
      body: { code: "DUPLICATE_INPUT" },
    });
    expect(await call("POST /sessions", { prompt: "two" }, keyed("x y"))).toMatchObject({ status: 400 });
    expect(await runtime.listSessions()).toHaveLength(1);
  });

  it("[H5] [P1] has its answer kept until a thousand newer ones are known, and then still finds its session", async () => {
    const model = createScriptedModel(() => ({ text: "ok" }));
    const { call } = await serveRest({ model });
    const body = { prompt: "x", initial_turn: "deferred" };
    const first = await call("POST /sessions", body, keyed("first"));
    for (let number = 0; number < 1_024; number += 1) await call("POST /sessions", body, keyed(`k${number}`));
    const again = await call("POST /sessions", body, keyed("first"));
    expect(again.body.session_id).toBe(first.body.session_id);
    expect(again.headers.get("idempotent-replayed")).toBe(null);
  }, 20_000);
});
