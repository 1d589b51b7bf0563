import { createInMemoryStore } from "@rkat/core/create-runtime";
import { afterEach, describe, expect, it } from "vitest";
import { z } from "zod";
import { openChatServer } from "./support/chat-server.ts";
import { scriptedRuntime } from "./support/runtime.ts";

/** The cases of Open Responses' compliance suite, and its schemas as its OpenAPI document says them. */

const whole = z.number().int();
const Annotation = z.strictObject({ type: z.string() });
const OutputText = z.strictObject({
  type: z.literal("output_text"),
  text: z.string(),
  annotations: z.array(Annotation),
  logprobs: z.array(z.unknown()),
});
const ReasoningText = z.strictObject({ type: z.literal("reasoning_text"), text: z.string() });
const itemStatus = z.enum(["in_progress", "completed", "incomplete"]);

const Item = z.discriminatedUnion("type", [
  z.strictObject({
    type: z.literal("message"),
    id: z.string().min(1),
    status: itemStatus,
    role: z.literal("assistant"),
    content: z.array(OutputText),
  }),
  z.strictObject({
    type: z.literal("function_call"),
    id: z.string().min(1),
    call_id: z.string().min(1),
    name: z.string().min(1),
    arguments: z.string(),
    status: itemStatus,
  }),
  z.strictObject({
    type: z.literal("reasoning"),
    id: z.string().min(1),
    summary: z.array(z.unknown()),
    content: z.array(ReasoningText),
    status: itemStatus,
  }),
]);

const FunctionTool = z.strictObject({
  type: z.literal("function"),
  name: z.string(),
  description: z.string().nullable(),
  parameters: z.record(z.string(), z.unknown()).nullable(),
  strict: z.boolean().nullable(),
});

const Usage = z.strictObject({
  input_tokens: whole,
  output_tokens: whole,
  total_tokens: whole,
  input_tokens_details: z.strictObject({ cached_tokens: whole }),
  output_tokens_details: z.strictObject({ reasoning_tokens: whole }),
});

/** Every field is there; null only where it may be. */
const Response = z.object({
  id: z.string().min(1),
  object: z.literal("response"),
  created_at: whole,
  completed_at: whole.nullable(),
  status: z.enum(["completed", "failed", "in_progress", "cancelled", "queued", "incomplete"]),
  incomplete_details: z.strictObject({ reason: z.string() }).nullable(),
  model: z.string().min(1),
  previous_response_id: z.string().nullable(),
  instructions: z.string().nullable(),
  output: z.array(Item),
  error: z.strictObject({ code: z.string(), message: z.string() }).nullable(),
  tools: z.array(FunctionTool),
  tool_choice: z.enum(["none", "auto", "required"]),
  truncation: z.enum(["auto", "disabled"]),
  parallel_tool_calls: z.boolean(),
  text: z.strictObject({ format: z.strictObject({ type: z.literal("text") }), verbosity: z.string().optional() }),
  top_p: z.number(),
  presence_penalty: z.number(),
  frequency_penalty: z.number(),
  top_logprobs: whole,
  temperature: z.number(),
  reasoning: z.strictObject({ effort: z.string().nullable(), summary: z.string().nullable() }).nullable(),
  user: z.string().nullable(),
  usage: Usage.nullable(),
  max_output_tokens: whole.nullable(),
  max_tool_calls: whole.nullable(),
  store: z.boolean(),
  background: z.boolean(),
  service_tier: z.string(),
  metadata: z.record(z.string(), z.string()),
  safety_identifier: z.string().nullable(),
  prompt_cache_key: z.string().nullable(),
});

const numbered = { sequence_number: whole };
const itemAt = { ...numbered, output_index: whole };
const inItem = { ...itemAt, item_id: z.string().min(1) };
const inPart = { ...inItem, content_index: whole };
const logprobs = z.array(z.unknown()).optional();
const part = z.discriminatedUnion("type", [OutputText, ReasoningText]);
const eventOf = <Type extends string, Shape extends z.ZodRawShape>(type: Type, shape: Shape) =>
  z.strictObject({ type: z.literal(type), ...shape });

const Event = z.discriminatedUnion("type", [
  eventOf("response.created", { ...numbered, response: Response }),
  eventOf("response.in_progress", { ...numbered, response: Response }),
  eventOf("response.completed", { ...numbered, response: Response }),
  eventOf("response.failed", { ...numbered, response: Response }),
  eventOf("response.incomplete", { ...numbered, response: Response }),
  eventOf("response.output_item.added", { ...itemAt, item: Item }),
  eventOf("response.output_item.done", { ...itemAt, item: Item }),
  eventOf("response.content_part.added", { ...inPart, part }),
  eventOf("response.content_part.done", { ...inPart, part }),
  eventOf("response.output_text.delta", { ...inPart, delta: z.string(), logprobs }),
  eventOf("response.output_text.done", { ...inPart, text: z.string(), logprobs }),
  eventOf("response.reasoning_text.delta", { ...inPart, delta: z.string() }),
  eventOf("response.reasoning_text.done", { ...inPart, text: z.string() }),
  eventOf("response.function_call_arguments.delta", { ...inItem, delta: z.string() }),
  eventOf("response.function_call_arguments.done", { ...inItem, arguments: z.string(), name: z.string().optional() }),
]);
type Event = z.infer<typeof Event>;

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function serve(script: Parameters<typeof scriptedRuntime>[0]) {
  const { runtime, model } = scriptedRuntime(script, { store: createInMemoryStore() });
  const server = await openChatServer(runtime);
  closing.push(() => runtime.close(), server.close);
  const post = async (body: object) => {
    const answer = await fetch(`${server.url}/v1/responses`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: "Bearer none" },
      body: JSON.stringify({ model: "scripted", ...body }),
    });
    expect(answer.status).toBe(200);
    return answer;
  };
  return {
    model,
    ask: async (body: object) => Response.parse(await (await post(body)).json()),
    stream: async (body: object) => readEvents(await post({ ...body, stream: true })),
  };
}

/** The events of a stream, each as the specification has it. */
async function readEvents(answer: globalThis.Response): Promise<readonly Event[]> {
  expect(answer.headers.get("content-type")).toMatch(/^text\/event-stream(;|$)/);
  const frames = (await answer.text()).split("\n\n").filter((frame) => /^(event|data):/m.test(frame));
  expect(frames.at(-1)).toBe("data: [DONE]");
  return frames.slice(0, -1).map((frame) => {
    const [, name, data = ""] = /^event: (.+)\ndata: (.+)$/s.exec(frame) ?? [];
    const event = Event.parse(JSON.parse(data));
    expect(event.type).toBe(name);
    return event;
  });
}

/** What holds for every stream: no number is missing, and an item is the same wherever it is told. */
function expectWhole(events: readonly Event[]): z.infer<typeof Response> {
  expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, index) => index));
  expect(events.slice(0, 2).map(({ type }) => type)).toEqual(["response.created", "response.in_progress"]);
  const last = events.at(-1);
  if (last?.type !== "response.completed") throw new Error(`it ended with ${last?.type}`);
  const responses = events.flatMap((event) => ("response" in event ? [event.response] : []));
  expect(new Set(responses.map(({ id }) => id)).size).toBe(1);
  const done = events.flatMap((event) => (event.type === "response.output_item.done" ? [event.item] : []));
  expect(last.response.output).toEqual(done);
  for (const event of events) {
    if (event.type === "response.output_item.added") {
      expect(event.item).toMatchObject({ id: done[event.output_index]?.id, status: "in_progress" });
    }
    if ("item_id" in event) expect(event.item_id).toBe(done[event.output_index]?.id);
  }
  for (const item of done) expect(deltasOf(events, item.id)).toBe(textOf(item));
  return last.response;
}

function deltasOf(events: readonly Event[], id: string): string {
  return events.flatMap((event) => ("delta" in event && event.item_id === id ? [event.delta] : [])).join("");
}

function textOf(item: z.infer<typeof Item>): string {
  return item.type === "function_call" ? item.arguments : item.content.map(({ text }) => text).join("");
}

const WEATHER = {
  type: "function",
  name: "weather",
  description: "Tells the weather of a place.",
  parameters: { type: "object", properties: { place: { type: "string" } }, required: ["place"] },
};
const CALL = { calls: [{ id: "call_1", name: "weather", args: { place: "Bergen" } }] };
const says = (role: string, content: unknown) => ({ type: "message", role, content });

describe("Open Responses' cases", () => {
  it("[K1] a text is answered", async () => {
    const { ask } = await serve([{ text: "Good morning, Ada." }]);
    const response = await ask({ input: [says("user", "Greet me.")] });
    expect(response).toMatchObject({ status: "completed", completed_at: expect.any(Number), model: "scripted" });
    expect(response.output).toMatchObject([{ type: "message", content: [{ text: "Good morning, Ada." }] }]);
    expect(response.usage?.total_tokens).toBe(
      (response.usage?.input_tokens ?? 0) + (response.usage?.output_tokens ?? 0),
    );
  });

  it("[K1] a text is answered in a stream", async () => {
    const { stream } = await serve([{ reasoning: { text: "One by one." }, text: ["1, 2", ", 3"] }]);
    const { status, output } = expectWhole(await stream({ input: [says("user", "Count to three.")] }));
    expect({ status, types: output.map(({ type }) => type) }).toEqual({
      status: "completed",
      types: ["reasoning", "message"],
    });
  });

  it("[K1] the system's words are the system's", async () => {
    const { ask, model } = await serve([{ text: "Ahoy." }]);
    const input = [says("system", "Talk like a sailor."), says("user", "Greet me.")];
    expect((await ask({ input })).status).toBe("completed");
    expect(model.requests.at(0)?.messages).toMatchObject([
      { role: "system", content: "Talk like a sailor." },
      { role: "user", content: "Greet me." },
    ]);
  });

  it("[K1] a function is called", async () => {
    const { ask } = await serve([CALL, { text: "Hi." }]);
    const response = await ask({ input: [says("user", "How is the weather in Bergen?")], tools: [WEATHER] });
    expect(response.output).toMatchObject([
      {
        type: "function_call",
        call_id: "call_1",
        name: "weather",
        arguments: '{"place":"Bergen"}',
        status: "completed",
      },
    ]);
    expect(response.tools).toEqual([{ ...WEATHER, strict: false }]);
    const bare = await ask({ input: "Hi.", tools: [{ type: "function", name: "bare" }] });
    expect(bare.tools).toEqual([
      { type: "function", name: "bare", description: null, parameters: null, strict: false },
    ]);
  });

  it("[K1] a function is called in a stream", async () => {
    const { stream } = await serve([{ text: "Let me see.", ...CALL }]);
    const events = await stream({ input: [says("user", "How is the weather in Bergen?")], tools: [WEATHER] });
    expect(expectWhole(events).output.map(({ type }) => type)).toEqual(["message", "function_call"]);
    expect(events.map(({ type }) => type)).toEqual(
      expect.arrayContaining(["response.function_call_arguments.delta", "response.function_call_arguments.done"]),
    );
  });

  it("[K1] an image is shown", async () => {
    const { ask, model } = await serve([{ text: "A dot." }]);
    const image_url = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7";
    const content = [
      { type: "input_text", text: "What is it?" },
      { type: "input_image", image_url },
    ];
    expect((await ask({ input: [says("user", content)] })).status).toBe("completed");
    expect(model.requests.at(0)?.messages).toMatchObject([
      {
        content: [
          { type: "text", text: "What is it?" },
          { type: "image", media_type: "image/gif" },
        ],
      },
    ]);
  });

  it("[K1] a request that says next to nothing is answered with every field", async () => {
    const { ask } = await serve([{ text: "1." }, { text: "2." }]);
    const first = await ask({ model: undefined, input: "A" });
    const second = await ask({ model: undefined, input: "B", previous_response_id: first.id });
    expect(second).toMatchObject({ model: "scripted", previous_response_id: first.id });
  });

  it("[K1] a conversation is brought along", async () => {
    const { ask, model } = await serve([{ text: "Ada." }]);
    const input = [says("user", "I am Ada."), says("assistant", "Hello Ada."), says("user", "Who am I?")];
    expect((await ask({ input })).output).toMatchObject([{ content: [{ text: "Ada." }] }]);
    expect(model.requests.at(0)?.messages.map(({ role }) => role)).toEqual(["user", "block_assistant", "user"]);
  });
});
