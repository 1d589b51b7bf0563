import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Caller } from "@rkat/core/contract/caller";
import { createInMemoryStore } from "@rkat/core/create-runtime";
import type { Store, TokenStore } from "@rkat/core/ports/store";
import type { Tool } from "@rkat/core/ports/tool";
import { createScriptedModel, type ScriptedStep } from "@rkat/core/providers/scripted";
import type { Resuming } from "@rkat/core/sessions/adoption";
import { defineTool } from "@rkat/core/tools/define-tool";
import { openEmbeddedStore } from "@rkat/node/open-runtime";
import { createCallers, lackOf } from "@rkat/server/http/callers";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { createFastClock } from "../support/fast-clock.ts";
import { createRealm } from "../support/realm.ts";
import { configWith } from "../support/runtime.ts";
import { tokenFolder } from "../support/tokens.ts";

/** A session whose process was killed in the first model call of a turn. */
async function killedInCall(start: ReturnType<typeof createRealm>["start"], answer: ScriptedStep = { ends: "silent" }) {
  const { runtime, model, kill } = start([answer]);
  const session = await runtime.createSession();
  void session.turn("Say it.").catch(() => {});
  await vi.waitFor(() => expect(model.requests).toHaveLength(1));
  await kill();
  return session;
}

/** A tool that does not end by itself, and counts its calls. */
function stuckTool(more: Partial<Tool> = {}) {
  const began = Promise.withResolvers<void>();
  const calls: string[] = [];
  const tool: Tool = {
    name: "charge",
    description: "Charges a card.",
    inputSchema: { type: "object" },
    execute: async (_args, { effectId }) => {
      calls.push(effectId);
      began.resolve();
      await new Promise(() => {});
    },
    ...more,
  };
  return { tool, calls, began: began.promise };
}

const charged = (calls: string[], more: Partial<Tool> = {}): Tool => ({
  ...stuckTool(more).tool,
  execute: (_args, { effectId }) => {
    calls.push(effectId);
    return "charged";
  },
});

async function ended(store: Store, sessionId: string) {
  await vi.waitFor(async () => expect(await store.sessions.get(sessionId)).toMatchObject({ has_open_turn: false }), {
    timeout: 10_000,
    interval: 5,
  });
  const entries = await store.log.read(sessionId, 1, Number.MAX_SAFE_INTEGER);
  return entries.map(({ body }) => body);
}

async function resultsIn(store: Store, sessionId: string) {
  const bodies = await ended(store, sessionId);
  return bodies.flatMap((body) => (body.kind === "tool_results" ? body.message.results : []));
}

const kindsOf = (bodies: readonly { readonly kind: string }[]) => bodies.map(({ kind }) => kind);

describe("a turn whose process ended", () => {
  it("[P1] is continued by another process, which makes the lost model call again and marks what it had streamed", async () => {
    const { shared, start } = createRealm();
    const session = await killedInCall(start, { text: ["half of"], ends: "silent" });

    const second = start([{ text: "all of it" }]);
    const bodies = await ended(shared, session.id);
    expect(kindsOf(bodies)).toEqual([
      "session_created",
      "turn_opened",
      "model_called",
      "turn_adopted",
      "call_failed",
      "model_called",
      "assistant",
      "turn_closed",
    ]);
    expect(bodies[3]).toMatchObject({ attempt: 2, reason: "process_ended", superseded: true, from_seq: 3 });
    expect(bodies[4]).toMatchObject({ usage: { estimated: true, output_tokens: 0 } });
    expect(bodies[7]).toMatchObject({ end: { status: "completed" } });
    expect(second.model.requests).toHaveLength(1);
    expect(second.model.requests[0]?.messages.at(-1)).toMatchObject({ role: "user", content: "Say it." });
    const scope = { type: "session", session_id: session.id };
    const { events } = await second.runtime.dispatch("listEvents", { scope });
    expect(events.map(({ payload }) => payload.type)).toContain("turn_adopted");
  });

  it("[P1] gives a request that is sent again the end of its turn, which another process takes at that moment", async () => {
    const { shared, start } = createRealm();
    const request = { prompt: "Say it.", idempotency_key: "request-1" };
    const first = start([{ ends: "silent" }]);
    first.runtime.dispatch("createSession", request).catch(() => {});
    await vi.waitFor(() => expect(first.model.requests).toHaveLength(1));
    await first.kill();
    const [asked, taken, said] = [1, 2, 3].map(() => Promise.withResolvers<void>());
    // The answer of before the turn was taken.
    const isHeld = (id: string) => {
      asked?.resolve();
      return shared.locks.isHeld(id).finally(() => taken?.promise);
    };
    const last = start([], { store: { ...shared, locks: { ...shared.locks, isHeld } }, resumeTurns: false });
    const again = last.runtime.dispatch("createSession", request);
    await asked?.promise;
    const execute = async () => {
      taken?.resolve();
      await said?.promise;
    };
    start([{ calls: [{ name: "charge" }] }, { text: "Said." }], { tools: [{ ...stuckTool().tool, execute }] });
    await taken?.promise;
    await new Promise(setImmediate);
    said?.resolve();
    expect(await again).toMatchObject({ text: "Said." });
  });

  it("[P2] [A6] tells the model that the outcome of a call is unknown, and does not run it again", async () => {
    const { shared, start } = createRealm();
    const { tool, calls, began } = stuckTool();
    const first = start([{ calls: [{ name: "charge" }] }], { tools: [tool] });
    const session = await first.runtime.createSession();
    void session.turn("Charge.").catch(() => {});
    await began;
    await first.kill();

    start([{ text: "I will check." }], { tools: [charged(calls)] });
    const [result] = await resultsIn(shared, session.id);
    expect(result).toMatchObject({ is_error: true, content: expect.stringMatching(/^unknown: .*may or may not/) });
    expect(calls).toHaveLength(1);
  });

  it.each(["none", "idempotent"] as const)(
    "[P2] runs a call with effects %s again, with the same effectId",
    async (effects) => {
      const { shared, start } = createRealm();
      const { tool, calls, began } = stuckTool({ effects });
      const first = start([{ calls: [{ name: "charge" }] }], { tools: [tool] });
      const session = await first.runtime.createSession();
      void session.turn("Charge.").catch(() => {});
      await began;
      await first.kill();

      start([{ text: "done" }], { tools: [charged(calls, { effects })] });
      expect(await resultsIn(shared, session.id)).toMatchObject([{ is_error: false, content: "charged" }]);
      expect(calls).toHaveLength(2);
      expect(new Set(calls).size).toBe(1);
    },
  );

  it("[P2] does not run a step again whose result is recorded", async () => {
    const { shared, start } = createRealm();
    const began = Promise.withResolvers<void>();
    const ran: string[] = [];
    const orderTool = (ends: boolean) =>
      defineTool({
        name: "order",
        description: "Orders.",
        effects: "idempotent",
        run: async (_input, { step }) => {
          const id = await step("reserve", () => {
            ran.push("reserve");
            return { id: 7 };
          });
          if (!ends) {
            began.resolve();
            await new Promise(() => {});
          }
          return step("pay", () => {
            ran.push("pay");
            return `paid ${id.id}`;
          });
        },
      });
    const first = start([{ calls: [{ name: "order" }] }], { tools: [orderTool(false)] });
    const session = await first.runtime.createSession();
    void session.turn("Order.").catch(() => {});
    await began.promise;
    await first.kill();

    start([{ text: "done" }], { tools: [orderTool(true)] });
    expect(await resultsIn(shared, session.id)).toMatchObject([{ content: "paid 7" }]);
    expect(ran).toEqual(["reserve", "pay"]);
  });

  it("[P2] keeps the result of a call that ended before its process did, while another call ran", async () => {
    const { shared, start } = createRealm();
    const { tool: stuck, began } = stuckTool({ name: "stuck" });
    const calls: string[] = [];
    const tools = [charged(calls), stuck];
    const first = start([{ calls: [{ name: "charge" }, { name: "stuck" }] }], { tools });
    const session = await first.runtime.createSession();
    void session.turn("Both.").catch(() => {});
    await began;
    await vi.waitFor(async () =>
      expect(kindsOf((await shared.log.read(session.id, 1, 99)).map(({ body }) => body))).toContain("results_held"),
    );
    await first.kill();

    start([{ text: "done" }], { tools });
    const results = await resultsIn(shared, session.id);
    expect(results.map(({ content }) => content)).toEqual(["charged", expect.stringMatching(/^unknown/)]);
    expect(calls).toHaveLength(1);
    expect(await shared.sessions.get(session.id)).toMatchObject({ budget: { tool_calls: 1 } });
  });

  it("[P1] is given up after three processes ended in it, and other sessions are unharmed", async () => {
    const { shared, clock, start } = createRealm();
    const session = await killedInCall(start);
    for (const _ of [2, 3]) {
      clock.advance(60_000);
      const next = start([{ ends: "silent" }]);
      await vi.waitFor(() => expect(next.model.requests).toHaveLength(1));
      await next.kill();
    }
    clock.advance(60_000);
    const last = start([{ text: "fine" }]);
    const bodies = await ended(shared, session.id);
    expect(bodies.at(-1)).toMatchObject({
      kind: "turn_closed",
      end: { status: "failed", error: expect.stringMatching(/given up: each of the 3 processes/) },
    });
    expect(last.model.requests).toHaveLength(0);
    expect(await (await last.runtime.createSession("Hello.")).lastResult?.text).toBe("fine");
  });

  it("[P1] is left alone by a process without its tools, which says what it lacks, and finished by one that has them", async () => {
    const { shared, start } = createRealm();
    const { tool, began } = stuckTool();
    const first = start([{ calls: [{ name: "charge" }] }], { tools: [tool] });
    const session = await first.runtime.createSession();
    void session.turn("Charge.").catch(() => {});
    await began;
    await first.kill();

    const server = start([{ text: "no" }]);
    await vi.waitFor(() => expect(server.warnings).toHaveLength(1));
    expect(server.warnings[0]).toMatch(/cannot continue; it lacks tool charge$/);
    expect(await server.runtime.readSession(session.id)).toMatchObject({
      state: "interrupted",
      unfinishedTurn: { attempt: 1, missing: ["tool charge"] },
    });
    await expect(server.runtime.session(session.id).finishTurn()).rejects.toMatchObject({
      code: "CAPABILITY_UNAVAILABLE",
      message: expect.stringContaining("tool charge"),
    });
    expect(server.model.requests).toHaveLength(0);

    const program = start([{ text: "I checked." }], { tools: [tool], resumeTurns: false });
    const result = await program.runtime.session(session.id).finishTurn();
    expect(result).toMatchObject({ text: "I checked.", toolCalls: 0 });
    expect(await shared.sessions.get(session.id)).toMatchObject({ has_open_turn: false });
    await expect(program.runtime.session(session.id).finishTurn()).rejects.toMatchObject({
      code: "SESSION_NOT_RUNNING",
    });
  });

  it("[P1] waits for the client that runs its tools, then tells the model that the call is unknown", async () => {
    const { shared, start } = createRealm();
    const { tool, began } = stuckTool({ name: "look", isCallback: true });
    const { runtime, kill } = start([{ calls: [{ name: "look" }] }]);
    const { session_id } = await runtime.dispatch("createSession", { initial_turn: "deferred" }, { tools: [tool] });
    void runtime
      .session(session_id)
      .turn("Look.")
      .catch(() => {});
    await began;
    await kill();

    const server = start([{ text: "I could not look." }]);
    const bodies = await ended(shared, session_id);
    expect(server.warnings).toEqual([expect.stringMatching(/it lacks the client that runs look$/)]);
    expect(await resultsIn(shared, session_id)).toMatchObject([
      { is_error: true, content: expect.stringMatching(/^unknown/) },
    ]);
    expect(bodies.at(-1)).toMatchObject({ kind: "turn_closed", end: { status: "completed" } });
    const opened = bodies.findIndex(({ kind }) => kind === "tool_results");
    const entries = await shared.log.read(session_id, 1, 99);
    const [called, answered] = [entries[opened - 2], entries[opened]].map((entry) => entry?.timestamp_ms ?? 0);
    expect((answered ?? 0) - (called ?? 0)).toBeGreaterThanOrEqual(30_000);
  });

  it("[P1] [K1] hands a call of a tool that the caller runs to the caller", async () => {
    const { shared, start } = createRealm();
    const { tool: stuck, began } = stuckTool({ name: "stuck" });
    const first = start([{ calls: [{ id: "c1", name: "look" }, { name: "stuck" }] }], { tools: [stuck] });
    const clientTools = [{ name: "look", description: "Looks.", inputSchema: { type: "object" } }];
    const session = await first.runtime.createSession({ clientTools });
    void session.turn("Look.").catch(() => {});
    await began;
    await first.kill();

    const { runtime } = start([{ text: "A heron." }], { tools: [stuck] });
    const bodies = await ended(shared, session.id);
    expect(bodies.at(-1)).toMatchObject({ kind: "turn_closed", end: { status: "completed" } });
    const toolResults = [{ toolUseId: "c1", content: "a heron" }];
    expect(await runtime.session(session.id).turn("", { toolResults })).toMatchObject({ text: "A heron." });
    expect(await resultsIn(shared, session.id)).toMatchObject([{ content: "a heron" }, { is_error: true }]);
  });

  it("[P1] is not continued after a person interrupted it", async () => {
    const { shared, start } = createRealm();
    const session = await killedInCall(start);
    const reader = start([], { resumeTurns: false });
    await reader.runtime.session(session.id).interrupt();
    const bodies = await ended(shared, session.id);
    expect(bodies.at(-1)).toMatchObject({ kind: "turn_closed", end: { error_class: "cancelled" } });
  });

  it("[P1] is not continued by itself after an hour, and makes no model call", async () => {
    const { shared, clock, start } = createRealm();
    const session = await killedInCall(start);
    clock.advance(60 * 60 * 1_000 + 1_000);
    const next = start([{ text: "late" }]);
    const before = clock.now();
    await vi.waitFor(() => expect(clock.now()).toBeGreaterThan(before + 10_000));
    expect(next.model.requests).toHaveLength(0);
    expect(await next.runtime.session(session.id).finishTurn()).toMatchObject({ text: "late" });
    expect(await shared.sessions.get(session.id)).toMatchObject({ has_open_turn: false });
  });

  it("[P1] extracts the structured output that was missing", async () => {
    const { shared, start } = createRealm();
    const outputSchema = { type: "object", properties: { n: { type: "number" } }, required: ["n"] };
    const first = start([{ text: "It is seven." }, { ends: "silent" }]);
    const session = await first.runtime.createSession({ outputSchema });
    void session.turn("How many?").catch(() => {});
    await vi.waitFor(() => expect(first.model.requests).toHaveLength(2));
    await first.kill();
    const second = start([{ text: '{"n":7}' }]);
    const bodies = await ended(shared, session.id);
    expect(second.model.requests).toHaveLength(1);
    expect(bodies.at(-1)).toMatchObject({
      kind: "event",
      event: { type: "extraction_succeeded", structured_output: { n: 7 } },
    });
    expect(kindsOf(bodies).filter((kind) => kind === "turn_closed")).toHaveLength(1);
  });
});

describe("a request that is repeated", () => {
  const prompt = "Say it.";

  it("[P1] gets the end of its turn from another process, which finishes the turn", async () => {
    const { shared, start } = createRealm();
    const first = start([{ ends: "silent" }]);
    const request = { prompt, idempotency_key: "a request" };
    const refused = first.runtime.dispatch("createSession", request).catch((thrown: unknown) => thrown);
    expect(await refused).toMatchObject({ code: "INVALID_PARAMS" });
    const keyed = { ...request, idempotency_key: "request-1" };
    void first.runtime.dispatch("createSession", keyed).catch(() => {});
    await vi.waitFor(() => expect(first.model.requests).toHaveLength(1));
    await first.kill();
    const second = start([{ text: "said" }], { resumeTurns: false });
    const result = await second.runtime.dispatch("createSession", keyed);
    expect(result).toMatchObject({ text: "said", turns: 1 });
    expect(await second.runtime.dispatch("createSession", keyed)).toMatchObject({ text: "said" });
    expect(second.model.requests).toHaveLength(1);
    await expect(second.runtime.dispatch("createSession", { ...keyed, prompt: "Another." })).rejects.toMatchObject({
      code: "DUPLICATE_INPUT",
    });
    expect(await shared.sessions.page({ max: 9 })).toHaveLength(1);
  });

  it("[P1] of a session without a turn is recognised, and another one with its key is refused", async () => {
    const { shared, start } = createRealm();
    const { runtime } = start([{ text: "one" }]);
    const deferred = { prompt, initial_turn: "deferred", idempotency_key: "request-2" };
    const { session_id } = await runtime.dispatch("createSession", deferred);
    expect(await runtime.dispatch("createSession", deferred)).toEqual({ session_id });
    const other = runtime.dispatch("createSession", { ...deferred, prompt: "Another." });
    await expect(other).rejects.toMatchObject({ code: "DUPLICATE_INPUT" });
    await runtime.dispatch("startTurn", { session_id, prompt, idempotency_key: "request-2" });
    expect(await runtime.dispatch("createSession", deferred)).toEqual({ session_id });
    expect(await shared.sessions.page({ max: 9 })).toHaveLength(1);
  });

  it("[P1] whose process ended between its session and its turn runs the turn", async () => {
    const { shared, start } = createRealm();
    const keyed = { prompt, idempotency_key: "request-3" };
    const created = Promise.withResolvers<void>();
    const run = () => {
      created.resolve();
      return new Promise<never>(() => {});
    };
    const first = start([], { hooks: [{ id: "stuck", point: "session_created", run }] });
    void first.runtime.dispatch("createSession", keyed).catch(() => {});
    await created.promise;
    await first.kill();
    const [row] = await shared.sessions.page({ max: 9 });
    const second = start([{ text: "said" }]);
    expect(await second.runtime.dispatch("createSession", keyed)).toMatchObject({
      text: "said",
      session_id: row?.session_id,
    });
    expect(await second.runtime.dispatch("createSession", keyed)).toMatchObject({ text: "said" });
    expect(second.model.requests).toHaveLength(1);
  });

  it("[P1] of a turn gets its end also after later turns, and runs it once", async () => {
    const { start } = createRealm();
    const { runtime, model } = start([{ text: "one" }, { text: "two" }]);
    const { id: session_id } = await runtime.createSession();
    const turn = { session_id, prompt, idempotency_key: "first" };
    expect(await runtime.dispatch("startTurn", turn)).toMatchObject({ text: "one" });
    expect(await runtime.dispatch("startTurn", { session_id, prompt: "And then?" })).toMatchObject({ text: "two" });
    expect(await runtime.dispatch("startTurn", turn)).toMatchObject({ text: "one" });
    expect(model.requests).toHaveLength(2);
  });
});

describe("a turn with a sub-agent whose process ended", () => {
  it("[P1] [O2] continues the sub-agent in its session, and counts its usage once", async () => {
    const { shared, start } = createRealm();
    const isTask = (messages: readonly { readonly role: string; readonly content?: unknown }[]) =>
      messages.some(({ role, content }) => role === "user" && content === "Count the birds.");
    const first = start((request) => (isTask(request.messages) ? { ends: "silent" } : delegates));
    const session = await first.runtime.createSession({ enableAgents: true, toolPreset: "safe" });
    void session.turn("How many birds?").catch(() => {});
    await vi.waitFor(() => expect(first.model.requests).toHaveLength(2));
    await first.kill();
    const second = start((request) => (isTask(request.messages) ? { text: "seven" } : { text: "There are seven." }));
    const bodies = await ended(shared, session.id);
    expect(bodies.at(-1)).toMatchObject({ kind: "turn_closed", end: { status: "completed" } });
    expect(kindsOf(bodies).filter((kind) => kind.startsWith("child_"))).toEqual(["child_opened", "child_closed"]);
    const [result] = await resultsIn(shared, session.id);
    expect(result).toMatchObject({ is_error: false, content: expect.stringMatching(/^seven\n\n\[sub-agent general/) });
    expect(second.model.requests).toHaveLength(2);
    expect(await shared.sessions.page({ max: 9 })).toHaveLength(2);
  });
  const delegates = { calls: [{ name: "agent", args: { task: "Count the birds." } }] };
});

describe("a process that stops", () => {
  it("[P1] leaves its turns to the next one, which does not count as another attempt", async () => {
    const { shared, start } = createRealm();
    const first = start([{ text: ["half"], ends: "silent" }]);
    const session = await first.runtime.createSession();
    const left = session.turn("Say it.").catch((thrown: unknown) => thrown);
    await vi.waitFor(() => expect(first.model.requests).toHaveLength(1));
    await first.runtime.close();
    expect(await left).toMatchObject({ code: "REQUEST_CANCELLED" });
    const bodies = (await shared.log.read(session.id, 1, 99)).map(({ body }) => body);
    expect(bodies.at(-1)?.kind).toBe("turn_released");

    start([{ text: "whole" }]);
    expect(await ended(shared, session.id)).toContainEqual(
      expect.objectContaining({ kind: "turn_adopted", attempt: 1, reason: "released" }),
    );
  });
});

describe("two processes", () => {
  it("[P1] do not both continue a turn", async () => {
    const { shared, start } = createRealm();
    const session = await killedInCall(start);
    const others = [1, 2, 3].map(() => start([{ text: "once" }], { config: configWith({}) }));
    const bodies = await ended(shared, session.id);
    expect(kindsOf(bodies).filter((kind) => kind === "turn_adopted")).toHaveLength(1);
    expect(others.reduce((sum, { model }) => sum + model.requests.length, 0)).toBe(1);
  });
});

describe("a turn whose process ended while more than a hundred others run", () => {
  it("[P1] is found among them", async () => {
    const { shared, start } = createRealm();
    const session = await killedInCall(start);
    const busy = start(() => ({ ends: "silent" }), { resumeTurns: false });
    for (let at = 0; at < 150; at += 1) {
      const other = await busy.runtime.createSession();
      void other.turn("Wait.").catch(() => {});
    }
    await vi.waitFor(() => expect(busy.model.requests).toHaveLength(150), { timeout: 10_000 });
    start([{ text: "found" }]);
    expect((await ended(shared, session.id)).at(-1)).toMatchObject({ end: { status: "completed" } });
  });
});

describe("a process that stood still until another one had ended its turn", () => {
  it("[P1] writes nothing more, also when it has read of that end for a repeated request", async () => {
    const { shared, start } = createRealm();
    const gate = Promise.withResolvers<void>();
    const asked = Promise.withResolvers<void>();
    const answering = createScriptedModel([{ text: "too late" }]);
    const first = start([], {
      model: {
        ...answering,
        stream: async function* (request, signal) {
          asked.resolve();
          await gate.promise;
          yield* answering.stream(request, signal);
        },
      },
    });
    const { id: session_id } = await first.runtime.createSession();
    const turn = { session_id, prompt: "Say it.", idempotency_key: "request-1" };
    const stale = first.runtime.dispatch("startTurn", turn).catch((thrown: unknown) => thrown);
    await asked.promise;
    const heal = await first.pause();
    start([{ text: "said" }]);
    await ended(shared, session_id);
    heal();
    const repeated = first.runtime.dispatch("startTurn", turn).catch((thrown: unknown) => thrown);
    // The repeated request is answered from the log, or fails with the turn: in both cases it has been handled.
    await Promise.race([repeated, new Promise((resolve) => setTimeout(resolve, 100))]);
    gate.resolve();
    expect(await stale).toBeInstanceOf(Error);
    await repeated;
    expect(kindsOf(await ended(shared, session_id)).filter((kind) => kind === "turn_closed")).toHaveLength(1);
  });
});

describe("a session that was imported with an open turn", () => {
  it("[P1] is not continued by itself, and is finished on request for the caller that asks", async () => {
    const { shared, start } = createRealm();
    const first = start([{ ends: "silent" }]);
    const session = await first.runtime.createSession();
    void session.turn("Say it.").catch(() => {});
    await vi.waitFor(() => expect(first.model.requests).toHaveLength(1));
    const exported = await first.runtime.dispatch("exportSession", { session_id: session.id });
    await first.kill();

    const other = createRealm();
    const server = other.start([{ text: "imported" }]);
    const { session_id: source_session_id, entries, last_seq } = exported;
    const given = { source_session_id, entries, last_seq, after: 0, blobs: [], beside: false };
    const { session_id } = await server.runtime.dispatch("importSession", given);
    const before = other.clock.now();
    await vi.waitFor(() => expect(other.clock.now()).toBeGreaterThan(before + 10_000));
    expect(server.model.requests).toHaveLength(0);
    expect(await server.runtime.session(session_id).finishTurn()).toMatchObject({ text: "imported" });
    expect(await shared.sessions.get(session.id)).toMatchObject({ has_open_turn: true });
  });
});

describe("a process that starts after a weekend with 500 unfinished turns", () => {
  const inFolder = async (now: () => number): Promise<Store> => {
    const folder = mkdtempSync(join(tmpdir(), "rkat-weekend-"));
    const store = await openEmbeddedStore(folder, { now });
    onTestFinished(async () => {
      await store.close();
      rmSync(folder, { recursive: true, force: true });
    });
    return store;
  };
  const stores = [
    { name: "memory", open: async (now: () => number): Promise<Store> => createInMemoryStore({ now }) },
    { name: "a folder", open: inFolder },
  ];

  /** A realm with 500 turns whose process was killed, and a store that counts the rows of each look. */
  const leave500 = async (open: (now: () => number) => Promise<Store>) => {
    const clock = createFastClock();
    const shared = await open(clock.now);
    // On the fast clock a slow machine takes longer than a call may be silent, and the call would be made again.
    const retry = { ...configWith({}).retry, stall_timeout_ms: undefined, call_timeout_ms: undefined };
    const first = createRealm(clock, shared).start(() => ({ ends: "silent" }), { config: configWith({ retry }) });
    for (let at = 0; at < 500; at += 1) void (await first.runtime.createSession()).turn("Say it.").catch(() => {});
    await vi.waitFor(() => expect(first.model.requests).toHaveLength(500), { timeout: 30_000 });
    await first.kill();
    const looks: number[] = [];
    const page: Store["sessions"]["page"] = async (query) => {
      const rows = await shared.sessions.page(query);
      looks.push(rows.length);
      return rows;
    };
    const counting = createRealm(clock, { ...shared, sessions: { ...shared.sessions, page } });
    return { clock, shared, looks, start: counting.start };
  };

  it.each(stores)("[P1] makes no model call for them, and its looks read none of them, in $name", async ({ open }) => {
    const { clock, shared, looks, start } = await leave500(open);
    clock.advance(60 * 60 * 60 * 1_000);
    const { model } = start([]);
    await vi.waitFor(() => expect(looks.length).toBeGreaterThan(20), { timeout: 10_000 });
    expect(new Set(looks)).toEqual(new Set([0]));
    expect(model.requests).toHaveLength(0);
    expect(await shared.sessions.page({ open: true, max: 1_000 })).toHaveLength(500);
  });

  it("[P1] continues ten per minute of those that were active within the hour, and reads a hundred per look", async () => {
    const { clock, looks, start } = await leave500(async (now) => createInMemoryStore({ now }));
    const beganMs = clock.now();
    const { model } = start(() => ({ text: "done" }));
    await vi.waitFor(() => expect(model.requests.length).toBeGreaterThan(10), { timeout: 10_000 });
    expect(model.requests.length).toBeLessThanOrEqual(10 * (1 + Math.floor((clock.now() - beganMs) / 60_000)));
    expect(Math.max(...looks)).toBe(100);
  });
});

describe("a turn of a caller whose token ended", () => {
  const asServer = (tokens: TokenStore, until = new AbortController().signal) => ({
    resumeTurns: { until, lacks: (caller: Parameters<Resuming["lacks"]>[0]) => lackOf(caller, tokens, Date.now()) },
  });
  /** A session whose process was killed in a turn of a caller with a token. */
  const leftBy = async (start: ReturnType<typeof createRealm>["start"], { create, tokens }: TokenFolder) => {
    const { authorization } = await create("web", { scopes: ["read", "run"] });
    const callers = createCallers({ host: "127.0.0.1", token: undefined, tokens, clock: createFastClock() });
    onTestFinished(() => callers.close());
    const { runtime, model, kill } = start([{ ends: "silent" }]);
    const { id } = await runtime.createSession();
    const turn = { session_id: id, prompt: "Say it." };
    void runtime.dispatch("startTurn", turn, { caller: callers.identify(authorization) }).catch(() => {});
    await vi.waitFor(() => expect(model.requests).toHaveLength(1));
    await kill();
    return id;
  };
  type TokenFolder = ReturnType<typeof tokenFolder>;

  it("[P1] [I4] is not continued by a server, which says why, and another caller may finish it", async () => {
    const { start } = createRealm();
    const folder = tokenFolder();
    const id = await leftBy(start, folder);
    await folder.files.revoke("web");

    const server = start([{ text: "for another" }], asServer(folder.tokens));
    await vi.waitFor(() => expect(server.warnings).toHaveLength(1));
    expect(server.warnings[0]).toMatch(/cannot continue; it lacks the token web, which was revoked$/);
    expect(await server.runtime.readSession(id)).toMatchObject({
      unfinishedTurn: { missing: ["the token web, which was revoked"] },
    });
    expect(server.model.requests).toHaveLength(0);
    const caller: Caller = { name: "ops", scopes: new Set(["run"]), labels: {} };
    const result = await server.runtime.dispatch("finishTurn", { session_id: id }, { caller });
    expect(result).toMatchObject({ text: "for another" });
  });

  it("[P1] [I4] is not continued by an approval either", async () => {
    const { start } = createRealm();
    const { create, files, tokens } = tokenFolder();
    const { authorization } = await create("web", { scopes: ["read", "run"] });
    const callers = createCallers({ host: "127.0.0.1", token: undefined, tokens, clock: createFastClock() });
    onTestFinished(() => callers.close());
    const calls: string[] = [];
    const tools = [charged(calls, { needsApproval: true })];
    const { runtime } = start([{ calls: [{ name: "charge" }] }], { tools, ...asServer(tokens) });
    const { id: session_id } = await runtime.createSession();
    const caller = callers.identify(authorization);
    void runtime.dispatch("startTurn", { session_id, prompt: "Charge." }, { caller }).catch(() => {});
    const approval_id = await vi.waitFor(async () => {
      const { approvals } = await runtime.dispatch("listApprovals", {});
      expect(approvals).toHaveLength(1);
      return approvals[0]?.approval_id;
    });
    await files.revoke("web");
    await runtime.dispatch("answerApproval", { session_id, approval_id, decision: "allow" });
    await vi.waitFor(async () =>
      expect(await runtime.readSession(session_id)).toMatchObject({
        unfinishedTurn: { missing: ["the token web, which was revoked"] },
      }),
    );
    expect(calls).toEqual([]);
  });

  it("[P1] [I4] is not continued with rights that its token has no more", async () => {
    const { start } = createRealm();
    const folder = tokenFolder();
    const id = await leftBy(start, folder);
    await folder.files.revoke("web");
    await folder.create("web", { scopes: ["read"] });
    const server = start([], asServer(folder.tokens));
    await vi.waitFor(() => expect(server.warnings[0]).toMatch(/it lacks the rights that the token web had$/));
    expect(server.model.requests).toHaveLength(0);
    expect(await server.runtime.readSession(id)).toMatchObject({ state: "interrupted" });
  });

  it("[P1] [I4] is interrupted if it had been continued before", async () => {
    const { shared, start } = createRealm();
    const folder = tokenFolder();
    const id = await leftBy(start, folder);
    const server = start([{ ends: "silent" }], asServer(folder.tokens));
    await vi.waitFor(() => expect(server.model.requests).toHaveLength(1));
    await folder.files.revoke("web");
    const bodies = await ended(shared, id);
    expect(bodies.at(-1)).toMatchObject({ kind: "turn_closed", end: { error_class: "cancelled" } });
  });

  it("[P1] is left to another server by one that is told to stop", async () => {
    const { shared, clock, start } = createRealm();
    const stopping = new AbortController();
    const { tokens } = tokenFolder();
    const server = start([{ text: "no" }], asServer(tokens, stopping.signal));
    stopping.abort("told to stop");
    const session = await killedInCall(start);
    const before = clock.now();
    await vi.waitFor(() => expect(clock.now()).toBeGreaterThan(before + 10_000));
    expect(server.model.requests).toHaveLength(0);
    start([{ text: "yes" }], asServer(tokens));
    expect((await ended(shared, session.id)).at(-1)).toMatchObject({ end: { status: "completed" } });
  });
});
