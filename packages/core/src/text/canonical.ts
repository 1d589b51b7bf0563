/** Scripts without spaces: each character is a word, and a change of script is a word border. */
const UNSPACED = "\\u3040-\\u30ff\\u3400-\\u9fff\\uac00-\\ud7af\\uf900-\\ufaff";
const UNSPACED_SIGN = new RegExp(`[${UNSPACED}]`, "u");
/** Global, so for `matchAll` and `replace` only: `test` would keep its position. */
export const UNSPACED_RUNS = new RegExp(`[${UNSPACED}]+`, "gu");
const WORD_SIGN = /[\p{L}\p{N}\p{M}_]/u;

/** Elided French articles and pronouns are separate words. */
const ELISIONS = /(?<!\p{L})(qu|[cdjlmnst])['’](?=\p{L})/giu;
const APOSTROPHES = /(?<=\p{L})['’](?=\p{L})/gu;
const EMPHASIS = /(?<![\p{L}\p{N}])_+|(?<!_)_+(?![\p{L}\p{N}_])/gu;
/** Characters that rarely change the meaning: white space, quotes, emphasis, table bars and every kind of hyphen. */
const SOFT_SIGN = "[\\s\"'`“”„‟‘’‚«»‹›「」『』*|‐‑–—−\\-]";
/** A lone blank stays one: most runs are, and replacing one by itself takes as long as finding it. */
const SOFT = new RegExp(`(?! (?!${SOFT_SIGN}))${SOFT_SIGN}+`, "gu");
const FULL_WIDTH = /[\uff01-\uff0b\uff0d-\uff5e\u3000]/gu;
const EDGES =
  /^[\s.,;:!?()[\]{}<>。、，；：！？…]+|(?<![\s.,;:!?()[\]{}<>。、，；：！？…])[\s.,;:!?()[\]{}<>。、，；：！？…]+$/gu;

/** A text for comparison: one width, one case, one slash, one space for all soft characters. */
export function canonical(text: string): string {
  return unquoted(text.normalize("NFKC").toLowerCase()).replace(SOFT, " ");
}

/** Characters that `written` keeps in place of a space: dashes before or inside a word, of a pattern, of a pipe. */
const KEPT = /[‑—*|-]/gu;

/** The canonical text with its capitals; characters attached to a word stay: `-18`, `--force`, `*.log`. */
export function written(text: string): string {
  return unquoted(text.normalize("NFKC")).replace(SOFT, keptSign);
}

export function asCanonical(text: string): string {
  return text.toLowerCase().replace(KEPT, " ");
}

const DASHES_AT_END = /(?<![‐‑–−-])[‐‑–−-]+$/u;
const ATTACHES = /[\p{L}\p{N}\p{M}\p{Sc}_.]/u;

function keptSign(run: string, at: number, text: string): string {
  const [before = "", after = ""] = [text[at - 1], text[at + run.length]];
  if (run.includes("|")) return "|";
  const isInWord = WORD_SIGN.test(before) && WORD_SIGN.test(after);
  // One star starts a pattern, `*.log`; two are emphasis.
  const isPattern = run.endsWith("*") && (after === "/" || (after === "." && !run.endsWith("**")));
  if (isPattern || (run === "*" && (isInWord || before === "/"))) return "*";
  const dashes = ATTACHES.test(after) ? (DASHES_AT_END.exec(run)?.[0] ?? "") : "";
  if (dashes.length !== 1) return dashes === "" ? " " : "—";
  return run === dashes && WORD_SIGN.test(before) ? "-" : "‑";
}

/** Names that are distinguished by case. */
export const CODE_NAME = /_|\p{Ll}[-.]?\p{Lu}|\p{Lu}{2}\p{Ll}{2}|^\$/u;
const CASED_WORD = /[\d/@]|^[‑—]/u;
const STOPS = /^[\s,;:!?…。、，；：！？|]+|(?<![\s.,;:!?…。、，；：！？|])[\s.,;:!?…。、，；：！？|]+$/gu;

/** A sentence for literal comparison: without quotes, emphasis, stops and the case of plain words. */
export function verbatim(text: string): string {
  const said = written(text);
  const isBracketed = /^[([{<（]/u.test(said);
  return plainCase(said.replace(isBracketed ? EDGES : STOPS, ""));
}

/** Lower-cases plain words; options, codes and case-sensitive names stay. */
export function plainCase(text: string): string {
  return text.replace(/[‑—]?[^\s‑—|*]+/gu, (word) =>
    CASED_WORD.test(word) || CODE_NAME.test(word) ? word : word.toLowerCase(),
  );
}

/** Removes apostrophes, emphasis by underscores and invisible characters. */
function unquoted(text: string): string {
  let said = text;
  // Each of these reads the text once more, and most texts have none of them.
  if (said.includes("\\")) said = said.replaceAll("\\", "/");
  if (said.includes("'") || said.includes("’")) said = said.replace(ELISIONS, "$1 ").replace(APOSTROPHES, "");
  if (said.includes("_")) said = said.replace(EMPHASIS, "");
  return IGNORED.test(said) ? said.replaceAll(IGNORED_ALL, "") : said;
}

/** Invisible characters: they join, separate or reorder text. */
const IGNORED = /[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]/;
const IGNORED_ALL = new RegExp(IGNORED, "g");

export function canonicalPiece(text: string): string {
  return bare(canonical(text));
}

export function writtenPiece(text: string): string {
  return bare(written(text));
}

function bare(text: string): string {
  return text
    .replace(EDGES, "")
    .replace(/^\.?\//u, "")
    .replace(/\/$/u, "");
}

/** Maps full-width Latin characters one to one, so that positions stay valid. */
export function foldWidth(text: string): string {
  return text.replace(FULL_WIDTH, (sign) =>
    sign === "\u3000" ? " " : String.fromCharCode(sign.charCodeAt(0) - 0xfee0),
  );
}

export interface Word {
  readonly word: string;
  readonly index: number;
}

/** The role of a character: none, part of a word, or a word by itself; 0 if not computed yet. */
const kinds = new Uint8Array(0x1_0000);
const [OTHER, PART, WHOLE] = [1, 2, 3];

/** Every word of a canonical text with its position; faster than a regular expression. */
export function wordsIn(text: string): readonly Word[] {
  const words: Word[] = [];
  let start = -1;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    const kind = kinds[code] || kindAt(text, at, code);
    if (kind === PART) {
      if (start < 0) start = at;
      continue;
    }
    if (start >= 0) words.push({ word: text.slice(start, at), index: start });
    start = -1;
    if (kind === WHOLE) words.push({ word: text.charAt(at), index: at });
  }
  if (start >= 0) words.push({ word: text.slice(start), index: start });
  return words;
}

function kindAt(text: string, at: number, code: number): number {
  const isHalf = code >= 0xd800 && code <= 0xdfff;
  // A low surrogate has the role of its pair.
  const from = code >= 0xdc00 && code <= 0xdfff && /[\ud800-\udbff]/.test(text.charAt(at - 1)) ? at - 1 : at;
  const sign = isHalf ? String.fromCodePoint(text.codePointAt(from) ?? code) : text.charAt(at);
  const kind = UNSPACED_SIGN.test(sign) ? WHOLE : WORD_SIGN.test(sign) ? PART : OTHER;
  if (!isHalf) kinds[code] = kind;
  return kind;
}

export function isUnspaced(text: string): boolean {
  return UNSPACED_SIGN.test(text);
}

/** Whether the piece is a whole word: `foo` is not in `foobar`, nor `12` in `2012`. */
export function isWhole(text: string, start: number, end: number): boolean {
  return isBorder(text[start - 1], text[start]) && isBorder(text[end - 1], text[end]);
}

function isBorder(left: string | undefined, right: string | undefined): boolean {
  if (left === undefined || right === undefined) return true;
  if (!WORD_SIGN.test(left) || !WORD_SIGN.test(right)) return true;
  return UNSPACED_SIGN.test(left) || UNSPACED_SIGN.test(right);
}

const NON_ASCII = /[^\0-\x7f]/;
/** Accents of Latin, Greek and Cyrillic, and points of Hebrew and Arabic; in other scripts such marks are vowels. */
const ACCENTS = /[\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670]/g;
const LETTERS = /[’ßøłđæœıþð]/g;
const PLAIN_LETTERS = new Map(
  "’' ßss øo łl đd æae œoe ıi þth ðd".split(" ").map((row) => [row.charAt(0), row.slice(1)]),
);

/** Folds words: lower case, no full-width forms, no accents. */
export function fold(text: string): string {
  if (!NON_ASCII.test(text)) return text.toLowerCase();
  return text
    .normalize("NFKD")
    .replace(ACCENTS, "")
    .normalize("NFC")
    .toLowerCase()
    .replace(LETTERS, (letter) => PLAIN_LETTERS.get(letter) ?? letter);
}

/** Every match of a global expression. For short texts `matchAll` takes longer to copy the expression. */
export function matchesOf(form: RegExp, text: string): RegExpExecArray[] {
  const found: RegExpExecArray[] = [];
  form.lastIndex = 0;
  for (let match = form.exec(text); match !== null; match = form.exec(text)) {
    found.push(match);
    // An empty match would repeat forever.
    if (match[0] === "") form.lastIndex += 1;
  }
  return found;
}
