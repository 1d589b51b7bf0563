import { createInMemoryStore, type RuntimeOptions } from "@rkat/core/create-runtime";
import type { ScriptedStep } from "@rkat/core/providers/scripted";
import { afterEach, describe, expect, it } from "vitest";
import { complete, openChatServer } from "../../../../test/support/chat-server.ts";
import { scriptedRuntime } from "../../../../test/support/runtime.ts";

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

type Script = Parameters<typeof scriptedRuntime>[0];

async function serve(script: Script, options: RuntimeOptions = {}, served: Parameters<typeof openChatServer>[1] = {}) {
  const { runtime, model } = scriptedRuntime(script, { store: createInMemoryStore(), ...options });
  const server = await openChatServer(runtime, served);
  closing.push(() => runtime.close(), server.close);
  return { url: server.url, runtime, model };
}

const user = (content: unknown) => ({ role: "user", content });
const assistant = (content: unknown, more: object = {}) => ({ role: "assistant", content, ...more });
/** Answers with how many messages it was shown, so that no two places answer alike. */
const counting: Script = ({ messages }) => ({ text: `answer to ${messages.length}` });
const call = (id: string, name = "look", args = '{"at": "pond"}') => ({
  id,
  type: "function",
  function: { name, arguments: args },
});
const LOOK = { type: "function", function: { name: "look", description: "Looks.", parameters: { type: "object" } } };

describe("a chat completion", () => {
  it("[K1] is answered as OpenAI's clients read it, and its session is named", async () => {
    const { url, model } = await serve([{ text: "Hello.", usage: { input_tokens: 7, output_tokens: 2 } }]);
    const messages = [{ role: "developer", content: "Be short." }, user("Hi.")];
    const { status, session, body } = await complete(url, { messages });
    expect({ status, body }).toEqual({
      status: 200,
      body: {
        id: expect.stringMatching(/^chatcmpl-[0-9a-f]{32}$/),
        object: "chat.completion",
        created: expect.any(Number),
        model: "scripted",
        choices: [
          {
            index: 0,
            message: { role: "assistant", content: "Hello.", refusal: null },
            logprobs: null,
            finish_reason: "stop",
          },
        ],
        usage: {
          prompt_tokens: 7,
          completion_tokens: 2,
          total_tokens: 9,
          prompt_tokens_details: { cached_tokens: 0 },
          completion_tokens_details: { reasoning_tokens: 0 },
        },
      },
    });
    expect(session).toMatch(/^[0-9a-f-]{36}$/);
    expect(model.requests[0]?.messages).toMatchObject([
      { role: "system", content: "Be short." },
      { role: "user", content: "Hi." },
    ]);
  });

  it("[K1] is known again by its images, wherever they are kept", async () => {
    const { url, model } = await serve(counting);
    for (const bytes of [30, 30_000]) {
      const image = { url: `data:image/png;base64,${Buffer.alloc(bytes, bytes % 251).toString("base64")}` };
      const asked = user([
        { type: "text", text: "What is it?" },
        { type: "image_url", image_url: image },
      ]);
      const first = await complete(url, { messages: [asked] });
      const second = await complete(url, { messages: [asked, assistant("answer to 1"), user("Sure?")] });
      expect({ bytes, session: second.session }).toEqual({ bytes, session: first.session });
      const content = [{ type: "text" }, { type: "image", source: "inline" }];
      expect(model.requests.at(-1)?.messages[0]).toMatchObject({ role: "user", content });
    }
  });

  it("[K1] goes on in the session its messages are known of, and only what is new is said to it", async () => {
    const { url, runtime } = await serve(counting);
    const first = await complete(url, { messages: [user("one")] });
    const second = await complete(url, { messages: [user("one"), assistant("answer to 1"), user("two")] });
    expect(second.session).toBe(first.session);
    const parts = [{ type: "text", text: "one" }];
    // The same words in other clothes.
    const third = await complete(url, {
      messages: [
        { ...user(parts), name: "ann" },
        assistant([{ type: "text", text: " answer to 1\n" }], {
          refusal: null,
          reasoning_content: "hm",
          annotations: [],
        }),
        user("two"),
        assistant("answer to 3", { tool_calls: [], function_call: null }),
        user("three"),
      ],
    });
    expect(third.session).toBe(first.session);
    expect(await runtime.session(first.session ?? "").history()).toMatchObject({ messageCount: 6 });
  });

  it("[K1] a request that comes again, or whose last words are others, goes on in a fork", async () => {
    const { url, runtime } = await serve(counting);
    const said = [user("one"), assistant("answer to 1")];
    const { session } = await complete(url, { messages: [user("one")] });
    await complete(url, { messages: [...said, user("two")] });
    const again = await complete(url, { messages: [...said, user("two")] });
    const edited = await complete(url, { messages: [...said, user("deux")] });
    const { messages } = await runtime.session(session ?? "").history();
    expect(messages).toHaveLength(4);
    for (const fork of [again.session, edited.session]) {
      expect(fork).not.toBe(session);
      const history = await runtime.session(fork ?? "").history();
      expect(history.messages).toMatchObject([{ content: "one" }, { role: "block_assistant" }, {}, {}]);
    }
  });

  it("[K1] conversations that are told the same are not taken for one another", async () => {
    const { url } = await serve(counting);
    const said = [user("one"), assistant("answer to 1")];
    const sessions = [];
    for (let twice = 0; twice < 2; twice += 1)
      sessions.push((await complete(url, { messages: [user("one")] })).session);
    const unsure = await complete(url, { messages: [...said, user("two")] });
    expect(sessions).not.toContain(unsure.session);
    const sure = await complete(url, { messages: [...said, user("two"), assistant("answer to 3"), user("three")] });
    expect(sure.session).toBe(unsure.session);
    // Whoever says whose conversation it is, is not unsure.
    const anns = await complete(url, { messages: [user("one")], user: "ann" });
    await complete(url, { messages: [user("one")], user: "bob" });
    expect((await complete(url, { messages: [...said, user("two")], user: "ann" })).session).toBe(anns.session);
  });

  it("[K1] a history nobody knows begins a session, and the model is shown it", async () => {
    const { url, model } = await serve(counting);
    const messages = [
      { role: "system", content: "Be short." },
      user("Look."),
      assistant(null, { tool_calls: [call("c1")] }),
      { role: "tool", tool_call_id: "c1", content: "a heron" },
    ];
    const { status, session } = await complete(url, { messages, tools: [LOOK] });
    expect(status).toBe(200);
    expect(model.requests[0]?.messages.map(({ role }) => role)).toEqual([
      "system",
      "user",
      "block_assistant",
      "tool_results",
    ]);
    const more = [...messages, assistant("answer to 4"), user("Large?")];
    expect((await complete(url, { messages: more, tools: [LOOK] })).session).toBe(session);
  });

  it("[K1] calls of the client's tools end it, and their results go on", async () => {
    const calls = [
      { id: "c1", name: "look", args: { at: "pond" } },
      { id: "c2", name: "look", args: {} },
    ];
    const { url, runtime } = await serve([{ text: "I look.", calls }, { text: "Two." }, { text: "Yes." }]);
    const { session, body } = await complete(url, { messages: [user("Look.")], tools: [LOOK] });
    expect(body.choices[0]).toMatchObject({
      finish_reason: "tool_calls",
      message: {
        content: "I look.",
        tool_calls: [
          { id: "c1", type: "function", function: { name: "look", arguments: '{"at":"pond"}' } },
          { id: "c2" },
        ],
      },
    });
    const results = [
      { role: "tool", tool_call_id: "c2", content: "another" },
      { role: "tool", tool_call_id: "c1", content: [{ type: "text", text: "a heron" }] },
    ];
    const called = [
      user("Look."),
      assistant("I look.", { tool_calls: [call("c1"), call("c2", "look", "")] }),
      ...results,
    ];
    expect((await complete(url, { messages: called, tools: [LOOK] })).session).toBe(session);
    const more = [...called, assistant("Two."), user("Sure?")];
    expect((await complete(url, { messages: more, tools: [LOOK] })).session).toBe(session);
    expect(await runtime.session(session ?? "").history()).toMatchObject({ messageCount: 6 });
  });

  it("[K1] servers that count calls from zero in each answer have conversations, too", async () => {
    const { url, runtime, model } = await serve(({ messages }) =>
      messages.length < 7 ? { calls: [{ id: "call_0", name: "look", args: {} }] } : { text: "Seen." },
    );
    const tools = [LOOK];
    const asks: object[] = [user("Look thrice.")];
    const called = assistant(null, { tool_calls: [call("call_0", "look", "{}")] });
    const sessions = [];
    for (const result of ["1", "2", "3"]) {
      const { session, body } = await complete(url, { messages: asks, tools });
      sessions.push(session);
      expect(body.choices[0].message).toMatchObject({ tool_calls: [{ id: "call_0" }] });
      asks.push(called, { role: "tool", tool_call_id: "call_0", content: result });
    }
    const last = await complete(url, { messages: asks, tools });
    expect(last.body.choices[0].message.content).toBe("Seen.");
    expect(new Set([...sessions, last.session]).size).toBe(1);
    // A server that knows nothing of it is told all of it, and knows it from then on.
    await runtime.session(last.session ?? "").archive();
    const anew = await complete(url, { messages: asks, tools });
    expect(anew.body.choices[0].message.content).toBe("Seen.");
    const ids = model.requests
      .at(-1)
      ?.messages.flatMap((message) =>
        message.role === "tool_results" ? message.results.map(({ tool_use_id }) => tool_use_id) : [],
      );
    expect(ids).toEqual(["call_0_1", "call_0_2", "call_0"]);
    const more = await complete(url, { messages: [...asks, assistant("Seen."), user("Sure?")], tools });
    expect(more.session).toBe(anew.session);
  });

  it("[K1] images and files are shown, and the conversation is known by what they hold", async () => {
    const { url, model } = await serve(counting);
    const large = Buffer.alloc(9_000, 7).toString("base64");
    const messages = [
      user([
        { type: "text", text: "What is it?" },
        { type: "image_url", image_url: { url: `data:image/png;base64,${large}` } },
        { type: "image_url", image_url: { url: "https://example.com/a.png" } },
        { type: "file", file: { filename: "a.pdf", file_data: `data:application/pdf;base64,${large}` } },
        { type: "file", file: { filename: "a.md", file_data: `data:text/markdown;base64,${btoa("# Herons")}` } },
      ]),
    ];
    const first = await complete(url, { messages });
    expect(model.requests.at(0)?.messages).toMatchObject([
      {
        content: [
          { type: "text" },
          { type: "image", data: large },
          { type: "image", url: "https://example.com/a.png" },
          { type: "file", media_type: "application/pdf", data: large },
          { type: "text", text: '<file name="a.md">\n# Herons\n</file>' },
        ],
      },
    ]);
    const second = await complete(url, { messages: [...messages, assistant("answer to 1"), user("Sure?")] });
    expect(second.session).toBe(first.session);
    const kept = await complete(url, { messages: [user([{ type: "file", file: { file_id: "file-1" } }])] });
    expect(kept.body.error).toMatchObject({ param: "messages[0].content[0].file.file_id", code: "INVALID_PARAMS" });
  });

  it("[K1] a session that is named takes what is new, whatever stands before it", async () => {
    const { url, runtime } = await serve(counting);
    const { session } = await complete(url, { messages: [{ role: "system", content: "Be short." }, user("one")] });
    const header = { "x-rkat-session": session ?? "" };
    expect((await complete(url, { messages: [user("two")] }, header)).session).toBe(session);
    const cut = {
      messages: [assistant("answer to 4"), user("three")],
      conversation: `conv_${session?.replaceAll("-", "")}`,
    };
    expect((await complete(url, cut)).session).toBe(session);
    const { messages } = await runtime.session(session ?? "").history();
    expect(messages[0]).toMatchObject({ role: "system", content: "Be short." });
    const lost = await complete(
      url,
      { messages: [user("x")] },
      { "x-rkat-session": "00000000-0000-7000-8000-000000000000" },
    );
    expect(lost).toMatchObject({
      status: 404,
      body: { error: { code: "SESSION_NOT_FOUND", type: "not_found_error" } },
    });
  });

  it("[K1] a turn that failed leaves the conversation where it was", async () => {
    const failing: ScriptedStep = { ends: { failure: { kind: "invalid_request", message: "no" } } };
    const { url, runtime } = await serve([{ text: "1" }, failing, { text: "2" }, { text: "3" }]);
    await complete(url, { messages: [user("one")] });
    const said = [user("one"), assistant("1"), user("two")];
    expect(await complete(url, { messages: said })).toMatchObject({
      status: 400,
      body: { error: { code: "PROVIDER_ERROR" } },
    });
    const { session } = await complete(url, { messages: said });
    expect((await complete(url, { messages: [...said, assistant("2"), user("three")] })).session).toBe(session);
    const { messages } = await runtime.session(session ?? "").history();
    expect(messages.filter(({ role }) => role === "user")).toMatchObject([
      { content: "one" },
      { content: "two" },
      { content: "three" },
    ]);
  });

  it("[K1] JSON of a schema is the content", async () => {
    const { url } = await serve([{ text: '{"legs": 2}' }, { text: "Two." }]);
    const schema = { type: "object", properties: { legs: { type: "integer" } }, required: ["legs"] };
    const response_format = { type: "json_schema", json_schema: { name: "heron", schema, strict: true } };
    const first = await complete(url, { messages: [user("Legs?")], response_format });
    expect(first.body.choices[0].message.content).toBe('{"legs":2}');
    const messages = [user("Legs?"), assistant('{"legs":2}'), user("In words?")];
    const second = await complete(url, { messages });
    expect(second).toMatchObject({ session: first.session, body: { choices: [{ message: { content: "Two." } }] } });
  });

  it.each([
    [{ messages: [] }, "messages"],
    [{ messages: [{ role: "king", content: "x" }] }, "role"],
    [{ messages: [{ role: "system", content: "x" }] }, "messages: add what the user says"],
    [{ messages: [user("x"), assistant("y")] }, "messages: end with what the user says or what a tool gave"],
    [
      { messages: [user("x"), assistant("", { tool_calls: [call("c1")] }), user("y")] },
      "messages[2]: the result of the call c1",
    ],
    [
      { messages: [user("x"), { role: "tool", tool_call_id: "c1", content: "y" }] },
      "messages[1].tool_call_id: no call c1",
    ],
    [{ messages: [user("x")], n: 2 }, "n: one answer is given here"],
    [{ messages: [user("x")], logprobs: true }, "logprobs: no probabilities"],
    [{ messages: [user("x")], functions: [{}] }, "functions: functions are called tools"],
    [{ messages: [user("x")], temperature: 9 }, "temperature: write a number from 0 to 2"],
    [{ messages: [user([{ type: "input_audio", input_audio: {} }])] }, "messages[0].content[0]"],
  ])(
    "[K1] [H1] what cannot be answered is refused in a sentence, and nothing is made: %j",
    async (request, sentence) => {
      const { url, runtime } = await serve([]);
      const { status, body } = await complete(url, request);
      expect(status).toBe(400);
      expect(body.error).toMatchObject({ type: "invalid_request_error", message: expect.stringContaining(sentence) });
      expect(await runtime.listSessions()).toEqual([]);
    },
  );

  it("[K1] models are listed, and one is read", async () => {
    const { url } = await serve([]);
    const list = (await (await fetch(`${url}/v1/models`)).json()) as { data: { id: string }[] };
    expect(list).toMatchObject({ object: "list" });
    const [first] = list.data;
    const one = await fetch(`${url}/v1/models/${encodeURIComponent(first?.id ?? "")}`);
    expect(await one.json()).toEqual(first);
    expect((await fetch(`${url}/v1/models/none`)).status).toBe(404);
  });
});

describe("whose conversation it is", () => {
  it("[K1] requests that come at once are answered each in a session of its own", async () => {
    const { url, runtime } = await serve(counting);
    await complete(url, { messages: [user("one")] });
    const messages = [user("one"), assistant("answer to 1"), user("two")];
    const answers = await Promise.all([1, 2, 3].map(() => complete(url, { messages })));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(new Set(answers.map(({ session }) => session)).size).toBe(3);
    for (const { session } of answers) {
      expect(await runtime.session(session ?? "").history()).toMatchObject({ messageCount: 4 });
    }
  });

  it("[K1] what one user said another cannot recall: memory is the session's own", async () => {
    const searching: Script = ({ messages }) => {
      const last = messages.at(-1);
      if (last?.role === "tool_results") return { text: JSON.stringify(last.results) };
      if (last?.role === "user" && last.content === "Where?") {
        return { calls: [{ id: "m1", name: "search_project_history", args: { query: "where is the key" } }] };
      }
      return { text: "Noted." };
    };
    const { url, runtime } = await serve(
      searching,
      { memory: {}, compaction: true },
      { settings: { tools: "memory" } },
    );
    const key = user("The key lies under the third flowerpot.");
    await complete(url, { messages: [key], user: "ann" });
    await runtime.searchHistory("where is the key");
    const bobs = await complete(url, { messages: [user("Where?")], user: "bob" });
    expect(bobs.body.choices[0].message.content).not.toContain("flowerpot");
    const anns = await complete(url, { messages: [key, assistant("Noted."), user("Where?")], user: "ann" });
    expect(anns.body.choices[0].message.content).toContain("flowerpot");
  });
});
