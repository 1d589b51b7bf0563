import { describe, expect, it } from "vitest";
import { type SseEvent, serveRest } from "../../../../test/support/rest-server.ts";
import { createScriptedModel } from "./scripted.ts";

const listening = { accept: "text/event-stream" };

/** What was told in a stream that has ended. */
function eventsIn(text: unknown): SseEvent[] {
  const frames = String(text).split("\n\n").filter(Boolean);
  return frames.map((frame) => {
    const field = (name: string) => new RegExp(`^${name}: (.*)$`, "m").exec(frame)?.[1];
    const id = field("id");
    return {
      type: field("event") ?? "",
      id: id === undefined ? undefined : Number(id),
      data: JSON.parse(field("data") ?? ""),
    };
  });
}

const typesIn = (text: unknown): string[] => eventsIn(text).map(({ type }) => type);

describe("a turn whose client listens", () => {
  it("[G3] is told as it happens, by the names and ids of its session's events, and ends with its result", async () => {
    const { call, runtime } = await serveRest();
    const { status, headers, body } = await call("POST /sessions", { prompt: "What is 2 + 3?" }, listening);
    expect([status, headers.get("content-type")]).toEqual([200, "text/event-stream; charset=utf-8"]);
    const reported = eventsIn(body.text);
    const result = reported.at(-1);
    expect(result).toMatchObject({ type: "result", data: { text: expect.stringContaining("5"), turns: 1 } });
    const { session_id } = result?.data ?? {};
    const durable = reported.filter(({ id }) => id !== undefined).map(({ id, type, data }) => [id, type, data.payload]);
    const { events } = await runtime.dispatch("listEvents", { scope: { type: "session", session_id } });
    expect(durable).toEqual(events.map(({ cursor, payload }) => [cursor.sequence, payload.type, payload]));
    expect(reported.filter(({ type }) => type === "text_delta")).not.toEqual([]);
    expect(reported.map(({ data }) => data.source_id).slice(0, -1)).toEqual(
      Array.from({ length: reported.length - 1 }, () => `session:${session_id}`),
    );
    const again = await call(`POST /sessions/${session_id}/messages`, { prompt: "And 4 + 4?" }, listening);
    expect(new Set(typesIn(again.body.text))).toEqual(new Set(typesIn(body.text)));
  });

  it("[G3] that fails is told its events and then the error; one that is refused is answered as ever", async () => {
    const model = createScriptedModel(() => ({ ends: { failure: { kind: "invalid_request", message: "no" } } }));
    const { call } = await serveRest({ model });
    const failed = await call("POST /sessions", { prompt: "hi" }, listening);
    const reported = eventsIn(failed.body.text);
    expect(reported.map(({ type }) => type)).toEqual(["run_started", "turn_started", "run_failed", "error"]);
    const plain = await call("POST /sessions", { prompt: "hi" });
    const { session_id, details, ...same } = plain.body;
    expect(reported.at(-1)?.data).toMatchObject(same);
    const refused = await call("POST /sessions", { prompt: "" }, listening);
    expect(refused).toMatchObject({ status: 400, body: { code: "INVALID_PARAMS" } });
    const unwanted = { accept: "application/json, text/event-stream;q=0" };
    expect((await call("POST /sessions", { prompt: "hi" }, unwanted)).headers.get("content-type")).toBe(
      "application/json",
    );
    const nowhere = `POST /sessions/${session_id}x/messages`;
    expect(await call(nowhere, { prompt: "hi" }, listening)).toMatchObject({ status: 400 });
  });

  it("[G3] with a key that was used is given the first answer, without events", async () => {
    const { call } = await serveRest();
    const key = { "idempotency-key": "k", ...listening };
    const [first, second] = [
      await call("POST /sessions", { prompt: "hi" }, key),
      await call("POST /sessions", { prompt: "hi" }, key),
    ];
    expect(eventsIn(second.body.text)).toEqual([eventsIn(first.body.text).at(-1)]);
  });

  it("[G3] a compaction is heard, too", async () => {
    const { call } = await serveRest({ compaction: true });
    const { session_id } = (await call("POST /sessions", { prompt: "The port is 4711." })).body;
    for (let turn = 0; turn < 6; turn += 1) {
      await call(`POST /sessions/${session_id}/messages`, { prompt: `What is ${turn} + 1?` });
    }
    const { body } = await call(`POST /sessions/${session_id}/compact`, {}, listening);
    const reported = eventsIn(body.text);
    expect(reported.map(({ type }) => type)).toEqual(["compaction_started", "compaction_completed", "result"]);
    expect(reported.at(-1)?.data).toMatchObject({ compacted: true });
  });
});
