import type { Clock } from "../../../ports/clock.ts";
import { canonical, canonicalPiece, isUnspaced, isWhole, wordsIn } from "../../../text/canonical.ts";
import { stemsOf } from "../../../text/words.ts";
import { collectOffers, figuresIn } from "../../../text/numbers.ts";
import { sentencesOf } from "../../../text/sentences.ts";
import { exitCodesIn } from "./commands.ts";
import { hasMarks, marksOf, withoutNumbers } from "./exactness.ts";
import type { Specific } from "./specifics.ts";
import { deniedStems, NEGATION_STEMS, preferenceOf } from "./text/polarity.ts";

/** Answers whether a specific stands in some texts, however it is written there. */
export interface TextIndex {
  has(specific: Pick<Specific, "kind" | "text">): boolean;
}

/** A text index that also finds any run of whole words, given in canonical form. */
export interface PhraseIndex extends TextIndex {
  hasPhrase(piece: string): boolean;
}

/** What a rule or an ask needs in one sentence: a summary says it in other words, but not in all other words. */
const SHARE_MIN = 0.8;
/** The same where pairs of signs are counted: one changed sign breaks two of them. */
const SHARE_UNSPACED_MIN = 0.6;
/** A word that stands in more places is no way to a phrase; the text is searched from the start instead. */
const PLACES_MAX = 256;

/** Reads texts once, in the pieces they are given in; each question afterwards costs what its specific is long. */
export async function indexTexts(texts: readonly string[], breathe: Clock["breathe"]): Promise<TextIndex> {
  const facts = await indexFacts(texts, breathe);
  const sentences = await indexSentences(texts.flatMap(withUnescaped), breathe);
  const has = (specific: Pick<Specific, "kind" | "text">): boolean => {
    const { kind, text } = specific;
    // "Delete it" stands in "never delete it", word for word.
    const isWish = kind === "rule" || kind === "ask";
    if (facts.has(specific) && !(isWish && sentences.denies(text))) return true;
    switch (kind) {
      case "number":
      case "path":
      case "identifier":
      case "url":
        return false;
      case "command":
        return sentences.has(text);
      case "rule":
        return sentences.agrees(text);
      case "ask":
        return isQuestion(text) ? sentences.has(text) : sentences.agrees(text);
    }
  };
  return { has };
}

/** The same for what stands somewhere word for word or number for number, and not in other words. */
export async function indexFacts(texts: readonly string[], breathe: Clock["breathe"]): Promise<PhraseIndex> {
  const all = texts.flatMap(withUnescaped);
  const phrases = await indexPhrases(all, breathe);
  const offers = await offersOf(all, breathe);
  const has = ({ kind, text }: Pick<Specific, "kind" | "text">): boolean => {
    if (kind === "number" && hasNumber(text, offers)) return true;
    if (kind === "command" && hasExit(text, offers)) return true;
    const spellings = kind === "path" || kind === "identifier" || kind === "url" ? spellingsOf(text) : undefined;
    return (spellings ?? [canonicalPiece(text)]).some((spelling) => phrases.has(spelling));
  };
  return { has, hasPhrase: phrases.has };
}

function isQuestion(text: string): boolean {
  return /[?？][^\w?？]*$/u.test(text);
}

/** A text in a string of JSON has its line breaks written out; then words begin with a stray letter. */
function withUnescaped(text: string): readonly string[] {
  return /\\[nrt"]/u.test(text) ? [text, text.replace(/(?<!\\)\\+[nrt"]/gu, " ")] : [text];
}

/** Makes a value when it is first asked for. */
export function lazily<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}

async function offersOf(texts: readonly string[], breathe: Clock["breathe"]): Promise<ReadonlySet<string>> {
  const offers = new Set<string>();
  for (const text of texts) {
    await breathe();
    collectOffers(text, offers);
    for (const code of exitCodesIn(text)) offers.add(`exit:${code}`);
  }
  return offers;
}

function hasNumber(text: string, offers: ReadonlySet<string>): boolean {
  const figures = figuresIn(text);
  return figures.length > 0 && figures.every(({ needs }) => needs.some((need) => offers.has(need)));
}

function hasExit(text: string, offers: ReadonlySet<string>): boolean {
  const codes = exitCodesIn(text);
  return codes.length > 0 && codes.every((code) => offers.has(`exit:${code}`));
}

/** How one name may be written: a version with and without its v, an address without its scheme, an issue as a number. */
function spellingsOf(text: string): string[] {
  const piece = canonicalPiece(text);
  const spellings = [piece];
  const version = /^v?(\d+\.\d.*)$/u.exec(piece)?.[1];
  if (version !== undefined) spellings.push(version, `v${version}`);
  const address = /^[a-z\d+]+:\/\/(?:www\.)?(.+)$/u.exec(piece)?.[1];
  if (address !== undefined) spellings.push(address);
  if (/^[#$]\{?\w/u.test(piece)) spellings.push(piece.replace(/^[#$]\{?/u, ""));
  return spellings;
}

interface Phrases {
  has(piece: string): boolean;
}

/** Finds whole words and runs of them: by the places of the rarest word, so that no question reads the text. */
async function indexPhrases(texts: readonly string[], breathe: Clock["breathe"]): Promise<Phrases> {
  const pieces: string[] = [];
  const places = new Map<string, number[]>();
  let start = 0;
  for (const raw of texts) {
    await breathe();
    // A piece that ends with a blank was cut there, and what was said goes on.
    const piece = `${canonical(raw).trimStart()}${/\s$/u.test(raw) ? "" : "\n"}`;
    pieces.push(piece);
    for (const { 0: word, index } of wordsIn(piece)) {
      const known = places.get(word);
      if (known === undefined) places.set(word, [start + index]);
      else if (known.length <= PLACES_MAX) known.push(start + index);
    }
    start += piece.length;
  }
  const text = pieces.join("");
  const has = (piece: string): boolean => {
    const rarest = rarestWord(piece, places);
    if (rarest === undefined) return false;
    if (rarest.places.length > PLACES_MAX) return standsIn(text, piece);
    return rarest.places.some((place) => {
      const start = place - rarest.index;
      return text.startsWith(piece, start) && isWhole(text, start, start + piece.length);
    });
  };
  return { has };
}

function rarestWord(piece: string, places: ReadonlyMap<string, readonly number[]>) {
  let rarest: { readonly index: number; readonly places: readonly number[] } | undefined;
  for (const { 0: word, index } of wordsIn(piece)) {
    const found = places.get(word);
    if (found === undefined) return undefined;
    if (rarest === undefined || found.length < rarest.places.length) rarest = { index, places: found };
  }
  return rarest;
}

function standsIn(text: string, piece: string): boolean {
  for (let at = text.indexOf(piece); at >= 0; at = text.indexOf(piece, at + 1)) {
    if (isWhole(text, at, at + piece.length)) return true;
  }
  return false;
}

interface Sentences {
  has(text: string): boolean;
  /** Whether a sentence that has the text also denies what it denies, and nothing else of it. */
  agrees(text: string): boolean;
  /** Whether every sentence that has all words of the text denies what it says, or says what it denies. */
  denies(text: string): boolean;
}

interface IndexedSentence {
  readonly text: string;
  readonly stems: ReadonlySet<string>;
  readonly denied: () => ReadonlySet<string>;
}

/** Finds the sentence that holds most content words of another one. */
async function indexSentences(texts: readonly string[], breathe: Clock["breathe"]): Promise<Sentences> {
  const sentences: IndexedSentence[] = [];
  const places = new Map<string, number[]>();
  const add = (sentence: string): void => {
    const stems = new Set(stemsOf(sentence));
    for (const stem of stems) {
      const known = places.get(stem);
      if (known === undefined) places.set(stem, [sentences.length]);
      else known.push(sentences.length);
    }
    sentences.push({ text: sentence, stems, denied: lazily(() => deniedStems(sentence)) });
  };
  for (const text of texts) {
    await breathe();
    for (const sentence of sentencesOf(text)) add(sentence);
  }
  const find = (text: string, stems: readonly string[], isMeant: (found: IndexedSentence) => boolean): boolean => {
    if (stems.length === 0) return false;
    const needed = Math.ceil(stems.length * (isUnspaced(text) ? SHARE_UNSPACED_MIN : SHARE_MIN));
    const rising = stems.map((stem) => places.get(stem) ?? []).sort((a, b) => a.length - b.length);
    // A sentence with enough of the stems holds at least one of the rarest that may not all be missing.
    const candidates = new Set(rising.slice(0, stems.length - needed + 1).flat());
    return [...candidates].some((at) => {
      const found = sentences[at];
      return found !== undefined && countHeld(stems, found.stems) >= needed && isMeant(found);
    });
  };
  const agrees = (text: string, isMeant: (found: IndexedSentence) => boolean): boolean => {
    const stems = ruleStems(text);
    const denied = deniedStems(text);
    const isTurned = turnedRound(text);
    return find(
      text,
      stems,
      (found) => isSamePolarity(stems, denied, found.denied()) && !isTurned(found.text) && isMeant(found),
    );
  };
  const whole = (text: string) => {
    const stems = ruleStems(text);
    return (found: IndexedSentence): boolean => countHeld(stems, found.stems) === stems.length;
  };
  const exact = (text: string) => {
    const marks = lazily(() => marksOf(text));
    return (found: IndexedSentence): boolean => hasMarks(marks(), found.text);
  };
  return {
    has: (text) => find(text, wordStems(text), exact(text)),
    agrees: (text) => agrees(text, exact(text)),
    denies: (text) => find(text, ruleStems(text), whole(text)) && !agrees(text, whole(text)),
  };
}

/** Fewer words would be found in any sentence about the same thing. */
const WORDS_MIN = 4;

/** The content words of a text; its numbers are compared as numbers, unless little else is there. */
function wordStems(text: string): readonly string[] {
  const words = new Set(stemsOf(withoutNumbers(text)));
  return [...(words.size >= WORDS_MIN ? words : new Set(stemsOf(text)))];
}

/** The content words of a rule without those that deny, unless too few are left. */
function ruleStems(text: string): readonly string[] {
  const all = wordStems(text);
  const rest = all.filter((stem) => !NEGATION_STEMS.has(stem));
  return rest.length > 1 ? rest : all;
}

/** Whether a sentence prefers what a text prefers something else to, and the other way round. */
function turnedRound(text: string): (sentence: string) => boolean {
  const own = preferenceOf(text);
  return (sentence) => {
    const there = own === undefined ? undefined : preferenceOf(sentence);
    if (own === undefined || there === undefined) return false;
    const isIn = (stems: ReadonlySet<string>, others: ReadonlySet<string>, not: ReadonlySet<string>): boolean =>
      [...stems].some((stem) => others.has(stem) && !not.has(stem));
    return isIn(own.favoured, there.other, there.favoured) && isIn(own.other, there.favoured, there.other);
  };
}

function isSamePolarity(
  stems: readonly string[],
  denied: ReadonlySet<string>,
  deniedThere: ReadonlySet<string>,
): boolean {
  const own = stems.filter((stem) => denied.has(stem));
  const there = stems.filter((stem) => deniedThere.has(stem));
  if (own.length === 0 || there.length === 0) return own.length === there.length;
  return there.some((stem) => denied.has(stem));
}

function countHeld(stems: readonly string[], sentence: ReadonlySet<string>): number {
  return stems.reduce((count, stem) => (sentence.has(stem) ? count + 1 : count), 0);
}
