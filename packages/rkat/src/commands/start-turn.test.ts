import type { RunResult } from "@rkat/core/contract/session";
import { describe, expect, it } from "vitest";
import { judge } from "./start-turn.ts";

const done: RunResult = {
  session_id: "01900000-0000-7000-8000-000000000001",
  text: "Done.",
  turns: 1,
  tool_calls: 0,
  usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
};
const unmatched = { last_output: "", attempts: 2, reason: "the output is not JSON" };

describe("the verdict on a turn", () => {
  it("[G1] blames the schema only for what did not match it", () => {
    const failed = { ...done, terminal_cause_kind: "structured_output_validation_failed" as const };
    expect(judge({ ...failed, extraction_error: unmatched }, {})).toEqual({
      exit: 30,
      sentence: "Stopped: no output matched the schema after 2 attempts: the output is not JSON",
    });
    const refused = { ...unmatched, attempts: 1, reason: "the provider refused the API key (401)" };
    expect(judge({ ...done, terminal_cause_kind: "llm_failure", extraction_error: refused }, {})).toEqual({
      exit: 20,
      sentence: "Stopped: the structured output failed: the provider refused the API key (401)",
    });
    const stopped = { ...unmatched, attempts: 1, reason: "interrupted" };
    expect(judge({ ...done, extraction_error: stopped }, {})).toEqual({
      exit: 14,
      sentence: "Stopped: interrupted before there was an output of the schema.",
    });
  });

  it("[B3] tells a budget that ran out from a turn that is done", () => {
    expect(judge(done, {})).toEqual({ exit: 0 });
    const spent = { ...done, terminal_cause_kind: "budget_exhausted" as const };
    expect(judge(spent, { max_tokens: 2 })).toEqual({
      exit: 21,
      sentence: "Stopped: the token budget of 2 is used up.",
    });
    const delegated = { usage: { input_tokens: 200, output_tokens: 130 }, tool_calls: 3 };
    expect(judge({ ...spent, delegated }, { max_tokens: 300 }).sentence).toBe(
      "Stopped: the token budget of 300 is used up.",
    );
    expect(judge({ ...done, terminal_cause_kind: "time_budget_exceeded" }, {}).exit).toBe(21);
  });
});
