import type { Clock } from "../../../../ports/clock.ts";
import { type StemSet, stemSet } from "../../../../text/words.ts";
import { sentencesOf } from "../../../../text/sentences.ts";
import { partsOf } from "../text/polarity.ts";
import { asksIn } from "../wishes.ts";
import type { Heard } from "./heard.ts";

export interface AssentJudge {
  /** Whether a sentence says that the user approved or confirmed what no message of the user did. */
  isMissing(sentence: string): boolean;
}

const ASSENT =
  /(?<!\p{L})(?:yes|yep|yeah|ok|okay|sure|fine|agreed?|approved?|approve|confirm(?:ed)?|accept(?:ed|able)?|authori[sz]ed?|allow(?:ed)?|permission|go ahead|go for it|do (?:it|that|so)|sounds good|looks (?:good|right)|lgtm|good|great|perfect|excellent|nice|right|correct|exactly|done|booked|deal|thanks|please|may|can|want|ja|einverstanden|genehmigt|gut|passt|stimmt|genau|perfekt|gern|bitte|oui|accord|parfait|super|entendu|sí|vale|claro)(?!\p{L})|好|可以|同意|批准|行|没问题|不错|はい|お願い|いいです|ください|承認|了解|素晴/iu;
const WHO = "(?:users?|customers?|clients?|requester|operator)";
const OFTEN = "(?:\\s+(?:has|have|had|also|then|now|explicitly|clearly|finally|later|already|just))*";
const APPROVES = new RegExp(
  `\\b${WHO}${OFTEN}\\s+(?:approved|authori[sz]ed|agreed|allowed|permitted|consented|signed off|okayed|(?:gave|granted) (?:\\p{L}+ ){0,3}(?:permission|approval|consent|go-ahead))\\b|\\b(?:approved|authori[sz]ed|permitted) by the ${WHO}\\b|(?:nutzer(?:in)?|kund(?:e|in)) hat .{0,80}(?:genehmigt|zugestimmt|erlaubt|freigegeben)|(?:utilisat(?:eur|rice)|cliente?) a (?:approuvé|autorisé|accepté)`,
  "iu",
);
const CONFIRMS = new RegExp(`\\b${WHO}${OFTEN}\\s+(?:confirmed|verified)\\b|\\bconfirmed by the ${WHO}\\b`, "iu");
/** What of a confirmation must be new to the user's words before it is taken for invented. */
const NOVEL_SHARE_MIN = 0.5;
/** A confirmation may say so of anything; these add nothing to what is confirmed. */
const JUDGEMENT = /^(?:right|correct|true|valid|work|fine|ok|okay|as|expect|inde|exact)/u;

/** Reads once what the user assented to; `wordsOf` gives the stems that say what a claim is about. */
export async function judgeAssent(
  spoken: readonly Heard[],
  heard: StemSet,
  { wordsOf, breathe }: { wordsOf: (text: string) => readonly string[]; breathe: Clock["breathe"] },
): Promise<AssentJudge> {
  const assents: string[] = [];
  const asks: string[] = [];
  for (const message of spoken) {
    assents.push(...(await assentedIn(message, breathe)));
    for (const text of message.texts) {
      await breathe();
      asks.push(...asksIn(text).flatMap(said));
    }
  }
  const assented = await stemSet(assents, breathe);
  // Who asks for something approves it, but does not confirm that it happened.
  const asked = await stemSet(asks, breathe);
  const isMissing = (sentence: string): boolean => {
    const isApproval = APPROVES.test(sentence);
    if (!isApproval && !CONFIRMS.test(sentence)) return false;
    const words = wordsOf(sentence).filter((word) => !JUDGEMENT.test(word));
    if (words.length === 0 || words.some((word) => assented.has(word))) return false;
    if (isApproval) return !words.some((word) => asked.has(word));
    return novelShare(words, heard) >= NOVEL_SHARE_MIN;
  };
  return { isMissing };
}

/** The sentences of a message that assent, with what it took up. */
async function assentedIn({ texts, taken }: Heard, breathe: Clock["breathe"]): Promise<readonly string[]> {
  const assents: string[] = [];
  for (const text of texts) {
    await breathe();
    for (const parts of sentencesOf(text).map(said))
      if (parts.some((part) => ASSENT.test(part))) assents.push(...parts);
  }
  return assents.length > 0 ? [...assents, ...taken] : [];
}

function said(sentence: string): readonly string[] {
  return partsOf(sentence, { carries: false }).flatMap(({ text, isNegated }) => (isNegated ? [] : [text]));
}

function novelShare(words: readonly string[], heard: StemSet): number {
  return words.filter((word) => !heard.has(word)).length / words.length;
}
