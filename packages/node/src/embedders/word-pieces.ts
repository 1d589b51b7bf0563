import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { messageOf, RuntimeError } from "@rkat/core/contract/error";
import { packageFile } from "@rkat/core/ports/package-file";

/** Converts a text to at most `max` word piece numbers, without special tokens. */
export type Tokenize = (text: string, max: number) => number[];

/** More than any text of 512 pieces needs; it bounds the cost of huge texts. */
const TEXT_CHARS_MAX = 32_768;
/** As the model was trained: a longer word is unknown. */
const WORD_CHARS_MAX = 100;

const UNKNOWN = "[UNK]";
const DROPPED = /[\ufffd\p{Cf}\p{Co}\p{Cs}]|(?![\t\n\r])\p{Cc}/u;
const SPACE = /\p{White_Space}/u;
const MARK = /\p{Mn}/u;
const PUNCTUATION = /[!-/:-@[-`{-~\p{P}]/u;
const PLAIN = /^[\t\n\r -~]*$/;
const PLAIN_WORDS = /[a-z0-9]+|[!-/:-@[-`{-~]/g;

/** BERT's uncased tokenizer. A special token such as `[SEP]` in a text is plain text. */
export function createTokenizer(vocabulary: readonly string[]): Tokenize {
  const numbers = new Map(vocabulary.map((piece, number) => [piece, number]));
  const unknown = numbers.get(UNKNOWN) ?? 0;
  return (text, max) => {
    const pieces: number[] = [];
    for (const word of wordsOf(clipped(text))) {
      pieces.push(...(piecesOf(word, numbers) ?? [unknown]));
      if (pieces.length >= max) break;
    }
    return pieces.slice(0, max);
  };
}

/** The beginning of a text; never splits a character. */
export function clipped(text: string): string {
  if (text.length <= TEXT_CHARS_MAX) return text;
  const last = text.charCodeAt(TEXT_CHARS_MAX - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? TEXT_CHARS_MAX - 1 : TEXT_CHARS_MAX);
}

function wordsOf(text: string): Iterable<string> {
  return PLAIN.test(text) ? (text.toLowerCase().match(PLAIN_WORDS) ?? []) : wordsOfAnyScript(text);
}

function* wordsOfAnyScript(text: string): Generator<string> {
  let word = "";
  for (const char of withoutAccents(text)) {
    const isAlone = isIdeograph(char) || PUNCTUATION.test(char);
    if (!isAlone && !SPACE.test(char)) {
      // Letter by letter, as the model was trained: a final Greek sigma is no separate letter.
      word += char.toLowerCase();
      continue;
    }
    if (word !== "") yield word;
    word = "";
    if (isAlone) yield char;
  }
  if (word !== "") yield word;
}

function withoutAccents(text: string): string {
  const kept = Array.from(text, (char) => (DROPPED.test(char) ? "" : char)).join("");
  return Array.from(kept.normalize("NFD"), (char) => (MARK.test(char) ? "" : char)).join("");
}

/** A Chinese character is a word; kana and hangul are not. */
function isIdeograph(char: string): boolean {
  const code = char.codePointAt(0) ?? 0;
  if (code < 0x3400) return false;
  return (
    (code >= 0x4e00 && code <= 0x9fff) ||
    code <= 0x4dbf ||
    (code >= 0xf900 && code <= 0xfaff) ||
    (code >= 0x20000 && code <= 0x2a6df) ||
    (code >= 0x2a700 && code <= 0x2ceaf) ||
    (code >= 0x2f800 && code <= 0x2fa1f)
  );
}

/** Greedy longest prefixes; undefined if a rest remains. */
function piecesOf(word: string, numbers: ReadonlyMap<string, number>): readonly number[] | undefined {
  const whole = numbers.get(word);
  if (whole !== undefined) return [whole];
  const chars = Array.from(word);
  if (chars.length > WORD_CHARS_MAX) return undefined;
  const pieces: number[] = [];
  for (let start = 0; start < chars.length; ) {
    let end = chars.length;
    let piece: number | undefined;
    for (; end > start && piece === undefined; end -= 1) {
      const part = chars.slice(start, end).join("");
      piece = numbers.get(start === 0 ? part : `##${part}`);
    }
    if (piece === undefined) return undefined;
    pieces.push(piece);
    start = end + 1;
  }
  return pieces;
}

/** A file of the package with its expected hash. */
export interface Asset {
  readonly name: string;
  readonly sha256: string;
  /** Instead of the package's `assets/`. */
  readonly folder?: string;
}

const VOCABULARY: Asset = {
  name: "vocab.txt",
  sha256: "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
};

/** The bytes of an asset; rejects with CAPABILITY_UNAVAILABLE if it is missing or changed. */
export async function readAsset(asset: Asset): Promise<NonSharedBuffer> {
  const path =
    asset.folder === undefined ? packageFile("@rkat/node", `assets/${asset.name}`) : join(asset.folder, asset.name);
  if (path === undefined) {
    throw new RuntimeError("CAPABILITY_UNAVAILABLE", `${asset.name} is missing: the package rkat cannot be found`);
  }
  const bytes = await readFile(path).catch((cause: unknown) => {
    throw new RuntimeError("CAPABILITY_UNAVAILABLE", `${asset.name} cannot be read: ${messageOf(cause)}`, { cause });
  });
  // Off the event loop, unlike `createHash`: 34 MB would block a turn.
  const digest = await crypto.subtle.digest("SHA-256", bytes);
  if (Buffer.from(digest).toString("hex") === asset.sha256) return bytes;
  throw new RuntimeError("CAPABILITY_UNAVAILABLE", `${asset.name} is damaged: its sha256 is not ${asset.sha256}`);
}

export async function readVocabulary(): Promise<readonly string[]> {
  return new TextDecoder()
    .decode(await readAsset(VOCABULARY))
    .trimEnd()
    .split("\n");
}

/** Scales a vector in place to length 1; a zero vector stays zero. */
export function toUnitLength(vector: Float32Array<ArrayBuffer>): Float32Array<ArrayBuffer> {
  const length = Math.sqrt(vector.reduce((sum, x) => sum + x * x, 0));
  if (length === 0) return vector;
  for (const [index, x] of vector.entries()) vector[index] = x / length;
  return vector;
}
