import { expect, it } from "vitest";
import { scriptedRuntime } from "../../../../test/support/runtime.ts";
import { MESSAGES_MAX } from "../contract/rewrite.ts";
import { createInMemoryStore } from "../create-runtime.ts";
import { yieldToEventLoop } from "./system-clock.ts";

it("[L1] work of many callers continues one piece in each round of the event loop", async () => {
  const due = async (): Promise<void> => {
    for (;;) {
      const waiting = yieldToEventLoop();
      if (waiting !== undefined) return waiting;
    }
  };
  let round = 0;
  let isOver = false;
  const count = (): void => {
    round += 1;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  const rounds = await Promise.all(Array.from({ length: 5 }, () => due().then(() => round)));
  isOver = true;
  expect(new Set(rounds).size).toBe(5);
});

it("[L1] a long list is checked in pieces as it is at once: every item by its place, and its length", async () => {
  const { runtime } = scriptedRuntime(() => ({ text: "Noted." }), { store: createInMemoryStore() });
  const create = (messages: readonly object[]) =>
    runtime.dispatch("createSession", { initial_turn: "deferred", history: messages });
  const history = Array.from({ length: 1_200 }, (_, at) => ({ role: "user", content: `number ${at}` }));
  const { session_id } = await create(history);
  const { messages } = await runtime.dispatch("readHistory", { session_id });
  expect(messages.map((message) => "content" in message && message.content)).toEqual(
    history.map(({ content }) => content),
  );
  await expect(create(history.with(1_100, { role: "user", content: Object(7) }))).rejects.toThrow(/^history\.1100\./);
  await expect(create(history.with(1_100, JSON.parse('{ "role": "user", "__proto__": 1 }')))).rejects.toThrow(
    /^history\.1100\.__proto__/,
  );
  const long = Array.from({ length: MESSAGES_MAX + 1 }, () => ({ role: "user", content: "again" }));
  await expect(create(long)).rejects.toThrow(`write at most ${MESSAGES_MAX} messages`);
});
