import { invalid } from "../contract/error.ts";
import { type Automaton, BREAK, createAutomaton, type Pattern, SPACE, symbolsOf } from "./scan-automaton.ts";
import { type Found, normalise, TextReader, type Writing } from "./scan-text.ts";

export interface FoundText {
  readonly text: number;
  readonly form: string;
}

/** Searches place by place; nothing that was read is kept. */
export interface Finder {
  read(bytes: Uint8Array): void;
  /** Ends a place and returns what it contains. */
  end(): readonly FoundText[];
}

/** Shorter texts would be found by chance. */
const TEXT_LETTERS_MIN = 4;
export const TEXTS_MAX = 1_000;
/** Longer texts are searched for by their beginning, which is long enough to rule out chance. */
const SYMBOLS_MAX = 128;
/** Fewer bytes are under six whole signs of base64, which other words have by chance. */
const BASE64_SYMBOLS_MIN = 5;

type Form = "plain" | "escaped" | "percent-encoded" | "utf-16" | "base64" | "hex";

/** Finds texts regardless of case, white space and composition, in the encodings that occur in files. */
export function createFinder(texts: readonly string[]): Finder {
  const patterns = patternsOf(texts);
  const automaton = createAutomaton(patterns);
  const seen = new Map<Form, Set<number>>();
  const telling = (form: Form) => {
    const states = new Set<number>();
    seen.set(form, states);
    return (state: number): void => void states.add(state);
  };
  const percent = new TextReader({ automaton, writing: "percent", found: telling("percent-encoded") });
  const escaped = new TextReader({ automaton, writing: "escaped", found: telling("escaped"), follower: percent });
  const plain = new TextReader({ automaton, writing: "plain", found: telling("plain"), follower: escaped });
  const packed = [
    createWideReader(automaton, telling("utf-16")),
    createBase64Reader(automaton, telling("base64")),
    createHexReader(automaton, telling("hex")),
  ];
  const foundAs = (form: Form): ReadonlySet<number> => {
    const found = [...(seen.get(form) ?? [])].flatMap((state) => automaton.endsIn(state));
    const counted = form === "base64" ? found.filter(({ symbols }) => symbols.length >= BASE64_SYMBOLS_MIN) : found;
    return new Set(counted.map(({ text }) => text));
  };
  return {
    read: (bytes) => {
      plain.read(bytes);
      for (const reader of packed) reader.read(bytes);
    },
    end: () => {
      plain.finish();
      for (const reader of packed) reader.reset();
      const [asPlain, asEscaped] = [foundAs("plain"), foundAs("escaped")];
      // Plain text is found by it, too.
      const found = [...seen.keys()].flatMap((form) =>
        [...foundAs(form)]
          .filter((text) => form !== "escaped" || !asPlain.has(text))
          .filter((text) => form !== "percent-encoded" || !(asPlain.has(text) || asEscaped.has(text)))
          .map((text) => ({ text, form })),
      );
      for (const states of seen.values()) states.clear();
      return found;
    },
  };
}

/** Throws INVALID_PARAMS for texts that cannot be searched for. */
export function requireTexts(texts: readonly string[]): void {
  patternsOf(texts);
}

const WRITINGS: readonly Writing[] = ["plain", "escaped", "percent"];

function patternsOf(texts: readonly string[]): readonly Pattern[] {
  if (texts.length > TEXTS_MAX) {
    throw invalid(`${texts.length} texts are more than are looked for at once; give ${TEXTS_MAX} at most`);
  }
  const patterns = new Map<string, Pattern>();
  for (const [text, given] of texts.entries()) {
    const letters = [...given.trim()].length;
    const forms = WRITINGS.flatMap((writing) => {
      const symbols = beginningOf(normalise(given, writing));
      // An apparent escape may decode to no letter at all.
      return symbols.filter((symbol) => symbol !== BREAK).length < TEXT_LETTERS_MIN ? [] : [symbols];
    });
    if (letters < TEXT_LETTERS_MIN || forms.length === 0) {
      throw invalid(`texts[${text}] is too short to be told from chance; give ${TEXT_LETTERS_MIN} letters or more`);
    }
    for (const symbols of forms) patterns.set(`${text} ${symbols.join(" ")}`, { text, symbols });
  }
  return [...patterns.values()];
}

/** Never ends in a blank: readers take a blank with the letter after it, so such a text would never be found. */
function beginningOf(symbols: readonly number[]): readonly number[] {
  const end = symbols[SYMBOLS_MAX - 1] === SPACE ? SYMBOLS_MAX - 1 : SYMBOLS_MAX;
  return symbols.slice(0, end);
}

interface PackedReader {
  read(bytes: Uint8Array): void;
  reset(): void;
}

const BACKSLASH = 0x5c;
const HIGH = 0xd800;
const LOW = 0xdc00;
const SURROGATES_END = 0xe000;
/** Either byte order, beginning at an even or odd byte. */
const WIDE_STREAMS = 4;

/** UTF-16 in both byte orders, at any offset. */
function createWideReader({ next, classes, firstUnits }: Automaton, found: Found): PackedReader {
  const states = new Int32Array(WIDE_STREAMS);
  const spaced = new Uint8Array(WIDE_STREAMS);
  const highs = new Uint16Array(WIDE_STREAMS);
  /** High bytes of units that a text can begin with, which rules out most bytes. */
  const highBytes = new Uint8Array(256);
  for (let unit = 0; unit < firstUnits.length; unit += 1) if (firstUnits[unit] === 1) highBytes[unit >> 8] = 1;
  let last = -1;
  let parity = 0;
  /** A bit for each reader that is in the middle of a match. */
  let busy = 0;
  const emit = (stream: number, symbol: number): void => {
    let state = states[stream] ?? 0;
    if (spaced[stream] === 1) state = next[state + (classes[SPACE] ?? 0)] ?? 0;
    spaced[stream] = 0;
    state = next[state + (classes[symbol] ?? 0)] ?? 0;
    states[stream] = state < 0 ? ~state : state;
    if (state < 0) found(~state);
  };
  const take = (stream: number, unit: number): void => {
    const high = highs[stream] ?? 0;
    highs[stream] = 0;
    const isPair = high > 0 && unit >= LOW && unit < SURROGATES_END;
    if (high > 0 && !isPair) emit(stream, BREAK);
    if (unit >= HIGH && unit < LOW) {
      highs[stream] = unit;
      return;
    }
    if (unit === BACKSLASH) return;
    const symbols = symbolsOf(isPair ? 0x1_0000 + ((high - HIGH) << 10) + (unit - LOW) : unit);
    if (symbols.length === 0) spaced[stream] = 1;
    for (const symbol of symbols) emit(stream, symbol);
  };
  const takePair = (first: number, second: number): void => {
    for (const [stream, unit] of [
      [parity, first | (second << 8)],
      [parity + 2, (first << 8) | second],
    ] as const) {
      const bit = 1 << stream;
      if ((busy & bit) === 0 && firstUnits[unit] === 0) continue;
      take(stream, unit);
      busy = states[stream] === 0 && highs[stream] === 0 ? busy & ~bit : busy | bit;
    }
  };
  return {
    read: (bytes) => {
      for (let at = 0; at < bytes.length; at += 1) {
        const byte = bytes[at] ?? 0;
        if (last >= 0 && (busy !== 0 || highBytes[byte] === 1 || highBytes[last] === 1)) takePair(last, byte);
        last = byte;
        parity ^= 1;
      }
    },
    reset: () => {
      for (const field of [states, spaced, highs]) field.fill(0);
      last = -1;
      busy = 0;
    },
  };
}

/** A text reader for each offset at which bytes can begin. */
function createStreams(automaton: Automaton, found: Found, count: number) {
  const readers = Array.from({ length: count }, () => new TextReader({ automaton, writing: "escaped", found }));
  const [{ idle } = { idle: new Uint8Array() }] = readers;
  /** A bit for each reader that is in the middle of a match. */
  let busy = 0;
  return {
    /** Whether a byte matters at all. */
    isAwaited: (byte: number): boolean => idle[byte] === 0,
    isBusy: (): boolean => busy !== 0,
    read: (stream: number, byte: number): void => {
      const bit = 1 << stream;
      if ((busy & bit) === 0 && idle[byte] === 1) return;
      const reader = readers[stream];
      if (reader === undefined) return;
      reader.readByte(byte);
      busy = reader.isIdle ? busy & ~bit : busy | bit;
    },
    end: (): void => {
      if (busy === 0) return;
      for (const reader of readers) reader.finish();
      busy = 0;
    },
  };
}

const NONE = 255;

function valuesOf(alphabets: readonly string[]): Uint8Array {
  const values = new Uint8Array(256).fill(NONE);
  for (const alphabet of alphabets)
    for (let value = 0; value < alphabet.length; value += 1) values[alphabet.charCodeAt(value)] = value;
  return values;
}

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const BASE64 = valuesOf([`${LETTERS}+/`, `${LETTERS}-_`]);
const HEX = valuesOf(["0123456789abcdef", "0123456789ABCDEF"]);

/** Lines of base64 end with these, and may be indented. */
const LINE_ENDS: ReadonlySet<number> = new Set([0x0a, 0x0d]);
const INDENTS: ReadonlySet<number> = new Set([0x20, 0x09]);
/** The same in JSON escapes. */
const ESCAPED_LINE_ENDS: ReadonlySet<number> = new Set([0x6e, 0x72]);

/** Base64 with either alphabet, in one line or several: every character may be the first of four. */
function createBase64Reader(automaton: Automaton, found: Found): PackedReader {
  const streams = createStreams(automaton, found, 4);
  /** By the last two signs: whether one of the bytes that end with the second matters. */
  const awaited = Uint8Array.from({ length: 1 << 12 }, (_, two) =>
    [two >> 4, two >> 2, two].some((byte) => streams.isAwaited(byte & 0xff)) ? 1 : 0,
  );
  let signs = 0;
  let bits = 0;
  let isLineBegun = false;
  let isEscape = false;
  const end = (): void => {
    if (signs > 0) streams.end();
    signs = 0;
    isLineBegun = false;
    isEscape = false;
  };
  return {
    read: (bytes) => {
      for (let at = 0; at < bytes.length; at += 1) {
        const byte = bytes[at] ?? 0;
        const value = BASE64[byte] ?? NONE;
        if (value === NONE || isEscape) {
          if (signs === 0) continue;
          if (byte === BACKSLASH) {
            isEscape = true;
            continue;
          }
          const isLineEnd = isEscape ? ESCAPED_LINE_ENDS.has(byte) : LINE_ENDS.has(byte);
          const isSlash = isEscape && byte === 0x2f;
          isEscape = false;
          if (isLineEnd) isLineBegun = true;
          if (isLineEnd || (isLineBegun && INDENTS.has(byte))) continue;
          if (!isSlash) {
            end();
            continue;
          }
        }
        isLineBegun = false;
        bits = ((bits << 6) | value) & 0xffffff;
        signs += 1;
        if (awaited[bits & 0xfff] === 0 && !streams.isBusy()) continue;
        // Of the four, the one that begins with this sign has no byte yet.
        if (signs >= 2) streams.read((signs - 2) & 3, (bits >> 4) & 0xff);
        if (signs >= 3) streams.read((signs - 3) & 3, (bits >> 2) & 0xff);
        if (signs >= 4) streams.read((signs - 4) & 3, bits & 0xff);
      }
    },
    reset: end,
  };
}

/** Hexadecimal bytes in either case: every digit may be the first of two. */
function createHexReader(automaton: Automaton, found: Found): PackedReader {
  const streams = createStreams(automaton, found, 2);
  let digits = 0;
  let bits = 0;
  const end = (): void => {
    if (digits > 0) streams.end();
    digits = 0;
  };
  return {
    read: (bytes) => {
      for (let at = 0; at < bytes.length; at += 1) {
        const value = HEX[bytes[at] ?? 0] ?? NONE;
        if (value === NONE) {
          if (digits > 0) end();
          continue;
        }
        bits = ((bits << 4) | value) & 0xff;
        if (digits >= 1) streams.read((digits - 1) & 1, bits);
        digits += 1;
      }
    },
    reset: end,
  };
}
