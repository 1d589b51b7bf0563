import { afterEach, describe, expect, it } from "vitest";
import { connectMcp } from "../../../../test/support/mcp-connection.ts";

let close: (() => Promise<void>) | undefined;
const connect: typeof connectMcp = async (...given) => {
  const connection = await connectMcp(...given);
  close = connection.close;
  return connection;
};
afterEach(() => close?.());

describe("meerkat_config", () => {
  it("[G2] [G4] gets, sets and patches", async () => {
    const { call } = await connect();
    const { payload: first } = await call("meerkat_config", { action: "get" });
    expect(first).toMatchObject({ generation: 0, config: { agent: { max_turns: 100 } } });
    const set = await call("meerkat_config", { action: "set", config: first.config, expected_generation: 0 });
    expect(set.payload).toEqual({ ...first, generation: 1 });
    const patch = { agent: { max_turns: 9 } };
    const patched = await call("meerkat_config", { action: "patch", patch });
    expect(patched).toMatchObject({ isError: false, payload: { generation: 2, config: patch } });
  });

  it("[G4] [H1] says what is wrong, and changes nothing", async () => {
    const { call } = await connect();
    const failed = async (args: Record<string, unknown>) => (await call("meerkat_config", args)).payload;
    expect(await failed({})).toMatchObject({
      code: "INVALID_PARAMS",
      error: expect.stringMatching(/^action: write one/),
    });
    expect(await failed({ action: "set" })).toMatchObject({ error: expect.stringMatching(/^config: write the conf/) });
    expect(await failed({ action: "patch", config: { agent: {} } })).toMatchObject({ code: "INVALID_PARAMS" });
    expect(await failed({ action: "set", config: {}, expected_generation: 3 })).toMatchObject({
      code: "INVALID_PARAMS",
      details: { type: "generation_conflict", expected_generation: 3, current_generation: 0 },
    });
    const stray = { code: "INVALID_PARAMS", error: "config: only set takes it, and this is get" };
    expect(await failed({ action: "get", config: { agent: { max_turns: 9 } } })).toMatchObject(stray);
    expect(await failed({ action: "set", config: {}, patch: {} })).toMatchObject({
      error: "patch: only patch takes it, and this is set",
    });
    expect(await failed({ action: "get", expected_generation: null })).toMatchObject({ generation: 0 });
    expect(await failed({ action: "get" })).toMatchObject({ generation: 0 });
  });
});

describe("meerkat_external_event", () => {
  it("[G4] is accepted once", async () => {
    const { call } = await connect();
    const { session_id } = (await call("meerkat_run", { prompt: "hi" })).payload;
    const event = { session_id, event_type: "deploy", payload: [1], idempotency_key: "d1" };
    expect((await call("meerkat_external_event", event)).payload).toEqual({ outcome_type: "accepted", input_id: "d1" });
    const again = { ...event, payload: [2] };
    expect((await call("meerkat_external_event", again)).payload).toMatchObject({ outcome_type: "rejected" });
  });
});
