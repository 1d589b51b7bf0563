import type { Message } from "../../contract/message.ts";
import type { SessionContext } from "../../contract/session.ts";
import { estimateTokens } from "../tokens.ts";
import type { SessionState } from "./session-state.ts";

/** The hex SHA-256 of a text, handed in: this layer sees no library. */
export type Hash = (text: string) => string;

/** What the model is shown now. */
export function assembleContext(state: SessionState): readonly Message[] {
  return state.transcript.map((placed) => placed.message);
}

const chained = new WeakMap<Message, { readonly before: string; readonly hash: string }>();

/**
 * One hash for a whole context: each message's is taken over its JSON and the hash before it. What was hashed for the
 * last call is remembered, so a call pays for its new messages only.
 */
export function hashContext(messages: readonly Message[], hash: Hash): string {
  let chain = "";
  for (const message of messages) {
    const known = chained.get(message);
    if (known !== undefined && known.before === chain) {
      chain = known.hash;
      continue;
    }
    const before = chain;
    chain = hash(`${before}\n${JSON.stringify(message)}`);
    chained.set(message, { before, hash: chain });
  }
  return chain;
}

/** The context with where its parts come from. */
export function describeContext(state: SessionState, hash: Hash): SessionContext {
  const messages = assembleContext(state);
  return {
    messages: state.transcript.map(({ seq, message }) => ({ ...message, seq })),
    estimated_tokens: estimateTokens(messages),
    sha256: hashContext(messages, hash),
    parts: partsOf(state),
  };
}

/** The system message, then a part for each turn; what stands before the first turn was imported. */
function partsOf({ transcript }: SessionState): SessionContext["parts"] {
  const parts: { kind: string; seqs: [number, number] }[] = [];
  for (const { seq, message } of transcript) {
    const last = parts.at(-1);
    if (message.role === "system") parts.push({ kind: "system", seqs: [seq, seq] });
    else if (message.role === "user" || last === undefined || last.kind === "system") {
      parts.push({ kind: "turn", seqs: [seq, seq] });
    } else last.seqs[1] = seq;
  }
  return parts;
}
