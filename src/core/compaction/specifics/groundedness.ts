import type { SpecificKind } from "../../../contract/compaction.ts";
import type { Message } from "../../../contract/message.ts";
import type { Clock } from "../../../ports/clock.ts";
import { atomsIn } from "../../../text/atoms.ts";
import { canonicalPiece, foldWidth, isUnspaced, wordsIn } from "../../../text/canonical.ts";
import { type Numeral, numeralsIn } from "../../../text/numbers.ts";
import { languageOf, stemSet, stemsOf } from "../../../text/words.ts";
import { cutSentences } from "./cut-sentences.ts";
import { isDerived, isRounded, type Operands, operandsOf, roundingsOf } from "./derived.ts";
import { indexFacts, lazily, type PhraseIndex } from "./occurrence.ts";
import { type Block, blocksOf } from "./summary-blocks.ts";
import { textsOf } from "./texts.ts";
import { type Unmarked, unmarkedIn } from "./unmarked.ts";

/** Something a summary says that its source does not. */
export interface Invented {
  readonly kind: SpecificKind | "quote" | "claim";
  readonly text: string;
  /** The sentence, heading or row that holds it, as it stands in the summary. */
  readonly sentence: string;
}

/** A summary held against its source. */
export interface Checked {
  readonly invented: readonly Invented[];
  /** Sentences that claim what words and numbers alone cannot prove: their words stand nowhere together as they do here. */
  readonly unverified: readonly string[];
}

interface Source {
  readonly index: PhraseIndex;
  hasPhrase(piece: string): boolean;
  hasStem(stem: string): boolean;
  roundings(): Promise<ReadonlySet<string>>;
  /** How many things the source may list, at most. */
  pieces(): Promise<number>;
}

/** Between two of these may stand a thing that somebody counted. */
const PIECE_END = /[\n.,;:!?|、。，；：！？]+\s*|\s(?:and|und|et|y)\s/u;
/** `2026-01-05T10:30`, of a timestamp. */
const MINUTE_CHARS = 16;
/** In a longer line every number follows from some others; a sentence of it is judged by itself. */
const LINE_CHARS_MAX = 4_000;

/** What of a summary occurs nowhere in what it sums up (names, addresses, numbers, quotations), and what it only claims. */
export async function checkSummary(
  summary: string,
  source: readonly Message[],
  breathe: Clock["breathe"],
): Promise<Checked> {
  // To the minute: a busy context has thousands of moments and few of them apart.
  const moments = new Set(source.map((message) => message.created_at.slice(0, MINUTE_CHARS)));
  const texts = [...source.flatMap(textsOf), ...moments];
  const sourceRead = await readSource(texts, breathe);
  // A translated quotation is no invention, and words cannot tell the two apart.
  const isTranslated = isTranslation(summary, texts);
  const invented: Invented[] = [];
  const unverified = new Set<string>();
  for (const block of blocksOf(summary)) {
    const isLine = block.end - block.start <= LINE_CHARS_MAX;
    const whole = isLine ? lineOf(summary.slice(block.start, block.end), sourceRead) : undefined;
    for (const { text: sentence } of block.sentences) {
      await breathe();
      const line = whole ?? lineOf(sentence, sourceRead);
      const found: Omit<Invented, "sentence">[] = [
        ...(await inventedAtoms(sentence, line, sourceRead)),
        ...inventedCode(sentence, sourceRead),
        ...(await inventedUnmarked(sentence, line, sourceRead)),
      ];
      if (!isTranslated) found.push(...inventedQuotes(sentence, sourceRead));
      for (const { kind, text } of found) invented.push({ kind, text, sentence });
      if (found.length === 0 && isClaim(block, sentence, sourceRead)) unverified.add(sentence);
    }
  }
  return { invented, unverified: [...unverified] };
}

/** Fewer words beside what is exact are a label of it: "Port: 8443". */
const CLAIM_WORDS_MIN = 2;

/** Whether a sentence says something of its own: headings and code do not, nor does a sentence of the source. */
function isClaim({ kind }: Block, sentence: string, source: Source): boolean {
  if (kind === "heading" || kind === "code" || source.index.hasSentence(canonicalPiece(sentence))) return false;
  let words = foldWidth(sentence).replace(CODE, " ");
  for (const { text } of atomsIn(words)) words = words.replace(text, " ");
  return stemsOf(words).length >= CLAIM_WORDS_MIN;
}

/** The summary without the sentences, bullets and rows that hold something invented, and without what they leave empty. */
export function cutInvented(summary: string, invented: readonly Invented[]): string {
  const sentences = new Set(invented.map(({ sentence }) => sentence));
  return cutSentences(summary, (sentence) => sentences.has(sentence));
}

async function readSource(texts: readonly string[], breathe: Clock["breathe"]): Promise<Source> {
  const index = await indexFacts(texts, breathe);
  const stems = await stemSet(texts, breathe);
  return {
    index,
    hasPhrase: index.hasPhrase,
    hasStem: stems.has,
    roundings: lazily(() => roundingsOf(texts, breathe)),
    pieces: lazily(async () => {
      const pieces = new Set<string>();
      for (const text of texts) {
        await breathe();
        for (const piece of text.split(PIECE_END)) pieces.add(piece);
      }
      return pieces.size;
    }),
  };
}

function isTranslation(summary: string, texts: readonly string[]): boolean {
  const [own, other] = [languageOf([summary]), languageOf(texts)];
  return own !== other && own !== "unknown" && other !== "unknown";
}

/** A line of the summary; its numbers are read when one of them has to be worked out. */
interface Line {
  readonly text: string;
  numerals(): ReadonlyMap<string, Numeral>;
  operands(): Operands;
}

function lineOf(text: string, source: Source): Line {
  const isKnown = (one: Numeral): boolean => !one.isSpecific || source.index.has({ kind: "number", text: one.text });
  return {
    text,
    numerals: lazily(() => new Map(numeralsIn(foldWidth(text)).map((numeral) => [numeral.text, numeral]))),
    operands: lazily(() => operandsOf(text, isKnown)),
  };
}

async function inventedAtoms(sentence: string, line: Line, source: Source): Promise<Omit<Invented, "sentence">[]> {
  const found: Omit<Invented, "sentence">[] = [];
  for (const { kind, text } of atomsIn(sentence)) {
    if (source.index.has({ kind, text })) continue;
    const isKnown =
      kind === "number" ? await isWorkedOut(line.numerals().get(text), line, source) : isPutTogether(text, source);
    if (!isKnown) found.push({ kind, text });
  }
  return found;
}

/** Whether a number is a rounded one of the source, or follows from others of its line that are there. */
async function isWorkedOut(numeral: Numeral | undefined, line: Line, source: Source): Promise<boolean> {
  if (numeral === undefined) return false;
  return isRounded(numeral, line.text, await source.roundings()) || isDerived(numeral, line.operands());
}

/** Whether a name is a path whose parts are there (a folder, and a file listed in it), or a spelling of words that are. */
function isPutTogether(text: string, source: Source): boolean {
  const piece = canonicalPiece(text);
  const segments = piece.split(/[/:]/u);
  for (let at = 1; at < segments.length; at += 1) {
    const [head, tail] = [segments.slice(0, at).join("/"), segments.slice(at).join("/")];
    if (head !== "" && source.hasPhrase(head) && source.hasPhrase(tail)) return true;
  }
  const words = text.replace(/(?<=[\p{Ll}\d])(?=\p{Lu})|_/gu, " ").trim();
  if (/\s/u.test(words) && source.hasPhrase(canonicalPiece(words))) return true;
  // `postgres` is what "PostgreSQL" is called by those who type it.
  return /^\p{L}+$/u.test(text) && stemsOf(text).every(source.hasStem);
}

const CODE = /(?<!`)`([^`\n]+)`(?!`)/gu;
/** Share of the words of a command or a quotation that must be there when it is shortened. */
const WORDS_SHARE_MIN = 0.8;

/** What stands in backticks is a name or a command, even when its form does not say so. */
function inventedCode(sentence: string, source: Source): Omit<Invented, "sentence">[] {
  const found: Omit<Invented, "sentence">[] = [];
  for (const [, body = ""] of sentence.matchAll(CODE)) {
    const piece = canonicalPiece(body);
    const words = [...wordsIn(piece)].map(([word]) => word);
    if (words.length === 0 || /^\d{1,2}$/u.test(piece) || atomsIn(body).some(({ text }) => text === body)) continue;
    if (source.hasPhrase(piece) || shareOf(words, (word) => source.hasPhrase(word)) >= WORDS_SHARE_MIN) continue;
    found.push({ kind: /\s/u.test(body.trim()) ? "command" : "identifier", text: body });
  }
  return found;
}

/** What backticks would have made a name or a command, and counts of what the source does not name. */
async function inventedUnmarked(sentence: string, line: Line, source: Source): Promise<Omit<Invented, "sentence">[]> {
  const bare = sentence.replace(CODE, (code) => " ".repeat(code.length));
  const found: Omit<Invented, "sentence">[] = [];
  for (const one of unmarkedIn(bare)) {
    const { kind, text, spellings } = one;
    const isHeld = kind === "number" ? await isCounted(one, line, source) : spellings.some(source.hasPhrase);
    if (!isHeld) found.push({ kind, text });
  }
  return found;
}

async function isCounted({ text, stems }: Unmarked, line: Line, source: Source): Promise<boolean> {
  const [numeral] = numeralsIn(text);
  if (numeral === undefined || source.index.has({ kind: "number", text }) || stems.some(source.hasStem)) return true;
  // Whoever listed as many things may have counted them: eleven pasted clauses are "eleven articles".
  return numeral.raw <= (await source.pieces()) || isWorkedOut(numeral, line, source);
}

const QUOTED =
  /[“„«「『]\s?([^“”„«»「」『』\n]+?)\s?[”“»」』]|(?<![\p{L}\p{N}])"([^"\n]+)"(?![\p{L}\p{N}])|(?<=^|[\s(:])['‘]([^'’\n]+)['’](?=$|[\s.,;:)!?])/gu;
/** Fewer words between quotes name a thing or keep it at arm's length; they need not stand together. */
const QUOTE_WORDS_MIN = 3;
const QUOTE_SIGNS_MIN = 6;

function inventedQuotes(sentence: string, source: Source): Omit<Invented, "sentence">[] {
  const found: Omit<Invented, "sentence">[] = [];
  for (const [, curly, straight, single] of sentence
    .replace(CODE, (code) => " ".repeat(code.length))
    .matchAll(QUOTED)) {
    // Between single quotes one word is a name, or the letters between two apostrophes.
    if (single !== undefined && !/\s/u.test(single.trim())) continue;
    const quote = curly ?? straight ?? single ?? "";
    const parts = quote.split(/…|\.{3}|\[[^[\]]*\]/u).filter((part) => part.trim() !== "");
    if (!parts.every((part) => isQuoted(part, source))) found.push({ kind: "quote", text: quote });
  }
  return found;
}

/** A longer quotation stands in the source word for word; of a short one each word does, in some form. */
function isQuoted(part: string, source: Source): boolean {
  const piece = canonicalPiece(part);
  if (piece === "" || source.hasPhrase(piece)) return true;
  const length = [...wordsIn(piece)].length;
  const isLong = length >= (isUnspaced(piece) ? QUOTE_SIGNS_MIN : QUOTE_WORDS_MIN);
  return !isLong && stemsOf(piece).every((stem) => source.hasStem(stem));
}

function shareOf<T>(items: readonly T[], isHeld: (item: T) => boolean): number {
  return items.filter(isHeld).length / items.length;
}
