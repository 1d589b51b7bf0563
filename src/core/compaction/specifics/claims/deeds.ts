import type { Clock } from "../../../../ports/clock.ts";
import { stemsOf } from "../../../../text/words.ts";
import { sentencesOf } from "../../../../text/sentences.ts";
import { type Part, partsOf } from "../text/polarity.ts";
import type { Heard } from "./heard.ts";

/** Tells whether a sentence has a deed done that the user spoke of only to forbid it. */
export interface DeedJudge {
  isForbidden(sentence: string, isClaim: boolean): boolean;
  /** Whether a claim names a deed that the user never spoke of. */
  isUnheard(sentence: string): boolean;
}

/** Deeds that cannot be taken back: words for the same deed in one row. Whoever claims one needs a word of its row. */
const DEEDS: readonly RegExp[] = [
  /\b(?:delet|remov|drop(?:ping)?\b|wip(?:e|ing)|eras|purg|clear|clean|discard|get rid|rm\b|prune|truncat|destroy|tear)|(?<!\p{L})(?:lösch|gelöscht|entfern|weg\b|supprim|effac|enlev|retir|borr|elimin)|删|清空|清除|移除|去掉|削除|消し|消去/iu,
  /\b(?:deploy|ship|roll(?:ed|ing)?[ -]?out|releas|publish|go(?:es|ing)? live|launch|push)|(?<!\p{L})(?:ausroll|veröffentlich|freigeb|freigabe|livegang|déploy|despl[ie]|publi|lanc|mise? en (?:ligne|production))|部署|发布|上线|推送|公開|リリース|デプロイ/iu,
  /\b(?:send|sent|e-?mail|mail|forward|notif|message|post\b|tell|inform|write to|contact)|(?<!\p{L})(?:send|versend|verschick|schick|schreib|benachrichtig|weiterleit|envo[iy]|enví|envi|mand|écri|rédig|transm|préven|informe)|发送|发给|发邮件|通知|写信|转发|送|連絡|メール/iu,
  /\b(?:pay|paid|transfer|refund|reimburs|wire|money back|buy|purchas|credit)|(?<!\p{L})(?:zahl|überweis|erstatt|rückerstatt|kauf|gutschrift|pay|vire|rembours|achet)|付款|支付|转账|退款|购买|支払|返金|購入/iu,
  /\b(?:cancel|terminat|abort|stop|quit|revok|withdraw|shut|kill)|(?<!\p{L})(?:kündig|storn|abbrech|beend|widerruf|annul|résili|arrêt|cess)|取消|终止|停止|解约|撤销|キャンセル|解約|中止|停止/iu,
  /\b(?:disabl|deactivat|off|skip|bypass|ignore|mute|silence|no longer|(?:no|not|don[’']?t) (?:\w+ )?(?:more|send|show|use))\b|\b(?:disabl|deactivat|skipp|bypass)|(?<!\p{L})(?:deaktivier|abschalt|ausschalt|überspring|désactiv|coupe|ignor)|禁用|关闭|跳过|关掉|無効|オフ|スキップ/iu,
  /\b(?:push|merg|commit|upload|deploy|releas|publish|ship|git\b|send|notif)|(?<!\p{L})(?:pouss|hochlad|subir)|推送|提交|合并|プッシュ|マージ/iu,
  /\bforc(?:e|ed|ing)\b|push\s+-f\b|强制|強制/iu,
];
/** The claim's own words for those deeds, as narrow as the rows above are wide. */
const CLAIMED_DEEDS: readonly RegExp[] = [
  /\b(?:delet(?:e[ds]?|ing|ion)|wip(?:e[ds]?|ing)|eras(?:e[ds]?|ing)|purg(?:e[ds]?|ing)|destroy\w*|drop (?:the|all|every))\b|(?<!\p{L})(?:lösch(?:en?|t)|gelöscht|supprim\p{L}+|effac\p{L}+|borr(?:a|ar|e|en)(?!\p{L})|elimin(?:a|ar|e|en)(?!\p{L}))|删除|清空|削除/iu,
  /\b(?:deploy(?:s|ed|ing|ment)?|publish\w*|roll\w* out|ship(?:ped|ping)? (?:it|the|to))\b|(?<!\p{L})(?:ausrollen|veröffentlich\p{L}+|déploy\p{L}+|publier|despl(?:ieg|eg)\p{L}+)|部署|发布|上线|公開|リリース|デプロイ/iu,
  /\b(?:send(?:s|ing)?|e-?mail(?:s|ed|ing)|forward(?:ed|ing)?)\b|(?<!\p{L})(?:senden|verschicken|envoyer|envoie|enviar|envía)|发送|发邮件|送信/iu,
  /\b(?:pay(?:s|ing)?|transfer (?:of|the|\$|€)|refund\w*|reimburs\w*|purchas\w*)\b|(?<!\p{L})(?:überweis\p{L}+|erstatt\p{L}+|rembours\p{L}+|acheter)|付款|转账|退款|返金|支払/iu,
  /\b(?:cancel\w*|terminat\w*|revok\w*)\b|(?<!\p{L})(?:kündig\p{L}+|storn\p{L}+|résili\p{L}+|annul\p{L}+)|取消|终止|解约|キャンセル|解約/iu,
  /\b(?:disabl\w*|deactivat\w*|bypass\w*)\b|(?<!\p{L})(?:deaktivier\p{L}+|désactiv\p{L}+)|禁用|无效化|無効化/iu,
  /\bpush(?:es|ed|ing)?\b|推送|プッシュ/iu,
  /\bforce[ -]push\w*/iu,
];

/** Words too common to prove a deed unheard, yet plain where the user forbade the deed, row by row. */
const PLAIN_DEEDS: ReadonlyMap<number, RegExp> = new Map([
  [0, /\b(?:drop(?:s|ped)?|remov(?:e|es|ed))\b|(?<!\p{L})entfern(?:en?|t)(?!\p{L})/iu],
  [1, /\b(?:releas(?:e|es|ed)|launch(?:es|ed)?)\b/iu],
  [2, /\b(?:e-?mail|sent)\b/iu],
  [3, /\bpaid\b/iu],
]);

/** A deed that is forbidden only for now; a later "go ahead" lifts that. */
const FOR_NOW =
  /(?<!\p{L})(?:until|unless|before|without|yet|now|today|tonight|bis|bevor|ohne|heute|noch|jetzt|avant|sans|encore|hasta|sin)(?!\p{L})|之前|现在|暂|まだ|まで/u;
const GO_AHEAD =
  /^\W*(?:yes|yep|yeah|ok(?:ay)?|sure|fine|go ahead|go for it|do it|please do|lgtm|approved|looks good|sounds good|perfect|great|ja|gut|mach das|einverstanden|oui|d[’']accord|vas-y|sí|vale|好|可以|同意|はい|お願い)/iu;
const REFUSES = /^\W*(?:no|nope|not|never|don[’']?t|stop|wait|nein|nicht|non|pas|不|别|いいえ|だめ)(?!\p{L})/iu;
const GO_AHEAD_CHARS_MAX = 120;
const WITHOUT_ASKING =
  /\bwithout (?:(?:any|further|prior|my|their|the user[’']?s) )*(?:asking|approval|confirmation|permission|consent|checking|review)\b/iu;
const ASK_FIRST = /\b(?:ask|asking|check with|confirm with|approval|permission|consent)\b/iu;
/** What may stand before an imperative. */
const LEAD =
  /^\W*(?:(?:next(?: steps?)?|then|todo|now|please|and|also|to|first|finally|always|must|should|step|bitte|dann|puis|veuillez|请|把|将)(?!\p{Script=Latin})\W*)*/iu;
const PERMITS =
  /\b(?:may|can|could|should|must|shall|will|allowed|free|fine|safe|ok|okay)(?: (?!not)\w+)?(?: to)?(?: be)? $/iu;
const PLANS =
  /\b(?:plan|goal|task|step|next|remaining|going|needs?|ha[sv]e?|about|intends?|ready|agreed|decided)(?: is| are| was)? to $|\b(?:is|are) to be $/iu;
/** Under a condition the deed is not yet ordered: "push once it is approved". */
const CONDITION =
  /(?<!\p{L})(?:only|unless|until|if|nur|erst|falls|sofern|seulement|uniquement|si|solo)(?!\p{L})|\b(?:after|once|with|upon|pending|when)\b.{0,40}\b(?:approv|confirm|ask|permi|review|consent|ok\b|sign|agree)|只|如果|のみ|場合/u;
/** Then the deed is spoken of, not ordered. */
const GUARDED =
  /(?<!\p{L})(?:before|prior to|against|whether|if|why|what|how|when|who|bevor|vor|avant|si|ask (?:me|first|the user|them|him|her))(?!\p{L})/u;
const REPORTED =
  /\b(?:was|were|is|are|has|had|have|failed|fails|succeeded|happened|blocked|done|completed?)\b|(?<!\p{L})(?:wurden?|ist|sind|a été|ont été)(?!\p{L})|[了过]|した|ました/u;
const NOT_AN_ORDER = /(?:ed|ing|ion|ions|ment|ments|elöscht|é|ée|és|ées)$/iu;

interface Spoken {
  readonly forbidden: Set<string>;
  readonly allowed: Set<string>;
  isAllowedAtAll: boolean;
}

/** Reads once, for every row of deeds, with what words the user forbade them and with what words not. */
export async function judgeDeeds(spoken: readonly Heard[], breathe: Clock["breathe"]): Promise<DeedJudge> {
  const rows = DEEDS.map((): Spoken => ({ forbidden: new Set(), allowed: new Set(), isAllowedAtAll: false }));
  const heardOf = DEEDS.map(() => false);
  let mayGoUnasked = false;
  let isAskedFirst = false;
  let forNow: (readonly [row: Spoken, objects: readonly string[]])[] = [];
  for (const message of spoken) {
    if (isGoAhead(message)) forNow = [];
    for (const text of audible(message)) {
      await breathe();
      for (const sentence of sentencesOf(text)) {
        for (const part of partsOf(sentence, { carries: false })) forNow.push(...hearPart(part, rows));
      }
    }
    for (const text of [...message.texts, ...message.taken]) {
      await breathe();
      for (const [at, deed] of DEEDS.entries()) heardOf[at] ||= deed.test(text);
    }
    for (const text of message.texts) {
      isAskedFirst ||= ASK_FIRST.test(text);
      mayGoUnasked ||= WITHOUT_ASKING.test(text) && sentencesOf(text).some(letsGoUnasked);
    }
  }
  for (const [row, objects] of forNow) for (const object of objects) row.forbidden.add(object);
  const isForbidden = (sentence: string, isClaim: boolean): boolean =>
    partsOf(sentence, { carries: true }).some(
      (part) =>
        !part.isNegated &&
        CLAIMED_DEEDS.some((deed, at) => {
          const isPlain = isOrdered(part.text, PLAIN_DEEDS.get(at), isClaim);
          if (!isPlain && !isOrdered(part.text, deed, isClaim)) return false;
          if (WITHOUT_ASKING.test(sentence) && isAskedFirst && !mayGoUnasked) return true;
          return isOpposed(objectsOf(part.text, at), rows[at]);
        }),
    );
  const isUnheard = (sentence: string): boolean =>
    CLAIMED_DEEDS.some((deed, at) => heardOf[at] === false && deed.test(sentence));
  return { isForbidden, isUnheard };
}

/** What a message says of deeds; a proposal that a short answer refuses is not taken up. */
function audible({ texts, taken }: Heard): readonly string[] {
  return texts.some((text) => REFUSES.test(text)) ? texts : [...texts, ...taken];
}

function isGoAhead({ texts, isUser }: Heard): boolean {
  return isUser && texts.some((text) => text.length <= GO_AHEAD_CHARS_MAX && GO_AHEAD.test(text));
}

/** Takes a part into the rows of its deeds; gives back what it forbids only for now. */
function hearPart({ text, isNegated }: Part, rows: readonly Spoken[]): (readonly [Spoken, readonly string[]])[] {
  const forNow: (readonly [Spoken, readonly string[]])[] = [];
  for (const [at, row] of rows.entries()) {
    if (DEEDS[at]?.test(text) !== true) continue;
    const objects = objectsOf(text, at);
    if (isNegated && FOR_NOW.test(text)) forNow.push([row, objects]);
    else for (const object of objects) row[isNegated ? "forbidden" : "allowed"].add(object);
    if (!isNegated && objects.length === 0) row.isAllowedAtAll = true;
  }
  return forNow;
}

/** The stems of a part without the deed itself. */
function objectsOf(part: string, at: number): readonly string[] {
  const deeds = [DEEDS[at], CLAIMED_DEEDS[at], PLAIN_DEEDS.get(at)];
  const words = part.split(/\s+/u).map((word) => {
    const deed = deeds.find((one) => one?.test(word));
    if (deed === undefined) return word;
    return /^\p{Script=Latin}/u.test(word) ? "" : word.replace(deed, " ");
  });
  return stemsOf(words.join(" "));
}

function isOpposed(objects: readonly string[], row: Spoken | undefined): boolean {
  if (row === undefined || row.isAllowedAtAll) return false;
  return objects.some((one) => row.forbidden.has(one)) && !objects.some((one) => row.allowed.has(one));
}

/** Whether a part orders, permits or, as a claim, wishes for the deed. */
function isOrdered(part: string, deed: RegExp | undefined, isClaim: boolean): boolean {
  const match = deed?.exec(part) ?? null;
  if (match === null) return false;
  const before = part.slice(0, match.index);
  if (GUARDED.test(before) || CONDITION.test(part)) return false;
  if (isClaim || PERMITS.test(before) || PLANS.test(before)) return true;
  if (REPORTED.test(part) || NOT_AN_ORDER.test(match[0])) return false;
  if (before.replace(LEAD, "") === "") return true;
  const after = part.slice(match.index + match[0].length).trim();
  return /^[.!]?$/u.test(after) ? /en$/u.test(match[0]) : /^(?:して(?:ください|$)|する)/u.test(after);
}

function letsGoUnasked(sentence: string): boolean {
  if (!WITHOUT_ASKING.test(sentence)) return false;
  return partsOf(sentence.replace(WITHOUT_ASKING, ""), { carries: true }).every(({ isNegated }) => !isNegated);
}
