import { clip } from "../../text/sentences.ts";
import { tokensIn } from "../../text/terms.ts";
import { isRequest } from "./asks.ts";
import type { Passage } from "./conversation.ts";
import { isCorrection, queryOf, rankPassages } from "./rank.ts";
import { salienceOf } from "./summary/salience.ts";
import { isStopWord } from "./words.ts";

/** More than this is counted, not repeated: the user knows what they said. */
const STATEMENTS_RESTATED_MAX = 3;
const QUOTE_CHARS_MAX = 240;
/** How much of what is corrected the correction must share, to be shown beside it. */
const CORRECTED_COVERAGE_MIN = 0.5;

const LEAD =
  /^(?:(?:please|also|and|ok|so|fyi|just|can you|could you|would you|will you)[,: ]+)*(?:remember|note|keep in mind|fyi|for the record|don't forget)(?: this| it)?\s*(?:that\b|:|,|—|-)?\s*/iu;
const CORRECTION_LEAD =
  /^(?:(?:oh|wait|hm+|sorry|no)[,.! ]+)*(?:actually|correction|update|i meant|i was wrong|scratch that)[,:.! ]*/iu;
const NAMING =
  /^(?:my name is|i am called|call me|i'm|i’m|i am) (?<name>\p{Lu}[\p{L}'’-]+(?: \p{Lu}[\p{L}'’-]+)?)[.!]?$/iu;

const OTHER_PERSON: Readonly<Record<string, string>> = {
  i: "you",
  me: "you",
  my: "your",
  mine: "yours",
  myself: "yourself",
  "i'm": "you're",
  "i've": "you've",
  "i'll": "you'll",
  "i'd": "you'd",
};

/** Acknowledges what the user said by saying it back, so that a misreading is seen at once. */
export function restate(statements: readonly string[], earlier: readonly Passage[]): string {
  const [only] = statements;
  if (only === undefined) return "";
  if (statements.length === 1) return restateOne(only, earlier);
  if (statements.length <= STATEMENTS_RESTATED_MAX) {
    return statements.map((statement) => restateOne(statement, earlier)).join("\n");
  }
  const chosen = statements
    .map((text, index) => ({ text, index, salience: salienceOf(text) }))
    .sort((a, b) => b.salience - a.salience || a.index - b.index)
    .slice(0, STATEMENTS_RESTATED_MAX)
    .sort((a, b) => a.index - b.index);
  const lines = chosen.map(({ text }) => `- “${clip(text, QUOTE_CHARS_MAX)}”`);
  return [`Noted, ${statements.length} sentences. The most specific:`, ...lines].join("\n");
}

function restateOne(statement: string, earlier: readonly Passage[]): string {
  if (isCorrection(statement)) return restateCorrection(statement, earlier);
  const name = NAMING.exec(statement)?.groups?.name;
  if (name !== undefined && !isStopWord(name) && /^\p{Lu}/u.test(name)) return `Nice to meet you, ${name}.`;
  return `Noted: ${turnRound(statement.replace(LEAD, ""))}`;
}

function restateCorrection(statement: string, earlier: readonly Passage[]): string {
  const said = turnRound(statement.replace(CORRECTION_LEAD, ""));
  const before = findCorrected(statement, earlier);
  return `Corrected: ${said}${before === undefined ? "" : ` Before, you told me: “${clip(before.text, QUOTE_CHARS_MAX)}”`}`;
}

/** What a correction takes back: the newest passage about the same words, whatever its values. */
function findCorrected(statement: string, earlier: readonly Passage[]): Passage | undefined {
  const words = tokensIn(statement).filter((token) => !/\d/u.test(token));
  const query = queryOf(words.join(" ").toLowerCase());
  const said = earlier.filter(({ text, source }) => source.kind !== "tool" && text !== statement);
  if (query.terms.length === 0) return said.findLast(({ text }) => !isRequest(text));
  return rankPassages(query, said).find((match) => match.coverage >= CORRECTED_COVERAGE_MIN)?.passage;
}

/** "My key is in vault/prod" → "your key is in vault/prod."; what addresses us, or quotes, is quoted as it stands. */
function turnRound(statement: string): string {
  const said = clip(statement.trim(), QUOTE_CHARS_MAX);
  if (/[`"“”«»]|\byou\b|\byour\b|\byou'/iu.test(said)) return `“${said}”`;
  const turned = said
    .replace(/\bI am\b/giu, "you are")
    .replace(/\bI was\b/giu, "you were")
    .replaceAll("’", "'")
    .replace(/(?<![\w/.-])(?:I|me|my|mine|myself|I'm|I've|I'll|I'd)(?![\w/'-])/giu, (word) => {
      return OTHER_PERSON[word.toLowerCase()] ?? word;
    });
  const opening = /^\p{L}+(?= )/u.exec(turned)?.[0] ?? "";
  const begun = isStopWord(opening) ? opening.toLowerCase() + turned.slice(opening.length) : turned;
  return /[.!?。！？…]$/u.test(begun) ? begun : `${begun}.`;
}
