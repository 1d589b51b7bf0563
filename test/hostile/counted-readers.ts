import { blocksOf, cutSentences } from "@rkat/core/grounding/cut-sentences";
import { denialsIn, hasMarks, marksOf, piecesOf, withoutNumbers } from "@rkat/core/grounding/exactness";
import { asksIn, exitCodesIn, rulesIn, unmarkedIn } from "@rkat/core/grounding/specifics";
import { atomsIn } from "@rkat/core/text/atoms";
import { canonicalPiece, verbatim } from "@rkat/core/text/canonical";
import { daysIn, momentsIn, monthsIn, monthsOfYearsIn } from "@rkat/core/text/dates";
import { collectOffers, figuresIn } from "@rkat/core/text/numbers";
import { quotableSentences, sentencesOf } from "@rkat/core/text/sentences";
import { termsOf } from "@rkat/core/text/terms";
import { stemsOf, tokensOf } from "@rkat/core/text/words";
import { countSteps } from "../support/counted-steps.ts";

const QUESTION = marksOf("Is it open now?");

/** Every function that reads a text of any length. */
export const READERS: Readonly<Record<string, (text: string) => unknown>> = {
  figuresIn,
  collectOffers: (text) => collectOffers(text, new Set()),
  daysIn,
  momentsIn,
  monthsIn,
  monthsOfYearsIn,
  atomsIn,
  stemsOf,
  tokensOf,
  termsOf,
  sentencesOf,
  quotableSentences,
  canonicalPiece,
  verbatim,
  marksOf,
  hasMarks: (text) => hasMarks(QUESTION, text),
  withoutNumbers,
  piecesOf,
  unmarkedIn,
  exitCodesIn,
  denialsIn,
  rulesIn,
  asksIn,
  blocksOf,
  cutSentences: (text) => cutSentences(text, (sentence) => sentence.length % 2 === 0),
};

/** How much more a reader looks at for each sign of a text than of one a quarter as long; 1 where its work grows with the text. */
export function growthOf(read: (text: string) => unknown, fragment: string, chars: number): number {
  const stepsPerSign = (length: number): number => {
    const text = fragment.repeat(Math.ceil(length / fragment.length));
    return countSteps(() => read(text)) / text.length;
  };
  return stepsPerSign(chars) / stepsPerSign(chars / 4);
}

/** Up to here a border that only the longer text reaches may account for it; work by the square of the text gives 4. */
export const GROWTH_MAX = 2.5;
