/** White space of any kind and length is one of these. */
export const SPACE = 0x20;
/** Stands for what is no letter: no UTF-8 has this byte. */
export const BREAK = 0xff;

const ASCII_END = 0x80;
const BMP_END = 0x1_0000;
/** Letters beyond have no case. */
const CACHED_END = 0x2_0000;
/** What half of a letter becomes where it cannot be written. */
const REPLACEMENT = 0xfffd;
const SURROGATES = { high: 0xd800, low: 0xdc00, end: 0xe000 };

const WHITE = /^\s$/u;
const folded: (Uint8Array | undefined)[] = [];
const encoder = new TextEncoder();

/** The bytes that a letter counts as, whatever its case and however it is composed; none for white space. */
export function symbolsOf(point: number): Uint8Array {
  const known = folded[point];
  if (known !== undefined) return known;
  const symbols = fold(point);
  if (point < CACHED_END) folded[point] = symbols;
  return symbols;
}

const NOTHING = new Uint8Array();
const BROKEN = Uint8Array.of(BREAK);

function fold(point: number): Uint8Array {
  if (point === REPLACEMENT || (point >= SURROGATES.high && point < SURROGATES.end)) return BROKEN;
  const letter = String.fromCodePoint(point);
  // Control characters are written as white space is, escaped or not.
  if (point < SPACE || point === 0x7f || WHITE.test(letter)) return NOTHING;
  if (point < ASCII_END) return encoder.encode(letter.toLowerCase());
  return encoder.encode([...letter.normalize("NFD")].map(foldCase).join(""));
}

/** Letters that become several when their case changes stay as they are, as in Unicode's simple folding. */
function foldCase(letter: string): string {
  const upper = letter.toUpperCase();
  const one = isOne(upper) ? upper : letter;
  const lower = one.toLowerCase();
  return isOne(lower) ? lower : one;
}

const isOne = (text: string): boolean => text.length === ((text.codePointAt(0) ?? 0) < BMP_END ? 1 : 2);
