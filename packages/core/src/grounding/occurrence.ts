import type { SpecificKind, SpecificStatus } from "../contract/compaction.ts";
import type { Clock } from "../ports/clock.ts";
import {
  asCanonical,
  CODE_NAME,
  canonicalPiece,
  isUnspaced,
  isWhole,
  plainCase,
  verbatim,
  wordsIn,
  written,
  writtenPiece,
} from "../text/canonical.ts";
import { collectOffers, needsIn } from "../text/numbers.ts";
import { remembered } from "../text/remembered.ts";
import { sentencesOf } from "../text/sentences.ts";
import { stemsOf, tokensOf } from "../text/words.ts";
import { denialsIn, hasMarks, marksOf, piecesOf, unescaped, withoutNumbers } from "./exactness.ts";
import { clip, exitCodesIn, isRule, quotesIn, type Specific } from "./specifics.ts";
import { isAsked, isDenied, isOpposed, isStillAsked, type Statement, spellingsOf, statementOf } from "./statement.ts";

/** Answers whether a specific occurs in some texts, in any spelling. */
export interface TextIndex {
  has(specific: Sought): Promise<boolean>;
}

/** A specific, and the sentences that said it; without them it is looked for alone. */
export type Sought = Pick<Specific, "kind" | "text" | "said">;

/** Finds literal occurrences and runs of whole words, given in canonical form. */
export interface PhraseIndex {
  has(specific: Pick<Specific, "kind" | "text">): boolean;
  /** The same with its sign, unit, dashes, suffix and capitals, and the same negation. */
  hasItself(specific: Pick<Specific, "kind" | "text">): boolean;
  hasPhrase(piece: string): boolean;
  /** Whether a text is a whole sentence there: "never delete it" does not contain "delete it". */
  hasSentence(text: string): boolean;
}

/** The share of a question's or command's words that one sentence must have. */
const SHARE_MIN = 0.8;
/** The same for pairs of characters: one changed character breaks two pairs. */
const SHARE_UNSPACED_MIN = 0.6;
/** For a more frequent word the text is searched from the start instead. */
const PLACES_MAX = 256;

/** Reads texts on first use; later queries cost in proportion to their specific. */
export function indexTexts(texts: readonly string[], yieldToEventLoop: Clock["yieldToEventLoop"]): TextIndex {
  const facts = lazily(() => indexFacts(texts, yieldToEventLoop));
  const sentences = lazily(() => indexSentences(texts.flatMap(withUnescaped), yieldToEventLoop));
  const has = async (specific: Sought): Promise<boolean> => {
    if (texts.length === 0) return false;
    const { kind, text } = specific;
    switch (kind) {
      case "number":
      case "path":
      case "identifier":
      case "url":
        return (await facts()).hasItself(specific) && (await sentences()).saysSo(specific);
      case "command":
        return (await facts()).hasItself(specific) || (await sentences()).has(text);
      // A paraphrase may say the opposite, and "never delete it" contains "delete it".
      case "rule":
        return isRuleText(text) ? (await sentences()).hasWhole(text) : (await facts()).hasItself(specific);
      case "ask":
        if ((await sentences()).hasWhole(text)) return true;
        return isAsked(text) && ((await facts()).hasItself(specific) || (await sentences()).has(text));
    }
  };
  return { has };
}

/** The same for literal occurrences and equal numbers, without paraphrases. */
export async function indexFacts(
  texts: readonly string[],
  yieldToEventLoop: Clock["yieldToEventLoop"],
): Promise<PhraseIndex> {
  const all = texts.flatMap(withUnescaped);
  const phrases = await indexPhrases(all, yieldToEventLoop);
  const offers = await offersOf(all, yieldToEventLoop);
  const has = ({ kind, text }: Pick<Specific, "kind" | "text">): boolean => {
    // -12 % matches "it fell by 12 %".
    if (kind === "number" && (hasNumber(text, offers) || hasNumber(`-${text}`, offers))) return true;
    return (NAMES.has(kind) ? spellingsOfLast(text) : [pieceOf(text)]).some(phrases.has);
  };
  const hasItself = ({ kind, text }: Pick<Specific, "kind" | "text">): boolean => {
    if (kind === "number" && needsIn(text).length > 0) return hasNumber(text, offers);
    if (kind === "command" && hasExit(text, offers)) return true;
    const isMeant = meaningOf(kind, text);
    const spellings = NAMES.has(kind) ? spellingsOfLast(text) : [pieceOf(text)];
    return spellings.some((spelling) => phrases.hasWhere(spelling, isMeant));
  };
  return { has, hasItself, hasPhrase: phrases.has, hasSentence: phrases.hasSentence };
}

const NAMES: ReadonlySet<SpecificKind> = new Set(["path", "identifier", "url"]);

/** Text in a JSON string has escaped line breaks, which leave a stray letter before words. */
function withUnescaped(text: string): readonly string[] {
  const plain = unescaped(text);
  return plain === text ? [text] : [text, plain];
}

/** Caches the last result: a specific is compared with one text after the other. */
function ofLast<T>(make: (text: string) => T): (text: string) => T {
  let last: { readonly text: string; readonly made: T } | undefined;
  return (text) => {
    if (last?.text !== text) last = { text, made: make(text) };
    return last.made;
  };
}

const pieceOf = ofLast(canonicalPiece);
const isRuleText = ofLast(isRule);
const exitsOf = ofLast(exitCodesIn);
const spellingsOfLast = ofLast(spellingsOf);
const wholeOfLast = ofLast(wholeOf);
const stemsOfLast = ofLast(wordStems);
const marksOfLast = ofLast(marksOf);

export function lazily<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}

/** What is said stays in a context for long: the next reading finds most of it as it was. */
const READ = { entriesMax: 8_192, charsMax: 400 };
const stemsIn = remembered(READ, (sentence) => new Set(stemsOf(sentence)));
const offersIn = remembered(READ, (text) => {
  const offers = new Set<string>();
  collectOffers(text, offers);
  return offers;
});

async function offersOf(
  texts: readonly string[],
  yieldToEventLoop: Clock["yieldToEventLoop"],
): Promise<ReadonlySet<string>> {
  const offers = new Set<string>();
  for (const text of texts) {
    await yieldToEventLoop();
    for (const offer of offersIn(text)) offers.add(offer);
    for (const code of exitCodesIn(text)) offers.add(`exit:${code}`);
  }
  return offers;
}

function hasNumber(text: string, offers: ReadonlySet<string>): boolean {
  const figures = needsIn(text);
  return figures.length > 0 && figures.every((needs) => needs.some((need) => offers.has(need)));
}

function hasExit(text: string, offers: ReadonlySet<string>): boolean {
  const codes = exitsOf(text);
  return codes.length > 0 && codes.every((code) => offers.has(`exit:${code}`));
}

interface Phrases {
  has(piece: string): boolean;
  /** The same at a matching place. */
  hasWhere(piece: string, isMeant: (place: Place) => boolean): boolean;
  hasSentence(sentence: string): boolean;
}

const NEIGHBOUR_CHARS = 16;
const SENTENCE_BORDERS = ".!?…。！？\n";
/** In canonical form a border is at most a blank away. */
const BORDER_CHARS = 2;

/** Finds words and phrases by the positions of their rarest word, so that no query reads the text. */
async function indexPhrases(texts: readonly string[], yieldToEventLoop: Clock["yieldToEventLoop"]): Promise<Phrases> {
  const pieces: string[] = [];
  const writtenPieces: string[] = [];
  const places = new Map<string, number[]>();
  let start = 0;
  for (const raw of texts) {
    await yieldToEventLoop();
    // A piece that ends with a blank was cut there, and the text continues.
    const said = `${written(raw).trimStart()}${/\s$/u.test(raw) ? "" : "\n"}`;
    const piece = asCanonical(said);
    pieces.push(piece);
    // A capital that becomes two characters, such as the Turkish İ, would shift all that follows.
    writtenPieces.push(said.length === piece.length ? said : said.toLowerCase());
    for (const { word, index } of wordsIn(piece)) {
      const known = places.get(word);
      if (known === undefined) places.set(word, [start + index]);
      else if (known.length <= PLACES_MAX) known.push(start + index);
    }
    start += piece.length;
  }
  const text = pieces.join("");
  const asWritten = writtenPieces.join("");
  const finder = (isMeant: (start: number, end: number) => boolean) => {
    // A looping model repeats one phrase a thousand times, and each search may take a second.
    const searched = new Map<string, boolean>();
    const search = (piece: string, isAt: (start: number) => boolean): boolean => {
      const found = searched.get(piece) ?? standsIn(text, piece, isAt);
      searched.set(piece, found);
      return found;
    };
    return (piece: string): boolean => {
      const rarest = rarestWord(piece, places);
      if (rarest === undefined) return false;
      const isAt = (start: number): boolean =>
        isWhole(text, start, start + piece.length) && isMeant(start, start + piece.length);
      if (rarest.places.length > PLACES_MAX) return search(piece, isAt);
      return rarest.places.some((place) => {
        const start = place - rarest.index;
        return text.startsWith(piece, start) && isAt(start);
      });
    };
  };
  const hasWhere = (piece: string, isMeant: (place: Place) => boolean): boolean =>
    finder((start, end) =>
      isMeant({
        before: asWritten.slice(Math.max(0, start - NEIGHBOUR_CHARS), start),
        itself: asWritten.slice(start, end),
        after: asWritten.slice(end, end + NEIGHBOUR_CHARS),
      }),
    )(piece);
  const sentences = new Map<string, boolean>();
  return {
    has: finder(() => true),
    hasWhere,
    hasSentence: (sentence) => {
      const isSame = sameText(sentence);
      const found =
        sentences.get(sentence) ?? hasWhere(pieceOf(sentence), (place) => isSame(place) && isBetweenBorders(place));
      sentences.set(sentence, found);
      return found;
    },
  };
}

function isBetweenBorders({ before, after }: Place): boolean {
  const [left, right] = [before.slice(-BORDER_CHARS), after.slice(0, BORDER_CHARS)];
  return [left.replaceAll(" ", "").at(-1), right.replaceAll(" ", "").at(0)].every(isSentenceBorder);
}

function isSentenceBorder(sign: string | undefined): boolean {
  return sign === undefined || SENTENCE_BORDERS.includes(sign);
}

function rarestWord(piece: string, places: ReadonlyMap<string, readonly number[]>) {
  let rarest: { readonly index: number; readonly places: readonly number[] } | undefined;
  for (const { word, index } of wordsIn(piece)) {
    const found = places.get(word);
    if (found === undefined) return undefined;
    if (rarest === undefined || found.length < rarest.places.length) rarest = { index, places: found };
  }
  return rarest;
}

function standsIn(text: string, piece: string, isAt: (start: number) => boolean): boolean {
  for (let at = text.indexOf(piece); at >= 0; at = text.indexOf(piece, at + 1)) if (isAt(at)) return true;
  return false;
}

export interface Sentences {
  /** Whether a sentence has most content words of a text, and all its exact parts. */
  has(text: string): boolean;
  /** Whether a text is a whole sentence or quotation. */
  hasWhole(text: string): boolean;
  /** Whether a sentence with a specific says of it what its source says; one without a source says so. */
  saysSo(specific: Sought): boolean;
  /** Whether a sentence says of a specific what no sentence here says of it, and one excludes. */
  opposes(sentence: string): boolean;
}

/** Sentences stored per word; a more frequent word is not indexed. */
const SENTENCES_OF_WORD_MAX = 64;
/** Sentences considered per query, and those of them that are compared closely. */
const CANDIDATES_MAX = 128;
const READ_CLOSELY_MAX = 8;
/** One common word is coincidence. */
const STEMS_MIN = 2;

/** Finds the sentence with most content words of another; the cost does not depend on the text's length. */
export async function indexSentences(
  texts: readonly string[],
  yieldToEventLoop: Clock["yieldToEventLoop"],
): Promise<Sentences> {
  const sentences: { readonly text: string; readonly stems: ReadonlySet<string> }[] = [];
  const seen = new Set<string>();
  const places = new Map<string, number[]>();
  const byOffer = new Map<string, number[]>();
  const quotes: string[] = [];
  /** Made when a rule or an ask is looked for: what tools said has neither. A receipt names the beginning of a longer text. */
  const wholes = lazily(
    () => new Set([...seen, ...quotes].flatMap((text) => [...new Set([text, clip(text)])].map(wholeOf))),
  );
  const add = (sentence: string): void => {
    if (seen.has(sentence)) return;
    seen.add(sentence);
    const stems = stemsIn(sentence);
    for (const [keys, index] of [
      [stems, places],
      [offersIn(sentence), byOffer],
    ] as const) {
      for (const key of keys) {
        const known = index.get(key);
        if (known === undefined) index.set(key, [sentences.length]);
        else if (known.length < SENTENCES_OF_WORD_MAX) known.push(sentences.length);
      }
    }
    sentences.push({ text: sentence, stems });
  };
  for (const text of texts) {
    await yieldToEventLoop();
    for (const sentence of sentencesOf(text)) add(sentence);
    quotes.push(...quotesIn(text));
  }
  /** The sentences with most content words of a text. */
  const likeOf = (text: string, stems: readonly string[]): readonly string[] => {
    const needed = Math.ceil(stems.length * (isUnspaced(text) ? SHARE_UNSPACED_MIN : SHARE_MIN));
    const rising = stems.map((stem) => places.get(stem) ?? []).sort((a, b) => a.length - b.length);
    // A sentence with enough stems contains at least one of the rarest.
    const candidates = new Set(rising.slice(0, stems.length - needed + 1).flat());
    return [...candidates]
      .slice(0, CANDIDATES_MAX)
      .flatMap((at) => sentences[at] ?? [])
      .filter(({ stems: there }) => stems.filter((stem) => there.has(stem)).length >= needed)
      .map((sentence) => sentence.text);
  };
  const has = (text: string): boolean => {
    const stems = stemsOfLast(text);
    const held = stems.length === 0 ? [] : likeOf(text, stems);
    if (held.length === 0) return false;
    const marks = marksOfLast(text);
    const isExact = marks.names.length + marks.numbers.length + marks.pieces.length > 0;
    if (stems.length < STEMS_MIN && !isExact) return false;
    const isQuestion = isAsked(text);
    return held
      .slice(0, READ_CLOSELY_MAX)
      .some((there) => hasMarks(marks, there) && (!isQuestion || isStillAsked(text, there)));
  };
  const placesOf = ({ kind, text }: Sought): readonly number[] => {
    if (kind === "number") return [...new Set((needsIn(text)[0] ?? []).flatMap((need) => byOffer.get(need) ?? []))];
    const rows = stemsOf(text).map((stem) => places.get(stem) ?? []);
    return rows.reduce((rarest, row) => (row.length < rarest.length ? row : rarest), rows[0] ?? []);
  };
  /** The sentences with a specific; none if they are many: what is everywhere is not misunderstood by one of them. */
  const statementsOf = (specific: Sought): readonly Statement[] => {
    const found = placesOf(specific);
    return found.length > READ_CLOSELY_MAX ? [] : found.map((at) => statementOf(sentences[at]?.text ?? ""));
  };
  const saysSo = (specific: Sought): boolean => {
    const { said = [] } = specific;
    const others = said.length === 0 ? [] : statementsOf(specific);
    return others.length === 0 || !isOpposed(said.map(statementOf), others, specific);
  };
  const opposes = (sentence: string): boolean => {
    const stems = stemsOfLast(sentence);
    const held = stems.length < STEMS_MIN ? [] : likeOf(sentence, stems);
    // A longer sentence may deny something else.
    const isAlike = (there: string): boolean => tokensOf(there).length * SHARE_MIN <= tokensOf(sentence).length;
    if (held.some(isAlike) && held.every((there) => isDenied(there) !== isDenied(sentence))) return true;
    const there = statementOf(sentence);
    return there.atoms.some((atom) => isOpposed(statementsOf(atom), [there], atom));
  };
  return { has, hasWhole: (text) => wholes().has(wholeOfLast(text)), saysSo, opposes };
}

const LIST_MARK = /^\s*(?:[-*+•・]|\d{1,3}[.)])\s+(?:\[[ x]\]\s+)?/iu;
/** Labels of items in a list of rules and questions; other labels may revoke an item. */
const LABEL =
  /^[*_]*(?:(?:user\s)?(?:rule|constraint|requirement|instruction|preference|request)|(?:open\s)?question|regel|vorgabe|(?:offene\s)?frage|règle|contrainte|consigne|question(?:\souverte)?|规则|约束|要求|问题|待解决的问题|ルール|制約|質問|未解決の質問)\s?(?:[:：][*_]*|[*_]+[:：])\s*/iu;
const SPACE_OF_UNSPACED = /(?<=[\u3040-\u30ff\u3400-\u9fff]) | (?=[\u3040-\u30ff\u3400-\u9fff])/gu;

/** A sentence without its list marker, and without spaces where its script has none. */
function wholeOf(sentence: string): string {
  const bare = sentence.replace(LIST_MARK, "").replace(LABEL, "");
  return verbatim(bare).replace(SPACE_OF_UNSPACED, "");
}

/** Fewer words would match any sentence on the topic. */
const WORDS_MIN = 4;

/** The content words of a text; numbers are compared as numbers, unless there is little else. */
function wordStems(text: string): readonly string[] {
  const words = new Set(stemsOf(withoutNumbers(text)));
  return [...(words.size >= WORDS_MIN ? words : new Set(stemsOf(text)))];
}

/** One line of a receipt. */
export interface ReceiptItem extends Specific {
  readonly status: SpecificStatus;
}

/** Where a specific may be after a compaction. */
interface Places {
  readonly summary: string;
  readonly tail: readonly string[];
  readonly pinned: readonly string[];
  /** Whether a search finds the specific; called one at a time, and only if it is nowhere else. */
  recover(specific: Specific): Promise<boolean>;
  readonly yieldToEventLoop: Clock["yieldToEventLoop"];
}

/** Finds for each specific the first place that contains it. */
export async function classify(specifics: readonly Specific[], places: Places): Promise<readonly ReceiptItem[]> {
  const { yieldToEventLoop } = places;
  const held = [
    ["in_summary", indexTexts(piecesOf(places.summary), yieldToEventLoop)],
    ["in_tail", indexTexts(places.tail, yieldToEventLoop)],
    ["pinned", indexTexts(places.pinned, yieldToEventLoop)],
  ] as const;
  const items: ReceiptItem[] = [];
  for (const specific of specifics) {
    await yieldToEventLoop();
    let place: SpecificStatus | undefined;
    for (const [status, index] of held) if (place === undefined && (await index.has(specific))) place = status;
    const { kind, text, seq } = specific;
    const status = place ?? ((await places.recover({ kind, text, seq })) ? "recoverable" : "lost");
    items.push({ kind, text, seq, status });
  }
  return items;
}

/** The text at a position, and around it. */
interface Place {
  readonly before: string;
  readonly itself: string;
  readonly after: string;
}

type Matches = (place: Place) => boolean;

const DRIVE = /^[a-z]:/iu;
/** Dashes and stars before a word: of an option, a number, a pattern. */
const PREFIX = /^[‑—*|-]/u;
const VERSION = /^v?\d+(?:\.\d+)+/iu;
const VERSION_SUFFIX = /^[-+][\p{L}\d]/u;
/** A suffix that makes another name, `gpt-4o-mini`; German appends a noun, `gpt-4o-Modell`. */
const SUFFIX = /^[-+](?:[\p{Ll}\d]|\p{Lu}[\p{Lu}\d])/u;

/** Whether the text at a position is the same specific: neighbours or case may make it another. */
function meaningOf(kind: SpecificKind, text: string): Matches {
  const own = writtenPiece(text);
  switch (kind) {
    case "path": {
      const isRooted = text.startsWith("/");
      const isSame = sameName(own, !DRIVE.test(text));
      return (place) =>
        isSame(place) &&
        !(isRooted && /[\p{L}\p{N}_.~]\/$/u.test(place.before)) &&
        !/^\.[\p{L}\p{N}]/u.test(place.after);
    }
    case "url":
      return ({ before, itself, after }) =>
        !/^\/?[\w?#&=%]/u.test(after) && (itself.length === own.length || !/:\/\/(?:www\.)?$/u.test(before));
    case "ask": {
      const isSame = sameText(text);
      return (place) => isSame(place) && denialsIn(/(?<!\p{L})\p{L}+ $/u.exec(place.before)?.[0] ?? "") === "";
    }
    case "identifier": {
      if (text.includes("@")) return ({ after }) => !/^\.[\p{L}\p{N}]/u.test(after);
      const isSame = sameName(own, PREFIX.test(own) || CODE_NAME.test(own));
      const suffix = VERSION.test(own) ? VERSION_SUFFIX : /\d/u.test(own) ? SUFFIX : undefined;
      return (place) => isSame(place) && suffix?.test(place.after) !== true;
    }
    case "number":
    case "command":
    case "rule":
      return sameText(text);
  }
}

/** Whether the name is equal, except for the v of a version and the sign of a variable or an issue. */
function sameName(own: string, isCased: boolean): Matches {
  const bare = (name: string): string => name.replace(/^(?:v(?=\d)|[#$]\{?)/iu, "");
  return sameAs(own, (name, other) => {
    const isEither = !isCased && !CODE_NAME.test(other);
    return bare(other) === bare(name) || (isEither && bare(other).toLowerCase() === bare(name).toLowerCase());
  });
}

/** Whether the text is equal, except for the case of plain words. */
function sameText(text: string): Matches {
  return sameAs(writtenPiece(text), (own, other) => plainCase(other) === plainCase(own));
}

/** The same with dashes and stars before it, and without a sign before its number. */
function sameAs(text: string, isEqual: (own: string, other: string) => boolean): Matches {
  const lead = PREFIX.exec(text)?.[0] ?? "";
  const own = text.slice(lead.length);
  const isNumber = lead === "" && /^\d/u.test(own);
  return ({ before, itself }) => before.endsWith(lead) && !(isNumber && before.endsWith("‑")) && isEqual(own, itself);
}
