import { expect, it } from "vitest";
import type { JsonObject } from "../../contract/session.ts";
import { AskUser } from "../../ports/tool.ts";
import { type AskingCall, callWithInputs } from "./questions.ts";

const BY: AskingCall = { sessionId: "s", effectId: "s:1:c", signal: new AbortController().signal, asksWithinMs: 1_000 };
const form = { message: "Which?", requestedSchema: { type: "object", properties: { a: { type: "string" } } } };
const asking = (...requests: object[]) => ({
  resultType: "input_required",
  inputRequests: Object.fromEntries(requests.map((request, at) => [`k${at}`, request])),
  requestState: "opaque",
});

it.each([
  [
    { method: "elicitation/create", params: { mode: "url", url: "https://a.test", message: "m", elicitationId: "1" } },
    "MCP server t asks to open an address (URL mode), which rkat does not do",
  ],
  [
    { method: "sampling/createMessage", params: {} },
    "MCP server t asks for sampling/createMessage, which rkat does not answer",
  ],
  [
    { method: "elicitation/create", params: { message: "m", requestedSchema: { type: "array" } } },
    "MCP server t asks a question that is none of the protocol",
  ],
])("[T1] an input request that no form can answer fails the call: %j", async (request, sentence) => {
  await expect(callWithInputs("t", BY, async () => asking(request))).rejects.toThrow(sentence);
});

it("[T1] [H5] a question that is too long or too deep is refused before it is read", async () => {
  const deep = Array.from({ length: 20_000 }).reduce<unknown>((inner) => [inner], 1);
  // Not of the protocol either, which only reading it would tell.
  const fields = Object.fromEntries(Array.from({ length: 2_000 }, (_, at) => [`a${at}`, { type: "list" }]));
  for (const schema of [
    { type: "object", properties: {}, deep },
    { type: "object", properties: fields },
  ]) {
    const request = { method: "elicitation/create", params: { message: "m", requestedSchema: schema } };
    const sentence = "MCP server t asks a question of more than 16384 characters";
    await expect(callWithInputs("t", BY, async () => asking(request))).rejects.toThrow(sentence);
  }
});

it("[T1] [P2] a call of 2025 that waits is not made again by a connection of 2026", async () => {
  let calls = 0;
  const answered = { answer: { action: "accept" as const, content: {} }, resuming: { held: true } };
  const made = callWithInputs("t", { ...BY, answered }, async () => {
    calls += 1;
    return { content: [] };
  });
  await expect(made).rejects.toThrow("may or may not have taken effect");
  expect(calls).toBe(0);
});

it("[T1] the answer to an input request goes back under its key with the state that the server gave, unread", async () => {
  const sent: JsonObject[] = [];
  const send = async (inputs: JsonObject) => {
    sent.push(inputs);
    return sent.length === 1 ? asking({ method: "elicitation/create", params: form }) : { content: [] };
  };
  const asked = await callWithInputs("t", BY, send);
  if (!(asked instanceof AskUser)) throw new Error("it did not ask");
  expect(asked.question).toEqual({ server: "t", message: "Which?", schema: form.requestedSchema });
  const answer = { action: "accept" as const, content: { a: "this" } };
  // As another process reads it from the log.
  const resuming = JSON.parse(JSON.stringify(asked.resuming));
  expect(await callWithInputs("t", { ...BY, answered: { answer, resuming } }, send)).toEqual({ content: [] });
  expect(sent).toEqual([{}, { inputResponses: { k0: answer }, requestState: "opaque" }]);
});

it("[T1] a server that only sends a state is called again with it, a bounded number of times", async () => {
  let calls = 0;
  const send = async () => {
    calls += 1;
    return { resultType: "input_required", requestState: String(calls) };
  };
  await expect(callWithInputs("t", BY, send)).rejects.toThrow("asked more than 8 questions in one call");
  expect(calls).toBe(16);
});
