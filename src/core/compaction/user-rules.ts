import type { UserRule } from "../../contract/compaction.ts";
import { type Content, splitPiped } from "../../contract/message.ts";
import type { Clock } from "../../ports/clock.ts";
import { verbatim } from "../../text/canonical.ts";
import { sentencesOf } from "../../text/sentences.ts";
import type { Placed } from "../context.ts";
import { piecesOf, textsOf } from "../grounding/exactness.ts";
import { indexTexts } from "../grounding/occurrence.ts";
import { isRule } from "../grounding/wishes.ts";
import type { WholeState } from "../whole-state.ts";

/** Rules a compaction carries on; of more, the newest. */
export const RULES_MAX = 40;
/** A longer sentence is one of a document that somebody pasted. */
const RULE_CHARS_MAX = 400;
/** A message with more of them is a document, too. */
const RULES_OF_MESSAGE_MAX = 12;
/** What follows a summary takes at most so many signs, and no more than this share of what the summary itself may take. */
const BLOCK_CHARS_MAX = 4_000;
const BLOCK_SHARE = 1 / 4;
const CHARS_PER_TOKEN = 4;

interface Carrying {
  /** What leaves the context, as it was said: what a reshaped tool result is shown as, no user has said. */
  readonly gone: readonly Placed[];
  /** What the summary that is replaced stood for. */
  readonly inherited: readonly UserRule[];
  readonly summary: string;
  readonly summaryTokensMax: number;
  readonly breathe: Clock["breathe"];
}

/** The rules of the user that a compaction stands for, oldest first, and how many are beyond what it may carry. */
export async function carryRules(carrying: Carrying): Promise<{ rules: UserRule[]; leftOut: number }> {
  const { inherited, summary, summaryTokensMax, breathe } = carrying;
  const found = new Map<string, Pick<UserRule, "seq" | "text">>();
  let beyond = 0;
  for (const rule of inherited) found.set(verbatim(rule.text), rule);
  for (const { seq, message } of carrying.gone) {
    if (message.role !== "user" || message.compaction_id !== undefined) continue;
    const said = new Map<string, string>();
    for (const text of textsOf({ ...message, content: withoutPiped(message.content) })) {
      await breathe();
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
  const said = indexTexts(piecesOf(summary), breathe);
  let room = Math.min(BLOCK_CHARS_MAX, summaryTokensMax * CHARS_PER_TOKEN * BLOCK_SHARE);
  const newest = [...found.values()].reverse().sort((a, b) => b.seq - a.seq);
  let leftOut = beyond + Math.max(0, newest.length - RULES_MAX);
  const rules: UserRule[] = [];
  for (const { seq, text } of newest.slice(0, RULES_MAX)) {
    const isSaid = await said.has({ kind: "rule", text });
    const follows = !isSaid && text.length <= room;
    if (follows) room -= text.length;
    // It is remembered: the next summary may have it, or leave it room.
    if (!isSaid && !follows) leftOut += 1;
    rules.push({ seq, text, follows });
  }
  return { rules: rules.reverse(), leftOut };
}

/** What the user said without what was piped in front of it. */
function withoutPiped(content: Content): Content {
  return typeof content === "string" ? splitPiped(content).asked : content;
}

/** What a compaction's summary stood for, when another takes its place. */
export function inheritedRules({ compactions }: WholeState, compactionId: string | undefined): readonly UserRule[] {
  return compactions.find(({ body }) => body.compaction_id === compactionId)?.body.rules ?? [];
}
