import { describe, expect, it } from "vitest";
import { listen, scriptedRuntime } from "../../../../test/support/runtime.ts";
import { createEventQueue, type Delivery } from "./event-queue.ts";

const live = (delta: string): Delivery => ({ seq: 0, timestamp_ms: 0, event: { type: "text_delta", delta } });
const durable: Delivery = { seq: 7, timestamp_ms: 0, event: { type: "turn_started", turn_number: 0 } };

describe("listening", () => {
  it("[A3] deltas arrive while the model still talks", async () => {
    const { runtime } = scriptedRuntime([{ text: ["a", "b"], ends: "silent" }]);
    const session = await runtime.createDeferredSession("Begin.");
    const received: string[] = [];
    const stream = session.stream("Go.");
    for await (const event of stream) {
      if (event.type !== "text_delta") continue;
      received.push(event.delta);
      if (received.length === 2) await session.interrupt();
    }
    expect(received).toEqual(["a", "b"]);
  });

  it("[A3] [H5] a reader that lags loses live events, is told so, and keeps the durable ones", async () => {
    const queue = createEventQueue(2);
    for (const delta of ["1", "2", "3", "4"]) queue.listener(live(delta));
    queue.listener(durable);
    queue.end();
    const received: Delivery[] = [];
    for await (const delivery of queue) received.push(delivery);
    expect(received.map(({ event }) => event)).toEqual([
      { type: "text_delta", delta: "1" },
      { type: "text_delta", delta: "2" },
      { type: "stream_truncated", reason: "the reader lagged behind: 2 live events were dropped" },
      { type: "turn_started", turn_number: 0 },
    ]);
  });

  it("[A3] a turn ends although nobody reads its events", async () => {
    const deltas = Array.from({ length: 10_000 }, (_, index) => `${index} `);
    const { runtime } = scriptedRuntime([{ text: deltas }]);
    const stream = runtime.createSessionStreaming("Talk.");
    expect((await stream.result).text).toBe(deltas.join(""));
    const { events } = await listen(stream);
    expect(events.some((event) => event.type === "stream_truncated")).toBe(true);
    expect(events.at(-1)).toMatchObject({ type: "run_completed", result: deltas.join("") });
  });

  it("[A3] events are read by one reader; a second is refused instead of waiting for ever", async () => {
    const { runtime } = scriptedRuntime([{ text: ["a", "b"] }]);
    const stream = runtime.createSessionStreaming("Go.");
    const first = listen(stream);
    await expect(listen(stream)).rejects.toMatchObject({
      code: "INVALID_PARAMS",
      message: "the events of a turn are read once, and someone reads these already; use subscribe for a second reader",
    });
    expect((await first).events.at(-1)).toMatchObject({ type: "run_completed", result: "ab" });
  });

  it("[A3] leaving the iteration does not stop the turn", async () => {
    const { runtime } = scriptedRuntime([{ text: ["a", "b", "c"] }]);
    const stream = runtime.createSessionStreaming("Go.");
    for await (const event of stream) if (event.type === "text_delta") break;
    expect((await stream.result).text).toBe("abc");
  });
});
