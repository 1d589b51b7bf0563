import { describe, expect, it } from "vitest";
import { createVirtualClock } from "../../../../test/support/virtual-clock.ts";
import type { AgentEvent } from "../contract/event.ts";
import type { ModelPart } from "../ports/model.ts";
import { callModel } from "./model-call.ts";

const FINISH: ModelPart = { type: "finish", stopReason: "end_turn", usage: { input_tokens: 1, output_tokens: 2 } };
const text = (delta: string): ModelPart => ({ type: "text_delta", delta });
const MEBI = 1_024 * 1_024;

/** Asks a client once whose answer is given as a generator. */
async function call(stream: (signal: AbortSignal) => AsyncGenerator<ModelPart>, interrupt = new AbortController()) {
  const events: AgentEvent[] = [];
  const received = { signal: undefined as AbortSignal | undefined };
  const answer = await callModel({
    model: {
      provider: "p",
      modelId: "m",
      contextWindow: undefined,
      stream(_, signal) {
        received.signal = signal;
        return stream(signal);
      },
    },
    request: { messages: [], tools: [] },
    clock: createVirtualClock(),
    limits: { callTimeoutMs: 60_000, stallTimeoutMs: 10_000 },
    deadlineMs: Number.POSITIVE_INFINITY,
    signal: interrupt.signal,
    emit: (event) => void events.push(event),
  });
  return { answer, events, wasAborted: received.signal?.aborted };
}

const SAID = {
  ok: true,
  blocks: [{ block_type: "text", data: { text: "hi" } }],
  stopReason: "end_turn",
  usage: { input_tokens: 1, output_tokens: 2 },
};

describe("a model call", () => {
  it("[B5] is over with its finish, though the client never comes to its end", async () => {
    const { answer } = await call(async function* () {
      try {
        yield text("hi");
        yield FINISH;
      } finally {
        await new Promise(() => {});
      }
    });
    expect(answer).toEqual(SAID);
  });

  it("[B5] is over with its finish, though the client then throws or the caller interrupts", async () => {
    const interrupt = new AbortController();
    const { answer } = await call(async function* () {
      try {
        yield text("hi");
        yield FINISH;
      } finally {
        interrupt.abort();
        // biome-ignore lint/correctness/noUnsafeFinally: it is what a careless client does.
        throw new Error("late");
      }
    }, interrupt);
    expect(answer).toEqual(SAID);
  });

  it.each([
    ["text", text("x".repeat(MEBI))],
    ["reasoning", { type: "reasoning_delta", delta: "x".repeat(MEBI) }],
    [
      "blocks",
      { type: "block", block: { block_type: "tool_use", data: { id: "a", name: "t", args: { a: "x".repeat(MEBI) } } } },
    ],
  ] satisfies [string, ModelPart][])("[H5] ends when the model does not stop sending %s", async (_, part) => {
    let sent = 0;
    const { answer, wasAborted } = await call(async function* () {
      for (; sent < 100; sent += 1) yield part;
      yield FINISH;
    });
    expect(answer).toMatchObject({
      ok: false,
      because: "failure",
      failure: { kind: "answer_too_long", message: "the model's answer is longer than 4194304 characters" },
    });
    expect(sent).toBeLessThan(6);
    if (!answer.ok && part.type === "text_delta") expect(answer.text).toHaveLength(4 * MEBI);
    expect(wasAborted).toBe(true);
  });
});
