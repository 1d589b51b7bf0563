import { RuntimeError } from "@rkat/core/contract/error";
import { createRuntime } from "@rkat/core/create-runtime";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { describe, expect, it, vi } from "vitest";
import { asFrame, type Frame, failure, readAsClient, turnEvents } from "../../../../test/support/rpc-client.ts";
import { connectRpc, connectTo, REALM } from "../../../../test/support/rpc-connection.ts";

const UNKNOWN = "01999999-0000-7000-8000-000000000001";

describe("a turn", () => {
  it("[A2] is told by session/event, every frame before the response", async () => {
    const model = createScriptedModel([
      { reasoning: { text: "hm" }, text: ["Hel", "lo"], calls: [{ name: "datetime", args: {} }] },
      { text: "Done" },
    ]);
    const { client } = connectRpc({ model });
    const { result } = client.start("session/create", { prompt: "hello", enable_builtins: true });
    const created = await result;
    const seen = client.frames.length;
    const session_id = String(created.session_id);
    const events = turnEvents(client.frames, session_id);

    expect(client.frames.at(-1)).toMatchObject({ id: 1, result: { text: "Done" } });
    expect(created).toMatchObject({
      session_ref: `${REALM}:${session_id}`,
      turns: 2,
      tool_calls: 1,
      usage: { input_tokens: 20, output_tokens: 10, total_tokens: 30 },
    });
    expect(events.map(readAsClient)).toEqual([
      "run_started",
      "turn_started",
      "unknown:reasoning_delta",
      "text_delta",
      "text_delta",
      "unknown:reasoning_complete",
      "text_complete",
      "tool_call_requested",
      "tool_execution_started",
      "tool_execution_completed",
      "tool_result_received",
      "turn_started",
      "text_delta",
      "text_complete",
      "turn_completed",
      "run_completed",
    ]);
    await new Promise((resolve) => setImmediate(resolve));
    expect(client.frames.length).toBe(seen);
  });

  it("[A2] carries envelope and event in one object; durable ids are those of the log", async () => {
    const { client } = connectRpc({ model: createScriptedModel([{ text: "yes" }]) });
    const { session_id } = await client.request("session/create", { prompt: "hello" });
    const scope = { type: "session", session_id };
    const page = await client.request("events/list_since", { scope });
    const events = turnEvents(client.frames, String(session_id));
    const durable = events.filter((event) => event.seq !== 0);

    expect(durable.map(({ event_id, seq, payload }) => ({ event_id, seq, payload }))).toEqual(
      (page.events as Frame[]).map(({ event_id, cursor, payload }) => ({
        event_id,
        seq: asFrame(cursor).sequence,
        payload,
      })),
    );
    for (const event of events) {
      expect(event).toMatchObject({ source: scope, source_id: `session:${session_id}`, ...asFrame(event.payload) });
      expect(event.event_id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    }
  });

  it("can be deferred, and the stashed prompt is delivered with the first", async () => {
    const model = createScriptedModel([{ text: "both" }]);
    const { client } = connectRpc({ model });
    const deferred = await client.request("session/create", { prompt: "first", initial_turn: "deferred" });
    expect(deferred).toEqual({ session_id: deferred.session_id, session_ref: `${REALM}:${deferred.session_id}` });
    const result = await client.request("turn/start", { session_id: deferred.session_id, prompt: "second" });
    expect(result.text).toBe("both");
    expect(JSON.stringify(model.requests[0]?.messages)).toContain("first\\n\\nsecond");
  });

  it("is interrupted by its session's id while it runs; idle sessions are left as they are", async () => {
    const model = createScriptedModel([{ text: "one" }, { text: ["par", "tial"], ends: "silent" }, { text: "again" }]);
    const { client } = connectRpc({ model });
    const { session_id } = await client.request("session/create", { prompt: "hi" });
    expect(await client.request("turn/interrupt", { session_id })).toEqual({ interrupted: true });
    const { result } = client.start("turn/start", { session_id, prompt: "go on" });
    await client.frame((frame) => JSON.stringify(frame).includes("tial"));
    await expect(client.request("turn/start", { session_id, prompt: "me too" })).rejects.toEqual(
      failure(-32002, "SESSION_BUSY"),
    );
    expect(await client.request("turn/interrupt", { session_id })).toEqual({ interrupted: true });
    await expect(result).rejects.toEqual(failure(-32005, "REQUEST_CANCELLED"));
    await expect(client.request("turn/interrupt", { session_id: UNKNOWN })).rejects.toEqual(
      failure(-32001, "SESSION_NOT_FOUND"),
    );
    expect(await client.request("turn/start", { session_id, prompt: "again" })).toMatchObject({ text: "again" });
  });

  it("is cancelled by its request's id; a creation that is taken back is archived", async () => {
    const model = createScriptedModel(() => ({ text: "so far", ends: "silent" }));
    const { client } = connectRpc({ model });
    const { id, result } = client.start("session/create", { prompt: "wait" });
    await client.frame((frame) => JSON.stringify(frame).includes("so far"));
    client.notify("cancel", { request_id: "no such" });
    client.notify("cancel", { request_id: id });
    const error = await result.catch((thrown) => thrown);
    expect(error).toEqual(failure(-32005, "REQUEST_CANCELLED"));
    const { session_id } = error.data;
    expect(await client.request("session/read", { session_id })).toMatchObject({ state: "archived" });
    expect(await client.request("session/list")).toEqual({ sessions: [] });
  });

  it.each([
    ["SESSION_STORE_ERROR", "SESSION_STORE_ERROR", -32006],
    ["SESSION_PERSISTENCE_DISABLED", "REQUEST_CANCELLED", -32005],
  ] as const)("is taken back; an archiving that answers %s is told as %s", async (code, reported, number) => {
    const model = createScriptedModel(() => ({ text: "so far", ends: "silent" }));
    const runtime = createRuntime({ model, env: {} });
    const dispatch: typeof runtime.dispatch = (name, ...rest) =>
      name === "archiveSession" ? Promise.reject(new RuntimeError(code, "no")) : runtime.dispatch(name, ...rest);
    const { client } = connectTo({ ...runtime, dispatch });
    const { id, result } = client.start("session/create", { prompt: "wait" });
    await client.frame((frame) => JSON.stringify(frame).includes("so far"));
    client.notify("cancel", { request_id: id });
    await expect(result).rejects.toEqual(failure(number, reported));
  });

  it("that the provider fails is an error that names the session, which stays usable", async () => {
    const model = createScriptedModel([
      { ends: { failure: { kind: "auth", message: "no such key" } } },
      { text: "ok" },
    ]);
    const { client } = connectRpc({ model });
    const error = await client.request("session/create", { prompt: "hi" }).catch((thrown) => thrown);
    expect(error).toEqual(failure(-32010, "PROVIDER_ERROR", /no such key/));
    const { session_id } = error.data;
    expect(turnEvents(client.frames, session_id).map(readAsClient)).toContain("run_failed");
    expect(await client.request("turn/start", { session_id, prompt: "again" })).toMatchObject({ text: "ok" });
  });

  it("[A3] [H5] a client that does not read loses deltas, is told so, and misses nothing durable", async () => {
    const deltas = Array.from({ length: 20_000 }, (_, index) => `${index} `);
    const { client, output, ended, runtime } = connectRpc({ model: createScriptedModel([{ text: deltas }]) });
    output.pause();
    const { result } = client.start("session/create", { prompt: "talk" });
    await vi.waitFor(async () => expect(await runtime.listSessions()).toMatchObject([{ state: "idle" }]), 20_000);
    expect(output.writableLength).toBeLessThan(100_000);
    output.resume();
    const { session_id } = await result;
    const events = turnEvents(client.frames, String(session_id));
    const types = events.map(readAsClient);
    expect(types.filter((type) => type === "text_delta").length).toBeLessThan(deltas.length);
    expect(types).toContain("stream_truncated");
    expect(events.find((event) => event.type === "text_complete")?.content).toBe(deltas.join(""));
    expect(types.at(-1)).toBe("run_completed");
    client.end();
    await ended;
  });
});

describe("sessions", () => {
  it("[F1] are read, listed, forked, injected into and archived; refs name their realm", async () => {
    const { client } = connectRpc({ model: createScriptedModel(() => ({ text: "ok" })) });
    const { session_id, session_ref } = await client.request("session/create", { prompt: "hi", labels: { team: "a" } });
    const refs = { session_id, session_ref };

    expect(await client.request("session/read", { session_id: session_ref })).toMatchObject({
      ...refs,
      labels: { team: "a" },
    });
    expect(await client.request("session/list", { labels: { team: "a" } })).toMatchObject({ sessions: [refs] });
    expect(await client.request("session/history", { session_id })).toMatchObject({
      ...refs,
      message_count: 2,
      has_more: false,
    });
    expect(await client.request("session/inject_context", { session_id, text: "note" })).toEqual({ status: "staged" });
    expect(await client.request("session/context", { session_id })).toMatchObject({ sha256: expect.any(String) });
    const fork = await client.request("session/fork_at", { session_id: session_ref, message_index: 2 });
    expect(fork).toMatchObject({
      source_session_id: session_id,
      session_ref: `${REALM}:${fork.session_id}`,
      message_count: 2,
    });
    expect(await client.request("session/resume", { session_id: session_ref, prompt: "more" })).toMatchObject(refs);
    expect(await client.request("session/archive", { session_id })).toEqual({ archived: true });
    await expect(client.request("turn/start", { session_id, prompt: "more" })).rejects.toEqual(
      failure(-32001, "SESSION_NOT_FOUND"),
    );
  });

  it("[H1] of another realm or of none are refused", async () => {
    const { client } = connectRpc();
    await expect(client.request("session/read", { session_id: `other:${UNKNOWN}` })).rejects.toEqual(
      failure(-32602, "INVALID_PARAMS", /realm other/),
    );
    await expect(client.request("session/read", { session_id: UNKNOWN })).rejects.toEqual(
      failure(-32001, "SESSION_NOT_FOUND", /Session not found/),
    );
  });

  it("have a cursor and a snapshot", async () => {
    const { client } = connectRpc();
    const { session_id, session_ref } = await client.request("session/create", { prompt: "hi" });
    const scope = { type: "session", session_id };
    const { cursor } = await client.request("events/latest_cursor", { scope: { ...scope, session_id: session_ref } });
    expect(await client.request("events/snapshot", { scope })).toMatchObject({
      contract_version: { major: 0, minor: 6, patch: 30 },
      scope,
      cursor,
      snapshot: { type: "session", session: { session_id, session_ref, state: "idle" } },
    });
    expect(await client.request("events/list_since", { scope, cursor })).toMatchObject({ events: [], has_more: false });
  });

  it("[F2] [F3] without a store are created and continued, and the rest says what is missing", async () => {
    const { client } = connectTo(createRuntime({ model: "offline", env: {} }));
    const { session_id } = await client.request("session/create", { prompt: "hi" });
    expect(await client.request("turn/start", { session_id, prompt: "more" })).toMatchObject({ session_id });
    for (const method of ["session/list", "session/read", "session/archive", "session/history"]) {
      await expect(client.request(method, { session_id })).rejects.toEqual(
        failure(-32020, "SESSION_PERSISTENCE_DISABLED"),
      );
    }
    expect(await client.request("session/stream_open", { session_id })).toMatchObject({ opened: true });
    await expect(client.request("session/stream_open", { session_id: UNKNOWN })).rejects.toEqual(
      failure(-32001, "SESSION_NOT_FOUND"),
    );
    client.end();
  });
});
