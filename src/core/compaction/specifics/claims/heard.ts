import type { Message } from "../../../../contract/message.ts";
import { textsOf } from "../texts.ts";

/** What one message lets the model hear of the user. */
export interface Heard {
  readonly texts: readonly string[];
  /** What was proposed right before and taken up by a short answer. */
  readonly taken: readonly string[];
  readonly isUser: boolean;
}

/** A user message this short takes up what was proposed right before: "yes, do that". */
const ASSENT_CHARS_MAX = 120;

/** What users said, what frames them (system, notices, an earlier summary), and what a short assent took up. */
export function heardIn(source: readonly Message[]): readonly Heard[] {
  const heard: Heard[] = [];
  let proposed: string[] = [];
  for (const message of source) {
    const texts = textsOf(message);
    if (message.role === "block_assistant") proposed.push(...texts);
    if (message.role === "block_assistant" || message.role === "tool_results") continue;
    const isUser = message.role === "user";
    const isAssent = isUser && texts.join("").length <= ASSENT_CHARS_MAX;
    heard.push({ texts, taken: isAssent ? proposed : [], isUser });
    proposed = [];
  }
  return heard;
}
