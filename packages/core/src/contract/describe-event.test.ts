import { describe, expect, it } from "vitest";
import { describeEvent, verdictOf } from "./describe-event.ts";
import type { AgentEvent } from "./event.ts";

const usage = { input_tokens: 1_200, output_tokens: 34 };
const session_id = "s";

describe("an event in words", () => {
  it("[A3] has one line for every place that shows it, and says how loudly", () => {
    const lines: readonly (readonly [AgentEvent, string, string])[] = [
      [{ type: "text_delta", delta: "Hel" }, "piece plain", "Hel"],
      [{ type: "turn_started", turn_number: 0 }, "step plain", "model call 1"],
      [{ type: "run_failed", session_id, error_class: "llm", error: "no" }, "remark bad", "turn failed: no"],
      [{ type: "run_failed", session_id, error_class: "cancelled", error: "no" }, "remark warn", "turn interrupted"],
      [
        { type: "run_completed", session_id, result: "", usage, extraction_required: false },
        "step plain",
        "turn completed, 1,200 tokens in / 34 out in the session",
      ],
      [
        {
          type: "run_completed",
          session_id,
          result: "",
          usage,
          extraction_required: false,
          terminal_cause_kind: "turn_limit_reached",
        },
        "remark warn",
        "turn stopped short: it made as many model calls as a turn may",
      ],
      [{ type: "compaction_failed", error: "full" }, "notice warn", "compaction failed: full"],
      [
        { type: "budget_warning", budget_type: "cost", used: 8_000, limit: 10_000, percent: 80 },
        "notice warn",
        "80 % of the cost budget is used: $0.0080 of $0.01",
      ],
    ];
    for (const [event, manner, text] of lines) {
      const line = describeEvent(event);
      expect([event.type, `${line.level} ${line.tone}`, line.text]).toEqual([event.type, manner, text]);
    }
  });

  it("[A3] is described by its type and its reason where it has no words of its own", () => {
    const unknown = { type: "disk_nearly_full", reason: "2 GB are left" } as unknown as AgentEvent;
    expect(describeEvent(unknown)).toEqual({ level: "step", tone: "plain", text: "disk nearly full: 2 GB are left" });
    expect(describeEvent({ type: "assistant_image_appended", image: { media_type: "image/png" } }).text).toBe(
      "assistant image appended",
    );
  });
});

const NOTHING = { recoverable: 0, lost: 0, invented: [], invented_cut: false };
const invented = { kind: "number", text: "9999", sentence: "The port is 9999." };

describe("the verdict of a receipt", () => {
  it.each([
    [NOTHING, "Nothing lost."],
    [
      { ...NOTHING, recoverable: 11, doubtful: ["One.", "Two."] },
      "Nothing lost. 11 facts are no longer shown to the model and can be found again. 2 sentences of the summary could not be checked.",
    ],
    [
      { ...NOTHING, recoverable: 1, doubtful: ["One."] },
      "Nothing lost. 1 fact is no longer shown to the model and can be found again. 1 sentence of the summary could not be checked.",
    ],
    [{ ...NOTHING, lost: 1 }, "1 fact is lost."],
    [
      { ...NOTHING, lost: 1_200, recoverable: 3 },
      "1,200 facts are lost. 3 facts are no longer shown to the model and can be found again.",
    ],
    [
      { ...NOTHING, invented: [invented], invented_cut: true },
      "Nothing lost. 1 invented fact was cut from the summary.",
    ],
    [{ ...NOTHING, invented: [invented, invented] }, "Nothing lost. 2 invented facts are in the summary."],
  ])("[R2] of %j is %j", (receipt, verdict) => {
    expect(verdictOf(receipt)).toBe(verdict);
  });
});
