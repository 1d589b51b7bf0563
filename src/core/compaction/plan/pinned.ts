import type { Message } from "../../../contract/message.ts";
import { exchangesOf, turnsOf } from "./turns.ts";

interface Numbered {
  readonly seq: number;
  readonly message: Message;
}

/** A pinned message with what it needs to stand: the user message of its turn, and its whole tool exchange. */
export function pinnedIn<P extends Numbered>(shown: readonly P[], pins: ReadonlySet<number>): ReadonlySet<P> {
  const pinned = new Set<P>();
  if (pins.size === 0) return pinned;
  const messages = shown.map((placed) => placed.message);
  const add = (start: number, end: number): void => {
    for (const placed of shown.slice(start, end)) pinned.add(placed);
  };
  for (const turn of turnsOf(messages, messages[0]?.role === "system" ? 1 : 0)) {
    const exchanges = exchangesOf(messages, turn);
    for (let at = turn.start; at < turn.end; at += 1) {
      if (!pins.has(shown[at]?.seq ?? 0)) continue;
      const user = messages.findIndex((message, index) => index >= turn.start && message.role === "user");
      if (user >= 0 && user < turn.end) add(turn.start, user + 1);
      const exchange = exchanges.find(({ start, end }) => start <= at && at < end);
      add(exchange?.start ?? at, exchange?.end ?? at + 1);
    }
  }
  return pinned;
}
