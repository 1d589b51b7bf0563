import { RuntimeError } from "@rkat/core/contract/error";
import type { AgentEvent } from "@rkat/core/contract/event";
import { describe, expect, it } from "vitest";
import { toEnvelope } from "./events.ts";
import { errorFrame, LINE_BYTES_MAX, resultFrame, streamEventFrame, turnEventFrame } from "./frames.ts";

const SESSION = "01999999-0000-7000-8000-000000000001";
const envelope = (event: AgentEvent) =>
  toEnvelope(SESSION, { seq: 7, timestamp_ms: 5, event }, () => "not needed for a durable event");
const huge = "ü".repeat(LINE_BYTES_MAX / 2);

describe("a frame", () => {
  it("is one line", () => {
    const frame = resultFrame("1", { text: "a\nb\u2028c" });
    expect(frame).toBe(`{"jsonrpc":"2.0","id":1,"result":{"text":"a\\nb\u2028c"}}\n`);
  });

  it("[H5] is never longer than a client reads: an answer becomes an error", () => {
    expect(JSON.parse(resultFrame('"a"', huge))).toMatchObject({
      id: "a",
      error: { code: -32032, data: { code: "PAYLOAD_TOO_LARGE" } },
    });
  });

  it("[H5] is never longer than a client reads: an event keeps its place", () => {
    const large = envelope({ type: "text_complete", content: huge });
    const reason = expect.stringContaining("event 7 (text_complete)");
    expect(JSON.parse(turnEventFrame('"a"', large))).toMatchObject({
      params: { session_id: SESSION, request_id: "a", event: { seq: 7, type: "stream_truncated", reason } },
    });
    expect(JSON.parse(streamEventFrame("s", 3, large))).toMatchObject({
      params: { stream_id: "s", sequence: 3, event: { seq: 7, payload: { type: "stream_truncated", reason } } },
    });
  });

  it("of an event with a payload of its own shows that one, and the envelope's in a stream", () => {
    const payload = {
      operation: "add" as const,
      target: "callback:x",
      status: "ok",
      status_info: { kind: "ok" },
      persisted: false,
    };
    const changed = envelope({ type: "tool_config_changed", payload });
    expect(JSON.parse(turnEventFrame("12345678901234567890", changed)).params.event).toMatchObject({ seq: 7, payload });
    expect(JSON.parse(streamEventFrame("s", 1, changed)).params.event.payload).toEqual({
      type: "tool_config_changed",
      payload,
    });
  });

  it("of an error holds the table's number and the whole error; a turn's names its session", () => {
    const error = new RuntimeError("PROVIDER_ERROR", "it failed", { details: { session_id: SESSION } });
    expect(JSON.parse(errorFrame("5", error))).toEqual({
      jsonrpc: "2.0",
      id: 5,
      error: {
        code: -32010,
        message: "it failed",
        data: {
          code: "PROVIDER_ERROR",
          category: "provider",
          message: "it failed",
          details: { session_id: SESSION },
          session_id: SESSION,
        },
      },
    });
  });
});
