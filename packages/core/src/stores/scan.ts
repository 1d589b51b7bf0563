import { invalid } from "../contract/error.ts";
import { BREAK, createAutomaton, type Pattern, SPACE } from "./scan-automaton.ts";
import { createBase64Reader, createHexReader, createWideReader } from "./scan-packed.ts";
import { normalise, TextReader, type Writing } from "./scan-text.ts";

/** A text that was found, and its encoding. */
export interface FoundText {
  readonly text: number;
  readonly form: string;
}

/** Searches place by place; nothing that was read is kept. */
export interface Finder {
  /** Reads the next bytes of a place. */
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
