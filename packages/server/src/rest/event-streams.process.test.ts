import { connect } from "node:net";
import type { Tool } from "@rkat/core/ports/tool";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import { describe, expect, it } from "vitest";
import { eventsUntil, readEvents, type SseEvent, serveRest } from "../../../../test/support/rest-server.ts";

const durable = (events: readonly SseEvent[]) => events.filter(({ id }) => id !== undefined);
const idsOf = (events: readonly SseEvent[]) => durable(events).map(({ id }) => id);
const typesOf = (events: readonly SseEvent[]) => events.map(({ type }) => type);

/** A tool that is at work until it is let go. */
function gate() {
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
  const { promise: opened, resolve: open } = Promise.withResolvers<void>();
  const execute = async () => {
    begin();
    await opened;
    return "through";
  };
  const tool: Tool = { name: "wait", description: "waits", inputSchema: {}, execute };
  return { tool, begun, open };
}

describe("a session's events", () => {
  it("[G3] begin with session_loaded, carry envelopes with ids, and end with done", async () => {
    const { url, call, server, runtime } = await serveRest();
    const { session_id } = (await call("POST /sessions", { prompt: "What is 2 + 3?" })).body;
    const events: SseEvent[] = [];
    const reading = (async () => {
      for await (const event of readEvents(`${url}/sessions/${session_id}/events`)) events.push(event);
    })();
    await expect.poll(() => events.length).toBe(1);
    await call(`POST /sessions/${session_id}/messages`, { prompt: "What is 4 + 4?" });
    await expect.poll(() => typesOf(events)).toContain("run_completed");
    await server.drain(0);
    await runtime.close();
    await server.close();
    await reading;

    expect(events[0]).toEqual({ type: "session_loaded", id: undefined, data: { session_id, message_count: 2 } });
    expect(events.at(-1)).toEqual({ type: "done", id: undefined, data: {} });
    const reported = events.slice(1, -1);
    expect(reported[0]).toMatchObject({
      type: "run_started",
      data: { source: { type: "session", session_id }, payload: { type: "run_started", session_id } },
    });
    for (const { type, id, data } of reported) {
      expect(data.payload?.type).toBe(type);
      expect(data.seq).toBe(id ?? 0);
    }
    expect(typesOf(reported)).toContain("text_delta");
  });

  it("[G3] can be resumed from any id without loss or repeat; 0 is all of them", async () => {
    const { url, call } = await serveRest();
    const { session_id } = (await call("POST /sessions", { prompt: "What is 2 + 3?" })).body;
    const at = `${url}/sessions/${session_id}/events`;
    const all = durable(await eventsUntil(readEvents(at, { "last-event-id": "0" }), "run_completed"));
    const { events } = (await call(`GET /sessions/${session_id}/events/list`)).body;
    expect(all.map(({ data }) => data.payload)).toEqual((events as SseEvent["data"][]).map(({ payload }) => payload));
    for (const { id = 0 } of all.slice(0, -1)) {
      const rest = all.filter((event) => (event.id ?? 0) > id);
      expect(durable(await eventsUntil(readEvents(`${at}?last_event_id=${id}`), "run_completed"))).toEqual(rest);
    }
    // A browser that comes back has the address of its first visit, and the header knows better.
    const late = readEvents(`${at}?last_event_id=0`, { "last-event-id": String(all.at(-2)?.id) });
    expect(durable(await eventsUntil(late, "run_completed"))).toEqual(all.slice(-1));
  });

  it("[G3] lose nothing to a reader that leaves and comes back in the middle of the first turn", async () => {
    const { tool, begun, open } = gate();
    const model = createScriptedModel([
      { text: "I will wait.", calls: [{ name: "wait" }] },
      { text: ["All ", "done."] },
    ]);
    const { url, call, runtime } = await serveRest({ model, tools: [tool] });
    const created = call("POST /sessions", { prompt: "wait" });
    await begun;
    const [{ sessionId: session_id } = { sessionId: "" }] = await runtime.listSessions();
    const at = `${url}/sessions/${session_id}/events`;

    const before = await eventsUntil(readEvents(at, { "last-event-id": "0" }), "tool_call_requested");
    const after = readEvents(at, { "last-event-id": String(idsOf(before).at(-1)) });
    expect((await after.next()).value).toMatchObject({ type: "session_loaded", data: { session_id } });
    open();
    const rest = await eventsUntil(after, "run_completed");
    expect(await created).toMatchObject({ status: 200, body: { session_id, text: "All done." } });

    const whole = await eventsUntil(readEvents(at, { "last-event-id": "0" }), "run_completed");
    expect([...durable(before), ...durable(rest)]).toEqual(durable(whole));
    expect(typesOf(rest)).toContain("text_delta");
  });

  it("[G3] are whole to a reader that leaves again and again, whenever it likes", async () => {
    const model = createScriptedModel((_, index) =>
      index % 2 === 0 ? { calls: [{ name: "none" }] } : { text: ["a", "b"] },
    );
    const { url, call } = await serveRest({ model });
    const { session_id } = (await call("POST /sessions", { prompt: "x", initial_turn: "deferred" })).body;
    const at = `${url}/sessions/${session_id}/events`;
    const TURNS = 12;
    const turning = (async () => {
      for (let turn = 0; turn < TURNS; turn += 1) await call(`POST /sessions/${session_id}/messages`, { prompt: "go" });
    })();
    const received: SseEvent[] = [];
    const isWhole = () => typesOf(received).filter((type) => type === "run_completed").length === TURNS;
    // It leaves after one event, then two, then three, up to seven, and begins again.
    for (let visit = 1; !isWhole(); visit += 1) {
      let patience = (visit % 7) + 1;
      for await (const event of readEvents(at, { "last-event-id": String(idsOf(received).at(-1) ?? 0) })) {
        if (event.id !== undefined) received.push(event);
        patience -= event.id === undefined ? 0 : 1;
        if (patience === 0 || isWhole()) break;
      }
    }
    await turning;
    const { events } = (await call(`GET /sessions/${session_id}/events/list`)).body;
    // Rows of the list are envelopes in other words.
    const durableOnes = events as { payload: unknown }[];
    expect(received.map(({ data }) => data.payload)).toEqual(durableOnes.map(({ payload }) => payload));
  }, 20_000);

  it("[H5] a reader that takes nothing delays no turn, and finds everything durable again", async () => {
    const text = Array.from({ length: 20_000 }, (_, index) => `${index} `);
    const { url, call } = await serveRest({ model: createScriptedModel([{ text: "ready" }, { text }]) });
    const { session_id } = (await call("POST /sessions", { prompt: "begin" })).body;
    const { port } = new URL(url);
    const socket = connect(Number(port), "127.0.0.1");
    socket.write(`GET /sessions/${session_id}/events HTTP/1.1\r\nhost: localhost\r\n\r\n`);
    await new Promise((resolve) => socket.once("data", resolve));
    socket.pause();
    expect(await call(`POST /sessions/${session_id}/messages`, { prompt: "talk" })).toMatchObject({ status: 200 });

    let seen = "";
    socket.on("data", (data) => {
      seen += data;
    });
    socket.resume();
    await expect.poll(() => seen.includes("event: run_completed"), { timeout: 10_000 }).toBe(true);
    expect(seen).toContain("event: stream_truncated");
    socket.destroy();
    const again = await eventsUntil(
      readEvents(`${url}/sessions/${session_id}/events?last_event_id=1`),
      "run_completed",
    );
    const ids = idsOf(again);
    expect(ids).toEqual(ids.map((_, index) => (ids[0] ?? 0) + index));
  }, 30_000);

  it("[H5] are kept alive by comments, and let go of a reader that takes nothing for too long", async () => {
    const system = createSystemClock();
    // A thousand times as fast: a beat is 15 ms, and a reader is waited for 60.
    const clock = { ...system, sleep: (ms: number, signal: AbortSignal) => system.sleep(ms / 1_000, signal) };
    const { url, call } = await serveRest({ model: createScriptedModel([{ text: "ok" }]) }, { clock });
    const { session_id } = (await call("POST /sessions", { prompt: "x", initial_turn: "deferred" })).body;
    const socket = connect(Number(new URL(url).port), "127.0.0.1");
    let seen = "";
    socket.on("data", (data) => {
      seen += data;
    });
    socket.write(`GET /sessions/${session_id}/events HTTP/1.1\r\nhost: localhost\r\n\r\n`);
    await expect.poll(() => seen.split(": heartbeat\n\n").length).toBeGreaterThan(2);
    socket.pause();
    // More than the system holds for a connection on its own.
    await call(`POST /sessions/${session_id}/messages`, { prompt: "x".repeat(15 * 1_024 * 1_024) });
    await new Promise((resolve) => setTimeout(resolve, 200));
    const closed = new Promise((resolve) => socket.on("close", resolve));
    socket.on("error", () => {}); // A reset is a close.
    socket.resume();
    await closed;
    expect(seen).not.toContain("event: run_completed");
    expect(await call("GET /health")).toMatchObject({ status: 200 });
  }, 20_000);

  it("[H5] are refused to one reader too many, and for a session that is not there", async () => {
    const { url, call } = await serveRest();
    const { session_id } = (await call("POST /sessions", { prompt: "hi" })).body;
    const nobody = "01900000-0000-7000-8000-000000000000";
    expect(await call(`GET /sessions/${nobody}/events`)).toMatchObject({ status: 404 });
    expect(await call("GET /sessions/x/events")).toMatchObject({ status: 400 });
    const leaving = new AbortController();
    const open = () => fetch(`${url}/sessions/${session_id}/events`, { signal: leaving.signal });
    const streams: Response[] = [];
    // Not all at once: a busy machine would take some of them for clients that never send their request.
    while (streams.length < 2_048) streams.push(...(await Promise.all(Array.from({ length: 64 }, open))));
    expect(new Set(streams.map(({ status }) => status))).toEqual(new Set([200]));
    const refused = await call(`GET /sessions/${session_id}/events`);
    expect(refused).toMatchObject({ status: 503, body: { code: "AGENT_ERROR" } });
    leaving.abort();
    // Two thousand connections take a while to be closed where much else is going on.
    const soon = { timeout: 30_000, interval: 200 };
    await expect
      .poll(async () => {
        const again = new AbortController();
        const { status } = await fetch(`${url}/sessions/${session_id}/events`, { signal: again.signal });
        again.abort();
        return status;
      }, soon)
      .toBe(200);
  }, 90_000);
});
