import type { AgentEvent } from "@rkat/core/contract/event";
import { describe, expect, it } from "vitest";
import { createUiEncoder } from "./ui-encoder.ts";

function state(events: readonly AgentEvent[], sendsDeltas = true) {
  const encoder = createUiEncoder({ isClientTool: (name) => name === "look", sendsDeltas });
  return events.flatMap((event, seq) => encoder.encode({ seq, timestamp_ms: 0, event }));
}

const delta = (text: string): AgentEvent => ({ type: "text_delta", delta: text });
const whole = (content: string): AgentEvent => ({ type: "text_complete", content });

describe("the encoder of UI message streams", () => {
  it("[K1] tells a text once, however much of it came in pieces", () => {
    const once = [
      { type: "text-start", id: "1" },
      { type: "text-delta", id: "1", delta: "Hello." },
      { type: "text-end", id: "1" },
    ];
    expect(state([whole("Hello.")])).toEqual(once);
    expect(state([delta("Hello."), whole("Hello.")])).toEqual(once);
    expect(state([delta("Hel"), whole("Hello.")], false)).toEqual(once);
    expect(state([delta("Hel"), whole("Hello.")])).toEqual([
      once[0],
      { type: "text-delta", id: "1", delta: "Hel" },
      { type: "text-delta", id: "1", delta: "lo." },
      once[2],
    ]);
    // Two texts of one answer, whose pieces came before either was whole.
    expect(state([delta("One."), delta("Two."), whole("One."), whole("Two.")])).toEqual([
      once[0],
      { type: "text-delta", id: "1", delta: "One." },
      { type: "text-delta", id: "1", delta: "Two." },
      once[2],
    ]);
    // What does not fit what was told stands beside it.
    expect(state([delta("Bye"), whole("Hello.")]).map(({ type, id }) => [type, id])).toEqual([
      ["text-start", "1"],
      ["text-delta", "1"],
      ["text-end", "1"],
      ["text-start", "2"],
      ["text-delta", "2"],
      ["text-end", "2"],
    ]);
  });

  it("[K1] tells what everybody should know as a notice, and nothing of steps", () => {
    const retrying = { attempt: 1, max_attempts: 3, error: "overloaded", delay_ms: 500 };
    expect(state([{ type: "retrying", ...retrying }, { type: "compaction_prepared" } as AgentEvent])).toEqual([
      {
        type: "data-notice",
        data: { event: "retrying", text: "retrying in 0.5 s (1 of 3): overloaded" },
        transient: true,
      },
    ]);
  });

  it("[K1] [P1] sends no empty step for a model call that another process made again", () => {
    const started: AgentEvent = { type: "turn_started", turn_number: 1 };
    const adopted: AgentEvent = {
      type: "turn_adopted",
      session_id: "s",
      attempt: 2,
      from_seq: 3,
      reason: "process_ended",
      superseded: true,
    };
    const types = (events: readonly AgentEvent[]) => state(events).map(({ type }) => type);
    const text = ["text-start", "text-delta", "text-end"];
    expect(types([started, adopted, started, whole("Hello.")])).toEqual(["start-step", ...text]);
    // What was sent of the lost call stays a step of its own.
    expect(types([started, delta("Hel"), adopted, started, whole("Hello.")])).toEqual([
      "start-step",
      "text-start",
      "text-delta",
      "text-end",
      "finish-step",
      "start-step",
      ...text,
    ]);
  });

  it("[K1] tells compactions and evictions as data", () => {
    const started = { input_tokens: 9, estimated_history_tokens: 8, message_count: 7 };
    const completed = { summary_tokens: 3, messages_before: 7, messages_after: 2 };
    const evicted = {
      compaction_id: "e",
      outputs: 1,
      superseded: 0,
      failed: 0,
      large: 1,
      tokens_before: 9,
      tokens_after: 5,
    };
    expect(
      state([
        { type: "compaction_started", ...started },
        { type: "compaction_completed", ...completed },
        { type: "compaction_failed", error: "no summary" },
        { type: "context_evicted", ...evicted },
      ]),
    ).toEqual([
      { type: "data-compaction", data: { phase: "started", ...started } },
      { type: "data-compaction", data: { phase: "completed", ...completed } },
      { type: "data-compaction", data: { phase: "failed", error: "no summary" } },
      { type: "data-compaction", data: { phase: "evicted", ...evicted } },
    ]);
  });

  it("[K1] leaves calls of the page's tools to it, and results of calls it was not told of untold", () => {
    const content = [{ type: "text" as const, text: "a heron" }];
    const result = (id: string, is_error = false): AgentEvent => ({
      type: "tool_result_received",
      id,
      name: "peek",
      content,
      is_error,
    });
    const peek: AgentEvent = { type: "tool_call_requested", id: "c2", name: "peek", args: {} };
    expect(
      state([
        { type: "tool_call_requested", id: "c1", name: "look", args: { at: "pond" } },
        peek,
        result("c0"),
        result("c2"),
        { ...peek, id: "c3" },
        result("c3", true),
      ]),
    ).toEqual([
      { type: "tool-input-available", toolCallId: "c1", toolName: "look", input: { at: "pond" } },
      { type: "tool-input-available", toolCallId: "c2", toolName: "peek", input: {}, ...SERVERS },
      { type: "tool-output-available", toolCallId: "c2", output: "a heron", ...SERVERS },
      { type: "tool-input-available", toolCallId: "c3", toolName: "peek", input: {}, ...SERVERS },
      { type: "tool-output-error", toolCallId: "c3", errorText: "a heron", ...SERVERS },
    ]);
  });
});

const SERVERS = { dynamic: true, providerExecuted: true };
