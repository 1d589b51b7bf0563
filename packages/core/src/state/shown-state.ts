import type { Entry } from "../contract/entry.ts";
import type { SessionSettings } from "../contract/session.ts";
import { estimateTokens, mediaBytes } from "../turn/tokens.ts";
import type { Placed } from "./context.ts";

/** The context and its size. */
export interface ShownState {
  /** The context, the system message first. */
  shown: Placed[];
  /** Updated with each message, so that the decision to compact costs the same at every length. */
  shownTokens: number;
  shownMediaBytes: number;
  /** User messages ever added, including rewritten ones. */
  turnsSaid: number;
}

/** Recomputes the size of the context. */
export function measure(state: ShownState): void {
  state.shownTokens = estimateTokens(state.shown.map((placed) => placed.message));
  state.shownMediaBytes = state.shown.reduce((sum, placed) => sum + mediaBytes(placed.message), 0);
}

/** Sets the system message of the settings; returns the same list if nothing changes. */
export function withSystem(placed: Placed[], { seq, timestamp_ms }: Entry, settings: SessionSettings): Placed[] {
  const [first] = placed;
  const hasSystem = first?.message.role === "system";
  const { system_prompt: content } = settings;
  if (hasSystem && first.message.content === content) return placed;
  const rest = hasSystem ? placed.slice(1) : placed;
  if (content === undefined || content === "") return rest;
  const created_at = new Date(timestamp_ms).toISOString();
  return [{ seq, message: { role: "system", content, created_at } }, ...rest];
}

export function place(state: ShownState, placed: Placed): void {
  if (placed.message.role === "user") state.turnsSaid += 1;
  state.shown.push(placed);
  state.shownTokens += estimateTokens([placed.message]);
  state.shownMediaBytes += mediaBytes(placed.message);
}
