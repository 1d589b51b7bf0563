import { MEMORY_RETRIEVAL } from "@rkat/core/contract/memory";
import { OPERATIONS } from "@rkat/core/contract/operations";
import { createInMemoryStore } from "@rkat/core/create-runtime";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { describe, expect, it } from "vitest";
import { asFrame, type Frame, failure } from "../../../../test/support/rpc-client.ts";
import { connectRpc, REALM } from "../../../../test/support/rpc-connection.ts";

const errorOf = (frame: Frame) => asFrame(frame.error);
const isNullId = (frame: Frame) => frame.id === null;

describe("the handshake", () => {
  it("answers what clients of the 0.6 line check, and lists exactly what is served", async () => {
    const { client } = connectRpc();
    const hello = await client.request("initialize", {});
    client.notify("initialized");
    const { contract_version, capabilities } = await client.request("capabilities/get", {});

    expect(hello).toMatchObject({
      server_info: { name: "meerkat-rpc", version: "0.6.30" },
      contract_version: "0.6.30",
    });
    const rows = Object.values(OPERATIONS).map((row) => row.rpc);
    expect(hello.methods).toEqual(expect.arrayContaining(rows));
    expect(contract_version).toEqual({ major: 0, minor: 6, patch: 30 });
    expect(capabilities).toContainEqual(expect.objectContaining({ id: "session_store", status: "Available" }));
  });

  it("serves every method it lists, and no other", async () => {
    const { client } = connectRpc();
    const { methods } = await client.request("initialize");
    const requests = (methods as string[]).filter((name) => !["initialized", "cancel"].includes(name));
    const numbers = await Promise.all(
      requests.map((name) =>
        client.request(name).then(
          () => 0,
          (error) => error.number,
        ),
      ),
    );
    expect(numbers).not.toContain(-32601);
    for (const name of ["mob/create", "session/transcript_revisions", "help/ask", "toString", "__proto__"]) {
      await expect(client.request(name)).rejects.toEqual(failure(-32601, "METHOD_NOT_FOUND"));
    }
  });

  it("describes its host in the wire's form", async () => {
    const { client } = connectRpc();
    expect(await client.request("runtime/health")).toMatchObject({ status: "ok" });
    expect(await client.request("runtime/capabilities")).toMatchObject({
      features: { event_replay: true, mobs: false },
    });
    expect(await client.request("runtime/host_info")).toMatchObject({
      process_name: "meerkat-rpc",
      realm: { realm_id: REALM },
      endpoints: { rpc_transport: "stdio" },
    });
    expect(await client.request("skills/list")).toEqual({ skills: [] });
    const remembering = connectRpc({ memory: {} });
    // [D2] What is in every prompt is listed.
    expect(await remembering.client.request("skills/list")).toEqual({ skills: [MEMORY_RETRIEVAL] });
    expect(await client.request("models/catalog")).toMatchObject({ contract_version: { minor: 6 } });
  });
});

describe("the protocol", () => {
  it("[H1] answers what is no request and goes on", async () => {
    const { client } = connectRpc();
    client.raw("{not json\n\n  \n[]\n");
    client.raw(Uint8Array.of(0xff, 0xfe, 0x0a));
    client.raw('{"jsonrpc":"2.0","id":"a","method":7}\n');
    await client.request("runtime/health");
    expect(client.frames.filter(isNullId).map((frame) => errorOf(frame).code)).toEqual([-32700, -32600, -32700]);
    expect(client.frames.find((frame) => frame.id === "a")).toMatchObject({
      jsonrpc: "2.0",
      error: { code: -32600, data: { code: "INVALID_REQUEST", category: "validation" } },
    });
  });

  it("[H5] refuses a line over 64 MiB once and reads the next", async () => {
    const { client } = connectRpc();
    const block = Buffer.alloc(16 * 1_024 * 1_024, "x");
    for (let blocks = 0; blocks < 5; blocks += 1) client.raw(block);
    client.raw("\n");
    await client.request("runtime/health");
    expect(client.frames.filter(isNullId)).toEqual([
      expect.objectContaining({ error: expect.objectContaining({ code: -32032 }) }),
    ]);
  });

  it("echoes ids as they were written, and answers no notification", async () => {
    const { input, output, ended, logged } = connectRpc();
    const raw: string[] = [];
    output.on("data", (data) => raw.push(...String(data).trim().split("\n")));
    for (const id of ["12345678901234567890", '"text"', "0"]) {
      input.write(`{"jsonrpc":"2.0","id":${id},"method":"runtime/health"}\n`);
    }
    input.write('{"jsonrpc":"2.0","method":"session/list"}\n{"jsonrpc":"2.0","method":"nope"}\n');
    input.end('{"jsonrpc":"2.0","id":1,"method":"runtime/health"}');
    await ended;
    const ids = raw.map((line) => /"id":([^,]*),/.exec(line)?.[1]);
    expect(ids).toEqual(["12345678901234567890", '"text"', "0", "1"]);
    expect(logged).toEqual([expect.stringContaining("session/list"), expect.stringContaining("nope")]);
  });

  it("[H1] names the field that is wrong; unknown fields are ignored", async () => {
    const { client } = connectRpc();
    const wrong = failure(-32602, "INVALID_PARAMS", /prompt/);
    await expect(client.request("session/create", {})).rejects.toEqual(wrong);
    await expect(client.request("session/create", [])).rejects.toEqual(failure(-32602, "INVALID_PARAMS", /params/));
    await expect(client.request("session/read", { session_id: "x" })).rejects.toEqual(
      failure(-32602, "INVALID_PARAMS", /session_id/),
    );
    const created = await client.request("session/create", { prompt: "hi", peer_meta: {}, comms_name: "" });
    expect(created.text).toEqual(expect.any(String));
  });

  it("[H5] refuses more requests at once than its bound, and still hears an interrupt", async () => {
    const model = createScriptedModel(() => ({ ends: "silent" }));
    const { client } = connectRpc({ model });
    const started = Array.from({ length: 1_025 }, () => client.start("session/create", { prompt: "wait" }));
    await expect(started.at(-1)?.result).rejects.toEqual(failure(-32013, "AGENT_ERROR", /1024/));
    client.notify("cancel", { request_id: started[0]?.id });
    await expect(started[0]?.result).rejects.toEqual(failure(-32005, "REQUEST_CANCELLED"));
    client.end();
  });
});

describe("the end of a connection", () => {
  it("answers what was asked, interrupts what runs and keeps it", async () => {
    const store = createInMemoryStore();
    const model = createScriptedModel([{ text: "half", ends: "silent" }]);
    const { client, ended, runtime } = connectRpc({ model, store });
    const { result } = client.start("session/create", { prompt: "wait" });
    await client.frame((frame) => JSON.stringify(frame).includes("half"));
    const { result: listed } = client.start("session/list");
    client.end();
    const error = await result.catch((thrown) => thrown);
    await ended;
    expect(error).toEqual(failure(-32005, "REQUEST_CANCELLED"));
    expect(await listed).toMatchObject({ sessions: [{ state: "running" }] });
    expect(await runtime.readSession(error.data.session_id)).toMatchObject({
      state: "idle",
      lastAssistantText: "half",
    });
  });

  it("also comes by signal, by a broken output and by an input that breaks", async () => {
    const bySignal = connectRpc();
    bySignal.interrupt.abort(143);
    await bySignal.ended;
    const byOutput = connectRpc();
    byOutput.output.destroy(new Error("EPIPE"));
    await byOutput.ended;
    const byInput = connectRpc();
    byInput.input.destroy(new Error("EIO"));
    await byInput.ended;
  });
});
