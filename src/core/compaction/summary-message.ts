import type { Message } from "../../contract/message.ts";
import { textOfContent } from "../message-text.ts";

/** The last message of a request for a summary, word for word part of the contract. */
export const COMPACTION_PROMPT = `You are performing a CONTEXT COMPACTION. Your job is to create a handoff summary so work can continue seamlessly.

Include:
- Current progress and key decisions made
- Important context, constraints, or user preferences discovered
- What remains to be done (clear next steps)
- Any critical data, file paths, examples, or references needed to continue
- Tool call patterns that worked or failed

Be concise and structured. Prioritize information the next context needs to act, not narrate.`;

/** What a summary is introduced by in the rebuilt context, word for word part of the contract. */
export const SUMMARY_PREFIX =
  "[Context compacted] A previous context produced the following summary of work so far. The current tool and session state is preserved. Use this summary to continue without duplicating work:";

type UserMessage = Extract<Message, { role: "user" }>;

/** The message a summary stands in the context as; it carries the id of its compaction, which no user message has. */
export function summaryMessage(of: { summary: string; created_at: string; compaction_id: string }): UserMessage {
  const { summary, created_at, compaction_id } = of;
  return { role: "user", content: `${SUMMARY_PREFIX}\n\n${summary}`, created_at, compaction_id };
}

export function isSummary(message: Message | undefined): message is UserMessage {
  return message?.role === "user" && message.compaction_id !== undefined;
}

/** What an earlier summary says. */
export function summaryText(message: UserMessage): string {
  const text = textOfContent(message.content);
  return text.startsWith(SUMMARY_PREFIX) ? text.slice(SUMMARY_PREFIX.length).trim() : text;
}
