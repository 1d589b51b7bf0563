import { describe, expect, it } from "vitest";
import { createVirtualClock } from "../../../test/support/virtual-clock.ts";
import type { ModelClient } from "../../ports/model.ts";
import type { Store } from "../../ports/store.ts";
import { createInMemoryStore, createRuntime } from "../../runtime.ts";

/** A store whose appends take a while, so that another can be asked for meanwhile. */
function slowStore(): Store {
  const store = createInMemoryStore();
  const append: Store["log"]["append"] = async (...args) => {
    await new Promise((resolve) => setImmediate(resolve));
    await new Promise((resolve) => setImmediate(resolve));
    return store.log.append(...args);
  };
  return { ...store, log: { ...store.log, append } };
}

/** A model that lets something happen between its last word and its end. */
function modelWith(meanwhile: () => void): ModelClient {
  return {
    provider: "test",
    modelId: "test",
    contextWindow: undefined,
    async *stream() {
      yield { type: "text_delta", delta: "The answer." };
      meanwhile();
      for (let hop = 0; hop < 20; hop += 1) await undefined;
      yield { type: "block", block: { block_type: "text", data: { text: "The answer." } } };
      yield { type: "finish", stopReason: "end_turn", usage: { input_tokens: 1, output_tokens: 1 } };
    },
  };
}

describe("a text injected while a turn appends", () => {
  it("[A2] leaves the turn's result what it was", async () => {
    const injections: Promise<unknown>[] = [];
    const store = slowStore();
    const runtime = createRuntime({ model: modelWith(() => inject()), store, clock: createVirtualClock(), env: {} });
    const session = await runtime.createDeferredSession("Begin.");
    const inject = (): void => {
      injections.push(runtime.dispatch("injectContext", { session_id: session.id, text: "By the way." }));
    };
    const heard = [];
    for await (const event of session.stream("Go.")) heard.push(event);
    await Promise.all(injections);
    expect(heard.at(-1)).toMatchObject({ type: "run_completed", result: "The answer." });
    const { events } = await runtime.dispatch("listEvents", { scope: { type: "session", session_id: session.id } });
    expect(events.at(-1)?.payload).toMatchObject({ type: "run_completed", result: "The answer." });
  });

  it("[F10] is in the context of the call it comes before, and in its hash", async () => {
    const store = slowStore();
    const runtime = createRuntime({ model: modelWith(() => {}), store, clock: createVirtualClock(), env: {} });
    const session = await runtime.createDeferredSession("Begin.");
    for (let round = 0; round < 5; round += 1) {
      const turn = session.turn(`Go ${round}.`);
      for (let hop = 0; hop < round * 3; hop += 1) await undefined;
      const inject = { session_id: session.id, text: `By the way, ${round}.` };
      await Promise.all([turn, runtime.dispatch("injectContext", inject).catch(() => {})]);
    }
    const entries = await store.log.read(session.id, 1, 1_000);
    for (const { seq, body } of entries) {
      if (body.kind !== "model_called") continue;
      const { sha256 } = await runtime.dispatch("readContext", { session_id: session.id, at_seq: seq });
      expect(sha256).toBe(body.context_sha256);
    }
  });
});
