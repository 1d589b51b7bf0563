import { describe, expect, it } from "vitest";
import { scriptedRuntime } from "../../../../test/support/runtime.ts";
import type { Message } from "../contract/message.ts";
import { createInMemoryStore, type RuntimeOptions } from "../create-runtime.ts";
import type { Tool } from "../ports/tool.ts";
import type { Session } from "./session-handle.ts";

const look: Tool = { name: "look", description: "", inputSchema: {}, execute: () => "a heron" };
const user = (content: string) => ({ role: "user", content }) as const;
const answer = (text: string) => ({ role: "assistant", content: text }) as const;
const refused = (message: RegExp) => ({ code: "INVALID_PARAMS", message: expect.stringMatching(message) });

function open(options: RuntimeOptions = {}) {
  const store = createInMemoryStore();
  const script = ({ messages }: { messages: readonly Message[] }) => {
    const last = messages.at(-1);
    if (JSON.stringify(last).includes("CONTEXT COMPACTION") || JSON.stringify(last).includes("ummar"))
      return { text: "They spoke of birds." };
    if (last?.role === "user" && last.content === "look") return { text: "hm", calls: [{ name: "look" }] };
    return { text: "ok" };
  };
  return { store, ...scriptedRuntime(script, { store, tools: [look], systemPrompt: "Be brief.", ...options }) };
}

const said = async (session: Session): Promise<readonly string[]> =>
  (await session.history()).messages.map((message) => {
    if (message.role === "user" || message.role === "system") return String(message.content);
    return message.role;
  });

describe("rewriting a transcript", () => {
  it("[C13] [F10] is one entry: the next call is shown it, messages that stay keep their seqs, a restart says the same", async () => {
    const { store, runtime, model } = open();
    const session = await runtime.createSession("One.");
    await session.turn("Two.");
    const before = await session.history();
    const entries = (await store.log.read(session.id, 1, 1_000)).length;
    // The whole transcript is written back with one message changed, as an editor does.
    const edited = before.messages.map((message) =>
      message.role === "user" && message.content === "One." ? user("1.") : message,
    );
    const done = await session.rewrite({ start: 0, end: 5 }, edited);
    expect(done.commit).toMatchObject({ messagesBefore: 5, messagesAfter: 5, selection: { start: 0, end: 5 } });
    expect((await store.log.read(session.id, 1, 1_000)).length).toBe(entries + 1);
    const after = await session.history();
    expect(
      after.messages.map(({ seq }) => seq).filter((seq) => !before.messages.some((one) => one.seq === seq)),
    ).toHaveLength(1);
    expect(await said(session)).toEqual(["Be brief.", "1.", "block_assistant", "Two.", "block_assistant"]);
    await session.turn("Three.");
    expect(model.requests.at(-1)?.messages.slice(0, 2)).toMatchObject([{ content: "Be brief." }, { content: "1." }]);
    const again = open({ store }).runtime.session(session.id);
    expect(await again.history()).toEqual(await session.history());
    expect(await again.context()).toEqual(await session.context());
  });

  it("[F10] tells listeners, the row and the list what the transcript is now", async () => {
    const { runtime } = open();
    const session = await runtime.createSession("One.");
    await session.turn("Two.");
    await session.rewrite({ start: 1, end: 5 }, [user("First."), answer("Yes.")], { reason: "tidy" });
    expect(await runtime.readSession(session.id)).toMatchObject({ messageCount: 3, lastAssistantText: "Yes." });
    expect(await runtime.listSessions()).toMatchObject([{ title: "First.", messageCount: 3 }]);
    const { events } = await runtime.dispatch("listEvents", { scope: { type: "session", session_id: session.id } });
    expect(events.at(-1)?.payload).toMatchObject({
      type: "transcript_rewrite_committed",
      session_id: session.id,
      record: {
        commit: { reason: { kind: "tidy" } },
        parent_body: { message_count: 5 },
        revision_body: { message_count: 3, last_assistant_text: "Yes." },
      },
    });
    await session.rewrite({ start: 1, end: 3 }, []);
    const { lastAssistantText: last_assistant_text, messageCount: message_count } = await runtime.readSession(
      session.id,
    );
    expect([last_assistant_text, message_count]).toEqual([undefined, 1]);
    expect((await session.turn("Are you there?")).text).toBe("ok");
  });

  it("[F10] the system message is rewritten with the setting, and a restore brings it back", async () => {
    const { runtime, model } = open();
    const session = await runtime.createSession("One.");
    const { revision } = await session.revision();
    await session.rewrite({ start: 0, end: 1 }, [{ role: "system", content: "Be long." }]);
    await session.turn("Two.");
    expect(model.requests.at(-1)?.messages[0]).toMatchObject({ role: "system", content: "Be long." });
    await session.rewrite({ start: 0, end: 1 }, []);
    await session.turn("Three.");
    expect(model.requests.at(-1)?.messages[0]).toMatchObject({ role: "user", content: "One." });
    await session.restore(revision);
    expect(await said(session)).toEqual(["Be brief.", "One.", "block_assistant"]);
    await expect(session.rewrite({ start: 2, end: 2 }, [{ role: "system", content: "Now!" }])).rejects.toMatchObject(
      refused(/^message 2, system: .*system message is in the middle/),
    );
  });

  it("[H1] refuses what a provider would reject, naming the message, and leaves everything as it was", async () => {
    const { runtime } = open();
    const session = await runtime.createSession("look");
    expect(await said(session)).toEqual(["Be brief.", "look", "block_assistant", "tool_results", "block_assistant"]);
    const { revision } = await session.revision();
    const results = { role: "tool_results", results: [{ tool_use_id: "x", content: "", is_error: false }] } as const;
    const call = { role: "assistant", content: "", tool_calls: [{ id: "c", name: "look", args: {} }] } as const;
    const wrong: readonly [number, number, readonly object[], RegExp][] = [
      [3, 4, [], /^message 2, block_assistant: .*has no result/],
      [2, 3, [], /^message 2, tool_results: .*has no call/],
      [5, 5, [call], /^message 5, block_assistant: .*has no result/],
      [5, 5, [results], /^message 5, tool_results: .*has no call/],
      [1, 2, [answer("I begin.")], /^message 1, block_assistant: .*begins with an answer/],
      [4, 3, [], /^selection: 4 to 3 is no range of the 5 messages/],
      [0, 6, [], /^selection: 0 to 6/],
      [1, 2, [user("look")], /^the transcript already has this content/],
      [1, 2, [{ role: "wizard", content: "" }], /^replacement\.0\.role: write a message with a role/],
      [1, 2, [{ role: "system", content: "" }], /^replacement\.0\.content/],
      [1, 2, [{ role: "user", content: [{ type: "audio" }] }], /^replacement\.0\.content/],
      [
        1,
        2,
        [{ role: "user", content: [{ type: "image", source: "inline", media_type: "image/png", data: "" }] }],
        /no data/,
      ],
      [1, 2, [{ ...user("x"), created_at: "soon" }], /^replacement\.0\.created_at/],
    ];
    for (const [start, end, replacement, message] of wrong) {
      const input = { session_id: session.id, selection: { type: "message_range", start, end }, replacement };
      const change = runtime.dispatch("rewriteTranscript", { ...input, reason: { kind: "edit" } });
      await expect(change, `${message}`).rejects.toMatchObject(refused(message));
    }
    const many = Array.from({ length: 10_001 }, () => user("x"));
    await expect(session.rewrite({ start: 1, end: 2 }, many)).rejects.toMatchObject(refused(/at most 10000 messages/));
    expect(await session.revision()).toMatchObject({ revision, messageCount: 5 });
    expect(await session.rewrites()).toEqual([]);
  });

  it("[F9] a busy session is SESSION_BUSY, an archived one is not found and stays readable", async () => {
    const { runtime, store } = open();
    const session = await runtime.createSession("One.");
    const { revision } = await session.revision();
    const hold = await store.locks.hold(session.id);
    const busy = { code: "SESSION_BUSY" };
    await expect(session.rewrite({ start: 1, end: 2 }, [user("1.")])).rejects.toMatchObject(busy);
    await expect(session.restore(revision)).rejects.toMatchObject(busy);
    await expect(session.fork(1, { type: "message", message: user("1.") })).rejects.toMatchObject(busy);
    await hold.release();
    await session.archive();
    await expect(session.rewrite({ start: 1, end: 2 }, [])).rejects.toMatchObject({ code: "SESSION_NOT_FOUND" });
    expect(await session.revision()).toMatchObject({ revision });
  });

  it("[F10] of two that expect the same revision one is made, and both can be looked at", async () => {
    const { runtime, store } = open();
    const session = await runtime.createSession("One.");
    const other = open({ store }).runtime.session(session.id);
    const { revision } = await other.revision();
    const expecting = { expectedParentRevision: revision };
    await session.rewrite({ start: 1, end: 2 }, [user("mine")], expecting);
    await expect(other.rewrite({ start: 1, end: 2 }, [user("theirs")], expecting)).rejects.toMatchObject(
      refused(/^expectedParentRevision: sha256:\w+ is not the current revision, which is sha256:/),
    );
    await other.rewrite({ start: 1, end: 2 }, [user("theirs")]);
    expect((await session.rewrites()).map(({ parentRevision: parent_revision }) => parent_revision)[0]).toBe(revision);
    expect(await said(session)).toContain("theirs");
  });

  it("[F10] [A6] calls a crash left open are closed first, and go with the message that made them", async () => {
    const { runtime, store } = open();
    const session = await runtime.createSession("look");
    const entries = await store.log.read(session.id, 1, 1_000);
    const asked = entries.findIndex(({ body }) => body.kind === "assistant");
    const crashed = createInMemoryStore();
    await crashed.log.append(session.id, 0, entries.slice(0, asked + 1));
    const after = open({ store: crashed }).runtime.session(session.id);
    expect(await said(after)).toEqual(["Be brief.", "look", "block_assistant"]);
    const { revision } = await after.revision();
    const done = await after.rewrite({ start: 2, end: 3 }, [], { expectedParentRevision: revision });
    expect(done.commit).toMatchObject({ parentRevision: revision, messagesBefore: 3, messagesAfter: 2 });
    expect(await said(after)).toEqual(["Be brief.", "look"]);
    await after.rewrite({ start: 2, end: 2 }, [answer("no")]);
    await expect(after.restore(revision)).rejects.toMatchObject(refused(/has no result/));
    expect((await after.turn("Two.")).text).toBe("ok");
  });
});

describe("rewriting what was compacted", () => {
  const compaction = { autoCompactThreshold: 50_000, recentTurnBudget: 1, maxSummaryTokens: 500 };
  const birds = ["heron", "crane", "egret", "stork"].map(
    (bird) => `A ${bird} stood there. ${"It did not move. ".repeat(40)}`,
  );

  async function compacted() {
    const opened = open({ compaction, memory: {} });
    const [first = "", ...more] = birds;
    const session = await opened.runtime.createSession(first);
    for (const bird of more) await session.turn(bird);
    const outcome = await session.compact();
    expect(outcome.compacted, outcome.reason).toBe(true);
    return { ...opened, session, id: String(outcome.compaction?.compactionId) };
  }

  it("[C13] takes the summary away with what it speaks of; a restore brings both back, byte for byte", async () => {
    const { session, id } = await compacted();
    const { revision } = await session.revision();
    const { sha256 } = await session.context();
    await session.rewrite({ start: 1, end: 2 }, [user("Nothing stood there.")]);
    expect((await session.compactions())[0]?.undone).toBe(true);
    expect((await session.context()).parts.map(({ kind }) => kind)).not.toContain("summary");
    expect(await session.undoCompaction(id)).toEqual([]);
    await expect(session.expandCompaction(id)).rejects.toMatchObject(refused(/rewritten since/));
    await session.restore(revision);
    expect((await session.compactions())[0]?.undone).toBe(false);
    expect((await session.context()).sha256).toBe(sha256);
  });

  it("[C13] leaves a compaction alone that was made from other messages; an undo gives the rewritten transcript", async () => {
    const { session, id } = await compacted();
    await session.turn("And then?");
    const { messageCount: message_count } = await session.history();
    await session.rewrite({ start: message_count - 2, end: message_count - 1 }, [user("And now?")]);
    expect((await session.compactions())[0]?.undone).toBe(false);
    expect((await session.context()).parts.map(({ kind }) => kind)).toContain("summary");
    await session.undoCompaction(id);
    const { messages } = await session.context();
    expect(messages).toEqual((await session.history()).messages);
  });

  it("[C13] [D1] what a rewrite took out is no memory of the session's, stays in the project's history, and comes back", async () => {
    const { runtime, session } = await compacted();
    const find = async () => {
      const scope = { query: "crane stood there", session_id: session.id, scope: "session", limit: 20 };
      const has = ({ results }: { results: readonly { content: string }[] }) =>
        results.some((hit) => hit.content.includes("crane"));
      return [has(await runtime.dispatch("searchMemory", scope)), has(await runtime.dispatch("searchHistory", scope))];
    };
    expect(await find()).toEqual([true, true]);
    const { revision } = await session.revision();
    const at = (await session.history()).messages.findIndex((one) => JSON.stringify(one).includes("crane"));
    await session.rewrite({ start: at, end: at + 1 }, [user("Nothing stood there.")]);
    expect(await find()).toEqual([false, true]);
    await session.restore(revision);
    expect(await find()).toEqual([true, true]);
  });

  it("[C13] a pin on a message that is gone waits for it", async () => {
    const { session } = await compacted();
    const seq = (await session.history()).messages[1]?.seq ?? 0;
    await session.pin(seq);
    const { revision } = await session.revision();
    await session.rewrite({ start: 1, end: 2 }, [user("Nothing.")]);
    await expect(session.pin(seq)).rejects.toMatchObject(refused(/there is no message at/));
    await session.restore(revision);
    expect((await session.context()).messages.map((message) => message.seq)).toContain(seq);
  });
});

describe("a fork with a message replaced", () => {
  it("[F10] has what was before it, the message, and nothing after", async () => {
    const { runtime } = open();
    const session = await runtime.createSession("look");
    const fork = await session.fork(1, {
      type: "user_content_block",
      block_index: 0,
      block: { type: "text", text: "1." },
    });
    expect(await said(fork)).toEqual(["Be brief.", "1."]);
    const other = await session.fork(0, { type: "message", message: { role: "system", content: "Be long." } });
    expect(await said(other)).toEqual(["Be long."]);
    const block = { block_type: "text", data: { text: "hm?" } } as const;
    const reworded = await session.fork(2, { type: "assistant_block", block_index: 0, block });
    expect(await said(reworded)).toEqual(["Be brief.", "look", "block_assistant"]);
    expect((await reworded.turn("And?")).text).toBe("ok");
    const text = { type: "text", text: "a crane" } as const;
    const result = await session.fork(3, {
      type: "tool_result_content_block",
      result_index: 0,
      block_index: 0,
      block: text,
    });
    expect((await result.history()).messages.at(-1)).toMatchObject({ results: [{ content: "a crane" }] });
    expect(await runtime.readSession(result.id)).toMatchObject({ lastAssistantText: "hm" });
    expect((await session.history()).messageCount).toBe(5);
  });

  it("[H1] refuses an index, a role or a block that is not there, and what a provider would reject", async () => {
    const { runtime } = open();
    const session = await runtime.createSession("look");
    const block = { type: "text", text: "x" } as const;
    const orphan = { role: "tool_results", results: [{ tool_use_id: "x", content: "", is_error: false }] } as const;
    const wrong: readonly [number, object, RegExp][] = [
      [5, { type: "message", message: user("x") }, /^message_index: 5 is beyond the 5 messages/],
      [
        2,
        { type: "user_content_block", block_index: 0, block },
        /^replacement\.type: it is for a message of the role user/,
      ],
      [1, { type: "user_content_block", block_index: 1, block }, /^replacement\.block_index: 1 is beyond the 1 blocks/],
      [3, { type: "tool_result_content_block", result_index: 4, block_index: 0, block }, /^replacement\.result_index/],
      [1, { type: "message", message: orphan }, /^replacement: message 1, tool_results: .*has no call/],
      [1, { type: "message", message: answer("I begin.") }, /begins with an answer/],
      [1, { type: "anything" }, /^replacement\.type: write a type/],
    ];
    for (const [message_index, replacement, message] of wrong) {
      const fork = runtime.dispatch("forkReplacing", { session_id: session.id, message_index, replacement });
      await expect(fork, `${message}`).rejects.toMatchObject(refused(message));
    }
  });
});
