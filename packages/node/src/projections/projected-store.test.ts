import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInMemoryStore } from "@rkat/core/create-runtime";
import type { Tool } from "@rkat/core/ports/tool";
import { readEvents } from "@rkat/core/sessions/subscriptions";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { scriptedRuntime } from "../../../../test/support/runtime.ts";
import { createRkatFiles, projectStore } from "./rkat-files.ts";

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rkat-projected-"));
});
afterEach(() => rm(folder, { recursive: true }));

function newStore() {
  const store = createInMemoryStore();
  const touched: string[] = [];
  const files = createRkatFiles({
    folder,
    readEvents: (sessionId, after, max) => readEvents(store.log, sessionId, { after, max }),
    row: (sessionId) => store.sessions.get(sessionId),
    warn: (sentence) => expect.unreachable(sentence),
  });
  const touch = (sessionId: string): void => {
    touched.push(sessionId);
    files.touch(sessionId);
  };
  return { store: projectStore(store, { ...files, touch }), files, touched };
}

const date: Tool = { name: "date", description: "", inputSchema: { type: "object" }, execute: () => "today" };

describe("a projected store", () => {
  it("[F6] has files that follow turns and archiving, and are touched at their ends only", async () => {
    const { store, files, touched } = newStore();
    const script = [{ calls: [{ name: "date" }] }, { text: "Today." }];
    const { runtime } = scriptedRuntime(script, { store, tools: [date] });
    const read = (name: string): Promise<string> =>
      readFile(join(folder, ".rkat", "sessions", session.id, name), "utf8");

    const session = await runtime.createSession("What day is it?");
    await files.settled();
    const page = await runtime.dispatch("listEvents", { scope: { type: "session", session_id: session.id } });
    const lines = (await read("events.jsonl")).trimEnd().split("\n");
    expect(lines.map((line) => JSON.parse(line).event)).toEqual(page.events.map(({ payload }) => payload));
    expect(lines.map((line) => JSON.parse(line).seq)).toEqual(page.events.map(({ cursor }) => cursor.sequence));
    expect(await read("summary.txt")).toBe("Today.");
    expect(JSON.parse(await read("session.json"))).toMatchObject({ message_count: 4, archived: false });

    await session.archive();
    expect(touched).toEqual([session.id, session.id, session.id]);
    await runtime.close();
    expect(JSON.parse(await read("session.json"))).toMatchObject({ message_count: 4, archived: true });
    expect(await read("checkpoint")).toBe(String(page.latest_cursor.sequence + 1));
  });
});
