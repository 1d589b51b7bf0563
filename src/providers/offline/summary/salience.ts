/** Specifics beyond this add nothing: a line of numbers is not worth ten rules. */
const SPECIFICS_COUNTED_MAX = 3;

const SPECIFIC =
  /`[^`]+`|https?:\/\/\S+|(?<![\w./~-])[\w.~-]*\/[\w./-]*\w|(?<![\w-])[\w-]+\.[a-z]{1,5}\b|\b_*[^\W_]+_\w+\b|\b[a-z]+[A-Z]\w*|\b[A-Z][A-Z0-9]{2,}\b|(?<![\w-])[a-zA-Z-]*\d[\w.:-]*|“[^“”]+”|"[^"]+"/gu;
const RULE =
  /\b(?:must|never|always|prefers?|preference|only|require[sd]?|avoid|forbidden|not allowed|at most|at least|no more than|don't|do not|from now on|should)\b/iu;
const DECISION =
  /\b(?:decided|decision|chose|chosen|agreed|settled|because|instead|switched|will use|we use|going with|approved|rejected)\b/iu;
const PROGRESS =
  /\b(?:done|finished|fixed|implemented|added|created|updated|removed|works?|passed|passes|failed|fails|deployed|merged|released|complete[d]?)\b/iu;
const OPEN =
  /\b(?:next|to-?do|remaining|remains|still (?:need|have|open|missing)|need to|needs to|follow[- ]up|later|pending|blocked|open question|waiting for)\b/iu;
const TO_KEEP = /\b(?:remember|note that|important|keep in mind|for the record|critical|secret|my name is|call me)\b/iu;
const CHATTER =
  /^(?:sure|great|okay|ok|thanks|thank you|hello|hi|hey|of course|certainly|let me|let's see|happy to|sounds good|perfect|got it|you're welcome|nice to meet)\b/iu;
/** No sentence: an endless token such as base64, or a cut piece of one. */
const UNREADABLE = /[!-~]{161,}/u;

export type Section = "progress" | "constraints" | "next" | "data";

/** How much a sentence would be missed: rules, decisions and specifics high, chatter at or below zero. */
export function salienceOf(sentence: string): number {
  if (UNREADABLE.test(sentence) || !/[\p{L}\p{N}]/u.test(sentence)) return -10;
  let score = 2 * countSpecifics(sentence);
  if (RULE.test(sentence)) score += 4;
  if (DECISION.test(sentence)) score += 2;
  if (TO_KEEP.test(sentence)) score += 5;
  if (PROGRESS.test(sentence) || OPEN.test(sentence)) score += 1;
  if (CHATTER.test(sentence)) score -= 3;
  return sentence.length < 12 ? score - 1 : score;
}

/** Under which heading of a handoff a sentence belongs. */
export function sectionOf(sentence: string): Section {
  if (DECISION.test(sentence)) return "progress";
  if (RULE.test(sentence)) return "constraints";
  if (OPEN.test(sentence)) return "next";
  if (PROGRESS.test(sentence)) return "progress";
  return countSpecifics(sentence) > 0 ? "data" : "constraints";
}

/** Paths, ids, addresses, numbers, commands and quotations in a sentence, up to a few. */
function countSpecifics(sentence: string): number {
  let count = 0;
  for (const _ of sentence.matchAll(SPECIFIC)) {
    count += 1;
    if (count === SPECIFICS_COUNTED_MAX) break;
  }
  return count;
}
