import type { Message } from "../../../contract/message.ts";
import { anthropicFault } from "./anthropic.ts";
import type { Fault, Rule } from "./fault.ts";
import { geminiFault } from "./gemini.ts";
import { openAiChatFault } from "./openai-chat.ts";
import { openAiResponsesFault } from "./openai-responses.ts";

export type Grammar = "anthropic" | "openai-chat" | "openai-responses" | "gemini";

export interface GrammarFault extends Fault {
  readonly grammar: Grammar;
}

const GRAMMARS: readonly (readonly [Grammar, Rule])[] = [
  ["anthropic", anthropicFault],
  ["openai-chat", openAiChatFault],
  ["openai-responses", openAiResponsesFault],
  ["gemini", geminiFault],
];

/**
 * The first fault each provider would find in a context, as our adapters send it; none when all take it. What a context
 * cannot show is not judged: whether signatures are genuine, and what the next request will be sent with.
 */
export function grammarFaults(messages: readonly Message[]): readonly GrammarFault[] {
  const faults: GrammarFault[] = [];
  for (const [grammar, rule] of GRAMMARS) {
    const found = rule(messages);
    if (found !== undefined) faults.push({ grammar, ...found });
  }
  return faults;
}
