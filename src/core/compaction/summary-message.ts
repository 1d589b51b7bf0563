import type { UserRule } from "../../contract/compaction.ts";
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

/** What the rules that follow a summary are introduced by. */
export const RULES_INTRO = "Rules of the user, word for word; a later one goes before an earlier one:";

type UserMessage = Extract<Message, { role: "user" }>;

/** The message a summary stands in the context as; it carries the id of its compaction, which no user message has. */
export function summaryMessage(
  of: WithRules & { readonly created_at: string; readonly compaction_id: string },
): UserMessage {
  const { created_at, compaction_id } = of;
  return { role: "user", content: `${SUMMARY_PREFIX}\n\n${summaryWithRules(of)}`, created_at, compaction_id };
}

interface WithRules {
  readonly summary: string;
  readonly rules?: readonly UserRule[] | undefined;
}

/** A summary and, in a block of their own, the rules it does not have word for word: nobody can turn those round. */
export function summaryWithRules({ summary, rules = [] }: WithRules): string {
  const following = rules.filter(({ follows }) => follows);
  if (following.length === 0) return summary;
  return `${summary}\n\n${RULES_INTRO}\n${following.map(({ text }) => `- ${text}`).join("\n")}`;
}

export function isSummary(message: Message | undefined): message is UserMessage {
  return message?.role === "user" && message.compaction_id !== undefined;
}

/** What an earlier summary says, without the rules that follow it: they are carried on word for word, not retold. */
export function summaryText(message: UserMessage): string {
  const text = textOfContent(message.content);
  const said = text.startsWith(SUMMARY_PREFIX) ? text.slice(SUMMARY_PREFIX.length).trim() : text;
  const rulesAt = said.lastIndexOf(`\n\n${RULES_INTRO}\n`);
  return rulesAt < 0 ? said : said.slice(0, rulesAt);
}
