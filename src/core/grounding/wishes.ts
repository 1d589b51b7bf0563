import type { Clock } from "../../ports/clock.ts";
import { atomsIn } from "../../text/atoms.ts";
import { canonicalPiece, foldWidth } from "../../text/canonical.ts";
import { numeralsIn, withDigits } from "../../text/numbers.ts";
import { sentencesOf } from "../../text/sentences.ts";
import { stemSet, stemsOf } from "../../text/words.ts";

const CONSTRAINT =
  /\b(?:always|never|must(?:n[’']?t)?|don[’']?t|do not|only|prefer(?:s|red|ably)?|avoid|at (?:most|least)|no more than|under no circumstances|from now on)\b|(?<!\p{L})(?:immer|niemals|nie|muss|müssen|darf|dürfen|nur|keinesfalls|bevorzug\p{L}*|lieber|auf keinen fall|spätestens|toujours|jamais|doit|doivent|uniquement|seulement|préfèr\p{L}*|il faut|interdit|surtout pas|ne\s+\p{L}+\s+(?:pas|que))(?!\p{L})|必须|總是|总是|永远|不要|不能|不得|只能|只要|优先|禁止|务必|一律|一定要|必ず|常に|絶対|ないで|禁止|のみ|なければなら|ないこと|てはいけ/iu;
const QUOTED = /[“„«「『]\s?([^“”„«»「」『』\n]{4,400}?)\s?[”“»」』]|(?<![\p{L}\p{N}])"([^"\n]{4,400})"/gu;
const QUESTION = /[?？]["'”’»」』)\]*_`]*$/u;
const REQUEST =
  /^(?:(?:ok(?:ay)?|now|then|so|and|also|next|first|great|good|thanks?|perfect|yes|no|alright|hm+)[,.!]?\s+)*(?:please|can you|could you|would you|will you|i want|i need|i'd like|let[’']?s|add|build|change|check|clean|compare|convert|create|delete|deploy|describe|do|draft|drop|explain|extract|find|fix|generate|give|go|implement|install|investigate|keep|list|look|make|merge|migrate|move|open|plan|prepare|propose|put|read|refactor|remove|rename|replace|restart|revert|review|rewrite|run|search|send|set|show|split|start|stop|suggest|summari[sz]e|switch|take|tell|test|translate|try|turn|update|upgrade|use|verify|write)\b|\bplease\b|(?<!\p{L})(?:bitte|kannst du|könntest du|können sie|könnten sie|mach|schreib|zeig|prüf\p{L}*|erstell\p{L}*|peux-tu|pouvez-vous|pourriez-vous|merci de|s[’']il (?:te|vous) plaît|fais|ajoute\p{L}*|vérifie\p{L}*|prépare\p{L}*|rédige\p{L}*)(?!\p{L})|请|帮我|麻烦|给我|能不能|ください|お願い|頼む|してほしい|教えて/iu;
/** A reply that holds this share of an ask's content words has answered it. */
const ANSWERED_SHARE = 0.5;

/** What a user laid down: sentences of constraint and what stands between quotes. */
export function rulesIn(text: string): string[] {
  return [...sentencesOf(text).filter(isRule), ...quotesIn(text).filter((quote) => stemsOf(quote).length > 1)];
}

/** What stands between quotes. */
export function quotesIn(text: string): string[] {
  return [...text.matchAll(QUOTED)].map(([, curly, straight]) => (curly ?? straight ?? "").trim());
}

/** Whether a sentence of a user lays something down. */
export function isRule(sentence: string): boolean {
  return CONSTRAINT.test(sentence) && !QUESTION.test(sentence) && stemsOf(sentence).length > 1;
}

/** The questions and requests of a user's text. */
export function asksIn(text: string): string[] {
  return sentencesOf(text).filter((sentence) => QUESTION.test(sentence) || REQUEST.test(sentence));
}

/** What the last message of a user asks: at least its first sentence, whatever its form. */
export function lastAsksOf(asks: readonly string[], texts: readonly string[]): readonly string[] {
  if (asks.length > 0) return asks;
  const [first = ""] = texts.filter((text) => text.trim() !== "");
  return sentencesOf(first).slice(0, 1);
}

/** The asks that what was said up to the user's next message does not take up. */
export async function unansweredOf(
  asks: readonly string[],
  replies: readonly string[],
  breathe: Clock["breathe"],
): Promise<readonly string[]> {
  if (asks.length === 0) return [];
  const said = await stemSet(replies, breathe);
  return asks.filter((ask) => {
    const stems = stemsOf(ask);
    const held = stems.filter((stem) => said.has(stem)).length;
    return replies.length === 0 || held < stems.length * ANSWERED_SHARE;
  });
}

/** What is exact in a sentence although neither backticks nor its form alone say so. */
export interface Unmarked {
  readonly kind: "identifier" | "command" | "number";
  readonly text: string;
  /** Ways to write it, in canonical form, one of which must stand in the source; none for a number. */
  readonly spellings: readonly string[];
  /** Stems one of which would make a count plausible. */
  readonly stems: readonly string[];
}

const CODED = /(?<![\w@#/\\.:$%&=+-])([A-Za-z]{1,24})(-?)(\d{1,8})(?![\w/\\:@%=+-]|\.\w|,\d)/gu;
/** Letters and digits that everybody writes: quarters, percentiles, formats, protocols, sizes. */
const COMMON_CODE =
  /^(?:[a-z]{1,2}-?\d{1,2}|fy\d+|cy\d+|p\d{2,3}|utf-?\d+|sha-?\d+|md5|base\d+|ipv\d|es\d+|mp\d|x\d+|arm\d+|amd64|ec2|win\d+|int\d+|uint\d+|float\d+|iso-?\d+|rfc-?\d+|oauth\d|python\d*|log4j|covid-19|co2|top\d+|h264|h265|ed25519|rsa\d+|aes-?\d+|crc\d+|https?-?\d+|(?:eur|usd|chf|gbp|jpy|cny|rmb)-?\d+|(?:nr|no|abs|art|kap|fig|sec|vol|chap|utc|gmt|cest?|est|pst|jan|feb|mar|apr|may|mai|jun|jul|aug|sept?|o[ck]t|nov|de[cz])-?\d+)$/iu;
/** Before a hyphen and a number these count or bound. */
const COUNTING_HEAD =
  /^(?:top|mid|sub|pre|post|under|over|non|plus|phase|step|part|tier|level|day|week|month|year|round|option|version|chapter|section|stage|wave|sprint|priority|type|class|group|page|item|line|point|late|early|since|until|catch|max|min|plan|slide|row|column|figure|table|appendix|covid)$/iu;
const YEAR = /^(?:19|20)\d{2}$/u;
const CODED_CHARS_MIN = 4;

const LONG_FLAG = /(?<![\w-])--[a-z][\w-]*(?:=[^\s`"',;)]+)?/giu;
const SHORT_FLAG = /(?<![\w.`-])([a-z][\w.-]*) (-[A-Za-z]{1,4})(?=[\s.,;)]|$)/gu;
const RUNNER =
  /(?<![\w`/.-])(npm|npx|pnpm|yarn|git|docker|kubectl|cargo|pip3?|helm|terraform) ((?:run|exec|compose) )?([a-z][\w:-]*)/gu;
/** What follows the name of a runner in a sentence is its subcommand only when it is one of these. */
const SUBCOMMAND =
  /^(?:push|pull|reset|rebase|merge|revert|commit|clone|checkout|stash|clean|tag|install|uninstall|publish|unpublish|audit|apply|delete|destroy|build|up|down|prune|rm|rmi|drain|scale|rollout|upgrade|rollback|init|update|fetch|cherry-pick|bisect|login|logout|stop|kill|restart)$/u;
const SENTENCE_WORD = /^(?:the|a|an|it|this|that|these|in|on|to|by|with|and|or|for|from|as|is|was)$/u;

/** From here on a count is told; smaller ones are counted by eye from what is listed. */
const COUNT_MIN = 10;
/** What a summary counts by itself, because the source lists it without naming it. */
const LISTED = new Set(
  stemsOf(
    `file folder directory line item command step call test message turn point question entry row column change edit error
    result option people person place thing word record case time page section commit hit match attempt check warning failure
    issue ticket task example topic decision requirement constraint rule note value field key name function method class
    module package dependency document photo image event
    Datei Dateien Zeilen Punkte Schritte Fragen Einträge Tests Personen Aufgaben Regeln Belege Posten fichiers lignes points
    étapes questions personnes tâches règles photos invités archivos líneas puntos pasos preguntas personas tareas`,
  ),
);

/** The names of letters and digits, the command lines and the counts of a sentence. */
export function unmarkedIn(sentence: string): readonly Unmarked[] {
  const text = foldWidth(sentence);
  return [...codesIn(text), ...commandLinesIn(text), ...countsIn(text)];
}

function codesIn(text: string): Unmarked[] {
  const judged = new Set(atomsIn(text).map((atom) => atom.text));
  const found: Unmarked[] = [];
  for (const [code, letters = "", hyphen, digits = ""] of text.matchAll(CODED)) {
    const isCommon = COMMON_CODE.test(code) || COUNTING_HEAD.test(letters) || YEAR.test(digits);
    if (isCommon || code.length < CODED_CHARS_MIN || judged.has(code)) continue;
    // A capital before a hyphen and a number is a noun that counts: `Band-2`, `Kapitel-4`.
    if (hyphen === "-" && /^[A-Z][a-z]/u.test(letters)) continue;
    const head = letters.toLowerCase();
    const spellings = [
      head + digits,
      `${head} ${digits}`,
      `${head}_${digits}`,
      `${head} #${digits}`,
      `${head}.${digits}`,
    ];
    found.push({ kind: "identifier", text: code, spellings, stems: [] });
  }
  return found;
}

function commandLinesIn(text: string): Unmarked[] {
  const found: Unmarked[] = [];
  const add = (command: string, ...spellings: readonly string[]): void => {
    found.push({ kind: "command", text: command, spellings: spellings.map(canonicalPiece), stems: [] });
  };
  for (const [flag] of text.matchAll(LONG_FLAG)) {
    const bare = flag.replace(/(?<![.:!?])[.:!?]+$/u, "");
    add(bare, bare, bare.replace("=", " "));
  }
  for (const [line, , flag = ""] of text.matchAll(SHORT_FLAG)) add(line, flag);
  for (const [line, , run, word = ""] of text.matchAll(RUNNER)) {
    if (SENTENCE_WORD.test(word) || (run === undefined && !SUBCOMMAND.test(word))) continue;
    add(line, word);
  }
  return found;
}

/** Counts of what the source does not even name; a count of what it names may have been counted there. */
function countsIn(text: string): Unmarked[] {
  const found: Unmarked[] = [];
  const spelt = withDigits(text);
  for (const numeral of numeralsIn(spelt)) {
    const isPlain = numeral.readings.every(({ dimension }) => dimension === "") && /^\d+$/u.test(numeral.text);
    if (!isPlain || numeral.raw < COUNT_MIN || YEAR.test(numeral.text)) continue;
    const noun = /^ (\p{Ll}{3,}s)(?![\p{L}-])/u.exec(spelt.slice(numeral.start + numeral.text.length))?.[1];
    const stems = noun === undefined ? [] : stemsOf(noun);
    if (noun === undefined || stems.length === 0 || stems.some((stem) => LISTED.has(stem))) continue;
    found.push({ kind: "number", text: `${numeral.text} ${noun}`, spellings: [], stems });
  }
  return found;
}
