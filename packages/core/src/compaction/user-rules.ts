import type { UserRule } from "../contract/compaction.ts";
import { type Content, splitPiped } from "../contract/message.ts";
import { piecesOf, textsOf } from "../grounding/exactness.ts";
import { indexTexts } from "../grounding/occurrence.ts";
import { isRule } from "../grounding/specifics.ts";
import type { Clock } from "../ports/clock.ts";
import type { Placed } from "../state/context.ts";
import type { WholeState } from "../state/whole-state.ts";
import { verbatim } from "../text/canonical.ts";
import { sentencesOf } from "../text/sentences.ts";

/** Rules a compaction carries; of more, the newest. */
export const RULES_MAX = 40;
/** A longer sentence is part of a pasted document. */
const RULE_CHARS_MAX = 400;
/** A message with more of them is a document, too. */
const RULES_OF_MESSAGE_MAX = 12;
/** The rules take at most this many characters, and this share of the summary's limit. */
const BLOCK_CHARS_MAX = 4_000;
const BLOCK_SHARE = 1 / 4;
const CHARS_PER_TOKEN = 4;

interface Carrying {
  /** The discarded messages as logged: reshaped results contain no user text. */
  readonly gone: readonly Placed[];
  /** The rules of the replaced summary. */
  readonly inherited: readonly UserRule[];
  readonly summary: string;
  readonly summaryTokensMax: number;
  readonly yieldToEventLoop: Clock["yieldToEventLoop"];
}

/** The user's rules that a compaction carries, oldest first, and how many exceed the limits. */
export async function carryRules(carrying: Carrying): Promise<{ rules: UserRule[]; leftOut: number }> {
  const { inherited, summary, summaryTokensMax, yieldToEventLoop } = carrying;
  const found = new Map<string, Pick<UserRule, "seq" | "text">>();
  let beyond = 0;
  for (const rule of inherited) found.set(verbatim(rule.text), rule);
  for (const { seq, message } of carrying.gone) {
    if (message.role !== "user" || message.compaction_id !== undefined) continue;
    const said = new Map<string, string>();
    for (const text of textsOf({ ...message, content: withoutPiped(message.content) })) {
      await yieldToEventLoop();
      for (const sentence of sentencesOf(text)) {
        if (!isRule(sentence)) continue;
        if (sentence.length > RULE_CHARS_MAX) beyond += 1;
        else if (said.size < RULES_OF_MESSAGE_MAX) said.set(verbatim(sentence), sentence);
        else if (!said.has(verbatim(sentence))) beyond += 1;
      }
    }
    for (const [key, text] of said) found.set(key, { seq, text });
  }
  if (found.size === 0) return { rules: [], leftOut: 0 };
  const said = indexTexts(piecesOf(summary), yieldToEventLoop);
  let room = Math.min(BLOCK_CHARS_MAX, summaryTokensMax * CHARS_PER_TOKEN * BLOCK_SHARE);
  const newest = [...found.values()].reverse().sort((a, b) => b.seq - a.seq);
  let leftOut = beyond + Math.max(0, newest.length - RULES_MAX);
  const rules: UserRule[] = [];
  for (const { seq, text } of newest.slice(0, RULES_MAX)) {
    const isSaid = await said.has({ kind: "rule", text });
    const follows = !isSaid && text.length <= room;
    if (follows) room -= text.length;
    // It is stored: the next summary may contain it, or leave room.
    if (!isSaid && !follows) leftOut += 1;
    rules.push({ seq, text, follows });
  }
  return { rules: rules.reverse(), leftOut };
}

/** User text without piped input. */
function withoutPiped(content: Content): Content {
  return typeof content === "string" ? splitPiped(content).asked : content;
}

/** The rules of a summary that is replaced. */
export function inheritedRules({ compactions }: WholeState, compactionId: string | undefined): readonly UserRule[] {
  return compactions.find(({ body }) => body.compaction_id === compactionId)?.body.rules ?? [];
}
