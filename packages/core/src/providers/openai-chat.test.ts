import { afterEach, describe, expect, it, vi } from "vitest";
import type { AssistantBlock, Message } from "../contract/message.ts";
import type { ModelPart } from "../ports/model.ts";
import { createOpenAiChatModel, serialiseRequest } from "./openai-chat.ts";

const created_at = "2026-01-01T00:00:00Z";
const hi: Message = { role: "user", content: "hi", created_at };
const DONE = "data: [DONE]\n\n";

afterEach(() => void vi.useRealTimers());

function chunk(delta: object, choice: object = {}, envelope: object = {}): string {
  return `data: ${JSON.stringify({ ...envelope, choices: [{ index: 0, delta, ...choice }] })}\n\n`;
}

const stop = chunk({}, { finish_reason: "stop" });

/** A body that sends its pieces and then closes, or is kept open. */
function bodyOf(pieces: readonly string[], end: "close" | "open" = "close"): ReadableStream<Uint8Array> {
  const rest = pieces.map((piece) => new TextEncoder().encode(piece));
  return new ReadableStream({
    pull(controller) {
      const piece = rest.shift();
      if (piece !== undefined) controller.enqueue(piece);
      else if (end === "close") controller.close();
      else return new Promise(() => {});
    },
  });
}

interface Given {
  readonly status?: number;
  readonly type?: string;
  readonly apiKey?: string;
  readonly messages?: readonly Message[];
}

async function ask(body: ReadableStream<Uint8Array> | string, given: Given = {}): Promise<ModelPart[]> {
  const { status = 200, type = "text/event-stream", apiKey, messages = [hi] } = given;
  const fetch = async () => new Response(body, { status, headers: { "content-type": type } });
  const client = createOpenAiChatModel({
    baseUrl: "http://lab/v1",
    model: "m",
    provider: "lab",
    modelId: "m",
    apiKey,
    fetch,
  });
  const parts: ModelPart[] = [];
  for await (const part of client.stream({ messages, tools: [] }, new AbortController().signal)) parts.push(part);
  return parts;
}

function callsOf(parts: readonly ModelPart[]) {
  const blocks = parts.flatMap((part): AssistantBlock[] => (part.type === "block" ? [part.block] : []));
  return blocks.flatMap((block) => (block.block_type === "tool_use" ? [block.data] : []));
}

const call = (piece: object, called: object): string => chunk({ tool_calls: [{ ...piece, function: called }] });

describe("the Chat wire", () => {
  it("[B5] an answer whose finish was said is kept, though neither its end nor its usage comes", async () => {
    vi.useFakeTimers();
    const asked = ask(bodyOf([chunk({ content: "Hello" }), stop], "open"));
    await vi.advanceTimersByTimeAsync(2_000);
    expect((await asked).slice(-2)).toEqual([
      { type: "block", block: { block_type: "text", data: { text: "Hello" } } },
      { type: "finish", stopReason: "end_turn", usage: { input_tokens: 0, output_tokens: 0 } },
    ]);
  });

  it("[B5] an answer is over when the server says so, though the connection stays open", async () => {
    const usage =
      'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4,"completion_tokens_details":{"reasoning_tokens":2}}}\n\n';
    const parts = await ask(bodyOf([chunk({ content: "Hello" }), stop, usage, DONE], "open"));
    expect(parts.at(-1)).toEqual({
      type: "finish",
      stopReason: "end_turn",
      usage: { input_tokens: 3, output_tokens: 4, reasoning_tokens: 2 },
    });
  });

  it("[A5] pieces of a call without an index are joined by their id, or follow the last", async () => {
    const parts = await ask(
      bodyOf([
        call({ id: "a" }, { name: "search", arguments: '{"q":' }),
        call({ id: "b" }, { name: "search", arguments: '{"q":' }),
        call({ id: "a" }, { arguments: "1}" }),
        call({ id: "b" }, { arguments: "2" }),
        call({}, { arguments: "}" }),
        stop,
      ]),
    );
    expect(callsOf(parts)).toEqual([
      { id: "a", name: "search", args: { q: 1 } },
      { id: "b", name: "search", args: { q: 2 } },
    ]);
  });

  it("[A5] two calls of one answer never share an id", async () => {
    const piece = { name: "search", arguments: "{}" };
    const parts = await ask(
      bodyOf([
        call({ index: 0, id: "a" }, piece),
        call({ index: 1, id: "a" }, piece),
        call({ index: 2, id: "a_2" }, piece),
        stop,
      ]),
    );
    expect(callsOf(parts).map(({ id }) => id)).toEqual(["a", "a_2", "a_2_2"]);
  });

  it("[A5] whole calls that all say they are the first are told apart by their ids", async () => {
    const parts = await ask(
      bodyOf([
        call({ index: 0, id: "a" }, { name: "search", arguments: '{"q":1}' }),
        call({ index: 0, id: "b" }, { name: "search", arguments: '{"q":2}' }),
        stop,
      ]),
    );
    expect(callsOf(parts)).toEqual([
      { id: "a", name: "search", args: { q: 1 } },
      { id: "b", name: "search", args: { q: 2 } },
    ]);
  });

  it("[A5] calls without an id get one that no other answer gave", async () => {
    const tool_calls = [
      { index: 0, function: { name: "t" } },
      { index: 1, function: { name: "t" } },
    ];
    const idsOf = async (envelope: object, messages: readonly Message[]) =>
      callsOf(await ask(bodyOf([chunk({ tool_calls }, {}, envelope), stop]), { messages })).map(({ id }) => id);
    expect(await idsOf({ id: "chatcmpl-7" }, [hi])).toEqual(["call_chatcmpl-7_1_0", "call_chatcmpl-7_1_1"]);
    expect(await idsOf({ id: "chatcmpl-8" }, [hi])).toEqual(["call_chatcmpl-8_1_0", "call_chatcmpl-8_1_1"]);
    expect(await idsOf({}, [hi])).toEqual(["call_1_0", "call_1_1"]);
    expect(await idsOf({}, [hi, hi, hi])).toEqual(["call_3_0", "call_3_1"]);
    const long = `chatcmpl-${"0123456789abcdef".repeat(4)}`;
    expect((await idsOf({ id: long }, [hi]))[0]).toBe("call_89abcdef0123456789abcdef_1_0");
  });

  it("[H5] an answer with endless calls is refused", async () => {
    const pieces = Array.from({ length: 1_100 }, (_, index) => call({ index, id: `c${index}` }, { name: "t" }));
    expect((await ask(bodyOf([...pieces, stop]))).at(-1)).toMatchObject({
      failure: {
        kind: "malformed_stream",
        message: "lab sent an answer that cannot be read: it has more than 1024 tool calls",
      },
    });
  });

  it("[A7] an answer that is no stream is read whole, however it is laid out", async () => {
    const message = { content: "Hello", tool_calls: [{ id: "a", function: { name: "t", arguments: '{"q":1}' } }] };
    const whole = {
      id: "x",
      choices: [{ message, finish_reason: "tool_calls" }],
      usage: { prompt_tokens: 3, completion_tokens: 4 },
    };
    for (const indent of [0, 2]) {
      const parts = await ask(JSON.stringify(whole, null, indent), { type: "application/json" });
      expect(parts.filter(({ type }) => type !== "text_delta")).toEqual([
        { type: "block", block: { block_type: "text", data: { text: "Hello" } } },
        { type: "block", block: { block_type: "tool_use", data: { id: "a", name: "t", args: { q: 1 } } } },
        { type: "finish", stopReason: "tool_use", usage: { input_tokens: 3, output_tokens: 4 }, response: { id: "x" } },
      ]);
    }
  });

  it("[B5] an error that is laid out over lines is read after a status of 200 too", async () => {
    const error = { error: { type: "server_error", message: "out of memory" } };
    expect(await ask(JSON.stringify(error, null, 2), { type: "application/json" })).toEqual([
      { type: "failed", failure: { kind: "server_error", message: "lab failed: out of memory" } },
    ]);
  });

  it("[B5] a web page is no model, and asking again does not make it one", async () => {
    const message = "lab answered with a web page, not a model: check the base URL";
    expect(await ask("<!doctype html>\n<title>Hi</title>", { type: "text/html; charset=utf-8" })).toEqual([
      { type: "failed", failure: { kind: "invalid_request", message } },
    ]);
  });

  it.each([401, 403])("[A7] a server that answers %i to a call without a key is said to want one", async (status) => {
    const message = `lab requires an API key, and none was sent (${status}): who are you?`;
    const given = { status, type: "text/plain" };
    expect(await ask("who are you?", given)).toEqual([{ type: "failed", failure: { kind: "auth", message, status } }]);
    expect(await ask("who are you?", { ...given, apiKey: "hunter2" })).toMatchObject([
      { failure: { message: `lab refused the API key (${status}): who are you?` } },
    ]);
  });

  it("[H5] of an endless refusal only the beginning is read", async () => {
    let isCancelled = false;
    const endless = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(new TextEncoder().encode("boom ".repeat(1_000))),
      cancel: () => {
        isCancelled = true;
      },
    });
    const [failed] = await ask(endless, { status: 500, type: "text/plain" });
    expect(failed).toMatchObject({
      failure: { kind: "server_error", message: expect.stringMatching(/^lab failed \(500\): boom boom/) },
    });
    expect(isCancelled).toBe(true);
  });

  it("[B5] a refusal whose text never ends is given up, not waited for", async () => {
    vi.useFakeTimers();
    const asked = ask(bodyOf(["no room"], "open"), { status: 503, type: "text/plain" });
    await vi.advanceTimersByTimeAsync(2_000);
    expect(await asked).toMatchObject([
      { failure: { kind: "overloaded", message: "lab is overloaded (503): no room" } },
    ]);
  });

  it("[H5] endless tool arguments end as a failure", async () => {
    const piece = new TextEncoder().encode(
      call({ index: 0, id: "a" }, { name: "t", arguments: "x".repeat(1_024 * 1_024) }),
    );
    const endless = new ReadableStream<Uint8Array>({ pull: (controller) => controller.enqueue(piece) });
    expect((await ask(endless)).at(-1)).toMatchObject({
      failure: {
        kind: "malformed_stream",
        message: "lab sent an answer that cannot be read: it is larger than 134217728 bytes",
      },
    });
  });
});

const system: Message = { role: "system", content: "Be brief.", created_at };
const user = (content: string): Message => ({ role: "user", content, created_at });
const serialise = (messages: readonly Message[], providerParams = {}) =>
  JSON.parse(
    String(serialiseRequest({ messages, tools: [], providerParams }, { model: "m", stopSequences: undefined })),
  );
const said = (messages: readonly Message[]) => serialise(messages).messages;

it("says what a conversation is now, however it differs from the request before", () => {
  const [one, two, three] = [user("one"), user("two"), user("three")];
  const silent: Message = { role: "block_assistant", blocks: [], stop_reason: "end_turn", created_at };
  const wire = (...contents: string[]) => [
    { role: "system", content: "Be brief." },
    ...contents.map((content) => ({ role: "user", content })),
  ];

  expect(said([system, one])).toEqual(wire("one"));
  expect(said([system, one, silent, two])).toEqual(wire("one", "two"));
  expect(said([system, one, silent, two])).toEqual(wire("one", "two"));
  expect(said([system, one, three])).toEqual(wire("one", "three"));
  expect(said([system])).toEqual(wire());
  expect(said([system, three, one])).toEqual(wire("three", "one"));
  expect(said([])).toEqual([]);
});

it("says any sign as it was said, also where the request before was longer", () => {
  const [mixed, long] = ['…— 日本語 🙂 é\u0000"', "x".repeat(5_000)];
  const wire = (...contents: string[]) => contents.map((content) => ({ role: "user", content }));
  expect(said([system, user(long)]).slice(1)).toEqual(wire(long));
  expect(said([system, user(mixed), user("z")]).slice(1)).toEqual(wire(mixed, "z"));
});

it("begins with a message that says nothing without a stray comma", () => {
  const silent: Message = { role: "block_assistant", blocks: [], stop_reason: "end_turn", created_at };
  expect(said([silent, user("one")])).toEqual([{ role: "user", content: "one" }]);
});

it("lets no parameter replace the messages", () => {
  expect(serialise([user("one")], { messages: [], seed: 7 })).toEqual({
    messages: [{ role: "user", content: "one" }],
    seed: 7,
    model: "m",
    stream: true,
    stream_options: { include_usage: true },
  });
});
