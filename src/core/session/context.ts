import type { Message } from "../../contract/message.ts";
import type { SessionContext } from "../../contract/session.ts";
import { estimateTokens } from "../tokens.ts";
import { type CompactionRecord, isIn, type Placed } from "./shown.ts";

/** The hex SHA-256 of a text, handed in: this layer sees no library. */
export type Hash = (text: string) => string;

/** As much of a session's state as says what the model is shown. */
interface ShownState {
  readonly shown: readonly Placed[];
  readonly pins: ReadonlySet<number>;
  readonly compactions: readonly CompactionRecord[];
}

/** What the model is shown now. */
export function assembleContext(state: Pick<ShownState, "shown">): readonly Message[] {
  return state.shown.map((placed) => placed.message);
}

const chained = new WeakMap<Message, { readonly before: string; readonly hash: string }>();

/**
 * One hash for a whole context: each message's is taken over its JSON and the hash before it. What was hashed for the
 * last call is remembered, so a call pays for its new messages only.
 */
export function hashContext(messages: readonly Message[], hash: Hash): string {
  return messages.reduce((chain, message) => chainHash(message, chain, hash), "");
}

/** The hash of everything up to a message, given that of everything before it. */
export function chainHash(message: Message, before: string, hash: Hash): string {
  const known = chained.get(message);
  if (known !== undefined && known.before === before) return known.hash;
  const next = { before, hash: hash(`${before}\n${JSON.stringify(message)}`) };
  chained.set(message, next);
  return next.hash;
}

/** The context with where its parts come from. */
export function describeContext(state: ShownState, hash: Hash): Omit<SessionContext, "tool_tokens"> {
  const messages = assembleContext(state);
  return {
    messages: state.shown.map(({ seq, message }) => ({ ...message, seq })),
    estimated_tokens: estimateTokens(messages),
    sha256: hashContext(messages, hash),
    parts: partsOf(state),
  };
}

/** The system message, the summary, what was pinned or brought back, then a part for each turn. */
function partsOf({ shown, pins, compactions }: ShownState): SessionContext["parts"] {
  const parts: SessionContext["parts"] = [];
  const standing = compactions.findLast((record) => !record.undone);
  for (const { seq, message } of shown) {
    const kind = kindOf(message, { isPinned: pins.has(seq), isExpanded: isIn(standing?.expanded ?? [], seq) });
    const last = parts.at(-1);
    const estimated_tokens = estimateTokens([message]);
    const isBeginning = last === undefined || last.kind !== kind || kind === "system" || kind === "summary";
    if (isBeginning || message.role === "user") parts.push({ kind, seqs: [seq, seq], estimated_tokens });
    else {
      last.seqs = [Math.min(last.seqs[0], seq), Math.max(last.seqs[1], seq)];
      last.estimated_tokens += estimated_tokens;
    }
  }
  return parts;
}

function kindOf(message: Message, how: { isPinned: boolean; isExpanded: boolean }): string {
  if (message.role === "system") return "system";
  if (message.role === "user" && message.compaction_id !== undefined) return "summary";
  if (how.isPinned) return "pinned";
  return how.isExpanded ? "expanded" : "turn";
}
