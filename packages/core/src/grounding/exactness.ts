import type { AssistantBlock, Content, Message } from "../contract/message.ts";
import { atomsIn } from "../text/atoms.ts";
import {
  canonical,
  foldWidth,
  isUnspaced,
  isWhole,
  matchesOf,
  plainCase,
  wordsIn,
  written,
  writtenPiece,
} from "../text/canonical.ts";
import { datesIn } from "../text/dates.ts";
import { withDigits } from "../text/number-words.ts";
import { collectOffers, numeralsIn, takenBy } from "../text/numbers.ts";
import { tokensOf } from "../text/words.ts";

/** The parts of a question or command that a matching sentence must contain. */
export interface Marks {
  /** Capitalised words within the sentence, case-folded. */
  readonly names: readonly string[];
  /** The alternatives that prove each number; one of a row is enough. */
  readonly numbers: readonly (readonly string[])[];
  /** Paths, identifiers, addresses and quotations, literally. */
  readonly pieces: readonly string[];
  /** Options of a command, in any order. */
  readonly options: readonly string[];
  /** In scripts without spaces, each number with the next character: 40リットル is not 40ミリリットル. */
  readonly counts: readonly string[];
  readonly denials: string;
  /** The content words in order. */
  readonly tokens: readonly string[];
  /** All words, including stop words. */
  readonly words: ReadonlySet<string>;
}

const NAME = /(?<=[\p{L}\p{N},;:)”’»]\s{1,4})\p{Lu}[\p{L}\p{M}\p{N}_’'-]*/gu;
const QUOTED = /[“„«「『]([^“”„«»「」『』\n]{1,400})[”“»」』]|(?<![\p{L}\p{N}])"([^"\n]{1,400})"|`([^`\n]{1,400})`/gu;

export function marksOf(text: string): Marks {
  const quotes = matchesOf(QUOTED, text).map(([, curly, straight, ticked]) => curly ?? straight ?? ticked ?? "");
  const atoms = atomsIn(text).flatMap(({ kind, text: atom }) => (kind === "number" ? [] : [atom]));
  return {
    names: matchesOf(NAME, text).flatMap(([name]) => namesIn(name)),
    numbers: numbersIn(text),
    pieces: [...quotes, ...atoms].map(asPiece).filter((piece) => piece !== ""),
    options: matchesOf(OPTION, text).map(([option]) => asPiece(option)),
    counts: matchesOf(COUNT, asCounted(text)).map(([count]) => count),
    denials: denialsIn(text),
    tokens: tokensOf(withoutNumbers(text)),
    words: allWords(text),
  };
}

function asPiece(text: string): string {
  return plainCase(writtenPiece(text));
}

/** `-v` and `--force` in a command. */
const OPTION = /(?<=[\s`])--?[a-z][\w-]*/giu;
const COUNT = /\d[\u3040-\u30ff\u3400-\u9fff]/gu;

function asCounted(text: string): string {
  return withDigits(foldWidth(text)).replace(/[\s`*_]+/gu, "");
}

/** Whole words of names: `Meyers` is not `Meyer`, but "Meyer's" is. */
function namesIn(text: string): readonly string[] {
  return wordsIn(canonical(text.replace(/[’']s(?!\p{L})/gu, "")))
    .map(({ word }) => word)
    .filter((word) => word !== "i");
}

function numbersIn(text: string): readonly (readonly string[])[] {
  const spelt = withDigits(foldWidth(text));
  const dates = datesIn(spelt);
  const isTaken = takenBy(dates);
  // "A ticket" equals "the ticket": one counts as a number only if written as a figure.
  const figures = new Set(numeralsIn(foldWidth(text)).map((numeral) => numeral.text));
  const numerals = numeralsIn(spelt).filter(({ raw, start, text: said }) => {
    return !isTaken(start, said.length) && (Math.abs(raw) > 1 || figures.has(said));
  });
  // A count in one sentence is no measurement in the other: 90 files are not 90 days.
  const exact = (need: string): string => need.replace(/^any:/u, "bare:");
  return [...dates, ...numerals].map(({ needs }) => needs.map(exact));
}

/** Two weeks are fourteen days: numbers and units are compared as numbers. */
export function withoutNumbers(text: string): string {
  const spelt = withDigits(foldWidth(text));
  let rest = "";
  let end = 0;
  for (const { start, text: written } of numeralsIn(spelt)) {
    rest += `${spelt.slice(end, Math.max(end, start))} `;
    end = Math.max(end, start + written.length);
  }
  return rest + spelt.slice(end);
}

/** Openings of a report before its content. */
const OPENING =
  /^\s*(?:[-*+•・]\s+)?(?:\[[ x]\]\s+)?[*_]*(?:(?:still\s)?(?:open|unclear|unanswered|to\sdo|asked)(?:\s(?:question|request))?|open\squestion\sabout|it\s(?:is\s(?:open|unclear)|was\sasked)|(?:noch\s)?(?:offen|unklar|gefragt)(?:e\sfrage)?(?:\s(?:ist|war|wurde|zu))?|question(?:\souverte|\ssur)?|(?:reste?\s)?ouvert|on\s(?:ignore|a\sdemandé)|待办|待确认|待解决的问题|问题|关于|还没有定|还不清楚|有人[问说]|未定|未解決の質問|質問)\s?[:：,，]?[*_]*[:：]?/iu;

/** Whether a sentence has every mark, the same negations, and no replaced word. */
export function hasMarks(marks: Marks, sentence: string): boolean {
  const text = plainCase(written(sentence));
  if (![...marks.pieces, ...marks.options].every((piece) => holdsWhole(text, piece))) return false;
  const words = new Set(namesIn(sentence));
  if (!marks.names.every((name) => words.has(name))) return false;
  if (marks.numbers.length > 0) {
    const offers = new Set<string>();
    collectOffers(sentence, offers);
    if (!marks.numbers.every((needs) => needs.some((need) => offers.has(need)))) return false;
  }
  if (marks.counts.length > 0) {
    const counted = asCounted(sentence);
    if (!marks.counts.every((count) => counted.includes(count))) return false;
  }
  const said = sentence.replace(OPENING, "");
  if (!deniesTheSame(marks, said) || isOpposed(marks.words, allWords(said))) return false;
  const tokens = tokensOf(withoutNumbers(said));
  return !isReplaced(marks.tokens, tokens) && !isExchanged(marks, { text, tokens });
}

function allWords(text: string): ReadonlySet<string> {
  return new Set(wordsIn(canonical(text)).map(({ word }) => word));
}

/** Words that change the meaning when exchanged for each other. */
const OPPOSED: readonly (readonly string[])[] = [
  "before after",
  "above below",
  "over under",
  "up down",
  "on off",
  "more less fewer",
  "most least",
  "first last next",
  "new old",
  "when where why who how",
  "vor nach",
  "über unter",
  "mehr weniger",
  "wann wo warum wer wie",
  "avant après",
  "sur sous",
  "plus moins",
  "quand où pourquoi qui comment",
].map((words) => words.split(" "));

/** Whether a sentence has the opposite of a word and not the word itself. */
function isOpposed(own: ReadonlySet<string>, there: ReadonlySet<string>): boolean {
  return OPPOSED.some(
    (group) =>
      group.some((word) => own.has(word) && !there.has(word)) &&
      group.some((word) => there.has(word) && !own.has(word)),
  );
}

/** With fewer words, a different order is only a different phrasing. */
const EXCHANGED_TOKENS_MIN = 3;

/** Whether two names, or two words of otherwise equal sentences, are exchanged. */
function isExchanged(
  { names, pieces, tokens }: Marks,
  there: { readonly text: string; readonly tokens: readonly string[] },
): boolean {
  const isInOrder = (pieces: readonly string[], text = there.text): boolean => {
    const places = [...new Set(pieces)].map((piece) => text.indexOf(piece));
    return places.every((place, at) => at === 0 || place >= (places[at - 1] ?? 0));
  };
  if (!isInOrder(names, there.text.toLowerCase()) || !isInOrder(pieces)) return true;
  if (tokens.length < EXCHANGED_TOKENS_MIN || tokens.length !== there.tokens.length) return false;
  const moved = tokens.flatMap((token, at) => (token === there.tokens[at] ? [] : [at]));
  const [first = 0, second = 0] = moved;
  return moved.length === 2 && tokens[first] === there.tokens[second] && tokens[second] === there.tokens[first];
}

/** Whether a piece occurs as whole words. */
export function holdsWhole(text: string, piece: string): boolean {
  if (piece === "") return false;
  for (let at = text.indexOf(piece); at >= 0; at = text.indexOf(piece, at + 1)) {
    if (isWhole(text, at, at + piece.length)) return true;
  }
  return false;
}

const CLAUSE_END = /[,;:()–—、，；：（）]+/u;

/** Compared around the words of the specific: an addition of the summary may negate something else. */
function deniesTheSame({ denials, tokens }: Marks, sentence: string): boolean {
  if (denials === denialsIn(sentence)) return true;
  const own = new Set(tokens);
  const clauses = sentence.split(CLAUSE_END).filter((clause) => tokensOf(clause).some((token) => own.has(token)));
  return denials === denialsIn(clauses.join(", "));
}

/** Only so many words of a specific are compared. */
const TOKENS_MAX = 400;

/** Whether between two common words each side has a word that the other lacks. */
function isReplaced(ownTokens: readonly string[], thereTokens: readonly string[]): boolean {
  const [a, b] = [compared(ownTokens), compared(thereTokens)];
  const [inA, inB] = [new Set(a), new Set(b)];
  if (a.every((token) => inB.has(token))) return false;
  const common = commonLengths(a, b);
  let [isMissing, isAdded] = [false, false];
  for (let [i, j] = [0, 0]; i < a.length || j < b.length; ) {
    const [mine, other] = [a[i], b[j]];
    if (mine !== undefined && mine === other) {
      [isMissing, isAdded] = [false, false];
      i += 1;
      j += 1;
      continue;
    }
    const skipsOwn =
      other === undefined || (mine !== undefined && lengthAt(common, i + 1, j) >= lengthAt(common, i, j + 1));
    if (skipsOwn && mine !== undefined) {
      isMissing ||= !inB.has(mine);
      i += 1;
    } else if (other !== undefined) {
      isAdded ||= !inA.has(other);
      j += 1;
    }
    if (isMissing && isAdded) return true;
  }
  return false;
}

/** German "geschickt" matches "schicken". */
function compared(tokens: readonly string[]): readonly string[] {
  return tokens.slice(0, TOKENS_MAX).map((token) => token.replace(/^ge(?=\p{L}{3})/u, ""));
}

const lengthAt = (rows: readonly Uint16Array[], i: number, j: number): number => rows[i]?.[j] ?? 0;

/** Lengths of the longest common subsequences of all suffixes. */
function commonLengths(a: readonly string[], b: readonly string[]): readonly Uint16Array[] {
  const rows = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      const row = rows[i];
      if (row === undefined) continue;
      row[j] =
        a[i] === b[j] ? lengthAt(rows, i + 1, j + 1) + 1 : Math.max(lengthAt(rows, i + 1, j), lengthAt(rows, i, j + 1));
    }
  }
  return rows;
}

/** Deeper or larger arguments are not text. */
const ARGS_DEPTH_MAX = 8;
const ARGS_LEAVES_MAX = 20_000;
/** Runs of this length without a space are data: base64, a minified file. */
const ENCODED = /(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/=_-]{400,}/gu;
/** Reading a piece takes milliseconds; the event loop runs between two. */
const PIECE_CHARS_MAX = 1_500;
const FENCE = /^[ \t]*```[^`\n]*$/gmu;

/** All searchable texts of a message in pieces, without reasoning and encoded media. */
export function textsOf(message: Message): readonly string[] {
  return wholeTextsOf(message).flatMap(piecesOf);
}

/** Splits a text at lines, else sentences, else words; a divided code fence is reopened. */
export function piecesOf(text: string): readonly string[] {
  if (text.length <= PIECE_CHARS_MAX) return [withoutEncoded(text)];
  const pieces: string[] = [];
  let fence = "";
  for (let start = 0; start < text.length; ) {
    const end = endOfPiece(text, start);
    const piece = text.slice(start, end);
    pieces.push(withoutEncoded(fence + piece));
    for (const [line] of matchesOf(FENCE, piece)) fence = fence === "" ? `${line.trim()}\n` : "";
    start = end;
  }
  return pieces;
}

function endOfPiece(text: string, start: number): number {
  const last = start + PIECE_CHARS_MAX;
  if (last >= text.length) return text.length;
  // Searched in this half only: a search of the whole text would restart for every piece.
  const middle = start + PIECE_CHARS_MAX / 2;
  const half = text.slice(middle, last);
  // Half a sentence may say the opposite of the whole one.
  const border = half.lastIndexOf("\n") + 1 || lastSentenceEnd(half) || half.lastIndexOf(" ") + 1;
  if (border > 0) return middle + border;
  // Do not divide a surrogate pair.
  return /[\udc00-\udfff]/.test(text.charAt(last)) ? last - 1 : last;
}

const SENTENCE_ENDS = [". ", "! ", "? ", "。", "！", "？"];

/** After the last complete sentence; 0 if there is none. */
function lastSentenceEnd(text: string): number {
  return Math.max(...SENTENCE_ENDS.map((end) => (text.includes(end) ? text.lastIndexOf(end) + end.length : 0)));
}

export function wholeTextsOf(message: Message): readonly string[] {
  switch (message.role) {
    case "system":
      return [message.content];
    case "system_notice":
      return message.body === undefined ? [message.kind] : [message.kind, message.body];
    case "user":
      return contentTexts(message.content);
    case "tool_results":
      return message.results.flatMap((result) => contentTexts(result.content));
    case "block_assistant":
      return message.blocks.flatMap(blockTexts);
  }
}

function contentTexts(content: Content): string[] {
  const texts =
    typeof content === "string" ? [content] : content.flatMap((block) => (block.type === "text" ? [block.text] : []));
  return texts;
}

export function blockTexts(block: AssistantBlock): readonly string[] {
  switch (block.block_type) {
    case "text":
      return [block.data.text];
    case "tool_use":
      return [block.data.name, ...leavesOf(block.data.args)];
    case "server_tool_content":
      return [block.data.name, ...leavesOf(block.data.content)];
    case "reasoning":
    case "image":
      return [];
  }
}

/** The leaves of a value as lines of `key: value`; multi-line texts separately. `write` may leave one out. */
export function leavesOf(value: unknown, write: (key: string, text: string) => string | undefined = withKey): string[] {
  const leaves: string[] = [];
  const collect = (one: unknown, key: string, depth: number): void => {
    if (leaves.length >= ARGS_LEAVES_MAX || depth > ARGS_DEPTH_MAX || one === null || one === undefined) return;
    if (typeof one === "object") {
      for (const [name, inner] of Object.entries(one)) collect(inner, Array.isArray(one) ? key : name, depth + 1);
      return;
    }
    const leaf = write(key, String(one));
    if (leaf !== undefined) leaves.push(leaf);
  };
  collect(value, "", 0);
  return leaves;
}

export function withKey(key: string, text: string): string {
  return key === "" || text.includes("\n") ? text : `${key}: ${text}`;
}

const ESCAPE = /(?<!\\)\\+(?:([nrt"/])|u([\da-f]{4}))/giu;

/** The text of a JSON string, as far as it can be told from a path with backslashes. */
export function unescaped(text: string): string {
  if (!/\\(?:[nrt"/]|u[\da-f]{4})/iu.test(text)) return text;
  return text.replace(ESCAPE, (_, sign: string | undefined, code: string) => {
    if (sign === undefined) return String.fromCharCode(Number.parseInt(code, 16));
    return sign === '"' || sign === "/" ? sign : "\n";
  });
}

function withoutEncoded(text: string): string {
  return text.length < 400 ? text : text.replace(ENCODED, " ");
}

/** Words that negate, insist or limit, by effect: each changes the meaning of a sentence. */
const WORDS: Readonly<Record<string, string>> = {
  not: "not no non none nobody nothing neither nor cannot nicht kein keine keinen keinem keiner keines nichts niemand weder pas aucun aucune rien personne não niet geen niets niemand не нет ни inte ikke ingen ingenting nessuno niente nada nadie ninguém",
  never: "never nie niemals nimmer keinesfalls jamais nunca nooit никогда aldrig aldri nikdy nigdy",
  without: "without ohne sans sem zonder без utan uden uten senza bez",
  always: "always immer stets toujours siempre sempre altijd всегда alltid altid",
  only: "only nur seulement uniquement solo soltanto somente slechts alleen только endast bara kun",
};
const CLASS_OF = new Map(
  Object.entries(WORDS).flatMap(([name, words]) => words.split(" ").map((word) => [word, name] as const)),
);
/** Apostrophes are typed in two ways, or omitted. */
const SHORT_NOT = /^(?:is|are|was|were|do|does|did|has|have|had|ca|wo|sha|must|should|would|could|need)n[’']?t$/u;
const WORD = /[\p{L}\p{M}]+(?:[’'](?:t(?!\p{L})))?/gu;
/** In French `plus` negates only after `ne`. */
const NO_MORE = /(?<!\p{L})(?:ne\s|n[’'])\s?\p{L}+(?:\s\p{L}+)?\s(?:plus|que)(?!\p{L})/giu;

/** "Can or can not" asks and negates nothing. */
const EITHER_OR = /(\p{Script=Han})[不没]\1/gu;
const UNSPACED: readonly (readonly [name: string, form: RegExp])[] = [
  ["always", /总是|總是|一直|始终|一律|永远|必ず|常に|いつも/gu],
  ["only", /只有?|仅|唯一|のみ|だけ|しか/gu],
  ["never", /从不|从未|绝不|决不|決して/gu],
  [
    "not",
    /禁止|严禁|不可|不(?![明同过仅断])|没有?|勿|莫|(?<![特分区類类级性差识])别(?![的人处])|未(?!来|定|決|解)|无(?!论)|ない|なかった|なく|なけれ|ません|ずに|せず|なし|無し/gu,
  ],
];

/** The negations, insistences and limits of a clause as one comparable text. */
export function denialsIn(text: string): string {
  const found: string[] = [];
  const folded = text.normalize("NFKC").toLowerCase();
  for (const [word] of matchesOf(WORD, folded)) {
    const name = CLASS_OF.get(word) ?? (SHORT_NOT.test(word) ? "not" : undefined);
    if (name !== undefined) found.push(name);
  }
  for (const _ of matchesOf(NO_MORE, folded)) found.push("no more");
  if (isUnspaced(folded)) found.push(...unspacedDenials(folded));
  return found.sort().join(" ");
}

function unspacedDenials(text: string): readonly string[] {
  const found: string[] = [];
  let rest = text.replace(EITHER_OR, "$1");
  for (const [name, form] of UNSPACED) {
    rest = rest.replace(form, () => {
      found.push(name);
      return " ";
    });
  }
  return found;
}
