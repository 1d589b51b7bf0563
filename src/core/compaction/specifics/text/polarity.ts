import { canonical } from "../../../../text/canonical.ts";
import { stemsOf } from "../../../../text/words.ts";

/** A piece of a sentence, in canonical form, that is said or denied as a whole. */
export interface Part {
  readonly text: string;
  readonly isNegated: boolean;
}

/** Words that look like a denial and are a limit, a reminder or part of another word. */
const NO_DENIAL =
  /(?<!\p{L})(?:(?:never|no|not)\s+(?:more|less|fewer|later|earlier|longer|higher|greater)\s+than|(?:nicht|nie|niemals)\s+(?:mehr|weniger|später|länger)\s+als|(?:jamais|pas)\s+plus(?:\s+(?:de|que|tard))?|no\s+más\s+de|(?:dont|do not|never|not)\s+(?:forget|fail|hesitate)|not\s+only|no\s+(?:problem|worries|doubt)|never\s?mind|nicht\s+nur|ne\s+\p{L}+\s+que)(?!\p{L})|不超过|不多于|不少于|不晚于|不错|不过|不仅|不但|没问题|没错|[分特级差区类性个识]别|别[的人名]|なければな(?:らない|りません)|ないといけ(?:ない|ません)|かもしれ(?:ない|ません)|しかない|少ない|危ない/giu;
/** These deny the whole of their clause, wherever they stand in it. */
const DENIES_CLAUSE =
  /(?<!\p{L})(?:forbid\p{L}*|forbade|prohibit\p{L}*|banned|disallow\p{L}*|off limits|refus\p{L}*|reject\p{L}*|declin\p{L}*|ruled out|not (?:allowed|permitted|acceptable|wanted|ok|okay|an option)|nie|niemals|nicht|kein(?:e[nmrs]?)?|keinesfalls|verboten|untersagt|vermeid\p{L}*|pas|jamais|aucune?|ne|interdi\p{L}*|évit\p{L}*|nunca|jamás|prohibi\p{L}*)(?!\p{L})|[不别勿没莫]|禁止|严禁|避免|ない|なく|ません|ずに|避け/u;
/** These deny what follows them. */
const DENIES_REST =
  /(?<!\p{L})(?:never|not|no|nor|neither|none|nobody|nothing|cannot|cant|wont|(?:do|does|did|is|are|was|were|should|must|would|could|have|has|had|need)nt|without|avoid\p{L}*|donts|instead of|rather than|sin|sans|ohne|statt|anstatt|anstelle|au lieu de?|plutôt que?|en lugar de|en vez de)(?!\p{L})|而不是|ではなく/u;
/** In a sentence about a preference these part what is preferred from what is not. */
const PREFERS = /(?<!\p{L})(?:prefer|favou?r|rather|bevorzug|lieber|préf|prefier)/u;
const RANKS =
  /(?<!\p{L})(?:over|instead of|rather than|als|statt|anstatt|plutôt que?|au lieu de?|en lugar de|en vez de)(?!\p{L})/u;
const DASH = /(?<!\s)\s+[-–—]+\s+|—/gu;
const CLAUSE_END =
  /[,;:](?=\s|$)|[,;:、。](?=[\u3040-\u30ff\u3400-\u9fff])|(?<!\p{L})(?:but|however|aber|sondern|mais|pero|sino)(?!\p{L})|但是?|而是/u;
/** "Avoid: …", "Do not, ever: …" */
const DENYING_LEAD =
  /^((?:[^:]{0,24}[^:\p{L}])?(?:never|not|dont|avoid|forbidden|prohibited|no gos?|nie|niemals|nicht|verboten|jamais|interdit|nunca|prohibido|禁止|不要|严禁)(?:\s\p{L}+){0,2}\s?):/u;
const LIST_COMMA = /(,|、)(?!\s*(?:but|always|then|instead|only|immer|toujours|siempre|必须|必ず))/gu;

/**
 * The parts of a sentence, each said or denied. A comma ends a denial unless it `carries`: of "never delete, push or
 * deploy" nobody but the writer knows whether the last two are meant.
 */
export function partsOf(sentence: string, { carries }: { readonly carries: boolean }): readonly Part[] {
  const plain = canonical(sentence.replace(DASH, "; ")).replace(NO_DENIAL, " ");
  const text = carries ? plain.replace(DENYING_LEAD, "$1 ").replace(LIST_COMMA, " ") : plain;
  const isPreference = PREFERS.test(text);
  return text.split(CLAUSE_END).flatMap((clause) => partsOfClause(clause, isPreference));
}

function partsOfClause(clause: string, isPreference: boolean): readonly Part[] {
  const rank = isPreference ? clause.search(RANKS) : -1;
  if (rank < 0 && DENIES_CLAUSE.test(clause)) return [{ text: clause, isNegated: true }];
  const denied = rank >= 0 ? rank : clause.search(DENIES_REST);
  if (denied < 0) return [{ text: clause, isNegated: false }];
  return [
    { text: clause.slice(0, denied), isNegated: false },
    { text: clause.slice(denied), isNegated: true },
  ];
}

/** The stems of what a sentence denies. */
export function deniedStems(sentence: string): ReadonlySet<string> {
  const denied = partsOf(sentence, { carries: false }).filter(({ isNegated }) => isNegated);
  return new Set(denied.flatMap(({ text }) => stemsOf(text)).filter((stem) => !NEGATION_STEMS.has(stem)));
}

/** The stems of the words that deny; they are compared as polarity, not as words. */
export const NEGATION_STEMS: ReadonlySet<string> = new Set(
  stemsOf(
    "never avoid forbid forbidden prohibited none nobody nothing cannot niemals nie verboten jamais nunca over instead rather",
  ),
);

export interface Preference {
  readonly favoured: ReadonlySet<string>;
  readonly other: ReadonlySet<string>;
}

/** What a sentence prefers to what. */
export function preferenceOf(sentence: string): Preference | undefined {
  const text = canonical(sentence);
  const match = PREFERS.test(text) ? RANKS.exec(text) : null;
  if (match === null) return undefined;
  return {
    favoured: new Set(stemsOf(text.slice(0, match.index))),
    other: new Set(stemsOf(text.slice(match.index + match[0].length))),
  };
}
