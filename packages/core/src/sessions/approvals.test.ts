import { describe, expect, it } from "vitest";
import { configWith, scriptedRuntime } from "../../../../test/support/runtime.ts";
import type { AgentEvent } from "../contract/event.ts";
import { createInMemoryStore, type RuntimeOptions } from "../create-runtime.ts";
import type { Tool } from "../ports/tool.ts";
import type { ScriptedStep } from "../providers/scripted.ts";
import type { OnApproval } from "../runtime/operation-calls.ts";
import type { Runtime } from "../runtime/runtime-calls.ts";

const CALLS: ScriptedStep = {
  calls: [
    { id: "c1", name: "look", args: { at: "pond" } },
    { id: "c2", name: "wipe", args: { what: "disk" } },
    { id: "c3", name: "wipe", args: { what: "table" } },
  ],
};

/** Tools that remember what they were made to do; `wipe` asks first. */
function tools(ran: string[]): readonly Tool[] {
  const tool = (name: string, needsApproval: Tool["needsApproval"]): Tool => ({
    name,
    description: name,
    inputSchema: { type: "object" },
    ...(needsApproval === undefined ? {} : { needsApproval }),
    execute: (args) => {
      ran.push(`${name} ${Object.values(args)[0]}`);
      return `${name} done`;
    },
  });
  return [tool("look", undefined), tool("wipe", true)];
}

function setUp(steps: ScriptedStep[] = [CALLS, { text: "Done." }], options: RuntimeOptions = {}) {
  const ran: string[] = [];
  const store = createInMemoryStore();
  const one = scriptedRuntime(steps, { store, tools: tools(ran), ...options });
  return { ...one, ran, store };
}

/** Leaves the answer to another client. */
const ELSEWHERE = { onApproval: () => undefined };

/** The question a session waits with. */
async function question(runtime: Runtime) {
  for (;;) {
    const { approvals } = await runtime.listApprovals();
    const [first] = approvals;
    if (first !== undefined) return first;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

const resultsOf = (events: readonly AgentEvent[]) =>
  events.flatMap((event) => (event.type === "tool_execution_completed" ? [event.result] : []));

describe("a call that needs a person's word", () => {
  it("[I1] [I2] waits with the others of its answer, as a state and an event, and runs once it may", async () => {
    const { runtime, ran } = setUp();
    const stream = runtime.createSessionStreaming("Go.");
    const events: AgentEvent[] = [];
    const received = (async () => {
      for await (const event of stream) events.push(event);
    })();
    const { sessionId: session_id, approvalId: approval_id, calls } = await question(runtime);
    const why = "wipe is made to ask before it runs";
    expect(calls.map(({ id, name, args, why, always }) => [id, name, args, why, always])).toEqual([
      ["c2", "wipe", { what: "disk" }, why, ["wipe"]],
      ["c3", "wipe", { what: "table" }, why, ["wipe"]],
    ]);
    expect(ran).toEqual([]);
    expect(await runtime.readSession(session_id)).toMatchObject({ state: "waiting", isActive: false });
    const session = runtime.session(session_id);
    const word = { approvalId: approval_id, decision: "allow" as const, calls: ["c2"] };
    expect(await session.answerApproval(word)).toMatchObject({ answered: true, waitingCalls: 1 });
    const reason = "the table is needed";
    await session.answerApproval({ approvalId: approval_id, decision: "deny", reason });
    expect(await stream.result).toMatchObject({ text: "Done.", turns: 2, toolCalls: 2 });
    await received;
    expect(ran).toEqual(["look pond", "wipe disk"]);
    expect(resultsOf(events)).toEqual(["look done", "wipe done", `not run: the user denied it: ${reason}`]);
    expect(events.filter(({ type }) => type.startsWith("tool_approval"))).toMatchObject([
      { type: "tool_approval_requested", approval_id },
      { type: "tool_approval_answered", calls: ["c2"], decision: "allow" },
      { type: "tool_approval_answered", calls: ["c3"], decision: "deny", reason },
    ]);
    expect((await runtime.listApprovals()).approvals).toEqual([]);
    expect(await runtime.readSession(session_id)).toMatchObject({ state: "idle" });
  });

  it("[I1] is asked of a function of the program's own, which may remember its word", async () => {
    const { runtime, ran } = setUp([CALLS, CALLS, { text: "Done." }]);
    const asked: string[] = [];
    const session = await runtime.createSession("Go.", {
      onApproval: ({ calls }) => {
        asked.push(calls.map(({ name }) => name).join());
        return { decision: "allow", remember: "session" };
      },
    });
    expect(session.text).toBe("Done.");
    expect(asked).toEqual(["wipe,wipe"]);
    expect(ran).toHaveLength(6);
  });

  it("[I1] is asked of the session's function in its later turns, and of the turn's own where there is one", async () => {
    const { runtime, ran } = setUp([CALLS, { text: "One." }, CALLS, { text: "Two." }, CALLS, { text: "Three." }]);
    const session = await runtime.createSession({ onApproval: async () => "allow" });
    expect(await session.turn("Go.")).toMatchObject({ text: "One." });
    expect(await session.turn("Go.")).toMatchObject({ text: "Two." });
    expect(ran).toHaveLength(6);
    await session.turn("Go.", { onApproval: async () => "deny" });
    expect(ran).toHaveLength(7);
  });

  it("[I1] is denied at once, with the reason, where a program of this process named no approver", async () => {
    const { runtime, ran, model } = setUp([CALLS, { text: "Then not." }, CALLS, { text: "Not again." }]);
    const session = await runtime.createSession("Go.");
    expect(session).toMatchObject({
      text: "Then not.",
      turns: 2,
      toolCalls: 1,
      usage: { inputTokens: expect.any(Number) },
    });
    expect(await session.turn("Go.")).toMatchObject({ text: "Not again." });
    expect(ran).toEqual(["look pond", "look pond"]);
    expect(JSON.stringify(model.requests.at(-1)?.messages)).toContain(
      "not run: wipe is made to ask before it runs; no approver was given: pass onApproval to createSession or turn, or allow the call by a rule of permissions",
    );
  });

  it.each<[unknown, string]>([
    [true, "onApproval returned true: decision: "],
    ["alow", "onApproval returned alow: decision: "],
    [null, "onApproval returned an answer that cannot be used: decision: "],
    [{ decision: "yes" }, "decision: "],
    [{ decision: "allow", remember: "forever" }, "remember: "],
    [{ decision: "allow", remeber: "session" }, "remeber: there is no such field"],
    [{ decision: "deny", remember: "session" }, "remember: only a yes is remembered"],
    [{ decision: "allow", calls: ["c1"] }, "calls: c1 waits for no answer; c2, c3 do"],
    [{ decision: "allow", calls: [] }, "calls: an empty list waits for no answer"],
  ])("[I2] rejects the turn where its function answers %j, and the session is free again", async (word, problem) => {
    const { runtime, ran } = setUp([{ text: "Hello." }, CALLS, { text: "Hello again." }]);
    const session = await runtime.createSession("Hello.");
    const onApproval = (async () => word) as OnApproval; // What a program without types may do.
    const refused = await session.turn("Go.", { onApproval }).catch((thrown: unknown) => thrown);
    expect(refused).toMatchObject({ code: "INVALID_PARAMS", message: expect.stringContaining(problem) });
    expect(refused).toMatchObject({ message: expect.stringMatching(/return "allow", "deny", \{.*\}, or undefined$/) });
    expect(ran).toEqual([]);
    expect(await session.turn("Hello?")).toMatchObject({ text: "Hello again." });
  });

  it("[I2] is denied, and the model told why, where its function throws", async () => {
    const { runtime, model } = setUp();
    const onApproval = () => {
      throw new Error("the pager is down");
    };
    expect((await runtime.createSession("Go.", { onApproval })).text).toBe("Done.");
    expect(JSON.stringify(model.requests.at(-1)?.messages)).toContain("the approval handler failed: the pager is down");
  });

  it("[I2] is left to another client where its function returns nothing, whose answer then counts once", async () => {
    const { runtime, ran } = setUp();
    const late = Promise.withResolvers<"deny">();
    const going = runtime.createSession("Go.", { onApproval: () => late.promise });
    const { sessionId: session_id, approvalId: approval_id } = await question(runtime);
    await runtime.session(session_id).answerApproval({ approvalId: approval_id, decision: "allow" });
    late.resolve("deny");
    expect((await going).text).toBe("Done.");
    expect(ran).toHaveLength(3);
  });

  it("[I2] is asked about no more in the project once a person has allowed it there", async () => {
    const { runtime, ran } = setUp([CALLS, { text: "Done." }, CALLS, { text: "Done again." }], {
      config: { ...configWith({}), permissions: [{ from: "project", rules: { ask: ["wipe"] } }] },
    });
    const asked: string[] = [];
    const onApproval = () => {
      asked.push("asked");
      return { decision: "allow", remember: "project" } as const;
    };
    await runtime.createSession("Go.", { onApproval });
    expect((await runtime.createSession("Go.", { onApproval })).text).toBe("Done again.");
    expect(asked).toEqual(["asked"]);
    expect(ran).toHaveLength(6);
  });

  it("[I2] is answered once: a second word is refused, and so is one that asks for what cannot be", async () => {
    const { runtime } = setUp();
    const going = runtime.createSession("Go.", ELSEWHERE);
    const { sessionId: session_id, approvalId: approval_id } = await question(runtime);
    const session = runtime.session(session_id);
    const refused = { code: "INVALID_PARAMS" };
    await expect(session.answerApproval({ approvalId: "x", decision: "allow" })).rejects.toMatchObject(refused);
    await expect(
      session.answerApproval({ approvalId: approval_id, decision: "allow", calls: ["c1"] }),
    ).rejects.toMatchObject({ message: "calls: c1 waits for no answer; c2, c3 do" });
    await expect(
      session.answerApproval({ approvalId: approval_id, decision: "deny", remember: "session" }),
    ).rejects.toMatchObject(refused);
    const words = await Promise.allSettled(
      ["allow" as const, "deny" as const].map((decision) =>
        session.answerApproval({ approvalId: approval_id, decision }),
      ),
    );
    expect(words.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
    await going;
  });

  it("[I2] is denied when nobody says anything in time, and the model is told so", async () => {
    const { runtime, ran, model } = setUp([CALLS, { text: "Then not." }], {
      config: configWith({ tools: { approval_timeout_ms: 60_000 } }),
    });
    const session = await runtime.createSession("Go.", ELSEWHERE);
    expect(session.text).toBe("Then not.");
    expect(ran).toEqual(["look pond"]);
    expect(JSON.stringify(model.requests.at(-1)?.messages)).toContain("not run: approval timed out");
  });

  it("[I2] survives its process: the word is given in another, which goes on with the turn", async () => {
    const { runtime, ran, store } = setUp();
    const leaving = new AbortController();
    const left = runtime.createSession("Go.", { ...ELSEWHERE, signal: leaving.signal });
    const { sessionId: session_id, approvalId: approval_id } = await question(runtime);
    leaving.abort();
    await expect(left).rejects.toMatchObject({ code: "REQUEST_CANCELLED", details: { approval_id } });
    const other: string[] = [];
    const { runtime: elsewhere } = scriptedRuntime([{ text: "Done elsewhere." }], { store, tools: tools(other) });
    const session = elsewhere.session(session_id);
    await session.answerApproval({ approvalId: approval_id, decision: "allow" });
    const events: AgentEvent[] = [];
    for await (const { event } of session.events({ after: 0 })) {
      events.push(event);
      if (event.type === "run_completed") break;
    }
    expect(ran).toEqual([]);
    expect(other).toEqual(["look pond", "wipe disk", "wipe table"]);
    expect(events.at(-1)).toMatchObject({ type: "run_completed", result: "Done elsewhere." });
  });

  it.each(["allow", "deny"] as const)(
    "[I2] is answered (%s) in a process without the turn's tools or model, and runs on in the one that asked",
    async (decision) => {
      const { runtime, ran, store } = setUp();
      const asking = runtime.createSession("Go.", ELSEWHERE);
      const { sessionId, approvalId } = await question(runtime);
      // It has a model of its own, and would run the turn without the tools.
      const other = scriptedRuntime([{ text: "Not mine." }], { store });
      const answer = other.runtime.session(sessionId).answerApproval({ approvalId, decision });
      expect(await answer).toMatchObject({ answered: true, waitingCalls: 0 });
      expect((await asking).text).toBe("Done.");
      expect(ran).toEqual(decision === "allow" ? ["look pond", "wipe disk", "wipe table"] : ["look pond"]);
      expect(other.model.requests).toEqual([]);
    },
  );

  it("[I2] is left to others where the runtime closes, and where whoever serves it leaves", async () => {
    for (const leave of ["close", "leaving"] as const) {
      const { runtime, store, ran } = setUp();
      const leaving = new AbortController();
      const asked = runtime.dispatch("createSession", { prompt: "Go." }, { leaving: leaving.signal });
      const { approvalId: approval_id } = await question(runtime);
      const left = expect(asked).rejects.toMatchObject({ code: "REQUEST_CANCELLED", details: { approval_id } });
      if (leave === "close") await runtime.close();
      else leaving.abort();
      await left;
      const { runtime: other } = scriptedRuntime([], { store, tools: tools(ran) });
      expect((await other.listApprovals()).approvals).toMatchObject([{ approvalId: approval_id }]);
      expect(ran).toEqual([]);
    }
  });

  it("[I2] ends with its session: whoever waits is told, and nothing is listed any more", async () => {
    const { runtime, ran } = setUp();
    const asked = runtime.createSession("Go.", ELSEWHERE);
    const { sessionId: session_id } = await question(runtime);
    const ended = expect(asked).rejects.toThrow();
    await runtime.session(session_id).archive();
    await ended;
    expect((await runtime.listApprovals({ sessionId: session_id })).approvals).toEqual([]);
    expect(ran).toEqual([]);
  });

  it("[I1] [I4] keeps the rules of its session: who may not answer can only add to them", async () => {
    const { runtime, ran } = setUp([{ text: "Yes?" }, CALLS, { text: "Done." }]);
    const permissions = { deny: ["wipe"] };
    const session = await runtime.createSession("Hello.", { permissions });
    const caller = { name: "web", scopes: new Set(["run"] as const), labels: {} };
    const turn = { session_id: session.id, prompt: "Go.", permissions: { ask: ["nothing"] } };
    expect(await runtime.dispatch("startTurn", turn, { caller })).toMatchObject({ text: "Done." });
    expect(ran).toEqual(["look pond"]);
    const steered = { prompt: "Go.", shell_env: { PATH: "/evil" } };
    await expect(runtime.dispatch("createSession", steered, { caller })).rejects.toMatchObject({
      code: "PERMISSION_DENIED",
    });
    const odd = { prompt: "Go.", shell_env: { "BASH_FUNC_git%%": "() { rm x; }" } };
    await expect(runtime.dispatch("createSession", odd)).rejects.toMatchObject({ code: "INVALID_PARAMS" });
  });

  it("[I2] [I4] is allowed for the whole project by nobody who sees a part of it", async () => {
    const { runtime } = setUp();
    const labels = { team: "a" };
    const caller = { name: "web", scopes: new Set(["run", "approve"] as const), labels };
    const asked = runtime.dispatch("createSession", { prompt: "Go." }, { caller });
    const { sessionId: session_id, approvalId: approval_id } = await question(runtime);
    const word = { session_id, approval_id, decision: "allow" };
    const wide = runtime.dispatch("answerApproval", { ...word, remember: "project" }, { caller });
    await expect(wide).rejects.toMatchObject({ code: "PERMISSION_DENIED" });
    await runtime.dispatch("answerApproval", { ...word, remember: "session" }, { caller });
    expect(await asked).toMatchObject({ text: "Done." });
  });

  it("[I2] is given up by an interrupt that comes before its process has released the session", async () => {
    const shared = createInMemoryStore();
    const released = Promise.withResolvers<void>();
    const hold = async (id: string) => {
      const held = await shared.locks.hold(id);
      return { ...held, release: () => released.promise.then(held.release) };
    };
    const { runtime, ran } = setUp([CALLS], { store: { ...shared, locks: { ...shared.locks, hold } } });
    const turn = runtime.createSession("Go.", ELSEWHERE);
    turn.catch(() => {});
    const { sessionId } = await question(runtime);
    const interrupted = runtime.session(sessionId).interrupt();
    interrupted.catch(() => {});
    await new Promise(setImmediate);
    released.resolve();
    await interrupted;
    expect(await runtime.listApprovals()).toEqual({ approvals: [] });
    await expect(turn).rejects.toMatchObject({ code: "REQUEST_CANCELLED" });
    expect(ran).toEqual([]);
  });

  it("[I2] keeps others off: a further turn is refused until it is answered or interrupted", async () => {
    const { runtime, ran } = setUp([CALLS, { text: "Hello again." }]);
    const going = runtime.createSession("Go.", ELSEWHERE);
    going.catch(() => {});
    const { sessionId: session_id } = await question(runtime);
    const session = runtime.session(session_id);
    await expect(session.turn("Hello?")).rejects.toMatchObject({
      code: "SESSION_BUSY",
      message: `session ${session_id} waits for approval of wipe; answer it, or interrupt the turn`,
    });
    await session.interrupt();
    await expect(going).rejects.toMatchObject({ code: "REQUEST_CANCELLED" });
    expect(await session.turn("Hello?")).toMatchObject({ text: "Hello again." });
    expect(ran).toEqual([]);
  });
});
