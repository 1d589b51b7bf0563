import type { Message } from "../../../contract/message.ts";
import { isUnspaced } from "./text/canonical.ts";
import { languageOf, type StemSet, stemSet, stemsOf } from "./text/words.ts";
import { textsOf } from "./texts.ts";

/** Tells whether a sentence says of the user what the user never said. */
export interface ClaimJudge {
  isInvented(sentence: string): boolean;
}

const WHO = "(?:users?|customers?|clients?|requester|operator)(?:['’]s)?";
const SAID =
  "asked|asks|asking|wants?|wanted|would like|said|says|stated|states|requires?|required|requested|requests|needs?|needed|insisted|insists|prefers?|preferred|demanded|demands|instructed|instructs|told|tells|specified|decided|approved|authori[sz]ed|agreed|confirmed|expects|wishes|wished";
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
    `\\b${WHO}\\s+(?:explicit\\s+)?(?:requests?|goals?|intent|preferences?|instructions?|messages?|asks?|requirements?|wishes)\\b`,
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

/** Deeds that cannot be taken back: words for the same deed in one row. Whoever claims one needs a word of its row. */
const DEEDS: readonly RegExp[] = [
  /\b(?:delet|remov|drop(?:ping)?\b|wip(?:e|ing)|eras|purg|clear|clean|discard|get rid|rm\b|prune|truncat|destroy|tear)|(?<!\p{L})(?:lösch|gelöscht|entfern|weg\b|supprim|effac|enlev|retir)|删|清空|清除|移除|去掉|削除|消し|消去/iu,
  /\b(?:deploy|ship|roll(?:ed|ing)?[ -]?out|releas|publish|go(?:es|ing)? live|launch|push)|(?<!\p{L})(?:ausroll|veröffentlich|freigeb|freigabe|livegang|déploy|publi|lanc|mise? en (?:ligne|production))|部署|发布|上线|推送|公開|リリース|デプロイ/iu,
  /\b(?:send|sent|e-?mail|mail|forward|notif|message|post\b|tell|inform|write to|contact)|(?<!\p{L})(?:send|versend|verschick|schick|schreib|benachrichtig|weiterleit|envo[iy]|écri|rédig|transm|préven|informe)|发送|发给|发邮件|通知|写信|转发|送|連絡|メール/iu,
  /\b(?:pay|paid|transfer|refund|reimburs|wire|money back|buy|purchas|credit)|(?<!\p{L})(?:zahl|überweis|erstatt|rückerstatt|kauf|gutschrift|pay|vire|rembours|achet)|付款|支付|转账|退款|购买|支払|返金|購入/iu,
  /\b(?:cancel|terminat|abort|stop|quit|revok|withdraw|shut|kill)|(?<!\p{L})(?:kündig|storn|abbrech|beend|widerruf|annul|résili|arrêt|cess)|取消|终止|停止|解约|撤销|キャンセル|解約|中止|停止/iu,
  /\b(?:disabl|deactivat|off|skip|bypass|ignore|mute|silence|no longer|(?:no|not|don[’']?t) (?:\w+ )?(?:more|send|show|use))\b|\b(?:disabl|deactivat|skipp|bypass)|(?<!\p{L})(?:deaktivier|abschalt|ausschalt|überspring|désactiv|coupe|ignor)|禁用|关闭|跳过|关掉|無効|オフ|スキップ/iu,
];
/** The claim's own words for those deeds, as narrow as the rows above are wide. */
const CLAIMED_DEEDS: readonly RegExp[] = [
  /\b(?:delet(?:e[ds]?|ing|ion)|wip(?:e[ds]?|ing)|eras(?:e[ds]?|ing)|purg(?:e[ds]?|ing)|destroy\w*|drop (?:the|all|every))\b|(?<!\p{L})(?:löschen|gelöscht|supprim\p{L}+|effac\p{L}+)|删除|清空|削除/iu,
  /\b(?:deploy(?:s|ed|ing|ment)?|publish\w*|force-push\w*|roll\w* out|ship(?:ped|ping)? (?:it|the|to))\b|(?<!\p{L})(?:ausrollen|veröffentlich\p{L}+|déploy\p{L}+|publier)|部署|发布|上线|公開|リリース|デプロイ/iu,
  /\b(?:send(?:s|ing)?|e-?mail(?:s|ed|ing)|forward(?:ed|ing)?)\b|(?<!\p{L})(?:senden|verschicken|envoyer|envoie)|发送|发邮件|送信/iu,
  /\b(?:pay(?:s|ing)?|transfer (?:of|the|\$|€)|refund\w*|reimburs\w*|purchas\w*)\b|(?<!\p{L})(?:überweis\p{L}+|erstatt\p{L}+|rembours\p{L}+|acheter)|付款|转账|退款|返金|支払/iu,
  /\b(?:cancel\w*|terminat\w*|revok\w*)\b|(?<!\p{L})(?:kündig\p{L}+|storn\p{L}+|résili\p{L}+|annul\p{L}+)|取消|终止|解约|キャンセル|解約/iu,
  /\b(?:disabl\w*|deactivat\w*|bypass\w*)\b|(?<!\p{L})(?:deaktivier\p{L}+|désactiv\p{L}+)|禁用|无效化|無効化/iu,
];

/** Fewer content words are too few to judge a claim by, unless a name is among them. */
const WORDS_MIN = 3;
/** Share of a claim's content words that stand nowhere in the source. */
const NOVEL_SHARE_MIN = 0.7;
/** The same where not one word was heard from the user. */
const NOVEL_SHARE_UNHEARD_MIN = 0.5;
/** Of pairs of signs more are new in any paraphrase. */
const NOVEL_SHARE_UNSPACED_MIN = 0.75;
/** A user message this short takes up what was proposed right before: "yes, do that". */
const ASSENT_CHARS_MAX = 120;
const NAME = /(?<=[\p{L}\d,’'”)]\s+)\p{Lu}\p{Ll}{3,}(?![\p{L}-])/gu;
/** Who said it and that it was said, where no space parts it from what was said. */
const UNSPACED_FRAME = /ユーザー?|お客様|顧客|依頼者|用户|客户|使用者|要求|希望|需要|请求|求め|依頼|指示/gu;

/** Reads the source once for all claims of a summary. */
export function judgeClaims(summary: string, source: readonly Message[]): ClaimJudge {
  const heard = heardTexts(source);
  const heardAll = heard.join("\n");
  const language = languageOf(summary);
  const isSameLanguage = language !== "unknown" && languageOf(heardAll) === language;
  const heardStems = stemSet(heard);
  const allStems = stemSet(source.flatMap(textsOf));
  const isInvented = (sentence: string): boolean => {
    if (!isSameLanguage || !isClaim(sentence)) return false;
    if (claimsUnheardDeed(sentence, heardAll)) return true;
    if (language === "en" && namesOf(sentence).some((name) => !hasAll(name, allStems))) return true;
    return isMadeOfNewWords(sentence, heardStems, allStems);
  };
  return { isInvented };
}

/** Whether a sentence reports what the user said or wants. */
function isClaim(sentence: string): boolean {
  return CLAIMS.some((form) => form.test(sentence));
}

/** What users said, what frames them (system, notices, an earlier summary), and what a short assent took up. */
function heardTexts(source: readonly Message[]): string[] {
  const heard: string[] = [];
  let proposed: readonly string[] = [];
  for (const message of source) {
    const texts = textsOf(message);
    if (message.role === "block_assistant") proposed = [...proposed, ...texts];
    if (message.role === "block_assistant" || message.role === "tool_results") continue;
    heard.push(...texts);
    const isAssent = message.role === "user" && texts.join("").length <= ASSENT_CHARS_MAX;
    if (isAssent) heard.push(...proposed);
    proposed = [];
  }
  return heard;
}

function claimsUnheardDeed(sentence: string, heard: string): boolean {
  return CLAIMED_DEEDS.some((deed, at) => deed.test(sentence) && DEEDS[at]?.test(heard) === false);
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
