import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInMemoryStore } from "@rkat/core/create-runtime";
import type { McpAddress, McpProgram } from "@rkat/core/ports/tool";
import type { Runtime } from "@rkat/core/runtime/runtime-calls";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { modernProgram, openHttpServer, openModernServer, program, runtimeWith } from "../support/mcp-servers.ts";
import { configWith } from "../support/runtime.ts";

let folder = "";
let closers: (() => Promise<void>)[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "rkat-mcp-questions-"));
});
afterEach(async () => {
  for (const close of closers.toReversed()) await close();
  closers = [];
  rmSync(folder, { recursive: true });
});

type Place = Pick<McpProgram, "command" | "args"> | Pick<McpAddress, "url" | "headers">;

const KINDS: Readonly<Record<string, () => Promise<Place>>> = {
  "a program of 2025": async () => program(join(folder, "notes")),
  "a program of 2026-07-28": async () => modernProgram,
  "an address of 2025": async () => {
    const server = await openHttpServer("token");
    closers.push(server.close);
    return { url: `${server.url}/mcp`, headers: { Authorization: "Bearer token" } };
  },
  "an address of 2026-07-28": async () => {
    const server = await openModernServer();
    closers.push(server.close);
    return { url: server.url };
  },
};

const call = (name: string, args = {}, id = name) => ({ id, name: `mcp__t__${name}`, args });
const PAINTING = [{ calls: [call("echo", { text: "first" }), call("paint")] }, { text: "Done." }];
const ELSEWHERE = { onApproval: () => undefined };

/** A runtime with one server `t`, closed after the test. */
function runtimeOf(server: Place, script: Parameters<typeof runtimeWith>[0] = PAINTING, options = {}) {
  const made = runtimeWith(script, {
    mcpServers: [{ name: "t", ...server }],
    secrets: ["a-secret-of-ours"],
    ...options,
  });
  closers.push(made.runtime.close);
  return made;
}

/** What a session waits with. */
async function asked(runtime: Runtime) {
  const { approvals } = await expect
    .poll(() => runtime.listApprovals(), { timeout: 30_000 })
    .toMatchObject({ approvals: [{}] })
    .then(() => runtime.listApprovals());
  const [first] = approvals;
  if (first === undefined) throw new Error("nothing is asked");
  return { ...first, session: runtime.session(first.sessionId) };
}

describe.each(Object.entries(KINDS))("the question of %s", (kind, open) => {
  const isModern = kind.includes("2026");

  it("[T1] [I2] waits as an approval with its schema, and is answered with what the schema allows", async () => {
    const { runtime, results } = runtimeOf(await open());
    const stream = runtime.createSessionStreaming("Paint.");
    const { approvalId, calls, session } = await asked(runtime);
    const question = { server: "t", message: "Which colour?", schema: { type: "object", required: ["colour"] } };
    expect(calls).toMatchObject([{ id: "paint", name: "mcp__t__paint", why: "MCP server t asks", question }]);
    expect(await runtime.readSession(session.id)).toMatchObject({ state: "waiting" });
    const answer = (more: object) => session.answerApproval({ approvalId, decision: "allow", ...more });
    await expect(answer({ content: { colour: "green" } })).rejects.toThrow(/^content: colour .*; answer by the schema/);
    await expect(answer({})).rejects.toThrow(/^content: .*colour/);
    await expect(answer({ content: { colour: "red", more: ["a-secret-of-ours"] } })).rejects.toThrow(
      /^content: it contains a secret/,
    );
    await expect(answer({ content: { colour: "red" }, remember: "session" })).rejects.toThrow("remember: no rule");
    await expect(answer({ decision: "deny", content: {} })).rejects.toThrow("content: only with the decision allow");
    await answer({ content: { colour: "red" } });
    expect(await stream.result).toMatchObject({ text: "Done.", toolCalls: 2 });
    expect(results()).toEqual([
      { content: "You said: first", is_error: false },
      { content: "painted red", is_error: false },
    ]);
    const { events } = await runtime.dispatch("listEvents", { scope: { type: "session", session_id: session.id } });
    const told = JSON.stringify(events.filter(({ payload }) => payload.type === "tool_approval_answered"));
    expect(told).toContain('"allow"');
    expect(told).not.toContain("colour");
    expect(JSON.stringify(events)).not.toContain("a-secret-of-ours");
  });

  it.each([
    ["deny", "decline"],
    ["cancel", "cancel"],
  ] as const)("[T1] is told %s as %s", async (decision, action) => {
    const { runtime, results } = runtimeOf(await open());
    await runtime.createSession("Paint.", { onApproval: () => decision });
    expect(results().at(-1)).toEqual({ content: `not painted: ${action}`, is_error: false });
  });

  it("[T1] is declined where no approver is connected, and dismissed when nobody has answered in time", async () => {
    const config = configWith({ tools: { approval_timeout_ms: 50 } });
    const { runtime, results } = runtimeOf(await open(), [...PAINTING, ...PAINTING], { config });
    const session = await runtime.createSession("Paint.");
    expect(results().at(-1)).toEqual({ content: "not painted: decline", is_error: false });
    await session.turn("Again.", ELSEWHERE);
    expect(results().at(-1)).toEqual({ content: "not painted: cancel", is_error: false });
  });

  it("[T1] is answered once for each time it is asked, eight times in a call at most", async () => {
    const script = [{ calls: [call("paint", { times: 3 }), call("paint", { times: 12 }, "more")] }, { text: "ok" }];
    const { runtime, results } = runtimeOf(await open(), script);
    let answers = 0;
    await runtime.createSession("Paint.", {
      onApproval: async ({ calls, session_id, approval_id }) => {
        answers += calls.length;
        for (const { id } of calls.slice(1))
          await runtime
            .session(session_id)
            .answerApproval({ approvalId: approval_id, decision: "allow", calls: [id], content: { colour: "red" } });
        return { decision: "allow", calls: [calls[0]?.id ?? ""], content: { colour: "blue" } };
      },
    });
    expect(results().map(({ content }) => content)).toEqual([
      expect.stringMatching(/^painted (?:red|blue)$/),
      "not painted: decline",
    ]);
    expect(answers).toBe(11);
  });

  it("[T1] is not put if it asks to open an address or is too long; the call gets the reason", async () => {
    const { runtime, results } = runtimeOf(await open(), [
      { calls: [call("paint", { mode: "url" }), call("paint", { mode: "long" }, "long")] },
      { text: "ok" },
    ]);
    await runtime.createSession("Paint.", { onApproval: () => ({ decision: "allow", content: { colour: "red" } }) });
    expect(results().map(({ content }) => content)).toEqual([
      expect.stringMatching(isModern ? /do not declare/ : /URL.mode/),
      expect.stringContaining("a question of more than 16384 characters"),
    ]);
  });

  it("[T1] [I2] is withdrawn when the turn is interrupted; other results of the answer stay", async () => {
    const { runtime } = runtimeOf(await open());
    const stream = runtime.createSessionStreaming("Paint.");
    const { session } = await asked(runtime);
    await session.interrupt();
    await expect(stream.result).rejects.toMatchObject({ code: "REQUEST_CANCELLED" });
    const { messages } = await session.history();
    const shown = messages.flatMap((message) => (message.role === "tool_results" ? message.results : []));
    expect(shown.map(({ content }) => content)).toEqual([
      "You said: first",
      "interrupted: this call may or may not have taken effect",
    ]);
    expect(await session.turn("Never mind.")).toMatchObject({ text: "Done." });
  });

  it("[T1] [I2] may be answered in another process; a server of 2025 is told by the one that asked", async () => {
    const server = await open();
    const store = createInMemoryStore();
    const one = runtimeOf(server, PAINTING, { store });
    const two = runtimeOf(server, [{ text: "Done by two." }], { store });
    const stream = one.runtime.createSessionStreaming("Paint.");
    const { approvalId, session } = await asked(one.runtime);
    await two.runtime
      .session(session.id)
      .answerApproval({ approvalId, decision: "allow", content: { colour: "blue" } });
    expect(await stream.result).toMatchObject({ text: isModern ? "Done by two." : "Done." });
    const shown = (isModern ? two : one).results();
    expect(shown.map(({ content }) => content)).toEqual(["You said: first", "painted blue"]);
  });
});

it("[T1] [I2] a question of 2026-07-28 outlives the process that asked it; one of 2025 is reported as lost", async () => {
  const shown: unknown[] = [];
  for (const server of [modernProgram, program(join(folder, "notes"))]) {
    const store = createInMemoryStore();
    const one = runtimeOf(server, PAINTING, { store });
    const stream = one.runtime.createSessionStreaming("Paint.");
    stream.result.catch(() => {});
    const { approvalId, sessionId } = await asked(one.runtime);
    await one.runtime.close();
    const two = runtimeOf(server, [{ text: "Done." }], { store });
    const session = two.runtime.session(sessionId);
    await session.answerApproval({ approvalId, decision: "allow", content: { colour: "blue" } });
    await two.runtime.dispatch("finishTurn", { session_id: sessionId }).catch(() => {});
    await expect.poll(async () => (await two.runtime.readSession(sessionId)).state, { timeout: 30_000 }).toBe("idle");
    shown.push(two.results().at(-1)?.content);
  }
  expect(shown).toEqual(["painted blue", expect.stringMatching(/may or may not have taken effect|unknown/)]);
});

it("[T1] [H5] a long question of a server of 2025 is refused before it is read, whatever it is", async () => {
  const script = [{ calls: [call("paint", { mode: "odd" })] }, { text: "ok" }];
  const { runtime, results } = runtimeOf(program(join(folder, "notes")), script);
  await runtime.createSession("Paint.", { onApproval: () => ({ decision: "allow", content: { colour: "red" } }) });
  expect(results()[0]?.content).toContain("a question of more than 16384 characters");
});

it("[T1] a server of 2025 that works for two sessions gets no answer: neither is asked for the other", async () => {
  const server = program(join(folder, "notes"));
  const { runtime, results } = runtimeOf(server, ({ messages }) =>
    messages.some(({ role }) => role === "tool_results") ? { text: "Done." } : { calls: [call("paint")] },
  );
  const first = runtime.createSessionStreaming("Paint.");
  const { approvalId, session } = await asked(runtime);
  await runtime.createSession("Paint, too.", ELSEWHERE);
  expect(results()).toEqual([{ content: "not painted: decline", is_error: false }]);
  await session.answerApproval({ approvalId, decision: "allow", content: { colour: "red" } });
  expect(await first.result).toMatchObject({ text: "Done." });
  expect(results()).toEqual([{ content: "painted red", is_error: false }]);
});

it("[T1] two questions of one result of 2026-07-28 are put one after the other, in one call", async () => {
  const script = [{ calls: [call("paint", { mode: "two" })] }, { text: "ok" }];
  const { runtime, results } = runtimeOf(modernProgram, script);
  const messages: (string | undefined)[] = [];
  await runtime.createSession("Paint.", {
    onApproval: ({ calls }) => {
      messages.push(calls[0]?.question?.message);
      return { decision: "allow", content: messages.length === 1 ? { colour: "red" } : { frame: true } };
    },
  });
  expect(messages).toEqual(["Which colour?", "Which frame?"]);
  expect(results()).toEqual([{ content: "painted red", is_error: false }]);
});
