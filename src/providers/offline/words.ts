import { fold, UNSPACED_RUNS } from "../../text/canonical.ts";
import { stem } from "../../text/stems.ts";
import { tokensIn } from "../../text/terms.ts";
import { QUESTION_WORDS } from "../../text/words.ts";

const NON_ASCII = /[\u0080-\uffff]/;
const COMPOUND = /[^A-Za-z0-9]|[a-z0-9][A-Z]/;
/** An endless token (base64, a minified line) says nothing and would cost as much as a page. */
const TOKEN_CHARS_MAX = 120;

/** Words that ask for the same thing. */
const SAME_AS = new Map(
  [
    "decide choose choice pick decision settle agree",
    "database db",
    "repository repo",
    "directory dir folder",
    "config configuration",
    "production prod",
    "documentation doc",
  ].flatMap((row) => {
    const [first = "", ...others] = row.split(" ").map(stem);
    return others.map((other) => [other, first] as const);
  }),
);

/** Whether a token carries meaning of its own. */
export function isStopWord(token: string): boolean {
  return QUESTION_WORDS.has(token.toLowerCase().replace("’", "'"));
}

/** What a text is found by: stems without stop words; an identifier whole and also in its parts. */
export function termsOf(text: string): string[] {
  const terms: string[] = [];
  for (const token of tokensIn(text)) collectTerms(token, terms);
  return terms;
}

/** The terms of one word, the whole one first. */
export function collectTerms(token: string, into: string[]): void {
  if (NON_ASCII.test(token)) {
    collectForeign(token, into);
    return;
  }
  if (token.length > TOKEN_CHARS_MAX) return;
  const lower = token.toLowerCase();
  if (QUESTION_WORDS.has(lower)) return;
  if (!COMPOUND.test(token)) {
    into.push(termOf(lower));
    return;
  }
  into.push(lower.replace(/'s$/u, ""));
  const file = lower.slice(lower.lastIndexOf("/") + 1);
  if (file !== lower && file.includes(".")) into.push(file);
  for (const part of token.split(/[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])/u)) {
    const word = part.toLowerCase();
    if (word.length > 1 && !QUESTION_WORDS.has(word)) into.push(termOf(word));
  }
}

/** Scripts without spaces are found by pairs of signs; accents are dropped, and pictures say nothing. */
function collectForeign(token: string, into: string[]): void {
  if (!/[\p{L}\p{N}]/u.test(token)) return;
  const plain = fold(token);
  if (QUESTION_WORDS.has(plain)) return;
  for (const [run] of plain.matchAll(UNSPACED_RUNS)) {
    if (run.length === 1) into.push(run);
    for (let at = 0; at + 1 < run.length; at += 1) into.push(run.slice(at, at + 2));
  }
  for (const rest of plain.replace(UNSPACED_RUNS, " ").split(" ")) {
    if (rest !== "") into.push(termOf(rest.replace(/'s$/u, "")));
  }
}

function termOf(word: string): string {
  const root = stem(word);
  return SAME_AS.get(root) ?? root;
}
