import { getEventListeners } from "node:events";
import { describe, expect, it } from "vitest";
import { account } from "../compaction/receipt.ts";
import type { Message } from "../contract/message.ts";
import { checkSummary } from "../grounding/groundedness.ts";
import { summarySources } from "../grounding/summary-sources.ts";
import { createReading } from "./reading-worker.ts";

const yieldToEventLoop = () => undefined;
const created_at = "2026-01-05T10:30:00.000Z";
const user = (content: string): Message => ({ role: "user", content, created_at });
const placed = Array.from({ length: 1_200 }, (_, seq) => ({
  seq,
  message: user(
    `Never close ticket OPS-${1_000 + seq} before src/part${seq}/index.ts is read. Why is ${seq + 500} late?`,
  ),
}));
const summary =
  "OPS-1007 stays open, OPS-9999 is closed. Never close ticket OPS-1008 before src/part8/index.ts is read.";
const never = new AbortController().signal;
const given = {
  summary,
  from: placed.slice(0, 1_000),
  inherited: [{ kind: "identifier" as const, text: "OPS-2100", seq: 1_100 }],
  tail: placed.slice(1_150).map(({ message }) => message),
  pinned: [],
  log: placed.slice(1_000),
};

describe("reading apart", () => {
  it("[J5] [L1] finds in a thread what is found here, in however many pieces it is handed over", async () => {
    const inWorker = createReading(yieldToEventLoop, 0);
    const source = placed.map(({ message }) => message);
    expect(await inWorker("check", { summary, source }, never)).toEqual(
      await checkSummary(summary, source, yieldToEventLoop),
    );
    expect(await inWorker("account", given, never)).toEqual(await account(given, yieldToEventLoop));
    const messages = placed.slice(0, 50);
    expect(await inWorker("sources", { summary, messages }, never)).toEqual(
      await summarySources({ summary, messages }, yieldToEventLoop),
    );
  });

  it("[J5] copies no pictures", async () => {
    const picture = { type: "image", source: "inline", media_type: "image/png", data: "A".repeat(1_000) } as const;
    const message: Message = { role: "user", content: [{ type: "text", text: "See OPS-1." }, picture], created_at };
    const checked = await createReading(yieldToEventLoop, 0)(
      "check",
      { summary: "OPS-1 and OPS-2.", source: [message] },
      never,
    );
    expect(checked.invented.map(({ text }) => text)).toEqual(["OPS-2"]);
  });

  it("[J5] ends with a sentence when it is interrupted, and reads again afterwards", async () => {
    const inWorker = createReading(yieldToEventLoop, 0);
    const interrupt = new AbortController();
    const [first, second] = [
      inWorker("account", given, interrupt.signal),
      inWorker("account", given, interrupt.signal),
    ];
    interrupt.abort();
    await expect(first).rejects.toThrow("reading what was said was interrupted");
    await expect(second).rejects.toThrow("reading what was said was interrupted");
    expect(getEventListeners(interrupt.signal, "abort")).toEqual([]);
    expect(await inWorker("account", given, never)).toHaveLength((await account(given, yieldToEventLoop)).length);
  });

  it("[J5] does not keep others waiting for one that was interrupted while it waited", async () => {
    const inWorker = createReading(yieldToEventLoop, 0);
    const interrupt = new AbortController();
    const first = inWorker("account", given, never);
    const second = inWorker("account", given, interrupt.signal);
    const third = inWorker("account", given, never);
    await new Promise((resolve) => setImmediate(resolve));
    interrupt.abort();
    await expect(second).rejects.toThrow("reading what was said was interrupted");
    expect(await third).toEqual(await first);
    await expect(inWorker("account", given, interrupt.signal)).rejects.toThrow("reading what was said was interrupted");
    expect(getEventListeners(never, "abort")).toEqual([]);
  });

  it("[J5] is done here when what is to be read cannot be copied", async () => {
    const inWorker = createReading(yieldToEventLoop, 0);
    const odd: Message = Object.assign(user("See OPS-1."), { later: () => 1 });
    const checked = await inWorker("check", { summary: "OPS-1 and OPS-2.", source: [odd] }, never);
    expect(checked.invented.map(({ text }) => text)).toEqual(["OPS-2"]);
  });
});
