import { createScriptedModel } from "@rkat/core/providers/scripted";
import { describe, expect, it } from "vitest";
import { asFrame, readAsClient, streamEvents, turnEvents } from "../../../../test/support/rpc-client.ts";
import { connectRpc, REALM } from "../../../../test/support/rpc-connection.ts";

const model = () => createScriptedModel(() => ({ text: "ok" }));
const isEnd = (frame: Record<string, unknown>) => frame.method === "session/stream_end";

describe("a stream of a session", () => {
  it("[A2] gives plain envelopes, numbered from 1, of turns whoever runs them", async () => {
    const { client, runtime } = connectRpc({ model: model() });
    const { session_id } = await client.request("session/create", { prompt: "before" });
    const { stream_id, ...opened } = await client.request("session/stream_open", {
      session_id: `${REALM}:${session_id}`,
    });
    await client.request("turn/start", { session_id, prompt: "here" });
    await runtime.session(String(session_id)).turn("elsewhere");
    await client.request("runtime/health");
    const closed = await client.request("session/stream_close", { stream_id });
    const frames = streamEvents(client.frames, stream_id);
    const envelopes = frames.map((frame) => asFrame(frame.event));
    const turn = ["run_started", "turn_started", "text_delta", "text_complete", "turn_completed", "run_completed"];

    expect(opened).toEqual({ session_id, opened: true });
    expect(envelopes.map((envelope) => readAsClient(asFrame(envelope.payload)))).toEqual([...turn, ...turn]);
    expect(frames.map((frame) => frame.sequence)).toEqual(frames.map((_, index) => index + 1));
    expect(Object.keys(envelopes[0] ?? {}).toSorted()).toEqual([
      "event_id",
      "payload",
      "seq",
      "source",
      "source_id",
      "timestamp_ms",
    ]);
    expect(closed).toEqual({ stream_id, closed: true, already_closed: false });
  });

  it("[A2] knows every event by the id that the turn's own client is told, live ones too", async () => {
    const { client } = connectRpc({ model: model() });
    const { session_id } = await client.request("session/create", { prompt: "before" });
    const { stream_id } = await client.request("session/stream_open", { session_id });
    const reported = client.frames.length;
    await client.request("turn/start", { session_id, prompt: "here" });
    await client.request("session/stream_close", { stream_id });
    const own = turnEvents(client.frames.slice(reported), String(session_id)).map(({ event_id, type }) => ({
      event_id,
      type,
    }));
    const streamed = streamEvents(client.frames, stream_id).map((frame) => {
      const { event_id, payload } = asFrame(frame.event);
      return { event_id, type: asFrame(payload).type };
    });
    expect(streamed.map(({ type }) => type)).toContain("text_delta");
    expect(streamed).toEqual(own);
  });

  it("[G2] ends by itself when its session is archived, and at once when it was before", async () => {
    const { client } = connectRpc({ model: model() });
    const { session_id } = await client.request("session/create", { prompt: "hi" });
    const { stream_id } = await client.request("session/stream_open", { session_id });
    await client.request("session/archive", { session_id });
    const ended = (id: unknown) => client.frame((frame) => isEnd(frame) && asFrame(frame.params).stream_id === id);
    expect(await ended(stream_id)).toMatchObject({ params: { session_id, ended: true, outcome: "remote_end" } });
    const { stream_id: late } = await client.request("session/stream_open", { session_id });
    expect(await ended(late)).toMatchObject({ params: { outcome: "remote_end" } });
  });

  it("ends once, before the answer to its closing; closing again says so", async () => {
    const { client } = connectRpc({ model: model() });
    const { session_id } = await client.request("session/create", { prompt: "hi" });
    const { stream_id } = await client.request("session/stream_open", { session_id });
    await client.request("session/stream_close", { stream_id });
    expect(client.frames.slice(-2)).toMatchObject([
      { params: { stream_id, session_id, ended: true, outcome: "explicit_close" } },
      { result: { closed: true } },
    ]);
    const again = await client.request("session/stream_close", { stream_id });
    expect(again).toEqual({ stream_id, closed: true, already_closed: true });
    expect(client.frames.filter(isEnd)).toHaveLength(1);
  });

  it("ends with the connection", async () => {
    const { client, ended } = connectRpc({ model: model() });
    const { session_id } = await client.request("session/create", { prompt: "hi" });
    const { stream_id } = await client.request("session/stream_open", { session_id });
    client.end();
    await ended;
    const end = await client.frame(isEnd);
    expect(end.params).toEqual({ stream_id, session_id, ended: true, outcome: "remote_end" });
  });

  it("[H1] [H5] is refused for a session that is not there, and beyond the bound", async () => {
    const { client } = connectRpc({ model: model() });
    const { session_id } = await client.request("session/create", { prompt: "hi" });
    const unknown = { session_id: "01999999-0000-7000-8000-000000000001" };
    await expect(client.request("session/stream_open", unknown)).rejects.toMatchObject({ number: -32001 });
    const opening = Array.from({ length: 256 }, () => client.request("session/stream_open", { session_id }));
    await Promise.all(opening);
    await expect(client.request("session/stream_open", { session_id })).rejects.toMatchObject({
      number: -32013,
      message: expect.stringContaining("256"),
    });
    client.end();
  });

  it("[A3] catches up from the log for a client that did not read", async () => {
    const deltas = Array.from({ length: 12_000 }, (_, index) => `${index} `);
    const { client, runtime, output } = connectRpc({ model: createScriptedModel([{ text: "hi" }, { text: deltas }]) });
    const { session_id } = await client.request("session/create", { prompt: "hi" });
    const { stream_id } = await client.request("session/stream_open", { session_id });
    output.pause();
    const { text } = await runtime.session(String(session_id)).turn("talk");
    output.resume();
    const isLast = (frame: Record<string, unknown>) =>
      frame.method === "session/stream_event" && JSON.stringify(frame).includes("run_completed");
    await client.frame(isLast);
    const payloads = streamEvents(client.frames, stream_id).map((frame) => asFrame(asFrame(frame.event).payload));
    expect(payloads.map(readAsClient)).toContain("stream_truncated");
    expect(payloads.filter((payload) => payload.type !== "text_delta").map(readAsClient)).toEqual([
      "run_started",
      "turn_started",
      "stream_truncated",
      "text_complete",
      "turn_completed",
      "run_completed",
    ]);
    expect(payloads.find((payload) => payload.type === "text_complete")?.content).toBe(text);
    client.end();
  });
});
