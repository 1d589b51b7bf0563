import type { AgentEvent } from "@rkat/core/contract/event";
import type { Message, ToolUseBlock } from "@rkat/core/contract/message";
import { createInMemoryStore, createRuntime } from "@rkat/core/create-runtime";
import type { FailureKind, ModelClient, ModelPart } from "@rkat/core/ports/model";
import type { Tool } from "@rkat/core/ports/tool";
import { describe, expect, it } from "vitest";
import { byEffort } from "../support/effort.ts";
import { fc } from "../support/property.ts";
import { configWith, listen } from "../support/runtime.ts";
import { createVirtualClock } from "../support/virtual-clock.ts";

/** What a broken model client may do: any parts in any order, then stop, throw, or fall silent. */
type Stream = { readonly parts: readonly ModelPart[]; readonly ends: "returns" | "throws" | "silent" };

const KINDS: FailureKind[] = ["network", "overloaded", "invalid_request", "auth", "unknown", "malformed_stream"];
const name = fc.constantFrom("good", "bad", "stuck", "missing");
const part: fc.Arbitrary<ModelPart> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ type: fc.constant("text_delta"), delta: fc.string({ unit: "binary", maxLength: 8 }) }),
  },
  fc.record({ type: fc.constant("reasoning_delta"), delta: fc.string({ maxLength: 8 }) }),
  fc.record({
    type: fc.constant("block"),
    block: fc.record({ block_type: fc.constant("text"), data: fc.record({ text: fc.string({ maxLength: 12 }) }) }),
  }),
  fc.record({
    type: fc.constant("block"),
    block: fc.record({
      block_type: fc.constant("tool_use"),
      data: fc.record({ id: fc.uuid(), name, args: fc.dictionary(fc.string(), fc.jsonValue(), { maxKeys: 2 }) }),
    }),
  }),
  fc.record({
    type: fc.constant("finish"),
    stopReason: fc.constantFrom("end_turn", "tool_use", "max_tokens", "content_filter", "cancelled"),
    usage: fc.record({ input_tokens: fc.nat(100), output_tokens: fc.nat(100) }),
  }),
  fc.record({
    type: fc.constant("failed"),
    failure: fc.record({ kind: fc.constantFrom(...KINDS), message: fc.string({ maxLength: 8 }) }),
  }),
);
const stream: fc.Arbitrary<Stream> = fc.record({
  parts: fc.array(part, { maxLength: 8 }),
  ends: fc.constantFrom("returns", "returns", "throws", "silent"),
});

const tools: Tool[] = [
  { name: "good", description: "", inputSchema: { type: "object" }, execute: () => "fine" },
  {
    name: "bad",
    description: "",
    inputSchema: { type: "object" },
    execute: () => {
      throw new Error("bad");
    },
  },
  {
    name: "stuck",
    description: "",
    inputSchema: { type: "object" },
    timeoutMs: 50,
    execute: () => new Promise(() => {}),
  },
];

function clientOf(streams: readonly Stream[]): ModelClient {
  let calls = 0;
  return {
    provider: "random",
    modelId: "random",
    contextWindow: undefined,
    async *stream() {
      const { parts, ends } = streams[calls++ % streams.length] ?? { parts: [], ends: "returns" };
      yield* parts;
      if (ends === "throws") throw new Error("thrown");
      // It ignores its signal on purpose.
      if (ends === "silent") await new Promise(() => {});
    },
  };
}

const isTerminal = (event: AgentEvent): boolean => event.type === "run_completed" || event.type === "run_failed";

describe("a turn on any stream whatever", () => {
  it("[A4] [A5] ends, with exactly one terminal event, and leaves a history a provider accepts", async () => {
    const unhandled: unknown[] = [];
    const onUnhandled = (reason: unknown): void => void unhandled.push(reason);
    process.on("unhandledRejection", onUnhandled);
    const limits = { max_tokens: 2_000, max_tool_calls: 6, max_duration: "1h" };
    const property = fc.asyncProperty(fc.array(stream, { minLength: 1, maxLength: 4 }), async (streams) => {
      const store = createInMemoryStore();
      const runtime = createRuntime({
        model: clientOf(streams),
        clock: createVirtualClock(),
        config: configWith({ agent: { max_turns: 8 } }),
        env: {},
        store,
        tools,
      });
      const { events, result, error } = await listen(runtime.createSessionStreaming("Go.", { budgetLimits: limits }));
      expect(events.filter(isTerminal)).toHaveLength(1);
      expect(events.at(-1)).toSatisfy(isTerminal);
      expect((result === undefined) !== (error === undefined)).toBe(true);
      const [{ session_id: id } = { session_id: "" }] = await store.sessions.page({ max: 1 });
      const { messages } = await runtime.session(id).history();
      expect(unanswered(messages)).toEqual([]);
    });
    await fc.assert(property, { numRuns: byEffort({ quick: 60, usual: 250, full: 1_000 }) });
    process.off("unhandledRejection", onUnhandled);
    expect(unhandled).toEqual([]);
  });
});

/** Ids of tool calls whose result is not in the very next message, and of results that answer no call. */
function unanswered(messages: readonly Message[]): string[] {
  return messages.flatMap((message, index) => {
    if (message.role !== "block_assistant") return [];
    const asked = message.blocks
      .filter((block): block is ToolUseBlock => block.block_type === "tool_use")
      .map((block) => block.data.id);
    const next = messages[index + 1];
    const answered = next?.role === "tool_results" ? next.results.map((result) => result.tool_use_id) : [];
    return asked.length === answered.length ? asked.filter((id, at) => id !== answered[at]) : [...asked, ...answered];
  });
}
