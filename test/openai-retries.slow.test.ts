import { createOpenAI } from "@ai-sdk/openai";
import { APICallError, generateText, RetryError } from "ai";
import OpenAI from "openai";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { openChatServer } from "./support/chat-server.ts";
import { calls, chatTools, MODEL, openClientServer, says } from "./support/client-server.ts";
import { openCutProxy } from "./support/cut-proxy.ts";
import { databaseFor, withPostgres } from "./support/postgres.ts";
import { openPostgresStore } from "./support/postgres-store.ts";
import { scriptedRuntime } from "./support/runtime.ts";
import { listOf, textOf } from "./wire/scenario.ts";
import type { Reply } from "./wire/server.ts";

let served: Awaited<ReturnType<typeof openClientServer>>;
beforeAll(async () => {
  served = await openClientServer();
});
afterAll(() => served.close());

let asked: string;
beforeEach(async () => {
  asked = await served.begin();
});

const refusals = (refusal: "rate_limited" | "auth" | "overloaded" | "server_error", times: number): Reply[] =>
  Array.from({ length: times }, () => ({ kind: "refuse", refusal, headers: { "retry-after": "0" } }));
const rejection = (status: number, code: string): Reply => ({
  kind: "reject",
  status,
  body: { error: { message: `it says ${code}`, type: "invalid_request_error", code, param: null } },
});
const chat = () =>
  served.openai().chat.completions.create({ model: MODEL, messages: [{ role: "user", content: asked }] });

/** The provider's refusals that each of our own calls is retried for. */
const OWN_CALLS = 4;

describe("clients with their default retries", () => {
  it.each([
    { status: 401, code: "invalid_api_key" },
    { status: 403, code: "forbidden" },
    { status: 400, code: "invalid_value" },
  ])("[K1] the official client is not made to retry a $status", async ({ status, code }) => {
    served.provider.reply(...Array.from({ length: 3 }, () => rejection(status, code)));
    const thrown = await served
      .openai({})
      .chat.completions.create({ model: MODEL, messages: [{ role: "user", content: asked }] })
      .catch((error: unknown) => error);
    expect(thrown).toMatchObject({ status, message: expect.stringContaining(code) });
    expect((thrown as InstanceType<typeof OpenAI.APIError>).headers?.get("x-should-retry")).toBe("false");
    expect(await served.cost()).toEqual({ calls: 1, sessions: 1 });
  });

  it.each([
    { refusal: "rate_limited" as const, status: 429 },
    { refusal: "overloaded" as const, status: 503 },
    { refusal: "server_error" as const, status: 502 },
  ])("[K1] the official client is told of $refusal, and retries in one session", async ({ refusal, status }) => {
    served.provider.reply(...refusals(refusal, 3 * OWN_CALLS));
    const thrown = await served
      .openai({})
      .responses.create({ model: MODEL, input: asked })
      .catch((error: unknown) => error);
    expect(thrown).toMatchObject({ status });
    const { headers } = thrown as InstanceType<typeof OpenAI.APIError>;
    expect(headers?.get("retry-after")).toBe(status === 502 ? null : "1");
    expect(await served.cost()).toEqual({ calls: 3 * OWN_CALLS, sessions: 1 });
  });

  it("[K1] a retry that succeeds is in the session of the failure, asked once, and goes on there", async () => {
    served.provider.reply(...refusals("server_error", OWN_CALLS), says("A heron."), says("Two."));
    const client = served.openai({});
    const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: asked }];
    const first = await client.chat.completions.create({ model: MODEL, messages }).withResponse();
    expect(first.data.choices[0]?.message.content).toBe("A heron.");
    const sent = listOf(served.provider.requests.at(-1)?.body.messages);
    expect(sent.filter(({ role }) => textOf(role) !== "system")).toEqual(messages);
    messages.push({ role: "assistant", content: "A heron." }, { role: "user", content: "Legs?" });
    const second = await client.chat.completions.create({ model: MODEL, messages }).withResponse();
    expect(second.response.headers.get("x-rkat-session")).toBe(first.response.headers.get("x-rkat-session"));
    expect(await served.cost()).toEqual({ calls: OWN_CALLS + 2, sessions: 1 });
  });

  it("[K1] a retry brings the results of calls once", async () => {
    served.provider.reply(calls("look", { at: "pond" }), ...refusals("server_error", OWN_CALLS), says("A heron."));
    const client = served.openai({});
    const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: asked }];
    const first = await client.chat.completions.create({ model: MODEL, messages, tools: chatTools });
    const message = first.choices[0]?.message;
    if (message === undefined) throw new Error("there is no answer");
    messages.push(message, {
      role: "tool",
      tool_call_id: message.tool_calls?.[0]?.id ?? "",
      content: "a heron",
    });
    const second = await client.chat.completions.create({ model: MODEL, messages, tools: chatTools });
    expect(second.choices[0]?.message.content).toBe("A heron.");
    expect(served.provider.requests.at(-1)?.body.messages).toHaveLength(3);
    expect(await served.cost()).toEqual({ calls: 1 + OWN_CALLS + 1, sessions: 1 });
  });

  it("[K1] the same words again after an answer begin another session", async () => {
    served.provider.reply(says("One."), says("Two."));
    await chat();
    expect((await chat()).choices[0]?.message.content).toBe("Two.");
    expect(await served.cost()).toEqual({ calls: 2, sessions: 2 });
  });

  it("[K1] the AI SDK does not retry a 401, and retries a 429 in one session", async () => {
    const model = createOpenAI({ baseURL: served.baseURL, apiKey: "none" })(MODEL);
    served.provider.reply(...refusals("auth", 1));
    await expect(generateText({ model, prompt: asked })).rejects.toSatisfy(
      (error) => APICallError.isInstance(error) && error.statusCode === 401,
    );
    expect(await served.cost()).toEqual({ calls: 1, sessions: 1 });
    served.provider.reply(...refusals("rate_limited", 3 * OWN_CALLS));
    await expect(generateText({ model, prompt: `${asked} Again.` })).rejects.toSatisfy(RetryError.isInstance);
    expect(await served.cost()).toEqual({ calls: 1 + 3 * OWN_CALLS, sessions: 2 });
  });

  it("[K1] LangChain does not retry a 401, and retries a 429 in one session", async () => {
    served.provider.reply(...refusals("auth", 1));
    await expect(served.langchain({ maxRetries: 1 }).invoke(asked)).rejects.toMatchObject({ status: 401 });
    expect(await served.cost()).toEqual({ calls: 1, sessions: 1 });
    served.provider.reply(...refusals("rate_limited", 2 * OWN_CALLS));
    await expect(served.langchain({ maxRetries: 1 }).invoke(`${asked} Again.`)).rejects.toMatchObject({ status: 429 });
    expect(await served.cost()).toEqual({ calls: 1 + 2 * OWN_CALLS, sessions: 2 });
  });
});

withPostgres("a database that is away", () => {
  it("[F11] [K1] is told as 503 with the time to come again, by /v1 and by REST", async () => {
    const url = await databaseFor("away");
    const proxy = await openCutProxy(Number(new URL(url).port));
    const store = await openPostgresStore({ url: proxy.urlOf(url), realm: "r", leaseMs: 3_000 });
    const { runtime } = scriptedRuntime([{ text: "Back." }], { store });
    const server = await openChatServer(runtime);
    proxy.cut();
    const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
    const asked = { model: "scripted", input: "Hello." };
    const thrown = await client.responses.create(asked).catch((error: unknown) => error);
    expect(thrown).toMatchObject({ status: 503, code: "SESSION_STORE_ERROR" });
    expect((thrown as InstanceType<typeof OpenAI.APIError>).headers?.get("retry-after")).toBe("1");
    const listed = await fetch(`${server.url}/sessions`);
    expect([listed.status, listed.headers.get("retry-after")]).toEqual([503, "1"]);
    proxy.pass();
    expect((await client.responses.create(asked)).output_text).toBe("Back.");
    await server.close();
    await runtime.close();
    await store.close();
    await proxy.close();
  });
});
