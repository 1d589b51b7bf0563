import { COMPACTION_PROMPT } from "@rkat/core/compaction/shown-messages";
import { describe, expect, it } from "vitest";
import { tokenFolder } from "../../../../test/support/tokens.ts";
import { openChat, type Shown, serveUi, sessionOf, textIn, user } from "../../../../test/support/ui-server.ts";

type Script = Parameters<typeof serveUi>[0];

/** Answers with how many messages it was shown, so that no two places answer alike. */
const counting: Script = ({ messages }) => ({ text: `answer to ${messages.length}` });

describe("a chat of a page", () => {
  it("[K1] streams an answer as the AI SDK reads it, and names its session", async () => {
    const { url } = await serveUi([{ reasoning: { text: "Hm." }, text: ["Hel", "lo."] }]);
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
    const { url, runtime } = await serveUi(counting);
    const chat = openChat(url, "c");
    const first = await chat.answer([user("one")]);
    const second = await chat.answer([user("one"), first, user("two")]);
    expect(textIn(second)).toBe("answer to 3");
    // A page may send the newest message alone.
    const third = await chat.answer([user("three")]);
    expect([sessionOf(second), sessionOf(third)]).toEqual([sessionOf(first), sessionOf(first)]);
    expect(await runtime.session(sessionOf(first)).history()).toMatchObject({ messageCount: 6 });
  });

  it("[K1] an edit, an answer again, and a conversation that was cut go on in a fork, and the old words stay", async () => {
    const { url, runtime } = await serveUi(counting);
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

  it("[R3] to answer again makes no summary: the fork keeps the compaction that was made for the same prompt", async () => {
    const isSummary = ({ messages }: { messages: readonly { role: string; content?: unknown }[] }): boolean =>
      String(messages.at(-1)?.content).startsWith(COMPACTION_PROMPT);
    const { url, model } = await serveUi(
      (request) => (isSummary(request) ? { text: "They talked." } : { text: "Yes." }),
      {
        compaction: { autoCompactThreshold: 700, maxSummaryTokens: 100, recentTurnBudget: 1 },
      },
    );
    const chat = openChat(url, "c");
    const shown: Shown[] = [];
    const summaries = () => model.requests.filter(isSummary).length;
    while (summaries() === 0) {
      const asked = user(`${shown.length} ${"heron ".repeat(120)}`, `m${shown.length}`);
      shown.push(asked, await chat.answer([...shown, asked]));
    }
    const asked = model.requests.at(-1)?.messages ?? [];
    await chat.answer(shown.slice(0, -1), { trigger: "regenerate-message" });
    expect(summaries()).toBe(1);
    const undated = (messages: readonly object[]) => messages.map((message) => ({ ...message, created_at: "" }));
    expect(undated(model.requests.at(-1)?.messages ?? [])).toEqual(undated(asked));
  });

  it("[K1] a history nobody knows begins the session", async () => {
    const { url, model } = await serveUi(counting);
    const answer: Shown = { id: "a", role: "assistant", parts: [{ type: "text", text: "Hello." }] };
    await openChat(url, "c").answer([user("Hi."), answer, user("And?")]);
    expect(model.requests[0]?.messages).toMatchObject([
      { role: "user", content: "Hi." },
      { role: "block_assistant" },
      { role: "user", content: "And?" },
    ]);
  });

  it("[K1] a tool of the page's ends the answer with its call, and its output goes on with the same message", async () => {
    const { url, model } = await serveUi([
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
    const { tokens, create } = tokenFolder();
    const { url } = await serveUi(counting, {}, { tokens });
    const ann = await create("ann", { scopes: ["run", "read"] });
    const bob = await create("bob", { scopes: ["run", "read"] });
    const anns = await openChat(url, "c", {}, ann).answer([user("one")]);
    const bobs = await openChat(url, "c", {}, bob).answer([user("one"), anns, user("two")]);
    expect(sessionOf(bobs)).not.toBe(sessionOf(anns));
    const shown = async (headers: Record<string, string>) => {
      const response = await fetch(`${url}/ui/chat/c`, { headers });
      return response.headers.get("x-rkat-session");
    };
    expect([await shown(ann), await shown(bob)]).toEqual([sessionOf(anns), sessionOf(bobs)]);
    expect((await fetch(`${url}/ui/chat/c`)).status).toBe(401);
  });

  it("[K1] files of a page are content of the prompt, and what is none is refused by its place", async () => {
    const { url, model } = await serveUi(counting);
    const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    const file = (url: string, mediaType = "image/png") => ({ type: "file" as const, mediaType, url });
    const said: Shown = {
      ...user("What is it?"),
      parts: [file(`data:image/png;base64,${png}`), { type: "text", text: "What is it?" }],
    };
    await openChat(url, "c").answer([said]);
    expect(model.requests[0]?.messages.at(-1)).toMatchObject({
      content: [
        { type: "image", media_type: "image/png" },
        { type: "text", text: "What is it?" },
      ],
    });
    for (const broken of [file("data:image/png,no"), file("http://127.0.0.1/a.pdf", "application/pdf")]) {
      const sent = openChat(url, "c").answer([{ ...said, parts: [broken] }]);
      await expect(sent).rejects.toThrow("messages[0].parts[0].url: ");
    }
  });

  it("[K1] a failure of the model is an error of the stream, and what is refused is an answer", async () => {
    const { url } = await serveUi([{ ends: { failure: { kind: "invalid_request", message: "no such thing" } } }]);
    const chat = openChat(url, "c");
    await expect(chat.answer([user("one")])).rejects.toThrow("no such thing");
    const refused = chat.answer([{ id: "a", role: "assistant", parts: [] }]);
    await expect(refused).rejects.toThrow("nothing is new in it");
  });
});
