/** Stands for white space of any kind and length. */
export const SPACE = 0x20;
/** Stands for anything that is not a letter: UTF-8 never contains this byte. */
export const BREAK = 0xff;

const ASCII_END = 0x80;
const BMP_END = 0x1_0000;
/** Letters beyond have no case. */
const CACHED_END = 0x2_0000;
/** What an unpaired surrogate becomes. */
const REPLACEMENT = 0xfffd;
const SURROGATES = { high: 0xd800, low: 0xdc00, end: 0xe000 };

const WHITE = /^\s$/u;
const folded: (Uint8Array | undefined)[] = [];
const encoder = new TextEncoder();

/** The bytes that a letter counts as, regardless of case and composition; none for white space. */
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
  // Control characters are treated like white space, escaped or not.
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

/** A text in one of its normal forms. */
export interface Pattern {
  readonly text: number;
  readonly symbols: readonly number[];
}

/** Finds all patterns at once, one step per symbol: an Aho–Corasick automaton. */
export interface Automaton {
  /** The next state by state and class of the symbol; it is negative if a pattern ends there. */
  readonly next: Int32Array;
  readonly classes: Uint8Array;
  /** Whether a pattern can begin with a unit of UTF-16, or with a byte of UTF-8. */
  readonly firstUnits: Uint8Array;
  readonly firstBytes: Uint8Array;
  endsIn(state: number): readonly Pattern[];
}

const BYTES = 256;
const UNITS = 0x1_0000;

/** The number of a state is the beginning of its row in `next`. */
export function createAutomaton(patterns: readonly Pattern[]): Automaton {
  const classes = classesOf(patterns);
  const width = Math.max(...classes) + 1;
  const most = patterns.reduce((sum, { symbols }) => sum + symbols.length, 1);
  const next = new Int32Array(most * width);
  const ends = new Map<number, Pattern[]>();
  let used = width;
  for (const pattern of patterns) {
    let state = 0;
    for (const symbol of pattern.symbols) {
      const at = state + (classes[symbol] ?? 0);
      if (next[at] === 0) {
        next[at] = used;
        used += width;
      }
      state = next[at] ?? 0;
    }
    ends.set(state, [...(ends.get(state) ?? []), pattern]);
  }
  const firstUnits = firstUnitsOf(next, classes);
  // For each state, its longest suffix that is a prefix of another pattern.
  const shorter = new Int32Array(most);
  const ending = new Uint8Array(most);
  const rows = [0];
  for (let row = 0; row < rows.length; row += 1) {
    const state = rows[row] ?? 0;
    const back = shorter[state / width] ?? 0;
    if (ends.has(state) || (state !== 0 && ending[back / width] === 1)) ending[state / width] = 1;
    for (let kind = 0; kind < width; kind += 1) {
      const to = next[state + kind] ?? 0;
      // States are visited by depth, so that the row of `back` is complete by now.
      const other = state === 0 ? 0 : (next[back + kind] ?? 0);
      if (to === 0) {
        next[state + kind] = other;
      } else {
        shorter[to / width] = other;
        rows.push(to);
      }
    }
  }
  for (let at = 0; at < used; at += 1) {
    const to = next[at] ?? 0;
    if (ending[to / width] === 1) next[at] = ~to;
  }
  return {
    next,
    classes,
    firstUnits,
    firstBytes: firstBytesOf(firstUnits),
    endsIn: (from) => {
      const found: Pattern[] = [];
      for (let state = from; state !== 0; state = shorter[state / width] ?? 0) found.push(...(ends.get(state) ?? []));
      return found;
    },
  };
}

/** Symbols that occur in no pattern have class 0, which leads nowhere. */
function classesOf(patterns: readonly Pattern[]): Uint8Array {
  const classes = new Uint8Array(BYTES);
  let count = 0;
  for (const { symbols } of patterns) {
    for (const symbol of symbols) {
      if (classes[symbol] !== 0) continue;
      count += 1;
      classes[symbol] = count;
    }
  }
  return classes;
}

/** While `next` is still a tree. */
function firstUnitsOf(next: Int32Array, classes: Uint8Array): Uint8Array {
  const first = new Uint8Array(UNITS);
  unitsBySymbol ??= groupUnits();
  for (const [symbol, units] of unitsBySymbol.entries()) {
    const kind = classes[symbol] ?? 0;
    if (kind === 0 || next[kind] === 0) continue;
    for (const unit of units) if (isBeginning(symbolsOf(unit), next, classes)) first[unit] = 1;
  }
  return first.fill(1, SURROGATES_FROM, SURROGATES_LOW);
}

/** Units of UTF-16 by the first symbol they count as; made once, since it takes longer than most automata. */
let unitsBySymbol: readonly (readonly number[])[] | undefined;

function groupUnits(): readonly (readonly number[])[] {
  const groups: number[][] = Array.from({ length: BYTES }, () => []);
  for (let unit = 0; unit < UNITS; unit += 1) groups[symbolsOf(unit)[0] ?? BREAK]?.push(unit);
  return groups;
}

function isBeginning(symbols: Uint8Array, next: Int32Array, classes: Uint8Array): boolean {
  let state = 0;
  for (const symbol of symbols) {
    const kind = classes[symbol] ?? 0;
    state = kind === 0 ? 0 : (next[state + kind] ?? 0);
    if (state === 0) return false;
  }
  return true;
}

const SURROGATES_FROM = 0xd800;
const SURROGATES_LOW = 0xdc00;
const FOUR_BYTES_FROM = 0xf0;
const FOUR_BYTES_END = 0xf5;

/** Of UTF-8; whether a pattern begins with a letter beyond the first plane is left to the automaton. */
function firstBytesOf(units: Uint8Array): Uint8Array {
  const first = new Uint8Array(BYTES);
  for (let unit = 0; unit < UNITS; unit += 1) {
    if (units[unit] === 0 || (unit >= SURROGATES_FROM && unit < SURROGATES_LOW)) continue;
    if (unit < 0x80) first[unit] = 1;
    else first[unit < 0x800 ? 0xc0 | (unit >> 6) : 0xe0 | (unit >> 12)] = 1;
  }
  return first.fill(1, FOUR_BYTES_FROM, FOUR_BYTES_END);
}
