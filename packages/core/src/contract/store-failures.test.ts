import { describe, expect, it } from "vitest";
import { configWith, listen, scriptedRuntime, typesOf } from "../../../../test/support/runtime.ts";
import { createVirtualClock } from "../../../../test/support/virtual-clock.ts";
import { createInMemoryStore } from "../create-runtime.ts";
import type { Store } from "../ports/store.ts";
import type { Tool } from "../ports/tool.ts";
import type { EntryBody } from "./entry.ts";

/** A store of someone else's: it fails in its own words for every append that has an entry of the kind. */
function failingStore(kinds: readonly EntryBody["kind"][]): Store {
  const store = createInMemoryStore();
  return {
    ...store,
    log: {
      ...store.log,
      append: async (sessionId, after, entries) => {
        if (entries.some(({ body }) => kinds.includes(body.kind))) throw new Error("disk on fire");
        return store.log.append(sessionId, after, entries);
      },
    },
  };
}

const TERMINAL = ["run_completed", "run_failed"];
const storeError = { code: "SESSION_STORE_ERROR", message: "the store failed: disk on fire" };

describe("a store that fails", () => {
  it("[A2] ends the stream with one terminal event, told live because the log cannot hold it", async () => {
    const { runtime } = scriptedRuntime([{ text: "hi" }], { store: failingStore(["assistant", "turn_closed"]) });
    const { events, error } = await listen(runtime.createSessionStreaming("Go."));
    expect(error).toMatchObject({ ...storeError, cause: new Error("disk on fire") });
    expect(typesOf(events).filter((type) => TERMINAL.includes(type))).toEqual(["run_failed"]);
    expect(events.at(-1)).toMatchObject({
      type: "run_failed",
      error_class: "store",
      error: storeError.message,
      terminal_cause_kind: "fatal_failure",
    });
  });

  it("[A2] a turn that could not even be opened is told of as well", async () => {
    const { runtime } = scriptedRuntime([{ text: "hi" }], { store: failingStore(["turn_opened"]) });
    const { events, error } = await listen(runtime.createSessionStreaming("Go."));
    expect(error).toMatchObject(storeError);
    expect(typesOf(events)).toEqual(["run_failed"]);
  });

  it("[A2] a turn is closed in the log when the log still works, and the session stays usable", async () => {
    const store = failingStore([]);
    const full: Store = { ...store, blobs: { ...store.blobs, put: () => Promise.reject(new Error("disk on fire")) } };
    const long: Tool = { name: "long", description: "", inputSchema: {}, execute: () => "x".repeat(5_000) };
    const { runtime } = scriptedRuntime([{ calls: [{ name: "long" }] }, { text: "here again" }], {
      store: full,
      tools: [long],
      config: configWith({ tools: { output_bytes_max: 1_024 } }),
    });
    const session = await runtime.createDeferredSession("Begin.");
    const { events, error } = await listen(session.stream("Go."));
    expect(error).toMatchObject(storeError);
    expect(typesOf(events).filter((type) => TERMINAL.includes(type))).toEqual(["run_failed"]);
    expect((await runtime.readSession(session.id)).state).toBe("failed");
    expect((await session.turn("Again?")).text).toBe("here again");
  });

  it("[A2] a committed success is not taken back by what fails after it", async () => {
    const { runtime } = scriptedRuntime([{ text: "hi" }, { text: "{}" }], { store: failingStore(["event"]) });
    const { events, error } = await listen(runtime.createSessionStreaming("Go.", { outputSchema: { type: "object" } }));
    expect(error).toMatchObject(storeError);
    expect(typesOf(events).filter((type) => TERMINAL.includes(type))).toEqual(["run_completed"]);
  });

  it("[A2] a defect inside a turn is an INTERNAL_ERROR, and the turn is closed like any other", async () => {
    const random = (): number => {
      throw new TypeError("no dice");
    };
    const failure = { kind: "overloaded" as const, message: "busy" };
    const { runtime } = scriptedRuntime([{ ends: { failure } }], { clock: { ...createVirtualClock(), random } });
    const { events, error } = await listen(runtime.createSessionStreaming("Go."));
    expect(error).toMatchObject({ code: "INTERNAL_ERROR", message: "no dice" });
    expect(events.at(-1)).toMatchObject({ type: "run_failed", error_class: "internal", error: "no dice" });
  });

  it("[G1] a failure of a store is an error of the table for every operation", async () => {
    const store = createInMemoryStore();
    const broken: Store = { ...store, sessions: { ...store.sessions, page: () => Promise.reject(new Error("gone")) } };
    const { runtime } = scriptedRuntime([], { store: broken });
    await expect(runtime.listSessions()).rejects.toMatchObject({
      code: "SESSION_STORE_ERROR",
      message: "the store failed: gone",
    });
  });
});
