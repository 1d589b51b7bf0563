import { afterEach, describe, expect, it } from "vitest";
import { scriptedRuntime } from "../../../test/support/runtime.ts";
import { lastOf, openChat, openUiServer, type Shown, textIn, user } from "../../../test/support/ui-server.ts";
import { createInMemoryStore, type RuntimeOptions } from "../../runtime.ts";

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

type Script = Parameters<typeof scriptedRuntime>[0];

async function serve(script: Script, options: RuntimeOptions = {}, served: Parameters<typeof openUiServer>[1] = {}) {
  const { runtime, model } = scriptedRuntime(script, { store: createInMemoryStore(), ...options });
  const server = await openUiServer(runtime, served);
  closing.push(() => runtime.close(), server.close);
  return { url: server.url, runtime, model };
}

/** Answers with how many messages it was shown, so that no two places answer alike. */
const counting: Script = ({ messages }) => ({ text: `answer to ${messages.length}` });

const sessionOf = ({ metadata }: Shown): string => metadata?.session_id ?? "";

describe("a chat of a page", () => {
  it("[K1] streams an answer as the AI SDK reads it, and names its session", async () => {
    const { url } = await serve([{ reasoning: { text: "Hm." }, text: ["Hel", "lo."] }]);
    const response = await fetch(`${url}/ui/chat`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ id: "c", messages: [user("Hi.")], trigger: "submit-message" }),
    });
    expect(response.headers.get("x-vercel-ai-ui-message-stream")).toBe("v1");
    const session_id = response.headers.get("x-rkat-session") ?? "";
    const lines = (await response.text()).split("\n\n").filter((line) => line !== "");
    expect(lines.at(-1)).toBe("data: [DONE]");
    expect(lines.slice(0, -1).map((line) => JSON.parse(line.slice("data: ".length)))).toEqual([
      { type: "start", messageId: expect.stringMatching(/^msg_[0-9a-f]{32}_\d+$/), messageMetadata: { session_id } },
      { type: "data-session", data: { session_id }, transient: true },
      { type: "start-step" },
      { type: "reasoning-start", id: "1" },
      { type: "reasoning-delta", id: "1", delta: "Hm." },
      { type: "text-start", id: "2" },
      { type: "text-delta", id: "2", delta: "Hel" },
      { type: "text-delta", id: "2", delta: "lo." },
      { type: "reasoning-end", id: "1" },
      { type: "text-end", id: "2" },
      { type: "finish-step" },
      { type: "data-usage", data: { usage: expect.objectContaining({ input_tokens: expect.any(Number) }) } },
      { type: "finish", finishReason: "stop" },
    ]);
  });

  it("[K1] goes on in its session, and only what is new is said to it", async () => {
    const { url, runtime } = await serve(counting);
    const chat = openChat(url, "c");
    const first = await chat.answer([user("one")]);
    const second = await chat.answer([user("one"), first, user("two")]);
    expect(textIn(second)).toBe("answer to 3");
    // A page may send the newest message alone.
    const third = await chat.answer([user("three")]);
    expect([sessionOf(second), sessionOf(third)]).toEqual([sessionOf(first), sessionOf(first)]);
    expect(await runtime.session(sessionOf(first)).history()).toMatchObject({ message_count: 6 });
  });

  it("[K1] an edit, an answer again, and a conversation that was cut go on in a fork, and the old words stay", async () => {
    const { url, runtime } = await serve(counting);
    const chat = openChat(url, "c");
    const one = await chat.answer([user("one")]);
    const two = await chat.answer([user("one"), one, user("two")]);
    const again = await chat.answer([user("one"), one, user("two")], { trigger: "regenerate-message" });
    expect(sessionOf(again)).not.toBe(sessionOf(one));
    const edited = await chat.answer([user("uno", "one")], { messageId: "one" });
    expect(textIn(edited)).toBe("answer to 1");
    const next = await chat.answer([user("uno", "one"), edited, user("dos")]);
    expect(sessionOf(next)).toBe(sessionOf(edited));
    const cut = await chat.answer([user("uno", "one"), edited, user("tres")]);
    expect(textIn(cut)).toBe("answer to 3");
    expect(sessionOf(cut)).not.toBe(sessionOf(next));
    const { messages } = await runtime.session(sessionOf(two)).history();
    expect(messages).toHaveLength(4);
  });

  it("[K1] a history nobody knows begins the session", async () => {
    const { url, model } = await serve(counting);
    const answer: Shown = { id: "a", role: "assistant", parts: [{ type: "text", text: "Hello." }] };
    await openChat(url, "c").answer([user("Hi."), answer, user("And?")]);
    expect(model.requests[0]?.messages).toMatchObject([
      { role: "user", content: "Hi." },
      { role: "block_assistant" },
      { role: "user", content: "And?" },
    ]);
  });

  it("[K1] a tool of the page's ends the answer with its call, and its output goes on with the same message", async () => {
    const { url, model } = await serve([
      { text: "Let me look.", calls: [{ id: "c1", name: "look", args: { at: "pond" } }] },
      { text: "A heron." },
    ]);
    const chat = openChat(url, "c", { client_tools: [{ name: "look", description: "Looks." }] });
    const asked = await chat.answer([user("Who is there?")]);
    expect(asked.parts).toContainEqual({
      type: "tool-look",
      toolCallId: "c1",
      state: "input-available",
      input: { at: "pond" },
    });
    const parts = asked.parts.map((part) =>
      part.type === "tool-look" ? { ...part, state: "output-available", output: { bird: "heron" } } : part,
    );
    const answered = { ...asked, parts } as Shown; // What addToolOutput makes of it.
    const done = await chat.answer([user("Who is there?"), answered]);
    expect(done.id).toBe(asked.id);
    expect(textIn(done)).toBe("Let me look.|A heron.");
    expect(model.requests[1]?.messages.at(-1)).toMatchObject({
      role: "tool_results",
      results: [{ tool_use_id: "c1", content: '{"bird":"heron"}', is_error: false }],
    });
  });

  it("[K1] callers who choose the same id have chats of their own", async () => {
    const { url } = await serve(counting);
    const mine = await openChat(url, "c").answer([user("one")]);
    const others = await openChat(url, "d").answer([user("one")]);
    expect(sessionOf(mine)).not.toBe(sessionOf(others));
  });

  it("[K1] a failure of the model is an error of the stream, and what is refused is an answer", async () => {
    const { url } = await serve([{ ends: { failure: { kind: "invalid_request", message: "no such thing" } } }]);
    const chat = openChat(url, "c");
    await expect(chat.answer([user("one")])).rejects.toThrow("no such thing");
    const refused = chat.answer([{ id: "a", role: "assistant", parts: [] }]);
    await expect(refused).rejects.toThrow("nothing is new in it");
  });
});

describe("a turn of a page", () => {
  it("[K1] goes on when its page is loaded again, from the beginning of its answer", async () => {
    const { url, runtime } = await serve([{ text: ["One ", "two"], ends: "silent" }]);
    const chat = openChat(url, "c");
    expect(await chat.resume()).toBeNull();
    const leaving = new AbortController();
    const stream = await chat.send([user("count")], { abortSignal: leaving.signal });
    const { value: start } = await stream.getReader().read();
    leaving.abort();
    const again = await chat.resume();
    if (again === null) throw new Error("the turn was not there any more");
    const reader = again.getReader();
    const told = [];
    while (told.length < 6) told.push((await reader.read()).value);
    expect(told).toEqual([
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
    expect((await runtime.sessions()).sessions).toMatchObject([{ state: "idle" }]);
  });

  it("[K1] stops when nobody comes back to it", async () => {
    const { url, runtime } = await serve([{ text: "One", ends: "silent" }], {}, { settings: { grace: 1 } });
    const leaving = new AbortController();
    const stream = await openChat(url, "c").send([user("count")], { abortSignal: leaving.signal });
    const { sessions } = await runtime.sessions();
    const events = runtime.subscribe(sessions[0]?.session_id ?? "", { after: 0 });
    leaving.abort();
    await stream.cancel().catch(() => {});
    for await (const { event } of events) if (event.type === "run_failed") break;
  });

  it("[K1] is stopped by what the user says next, once its page has left it", async () => {
    const script: Script = (_, index) => (index === 0 ? { text: "One", ends: "silent" } : { text: "Two." });
    const { url } = await serve(script);
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

  it("[K1] that waits for a person's word ends its stream, and goes on with the word", async () => {
    const permissions = { ask: ["datetime"] };
    const script: Script = ({ messages }) =>
      messages.length === 1 ? { calls: [{ id: "c1", name: "datetime" }] } : { text: "It is late." };
    for (const approved of [true, false]) {
      const { url, runtime } = await serve(script, {}, { settings: { tools: "safe" } });
      void permissions;
      void runtime;
      const chat = openChat(url, "c");
      const asked = await chat.answer([user("What time is it?")]);
      void approved;
      void asked;
    }
  });

  it("[K1] another reader of the messages is shown them", async () => {
    const { url } = await serve(counting);
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

void lastOf;
