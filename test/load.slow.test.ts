import { createScriptedModel } from "@rkat/core/providers/scripted";
import { describe, expect, it } from "vitest";
import { openEventReader } from "./support/event-reader.ts";
import { type Caller, serveRest } from "./support/rest-server.ts";

const SESSIONS = 10;
const READERS = 100;
const TURNS = 5;
const TIMEOUT_MS = 120_000;

/** A turn of two calls: a tool, then a text in pieces. */
function createModel() {
  return createScriptedModel(({ messages }) =>
    messages.at(-1)?.role === "tool_results"
      ? { text: "The list holds nothing that is still to be done today.".match(/\S+\s*/g) ?? [] }
      : { calls: [{ name: "task_list" }] },
  );
}

/** The numbers of the durable events in a session's log. */
async function logged(call: Caller, sessionId: string): Promise<readonly number[]> {
  const { events } = (await call(`GET /sessions/${sessionId}/events/list`)).body;
  // The wire's own form, which other tests hold.
  return (events as { cursor: { sequence: number } }[]).map(({ cursor }) => cursor.sequence);
}

describe("many sessions and many readers", () => {
  it(
    "[A3] [G3] every reader of a session is told each of its durable events once and in order, and no other",
    async () => {
      const { call, url } = await serveRest({ model: createModel(), toolPreset: "safe" });
      const begin = async () => String((await call("POST /sessions", { prompt: "Begin." })).body.session_id);
      const ids = await Promise.all(Array.from({ length: SESSIONS }, begin));
      const before = await Promise.all(ids.map((id) => logged(call, id)));
      const readers = await Promise.all(
        Array.from({ length: READERS }, (_, index) => openEventReader(url, ids[index % SESSIONS] ?? "")),
      );

      const busy = ids.slice(1);
      await Promise.all(
        busy.map(async (id) => {
          for (let turn = 0; turn < TURNS; turn += 1)
            await call(`POST /sessions/${id}/messages`, { prompt: "And now?" });
        }),
      );

      const after = await Promise.all(ids.map((id) => logged(call, id)));
      const reported = after.map((seqs, index) => seqs.slice(before[index]?.length));
      expect(reported.map(({ length }) => length > TURNS)).toEqual([false, ...busy.map(() => true)]);
      for (const [index, reader] of readers.entries()) {
        const expected = reported[index % SESSIONS] ?? [];
        await reader.reached(expected.at(-1));
        expect(reader.seqs).toEqual(expected);
      }
      for (const reader of readers) reader.close();
    },
    TIMEOUT_MS,
  );

  it(
    "[A3] [G3] a reader that takes nothing holds no turn up, and misses nothing once it reads",
    async () => {
      const { call, url } = await serveRest({ model: createModel(), toolPreset: "safe" });
      // More than the buffers of a connection hold.
      const prompt = "x".repeat(4 * 1_024 * 1_024);
      const { session_id } = (await call("POST /sessions", { prompt })).body;
      const stuck = await openEventReader(url, String(session_id), { after: 0, isPaused: true });
      for (let turn = 0; turn < TURNS; turn += 1) {
        expect(await call(`POST /sessions/${session_id}/messages`, { prompt: "And now?" })).toMatchObject({
          status: 200,
        });
      }
      expect(stuck.seqs).toEqual([]);
      const expected = await logged(call, String(session_id));
      stuck.resume();
      await stuck.reached(expected.at(-1));
      expect(stuck.seqs).toEqual(expected);
      stuck.close();
    },
    TIMEOUT_MS,
  );
});
