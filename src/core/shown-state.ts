import type { Entry } from "../contract/entry.ts";
import type { SessionSettings } from "../contract/session.ts";
import type { Placed } from "./context.ts";
import { estimateTokens, mediaBytes } from "./tokens.ts";

/** What a session's model is shown, and how large that is. */
export interface ShownState {
  /** What the model is shown of the transcript, the system message first. */
  shown: Placed[];
  /** The estimate of what is shown, kept up so that deciding whether to compact costs the same at every length. */
  shownTokens: number;
  /** Bytes of the media among it. */
  shownMediaBytes: number;
  /** How many messages of users were ever said, those that were rewritten since with them. */
  turnsSaid: number;
}

/** Takes in how large what is shown is. */
export function measure(state: ShownState): void {
  state.shownTokens = estimateTokens(state.shown.map((placed) => placed.message));
  state.shownMediaBytes = state.shown.reduce((sum, placed) => sum + mediaBytes(placed.message), 0);
}

/** Messages with the system message that these settings, said by an entry, ask for; the same list where it stands there. */
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

/** Adds a message to the end of what is said, and shown. */
export function place(state: ShownState, placed: Placed): void {
  if (placed.message.role === "user") state.turnsSaid += 1;
  state.shown.push(placed);
  state.shownTokens += estimateTokens([placed.message]);
  state.shownMediaBytes += mediaBytes(placed.message);
}
