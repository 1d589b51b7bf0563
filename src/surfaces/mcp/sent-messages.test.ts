import type { JSONRPCMessage } from "@modelcontextprotocol/sdk/types.js";
import { expect, it } from "vitest";
import { createSentMessages } from "./serve-http.ts";

const note = (method: string): JSONRPCMessage => ({ jsonrpc: "2.0", method });

it("sends again what a stream carried after a message, and nothing of another", async () => {
  const messages = createSentMessages();
  const first = await messages.storeEvent("a", note("1"));
  await messages.storeEvent("b", note("2"));
  const third = await messages.storeEvent("a", note("3"));
  expect(await messages.getStreamIdForEventId?.(first)).toBe("a");
  const again: unknown[] = [];
  const send = async (...one: unknown[]) => {
    again.push(one);
  };
  expect(await messages.replayEventsAfter(first, { send })).toBe("a");
  expect(again).toEqual([[third, note("3")]]);
});

it("[H5] lets the oldest go at its bounds, and keeps the newest whatever its size", async () => {
  const messages = createSentMessages({ messagesMax: 2, charsMax: 100 });
  const ids: string[] = [];
  for (const method of ["1", "2", "3"]) ids.push(await messages.storeEvent("a", note(method)));
  const known = () => Promise.all(ids.map((id) => messages.getStreamIdForEventId?.(id)));
  expect(await known()).toEqual([undefined, "a", "a"]);
  ids.push(await messages.storeEvent("a", note("x".repeat(1_000))));
  expect(await known()).toEqual([undefined, undefined, undefined, "a"]);
});
