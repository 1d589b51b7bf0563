import { expect, it } from "vitest";
import type { Message } from "../contract/message.ts";
import { serialiseRequest } from "./openai-chat.ts";

const created_at = "2026-01-01T00:00:00.000Z";
const system: Message = { role: "system", content: "Be brief.", created_at };
const user = (content: string): Message => ({ role: "user", content, created_at });
const serialise = (messages: readonly Message[], providerParams = {}) =>
  JSON.parse(serialiseRequest({ messages, tools: [], providerParams }, { model: "m", stopSequences: undefined }));
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
