import { expect, it } from "vitest";
import { scriptedRuntime } from "../../../../test/support/runtime.ts";
import { createInMemoryStore } from "../create-runtime.ts";
import { createLiveSessions } from "./live-sessions.ts";

const MESSAGES = 100;

it("[L1] a long log is folded between the turns of others", async () => {
  const store = createInMemoryStore();
  const created_at = "2026-01-01T00:00:00.000Z";
  const said = Array.from({ length: MESSAGES }, (_, at) => ({
    span: 1,
    body: { kind: "imported" as const, message: { role: "user" as const, content: `number ${at}`, created_at } },
  }));
  const { runtime } = scriptedRuntime(() => ({ text: "Noted." }), { store });
  const { session_id } = await runtime.dispatch("createSession", { prompt: "Begin.", initial_turn: "deferred" });
  const lastSeq = (await store.sessions.get(session_id))?.last_seq ?? 0;
  await store.log.append(session_id, lastSeq, said);
  let yields = 0;
  const yieldToEventLoop = (): undefined => {
    yields += 1;
  };
  const keeping = { hash: (text: string) => text, yieldToEventLoop };
  const live = createLiveSessions(store, { sessionsMax: () => 1, isStored: true, keeping });
  const { state } = await live.find(session_id);
  expect(state.lastSeq).toBe(lastSeq + MESSAGES);
  expect(yields).toBeGreaterThanOrEqual(MESSAGES);
});
