import type { Message } from "../../../contract/message.ts";

/** Where a turn begins and ends: indexes into the messages, the end excluded. */
export interface TurnSpan {
  readonly start: number;
  readonly end: number;
}

/**
 * The turns of a context: a user message and all that follows until the next. Notices right before a user message
 * belong to it, because they were put there for it. What stands before the first user message is a turn of its own;
 * the system message and an earlier summary (before `from`) are none.
 */
export function turnsOf(messages: readonly Message[], from = 0): readonly TurnSpan[] {
  const starts: number[] = [];
  let notices = 0;
  for (let at = from; at < messages.length; at += 1) {
    const role = messages[at]?.role;
    if (role === "user" || starts.length === 0) {
      // At the very beginning notices are waited for, too: they belong to the user message after them.
      if (role === "system_notice") notices += 1;
      else {
        starts.push(at - notices);
        notices = 0;
      }
    } else notices = role === "system_notice" ? notices + 1 : 0;
  }
  if (starts.length === 0 && messages.length > from) starts.push(from);
  return starts.map((start, index) => ({ start, end: starts[index + 1] ?? messages.length }));
}

/** A tool exchange: an answer with calls and everything until its results, which never go apart. */
export function exchangesOf(messages: readonly Message[], { start, end }: TurnSpan): readonly TurnSpan[] {
  const exchanges: TurnSpan[] = [];
  for (let at = start; at < end; at += 1) {
    const message = messages[at];
    if (message?.role !== "block_assistant" || !message.blocks.some((block) => block.block_type === "tool_use"))
      continue;
    const results = messages.findIndex((other, index) => index > at && other.role === "tool_results");
    if (results < 0 || results >= end) continue;
    exchanges.push({ start: at, end: results + 1 });
  }
  return exchanges;
}
