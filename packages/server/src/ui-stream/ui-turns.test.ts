import { createInMemoryStore } from "@rkat/core/create-runtime";
import type { Tool } from "@rkat/core/ports/tool";
import { describe, expect, it } from "vitest";
import { lastOf, openChat, type Shown, serveUi, sessionOf, textIn, user } from "../../../../test/support/ui-server.ts";

type Script = Parameters<typeof serveUi>[0];

/** Answers with how many messages it was shown, so that no two places answer alike. */
const counting: Script = ({ messages }) => ({ text: `answer to ${messages.length}` });

/** Calls a tool twice that asks first, and then says that it is done. */
const WIPING: Script = ({ messages }) =>
  messages.length > 1
    ? { text: "Done." }
    : { calls: ["disk", "slate"].map((what, index) => ({ id: `c${index + 1}`, name: "wipe", args: { what } })) };

const wipe = (ran: string[]): Tool => ({
  name: "wipe",
  description: "Wipes.",
  inputSchema: { type: "object" },
  needsApproval: true,
  execute: ({ what }) => {
    ran.push(String(what));
    return "wiped";
  },
});

/** Whoever has no token is nobody, whose word does not count. */
const MAY_APPROVE = { authorization: "Bearer secret" };

/** What addToolApprovalResponse makes of a message: yes to these, no to the others. */
function withWords(message: Shown, allowed: readonly string[]): Shown {
  const parts = message.parts.map((part) => {
    if (part.type !== "dynamic-tool" || part.state !== "approval-requested") return part;
    // What the script called it with.
    const approved = allowed.includes((part.input as { what: string }).what);
    const word = approved ? { approved } : { approved, reason: "no" };
    return { ...part, state: "approval-responded" as const, approval: { ...part.approval, ...word } };
  });
  return { ...message, parts };
}

describe("a turn of a page", () => {
  it("[K1] goes on when its page is loaded again, from the beginning of its answer", async () => {
    const { url, runtime } = await serveUi([{ text: ["One ", "two"], ends: "silent" }]);
    const chat = openChat(url, "c");
    expect(await chat.resume()).toBeNull();
    const leaving = new AbortController();
    const stream = await chat.send([user("count")], { abortSignal: leaving.signal });
    const { value: start } = await stream.getReader().read();
    leaving.abort();
    const again = await chat.resume();
    if (again === null) throw new Error("the turn was not there any more");
    const reader = again.getReader();
    const reported = [];
    while (reported.length < 6) reported.push((await reader.read()).value);
    expect(reported).toEqual([
      start,
      expect.objectContaining({ type: "data-session" }),
      { type: "start-step" },
      { type: "text-start", id: "1" },
      { type: "text-delta", id: "1", delta: "One " },
      { type: "text-delta", id: "1", delta: "two" },
    ]);
    const stopped = await fetch(`${url}/ui/chat/c/stream`, { method: "DELETE" });
    expect(await stopped.json()).toEqual({ stopped: true });
    const rest = [];
    for (let next = await reader.read(); !next.done; next = await reader.read()) rest.push(next.value.type);
    expect(rest).toEqual(["text-end", "finish-step", "abort"]);
    expect(await chat.resume()).toBeNull();
    expect(await runtime.dispatch("listSessions", {})).toMatchObject({ sessions: [{ state: "idle" }] });
  });

  it("[K1] stops when nobody comes back to it", async () => {
    const { url, runtime } = await serveUi([{ text: "One", ends: "silent" }], {}, { settings: { grace_ms: 1 } });
    const leaving = new AbortController();
    const stream = await openChat(url, "c").send([user("count")], { abortSignal: leaving.signal });
    const { sessions } = await runtime.dispatch("listSessions", {});
    const events = runtime.subscribe(sessions[0]?.session_id ?? "", { after: 0 });
    leaving.abort();
    await stream.cancel().catch(() => {});
    for await (const { event } of events) if (event.type === "run_failed") break;
  });

  it("[K1] is stopped by what the user says next, once its page has left it", async () => {
    const script: Script = (_, index) => (index === 0 ? { text: "One", ends: "silent" } : { text: "Two." });
    const { url } = await serveUi(script);
    const chat = openChat(url, "c");
    const leaving = new AbortController();
    const stream = await chat.send([user("count")], { abortSignal: leaving.signal });
    await expect(chat.answer([user("stop")])).rejects.toThrow("SESSION_BUSY");
    leaving.abort();
    await stream.cancel().catch(() => {});
    const said = async (): Promise<string> => {
      try {
        return textIn(await chat.answer([user("stop")]));
      } catch (thrown) {
        // That a connection is closed is heard of a moment later.
        if (!String(thrown).includes("SESSION_BUSY")) throw thrown;
        return said();
      }
    };
    expect(await said()).toBe("Two.");
  });

  it("[K1] that waits for a person's words ends its stream, and goes on with them", async () => {
    const ran: string[] = [];
    const { url, model } = await serveUi(WIPING, { tools: [wipe(ran)] }, { token: "secret" });
    const chat = openChat(url, "c", { tool_preset: "full" }, MAY_APPROVE);
    const asked = await chat.answer([user("Go.")]);
    expect(asked.parts.map((part) => [part.type, "state" in part ? part.state : undefined])).toEqual([
      ["step-start", undefined],
      ["dynamic-tool", "approval-requested"],
      ["dynamic-tool", "approval-requested"],
      ["data-approval", undefined],
    ]);
    // A page that is loaded again is shown the question again.
    const again = await chat.resume();
    expect(again === null ? undefined : (await lastOf(again)).parts).toEqual(asked.parts);
    const done = await chat.answer([user("Go."), withWords(asked, ["disk"])]);
    expect(done.id).toBe(asked.id);
    expect(ran).toEqual(["disk"]);
    expect(done.parts).toMatchObject([
      { type: "step-start" },
      { state: "output-available", output: "wiped", approval: { approved: true } },
      { state: "output-denied", approval: { approved: false, reason: "no" } },
      { type: "data-approval", data: { calls: [{ id: "c1" }, { id: "c2" }] } },
      { type: "step-start" },
      { type: "text", text: "Done." },
      { type: "data-usage" },
    ]);
    expect(model.requests).toHaveLength(2);
  });

  it("[K1] that waits goes on in another process with the words given there", async () => {
    const store = createInMemoryStore();
    const first = await serveUi(WIPING, { store, tools: [wipe([])] }, { token: "secret" });
    const body = { tool_preset: "full" };
    const asked = await openChat(first.url, "c", body, MAY_APPROVE).answer([user("Go.")]);
    await first.close();
    const ran: string[] = [];
    const second = await serveUi(WIPING, { store, tools: [wipe(ran)] }, { token: "secret" });
    const chat = openChat(second.url, "c", body, MAY_APPROVE);
    const done = await chat.answer([user("Go."), withWords(asked, ["disk", "slate"])]);
    expect([done.id, textIn(done), ran]).toEqual([asked.id, "Done.", ["disk", "slate"]]);
  });

  it("[K1] that waits is given up by what the user says instead", async () => {
    const ran: string[] = [];
    const { url } = await serveUi(WIPING, { tools: [wipe(ran)] });
    const chat = openChat(url, "c", { tool_preset: "full" });
    const asked = await chat.answer([user("Go.")]);
    expect(textIn(await chat.answer([user("Go."), asked, user("Never mind.")]))).toBe("Done.");
    expect(ran).toEqual([]);
  });

  it("[K1] tells what was found in memory as data", async () => {
    const script: Script = ({ messages, tools }) => {
      if (tools.length === 0) return { text: "A summary." };
      const isAsked = messages.at(-1)?.role === "user" && JSON.stringify(messages.at(-1)).includes("colour");
      return isAsked ? { calls: [{ id: "c1", name: "memory_search", args: { query: "colour" } }] } : { text: "Noted." };
    };
    const { url } = await serveUi(script, { memory: {}, compaction: true }, { settings: { tools: "memory" } });
    const chat = openChat(url, "c");
    await chat.answer([user("My favourite colour is teal.")]);
    const found = await chat.answer([user("Which colour do I like?")]);
    expect(found.parts).toContainEqual({
      type: "data-memory",
      data: { query: "colour", hits: expect.any(Array) },
    });
  });

  it("[K1] another reader of the messages is shown them", async () => {
    const { url } = await serveUi(counting);
    const answer = await openChat(url, "c").answer([user("one")]);
    const shown = await (await fetch(`${url}/ui/chat/c`)).json();
    expect(shown).toEqual({
      id: "c",
      session_id: sessionOf(answer),
      messages: [
        { id: expect.stringMatching(/^user_\d+$/), role: "user", parts: [{ type: "text", text: "one" }] },
        {
          id: answer.id,
          role: "assistant",
          parts: [{ type: "step-start" }, { type: "text", text: "answer to 1", state: "done" }],
        },
      ],
    });
  });
});
