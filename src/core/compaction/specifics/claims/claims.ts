import type { Message } from "../../../../contract/message.ts";
import type { Clock } from "../../../../ports/clock.ts";
import { isUnspaced } from "../../../../text/canonical.ts";
import { languageOf, type StemSet, stemSet, stemsOf } from "../../../../text/words.ts";
import { sentencesOf } from "../../../../text/sentences.ts";
import { type Preference, preferenceOf } from "../text/polarity.ts";
import { judgeAssent } from "./assent.ts";
import { judgeDeeds } from "./deeds.ts";
import { heardIn } from "./heard.ts";

/** Tells whether a sentence says of the user what the user never said. */
export interface ClaimJudge {
  /** Under a heading that denies ("Never:"), a deed is denied as well. */
  isInvented(sentence: string, isUnderDenial: boolean): boolean;
}

const WHO = "(?:users?|customers?|clients?|requester|operator)(?:['’]s)?";
const SAID =
  "asked|asks|asking|wants?|wanted|would like|said|says|stated|states|requires?|required|requested|requests|needs?|needed|insisted|insists|prefers?|preferred|demanded|demands|instructed|instructs|told|tells|specified|decided|approved|authori[sz]ed|agreed|confirmed|expects|wishes|wished|allow(?:ed|s)|permit(?:ted|s)|accepted|consented|signed off|(?:gave|granted|gives|grants) (?:\\p{L}+ ){0,3}(?:permission|approval|consent|go-ahead)";
const CLAIMS: readonly RegExp[] = [
  new RegExp(
    `\\b${WHO}\\b(?:\\s+(?:has|have|had|also|then|now|explicitly|clearly|finally|later|repeatedly|originally|initially|additionally|just|still))*\\s+(?:${SAID})\\b`,
    "iu",
  ),
  new RegExp(
    `\\b(?:requested|asked|required|demanded|approved|wanted|authori[sz]ed|specified) (?:for )?by the ${WHO}`,
    "iu",
  ),
  new RegExp(
    `\\b${WHO}\\s+(?:explicit\\s+)?(?:requests?|goals?|intent|preferences?|instructions?|messages?|asks?|requirements?|wishes|rules?|orders?|permission|approval)\\b`,
    "iu",
  ),
  /(?<!\p{L})(?:nutzer(?:in)?|benutzer(?:in)?|anwender(?:in)?|kund(?:e|in)|auftraggeber(?:in)?)(?!\p{L}).{0,60}?(?<!\p{L})(?:möchte|will|wollte|wünscht|verlangt\p{L}*|fordert\p{L}*|bat|bittet|gebeten|sagte|gesagt|braucht|bevorzugt|bestand|erwartet|genehmigt|bestätigt)(?!\p{L})/iu,
  /(?<!\p{L})(?:utilisat(?:eur|rice)|client(?:e)?)(?!\p{L}).{0,60}?(?<!\p{L})(?:veut|voulait|souhait\p{L}*|demand\p{L}*|exig\p{L}*|a dit|préfèr\p{L}*|insist\p{L}*|a besoin|attend|a approuvé|a confirmé)(?!\p{L})/iu,
  /(?:用户|客户|使用者).{0,12}?(?:要求|希望|想|说|需要|请求|坚持|偏好|指示|同意|批准)/u,
  /(?:ユーザー?|お客様|顧客|依頼者)(?:は|が|から|も).{0,80}?(?:求め|希望|要求|言っ|依頼|たい|指示|頼|承認)/u,
];

/** Words every summary may use of its own: they prove nothing, and their absence from the source nothing either. */
const GENERIC = new Set(
  stemsOf(
    `improve improvement implement ensure provide include support create add update change fix review check discuss explain
    clarify explanation clarification goal focus detail clear specific solution result assistant session conversation summary
    context current previous full complete final decide decision agree confirm approve approval prefer preference instruct
    instruction insist expect wish state demand tell told specify authorize original initial additional explicit repeated later
    english german french spanish chinese japanese monday tuesday wednesday thursday friday saturday sunday today option choice
    every everyone everywhere everything always never nobody anything something somebody go come out
    keep stay remain consider continue proceed follow handle avoid mention concern question answer respond response reply
    propose suggest recommend reject refuse choose select careful important necessary main entire whole early late quick slow
    good better best bad high low number amount time day week month year people person place name case reason cause effect
    before until approval manual automatic separate single unique general common certain different similar related
    message goal requirement intent version short long simple small large possible several multiple overall set
    gewünscht ergebnis lösung zusammenfassung gespräch frage antwort ändern änderung erstellen erstellung prüfen prüfung
    neu neue neuen wichtig wichtige einzeln gesamt vermeiden verwenden nutzen liste punkte stand weise art grund zeit tag woche
    monat jahr person name sofort sofortig gut besser genau ablehnen wählen vorschlagen versand reparatur
    éviter utiliser usage unique liste point temps jour semaine mois année personne nom nouveau nouvelle bon mieux précis
    choisir choix proposer refuser important seul général
    solution résultat conversation résumé question réponse modifier modification créer création vérifier vérification`,
  ),
);

/** Fewer content words are too few to judge a claim by, unless a name is among them. */
const WORDS_MIN = 3;
/** Share of a claim's content words that stand nowhere in the source. */
const NOVEL_SHARE_MIN = 0.7;
/** The same where not one word was heard from the user. */
const NOVEL_SHARE_UNHEARD_MIN = 0.5;
/** Of pairs of signs more are new in any paraphrase. */
const NOVEL_SHARE_UNSPACED_MIN = 0.75;
const NAME = /(?<=[\p{L}\d,’'”)]\s{1,8})\p{Lu}\p{Ll}{3,}(?![\p{L}-])/gu;
/** Who said it and that it was said, where no space parts it from what was said. */
const UNSPACED_FRAME = /ユーザー?|お客様|顧客|依頼者|用户|客户|使用者|要求|希望|需要|请求|求め|依頼|指示/gu;

/** Reads the source once for all claims of a summary. */
export async function judgeClaims(
  summary: string,
  source: readonly Message[],
  { allStems, breathe }: { allStems: StemSet; breathe: Clock["breathe"] },
): Promise<ClaimJudge> {
  const spoken = heardIn(source);
  const heard = spoken.flatMap(({ texts, taken }) => [...texts, ...taken]);
  const language = languageOf([summary]);
  const isSameLanguage = language !== "unknown" && languageOf(heard) === language;
  const heardStems = await stemSet(heard, breathe);
  const deeds = await judgeDeeds(spoken, breathe);
  const wordsOf = (text: string): readonly string[] => contentWords(text).flat();
  const assent = await judgeAssent(spoken, heardStems, { wordsOf, breathe });
  const preferences: Preference[] = [];
  for (const text of heard) {
    await breathe();
    preferences.push(...sentencesOf(text).flatMap((sentence) => preferenceOf(sentence) ?? []));
  }
  const isInvented = (sentence: string, isUnderDenial: boolean): boolean => {
    const isAbout = isClaim(sentence);
    if (!isUnderDenial && deeds.isForbidden(sentence, isAbout)) return true;
    if (!isSameLanguage || !isAbout) return false;
    if (deeds.isUnheard(sentence) || assent.isMissing(sentence)) return true;
    if (isTurnedRound(preferenceOf(sentence), preferences)) return true;
    if (language === "en" && namesOf(sentence).some((name) => !hasAll(name, allStems))) return true;
    return isMadeOfNewWords(sentence, heardStems, allStems);
  };
  return { isInvented };
}

/** Whether the user prefers the one to the other, but only the other way round. */
function isTurnedRound(claimed: Preference | undefined, heard: readonly Preference[]): boolean {
  if (claimed === undefined) return false;
  const { favoured, other } = claimed;
  const isSame = (one: Preference): boolean => meets(one.favoured, favoured) && meets(one.other, other);
  const isTurned = (one: Preference): boolean => meets(one.favoured, other) && meets(one.other, favoured);
  return heard.some(isTurned) && !heard.some((one) => !isTurned(one) && isSame(one));
}

function meets(some: ReadonlySet<string>, others: ReadonlySet<string>): boolean {
  return [...some].some((one) => others.has(one));
}

/** Whether a sentence reports what the user said or wants. */
function isClaim(sentence: string): boolean {
  return CLAIMS.some((form) => form.test(sentence));
}

/** Names in the middle of a sentence; in a language that writes nouns small, a capital is a name. */
function namesOf(sentence: string): string[] {
  return [...sentence.matchAll(NAME)].map(([name]) => name).filter((name) => !isGeneric(name));
}

function isGeneric(word: string): boolean {
  return stemsOf(word).every((stem) => GENERIC.has(stem));
}

function hasAll(text: string, stems: StemSet): boolean {
  return stemsOf(text).every((stem) => stems.has(stem));
}

function isMadeOfNewWords(sentence: string, heard: StemSet, all: StemSet): boolean {
  const words = contentWords(sentence);
  if (words.length < WORDS_MIN) return false;
  const share = words.filter((stems) => !stems.some((stem) => all.has(stem))).length / words.length;
  if (isUnspaced(sentence)) return share >= NOVEL_SHARE_UNSPACED_MIN;
  const isHeard = words.some((stems) => stems.some((stem) => heard.has(stem)));
  if (words.length === WORDS_MIN) return share === 1 && !isHeard;
  return share >= (isHeard ? NOVEL_SHARE_MIN : NOVEL_SHARE_UNHEARD_MIN);
}

/** The words of a claim that say what is claimed, each by its stems; a hyphenated word is one. */
function contentWords(sentence: string): readonly (readonly string[])[] {
  const content = sentence.replace(UNSPACED_FRAME, " ");
  if (isUnspaced(content)) return [...new Set(stemsOf(content))].map((stem) => [stem]);
  const words = new Map<string, readonly string[]>();
  for (const word of content.split(/[\s/]+/u)) {
    // Numbers are judged as numbers, single letters are what hyphens and apostrophes leave over.
    const stems = stemsOf(word).filter((stem) => !GENERIC.has(stem) && /\p{L}{2}/u.test(stem));
    if (stems.length > 0) words.set(stems.join(" "), stems);
  }
  return [...words.values()];
}
