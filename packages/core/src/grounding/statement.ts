import type { SpecificKind } from "../contract/compaction.ts";
import { type Atom, readAtoms } from "../text/atoms.ts";
import { canonical, canonicalPiece, matchesOf } from "../text/canonical.ts";
import { needsIn } from "../text/numbers.ts";
import { remembered } from "../text/remembered.ts";
import { tokensOf } from "../text/words.ts";
import { denialsIn } from "./exactness.ts";

/** A sentence read for what it says of its specifics. */
export interface Statement {
  readonly text: string;
  readonly atoms: readonly Located[];
  /** Its content words besides the specifics. */
  readonly words: ReadonlySet<string>;
  /** The sentences before and after it. */
  readonly beside: readonly Statement[];
}

interface Located extends Atom {
  readonly end: number;
  /** Spellings of a name, or what a number proves, and what proves it. */
  readonly keys: ReadonlySet<string>;
  readonly needs: readonly string[];
}

/** Spellings of a name: a version with and without v, an address without its scheme, an issue as a number. */
export function spellingsOf(text: string): string[] {
  const piece = canonicalPiece(text);
  const spellings = [piece];
  const version = /^v?(\d+\.\d.*)$/u.exec(piece)?.[1];
  if (version !== undefined) spellings.push(version, `v${version}`);
  const address = /^[a-z\d+]+:\/\/(?:www\.)?(.+)$/u.exec(piece)?.[1];
  if (address !== undefined) spellings.push(address);
  if (/^[#$]\{?\w/u.test(piece)) spellings.push(piece.replace(/^[#$]\{?/u, ""));
  return spellings;
}

/** A longer line, or one with more specifics, is a table or data and says nothing of them. */
export const STATEMENT_CHARS_MAX = 600;
const ATOMS_MAX = 24;

/** Reads a sentence, and after line breaks those beside it. Cached: it is compared once for each of its specifics. */
export const statementOf: (sentence: string) => Statement = remembered({ entriesMax: 2_000 }, (sentence) => {
  const [text = "", ...beside] = sentence.split("\n");
  const { atoms: found, figures } = readAtoms(text.length > STATEMENT_CHARS_MAX ? "" : text);
  const atoms = (found.length > ATOMS_MAX ? [] : found).map((atom): Located => {
    const figure = atom.kind === "number" ? figures.find(({ start }) => start === atom.start) : undefined;
    const { offers, needs } = figure ?? { offers: spellingsOf(atom.text), needs: spellingsOf(atom.text) };
    return { ...atom, end: atom.start + atom.text.length, keys: new Set(offers), needs };
  });
  const words = new Set(wordsBesides(text, atoms, 0, text.length));
  return { text, atoms, words, beside: beside.map(statementOf) };
});

/** The content words between two positions, without the specifics. */
function wordsBesides(text: string, atoms: readonly Located[], from: number, to: number): readonly string[] {
  let rest = "";
  let end = from;
  for (const atom of [...atoms].sort((a, b) => a.start - b.start)) {
    if (atom.end <= end || atom.start >= to) continue;
    rest += `${text.slice(end, Math.max(end, atom.start))} `;
    end = atom.end;
  }
  return tokensOf(rest + text.slice(end, to));
}

/** Whether some sentences say of a specific what some others exclude, and none the same. */
export function isOpposed(own: readonly Statement[], others: readonly Statement[], specific: Named): boolean {
  let isExcluded = false;
  for (const [one, other] of others.flatMap((second) => own.map((first) => [first, second] as const))) {
    const verdict = compare(one, other, specific);
    if (verdict === "same") return false;
    isExcluded ||= verdict === "opposed";
  }
  return isExcluded;
}

/** Whether one sentence says of a specific what another says: the same, something else that excludes it, or neither. */
function compare(own: Statement, other: Statement, specific: Named): "same" | "opposed" | "unrelated" {
  const [at, there] = [locate(own, specific), locate(other, specific)];
  if (at === undefined || there === undefined) return "unrelated";
  if (isWordForWord(own.text, other.text)) return "same";
  const places = [
    { ...own, at },
    { ...other, at: there },
  ] as const;
  if (isOtherZone(...places) || isExchanged(...places)) return "opposed";
  const isRelated = own.words.size === 0 || [...own.words].some((word) => other.words.has(word) && !LISTING.has(word));
  if (!isRelated) return "unrelated";
  return OPPOSITIONS.some((isSo) => isSo(...places)) ? "opposed" : "same";
}

/** Words of lists, which say nothing of what they list. */
const LISTING = new Set("file folder path directori port name list chang touch read datei fichi".split(" "));

function isWordForWord(own: string, other: string): boolean {
  const isHeld = canonical(other).includes(canonicalPiece(own));
  return isHeld && isAsked(own) === isAsked(other) && denialsIn(own) === denialsIn(other);
}

type Named = { readonly kind: SpecificKind; readonly text: string };

function locate({ atoms }: Statement, { kind, text }: Named): Located | undefined {
  const keys = kind === "number" ? (needsIn(text)[0] ?? []) : spellingsOf(text);
  return atoms.find((atom) => keys.some((key) => atom.keys.has(key)));
}

/** A specific at its place in a sentence. */
interface Place extends Statement {
  readonly at: Located;
}

const OPPOSITIONS = [isOtherwiseDenied, isUnconditional, isOtherTense, isAnswered, isOtherDirection, isPermuted];

const CLAUSE_END =
  /[,;:)](?=\s|$)|[(、，；：（）]|\s[–—-]\s|\s(?:but|while|whereas|aber|sondern|während|mais|pero)\s|但是?/giu;
/** A quotation or a table row holds several sentences. */
const SENTENCE_END = /[;；。]|[.!?](?=\s)/gu;
const PART_END =
  /[,;)](?=\s|$)|[(、，；（）]|\s[–—-]\s|\s(?:but|while|whereas|and|or|aber|sondern|während|und|oder|mais|et|pero|y)\s|但是?|和|与/giu;

/** The span between two borders around a place. */
function spanOf({ text, at }: Place, border: RegExp): readonly [from: number, to: number] {
  let [from, to] = [0, text.length];
  for (const { index, 0: sign } of matchesOf(border, text)) {
    if (index + sign.length <= at.start) from = index + sign.length;
    else if (index >= at.end && index < to) to = index;
  }
  return [from, to];
}

function partWords(place: Place): readonly string[] {
  return wordsBesides(place.text, place.atoms, ...spanOf(place, PART_END));
}

/** Words that say no without a negation. */
const NEGATIVE =
  /(?<![\p{L}])(?:fail\p{L}*|miss(?:ing|es)|lack\p{L}*|absent|without|ohne|sans|avoid\p{L}*|refus\p{L}*|reject\p{L}*|den(?:y|ies|ied)|forb\p{L}+|prohibit\p{L}*|un(?!der|til|less|i)\p{L}{4,}|in(?:valid|active|complete)\p{L}*|stop\p{L}*|drop\p{L}*|remov\p{L}*|disabl\p{L}*|clos\p{L}+|off|alone|skip\p{L}*|ignor\p{L}*|exclud\p{L}*|omit\p{L}*|except\p{L}*|instead|rather|at most|no more|max\p{L}*|limit\p{L}*|up to|höchstens|wait\p{L}*|pending|still|block\p{L}*|fehl\p{L}*|verbot\p{L}*|gesperrt|statt\p{L}*|abgelehnt|interdit\p{L}*|refus\p{L}*)(?!\p{L})|失败|失敗|拒|停|禁|缺/giu;

const RESTATED_SHARE = 0.8;

function isOtherwiseDenied(own: Place, other: Place): boolean {
  const isDropped = (from: Place, to: Place): boolean =>
    isDenied(from.text.slice(...spanOf(from, CLAUSE_END))) && !isDenied(to.text) && !hasWord(NEGATIVE, to, from.text);
  // Of otherwise equal sentences, one that denies twice says the opposite of one that denies once.
  const shared = [...own.words].filter((word) => other.words.has(word)).length;
  const isRestated = shared > 0 && shared >= Math.max(own.words.size, other.words.size) * RESTATED_SHARE;
  const denials = ({ text }: Place): number => denialsIn(text).match(/not|never/gu)?.length ?? 0;
  return isDropped(own, other) || isDropped(other, own) || (isRestated && denials(own) !== denials(other));
}

const UNDONE =
  /(?<!\p{L})(?:(?:fail(?:ed|s)?|unable|refus(?:ed|es)|declin(?:ed|es)|forgot) to|hardly|barely|scarcely|kaum)(?!\p{L})/iu;

export function isDenied(text: string): boolean {
  return /not|never|no more/u.test(denialsIn(text)) || UNDONE.test(text);
}

/** Whether a sentence has such a word, and the other not the same. */
function hasWord(form: RegExp, place: Place, besides = "", border = SENTENCE_END): boolean {
  const said = matchesOf(form, place.text.slice(...spanOf(place, border)));
  return said.some(([word]) => besides === "" || !besides.toLowerCase().includes(word.toLowerCase()));
}

const CONDITION =
  /(?<!\p{L}|(?:check|see|know|ask|asks|asked|wonder|verify|sure) )(?:if|unless|provided|as long as|in case|on condition|whenever|until|except|only (?:when|after|once)|falls|sofern|wenn|solange|es sei denn|vorausgesetzt|außer|bis (?:der|die|das)|si|sauf|à moins|tant que|pourvu)(?!\p{L})|如果|若(?!干)|除非|只有[^。；]{1,40}才|直到|假如|要是|的话|場合|なら(?!な)|(?<!なけ)れば|たら|限り/giu;
const CIRCUMSTANCE =
  /(?<!\p{L})(?:when|while|once|after|before|where|should|would|might|condition\p{L}*|fallback|depend\p{L}*|otherwise|assuming|given|whether|through|till|by|bei|beim|nach|vor|sobald|ob|nur|quand|lorsque|après)(?!\p{L})|时|後|后|前|とき|時/giu;

/** A condition without which something else is said. */
function isUnconditional(own: Place, other: Place): boolean {
  return hasWord(CONDITION, own) && !hasWord(CONDITION, other) && !hasWord(CIRCUMSTANCE, other, own.text);
}

const FUTURE =
  /(?<!\p{L})(?:will|shall|going to|about to|(?:plan|hope|expect|want)s? to|(?:is|are) to|planned|scheduled|intends?|tomorrow|next (?:week|month|year|quarter)|wird|werden|sollen?|geplant|beabsichtigt|va|vont|prévoit)(?!\p{L})|将|会(?![议话员计社])|打算|计划|下周|下个?月|明天|予定|つもり|来週|来月|明日/giu;
const AHEAD =
  /(?<!\p{L})(?:to be|must|should|would|needs?|open|pending|due|todo|later|soon|wants?|remains?|muss|müssen|noch)(?!\p{L})|^\W*to \p{L}|: to \p{L}|未|待/giu;
const PAST =
  /(?<!\p{L})(?:was|were|has|have|had|did|already|yesterday|last (?:week|night|month|year|quarter)|wurden?|war|waren|hat|hatte|haben|gestern|letzte\p{L}*|été)(?!\p{L})|已|了(?=[\s。，]|$)|上周|昨天|ました|(?<=し)た(?=[。、\s]|$)|先週|先月|昨日/giu;
const PAST_VERB =
  /(?<![\p{L}\p{N}_./-])(?:\p{L}{2,}ed|sent|ran|went|built|rebuilt|wrote|made|paid|took|gave|bought|sold|cut|set|heard|held|met|left|kept|lost|found|told|began|broke|chose|came|drew|fell|led|rose|won)(?![\p{L}\p{N}_/-])/giu;

/** What is planned is not done, and what is done is not planned. */
function isOtherTense(own: Place, other: Place): boolean {
  const has = (form: RegExp, place: Place): boolean => hasWord(form, place, "", PART_END);
  if (has(FUTURE, own)) {
    if (has(PAST, own) || has(FUTURE, other) || has(AHEAD, other)) return false;
    return has(PAST, other) || has(PAST_VERB, other);
  }
  if (!has(FUTURE, other) || has(PAST, other)) return false;
  const verbs = matchesOf(PAST_VERB, own.text).flatMap(([verb]) => tokensOf(verb));
  return has(PAST, own) || verbs.some((verb) => other.words.has(verb));
}

const REQUEST =
  /(?<!\p{L})(?:(?:can|could|would|will) (?:you|we|i)|please|kannst du|könn\p{L}+ (?:du|sie|wir)|bitte)(?!\p{L})|请|能不能|帮|ください|もらえ/iu;
const ASKED =
  /(?<!\p{L})(?:whether|ask\p{L}*|open|unclear|unknown|unsure|questions?|clarif\p{L}*|confirm\p{L}*|decid\p{L}*|pending|wonder\p{L}*|tbd|check\p{L}*|verif\p{L}*|wants?|requests?|needs?|if|why|ob|frag\p{L}*|offen\p{L}*|unklar\p{L}*|klär\p{L}*|prüf\p{L}*|demand\p{L}*|ouvert\p{L}*)(?!\p{L})|是否|问|确认|待|未定|質問|確認|未解決|不明|不清楚|聞|か(?=[。、は\s]|$)/giu;

/** Whether a text ends as a question, whatever follows its mark. */
export function isAsked(text: string): boolean {
  return /[?？؟][^\p{L}\p{N}?？؟]*$/u.test(text);
}

/** Whether a question became a statement. */
function isAnswered({ text }: Place, other: Place): boolean {
  return isAsked(text) && !REQUEST.test(text) && !isStillAsked(text, other.text);
}

export function isStillAsked(question: string, sentence: string): boolean {
  return isAsked(sentence) || matchesOf(ASKED, sentence).some(([word]) => !question.includes(word));
}

const BEFORE_CHARS = 24;
const TO =
  /(?:(?<!\p{L})(?:to|into|onto|towards|nach|vers)\s(?:(?:the|its|der|die|das|den)\s)?(?:\p{L}+\s)?|(?:→|->|到|往|向|至)\s*)["'`]?$/iu;
const FROM =
  /(?:(?<!\p{L})(?:from|of|out of|von|aus|depuis|de)\s(?:(?:the|its|der|die|das|den)\s)?(?:\p{L}+\s)?|(?:从|自)\s*)["'`]?$/iu;
const TO_AFTER = /^["'`]?\s*(?:へ|に(?!は))/u;
const FROM_AFTER = /^["'`]?\s*(?:から|より|→|->)/u;

/** Whether something goes to where it comes from, or two names are exchanged around the same words. */
function isOtherDirection(own: Place, other: Place): boolean {
  const [mine, theirs] = [roleOf(own), roleOf(other)];
  if (mine !== undefined && theirs !== undefined && mine !== theirs) return true;
  return own.atoms.some((second) => {
    const there = other.atoms.find((one) => isSame(one, second));
    if (second === own.at || there === undefined || there === other.at) return false;
    if (own.at.start < second.start === other.at.start < there.start) return false;
    const link = linkOf(own, second);
    return !/^(?:and|or|und|oder|et|ou|和|、|と)?$/u.test(link) && link === linkOf(other, there);
  });
}

const BETWEEN_LISTED = /^(?:and|or|und|oder|et|ou|y|o|&|\/)$/u;

/** Whether all words are in their places, but names or figures have changed theirs: "104 before 99", "99 before 104". */
function isPermuted({ text, at }: Place, other: Place): boolean {
  const tokens = matchesOf(/\S+/gu, text);
  const mine = tokens.map(([word]) => canonicalPiece(word));
  const theirs = matchesOf(/\S+/gu, other.text).map(([word]) => canonicalPiece(word));
  const moved = mine.flatMap((word, index) => (word === theirs[index] ? [] : [{ word, index }]));
  const [first, last] = [moved[0]?.index ?? 0, moved.at(-1)?.index ?? 0];
  const isSwap = moved.every(({ word }) => moved.some(({ index }) => theirs[index] === word));
  if (mine.length !== theirs.length || first === last || !isSwap) return false;
  // Words move freely; figures do not.
  if (moved.length > 2 && !moved.every(({ word }) => /\d/u.test(word))) return false;
  const isLinked = mine
    .slice(first, last)
    .some((word, at) => word === theirs[first + at] && !BETWEEN_LISTED.test(word));
  const isHere = ({ index: start = 0, 0: word }: RegExpExecArray): boolean =>
    start < at.end && at.start < start + word.length;
  return isLinked && tokens.some((token, at) => moved.some(({ index }) => index === at) && isHere(token));
}

/** The words between two names. */
function linkOf({ text, at }: Place, second: Located): string {
  return canonicalPiece(at.start < second.start ? text.slice(at.end, second.start) : text.slice(second.end, at.start));
}

function roleOf({ text, atoms, at }: Place): "from" | "to" | undefined {
  const role = spokenRole(text, at);
  const alike = atoms.filter(({ kind }) => (kind === "number") === (at.kind === "number"));
  const hasRole = (one: "from" | "to"): boolean => alike.some((atom) => spokenRole(text, atom) === one);
  // "Up to 25 MB" is no direction; "from 25 to 30 MB" is one.
  if (at.kind === "number") return hasRole("from") && hasRole("to") ? role : undefined;
  const next = alike.filter(({ start }) => start > at.start).sort((a, b) => a.start - b.start)[0];
  return role ?? (next !== undefined && spokenRole(text, next) === "to" ? "from" : undefined);
}

function spokenRole(text: string, { start, end }: Located): "from" | "to" | undefined {
  const before = text.slice(Math.max(0, start - BEFORE_CHARS), start);
  const after = text.slice(end, end + BEFORE_CHARS);
  if (FROM.test(before) || FROM_AFTER.test(after)) return "from";
  return TO.test(before) || TO_AFTER.test(after) ? "to" : undefined;
}

/** Whether a specific is told of the words that another one of its kind belonged to. */
function isExchanged(own: Place, other: Place): boolean {
  const words = partWords(own);
  const there = partWords(other);
  const [from, to] = spanOf(other, PART_END);
  const seconds = [own, ...own.beside].flatMap((one) => one.atoms.map((at): Place => ({ ...one, at })));
  return seconds.some((place) => {
    const { at: second } = place;
    if (isSame(own.at, second) || dimensionOf(second) !== dimensionOf(own.at)) return false;
    const besides = partWords(place);
    const mine = words.filter((word) => !besides.includes(word));
    const its = there.filter((word) => besides.includes(word) && !words.includes(word));
    if (its.length === 0 || there.some((word) => mine.includes(word))) return false;
    const at = other.atoms.find((one) => isSame(one, second));
    if (at === undefined) return mine.some((word) => isNamed(own, word)) && its.some((word) => isNamed(other, word));
    if (at.start >= from && at.end <= to) return false;
    return partWords({ ...other, at }).some((word) => (mine.length === 0 ? !its.includes(word) : mine.includes(word)));
  });
}

/** Whether a word is written with a capital. */
function isNamed({ text }: Place, word: string): boolean {
  return matchesOf(/\p{Lu}[\p{L}\p{N}]+/gu, text).some(([name]) => tokensOf(name).includes(word));
}

function isSame(one: Located, second: Located): boolean {
  return second.needs.some((need) => one.keys.has(need));
}

function dimensionOf({ kind, text }: Atom): string {
  return kind === "number" ? (needsIn(text)[0]?.[0]?.split(":")[0] ?? "") : kind;
}

const ZONE_AFTER =
  /^(?:\s?(?:[–-]|to|until|and|bis|und)\s?\d{1,2}:\d{2})?\s*\(?(?:Uhr\s*)?(UTC|GMT|[A-Z]{1,4}T|MEZ|MESZ)(?!\p{L})/u;
const ZONE_BEFORE = /(北京时间|东京时间|日本時間|UTC|GMT|CET)\s*$/u;
const ZONES: Readonly<Record<string, string>> = { MEZ: "CET", MESZ: "CEST", GMT: "UTC", 日本時間: "JST" };
const CLOCK = /\d:\d{2}|\d\s?[ap]\.?m|Uhr|[点時时]/iu;

function isOtherZone(own: Place, other: Place): boolean {
  const zone = CLOCK.test(own.at.text) ? zoneOf(own) : undefined;
  return zone !== undefined && zone !== zoneOf(other);
}

function zoneOf({ text, at: { start, end } }: Place): string | undefined {
  const [, name] = ZONE_AFTER.exec(text.slice(end)) ?? ZONE_BEFORE.exec(text.slice(0, start)) ?? [];
  return name === undefined ? undefined : (ZONES[name] ?? name);
}
