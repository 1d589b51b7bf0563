import type { ExpectedEvent } from "../scenario.ts";

/** The first event of a turn. */
export function asked(prompt: string): ExpectedEvent {
  return { type: "run_started", session_id: "{session}", prompt };
}

/** A model call that says something. */
export function said(turn_number: number, text: string): readonly ExpectedEvent[] {
  return [
    { type: "turn_started", turn_number },
    { type: "text_delta", delta: text },
    { type: "text_complete", content: text },
  ];
}

/** What ends a turn that went well. */
export function endedWith(
  result: string,
  usage: object = { input_tokens: 10, output_tokens: 5 },
): readonly ExpectedEvent[] {
  return [
    { type: "turn_completed", stop_reason: "end_turn" },
    completed(result, { usage, extraction_required: false }),
  ];
}

export function completed(result: string, more: object): ExpectedEvent {
  return { type: "run_completed", session_id: "{session}", result, ...more };
}
