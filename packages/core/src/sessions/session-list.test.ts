import { describe, expect, it } from "vitest";
import { created, idOf, said } from "../../../../test/support/entries.ts";
import { scriptedRuntime } from "../../../../test/support/runtime.ts";
import { createInMemoryStore } from "../create-runtime.ts";
import { toNewEntries } from "../state/entry-events.ts";

const START = Date.parse("2026-05-04T10:00:00.000Z");

async function listOf(sessions: number) {
  const store = createInMemoryStore();
  for (let at = 0; at < sessions; at += 1)
    await store.log.append(idOf(at), 0, toNewEntries([created]), START + Math.floor(at / 2));
  const { runtime } = scriptedRuntime([], { store });
  return { runtime, store };
}

const numbers = (sessions: readonly { readonly sessionId: string }[]) =>
  sessions.map(({ sessionId }) => Number.parseInt(sessionId.slice(-4), 16));

describe("a list of sessions", () => {
  it("[F1] tells a session whose last turn failed from one that is idle, and from one that was interrupted", async () => {
    const { runtime } = scriptedRuntime(
      ({ messages }) => {
        const last = messages.at(-1);
        if (last?.role === "user" && last.content === "Fail.") throw new Error("no model");
        return { text: "Noted." };
      },
      { store: createInMemoryStore() },
    );
    const stateOf = async (id: string) =>
      (await runtime.listSessions()).find(({ sessionId }) => sessionId === id)?.state;
    const session = await runtime.createSession("Begin.");
    const { id } = session;
    expect(await stateOf(id)).toBe("idle");
    await expect(session.turn("Fail.")).rejects.toThrow();
    expect([await stateOf(id), (await runtime.readSession(id)).state]).toEqual(["failed", "failed"]);
    await session.turn("Go on.");
    expect(await stateOf(id)).toBe("idle");
    await expect(session.turn("Stop.", { signal: AbortSignal.abort() })).rejects.toThrow();
    expect(await stateOf(id)).toBe("idle");
  });

  it("[F1] goes on where the page before it ended, until it says that nothing follows", async () => {
    const { runtime } = await listOf(5);
    const first = await runtime.listSessions({ limit: 2 });
    const second = await runtime.listSessions({ limit: 2, cursor: first.nextCursor });
    const third = await runtime.listSessions({ limit: 2, cursor: second.nextCursor });
    expect([first, second, third].map(numbers)).toEqual([[4, 3], [2, 1], [0]]);
    expect(third.nextCursor).toBeUndefined();
    const { sessions } = await runtime.dispatch("listSessions", { cursor: second.nextCursor });
    expect(sessions.map(({ session_id }) => session_id)).toEqual(third.map(({ sessionId }) => sessionId));
  });

  it("[F1] says how to go on only where that was asked for and something follows", async () => {
    const { runtime } = await listOf(4);
    for (const input of [
      {},
      { limit: 4 },
      { limit: 9 },
      { offset: 2 },
      { offset: 2, limit: 2 },
      { offset: 9, limit: 2 },
    ])
      expect(Object.keys(await runtime.dispatch("listSessions", input))).toEqual(["sessions"]);
    const { sessions, next_cursor } = await runtime.dispatch("listSessions", { offset: 1, limit: 2 });
    expect(numbers(sessions.map(({ session_id: sessionId }) => ({ sessionId })))).toEqual([2, 1]);
    expect(numbers(await runtime.listSessions({ cursor: next_cursor, labels: { team: "a" } }))).toEqual([0]);
    expect(await runtime.listSessions({ cursor: next_cursor, labels: { team: "b" } })).toEqual([]);
  });

  it("[F1] repeats nothing when sessions change between two pages", async () => {
    const { runtime, store } = await listOf(6);
    const first = await runtime.listSessions({ limit: 3 });
    await store.log.append(idOf(5), 1, toNewEntries([said("hi")]), START + 100);
    await store.log.append(idOf(1), 1, toNewEntries([said("hi")]), START + 101);
    const rest = await runtime.listSessions({ limit: 9, cursor: first.nextCursor });
    expect([numbers(first), numbers(rest)]).toEqual([
      [5, 4, 3],
      [2, 0],
    ]);
  });

  it("[F1] takes no other word for a cursor, and no offset beside one", async () => {
    const { runtime } = await listOf(3);
    const message = "cursor: give the next_cursor of an earlier answer as it was, or none";
    for (const cursor of ["", "x", `${"z".repeat(11)}_${idOf(1)}`, "1_------------------------------------", "1_../x"])
      await expect(runtime.dispatch("listSessions", { cursor })).rejects.toMatchObject({
        code: "INVALID_PARAMS",
        message,
      });
    const { nextCursor } = await runtime.listSessions({ limit: 1 });
    await expect(runtime.listSessions({ cursor: nextCursor, offset: 1 })).rejects.toMatchObject({
      code: "INVALID_PARAMS",
      message: "offset: a cursor says where to go on; leave out offset, or give no cursor",
    });
  });
});
