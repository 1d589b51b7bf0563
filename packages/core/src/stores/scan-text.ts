import { type Automaton, BREAK, SPACE, symbolsOf } from "./scan-automaton.ts";

/** What of a text's writing is undone before it is compared. Backslashes never count, however many there are. */
export type Writing = "plain" | "escaped" | "percent";

const BACKSLASH = 0x5c;
const AMPERSAND = 0x26;
const SEMICOLON = 0x3b;
const PERCENT = 0x25;
const PLUS = 0x2b;
const LETTER_U = 0x75;
const ASCII_END = 0x80;

/** Escapes of JSON that stand for white space. */
const WHITE_ESCAPES: ReadonlySet<number> = new Set(Array.from("nrtfb", (sign) => sign.charCodeAt(0)));
const ENTITY_CHARS_MAX = 10;
const POINTS_END = 0x11_0000;
const HIGH = 0xd800;
const LOW = 0xdc00;
const SURROGATES_END = 0xe000;

/** Bytes that mean themselves, however they are read: nothing is begun or ended by them. */
const ORDINARY = new Uint8Array(256).fill(1, SPACE + 1, ASCII_END - 1);
for (const byte of [BACKSLASH, AMPERSAND, PERCENT, PLUS]) ORDINARY[byte] = 0;

/** Bytes that change nothing at the start of a text. */
function idleBytes(firstBytes: Uint8Array): Uint8Array {
  return Uint8Array.from(firstBytes, (isFirst, byte) => {
    const isSign = byte > SPACE && byte < ASCII_END - 1 && ORDINARY[byte] === 0;
    return isFirst === 1 || isSign ? 0 : 1;
  });
}

/** Told the state of the automaton that patterns end in. */
export type Found = (state: number) => void;

const NO_PATTERNS: Automaton = {
  next: new Int32Array(1),
  classes: new Uint8Array(256),
  firstUnits: new Uint8Array(),
  firstBytes: new Uint8Array(256),
  endsIn: () => [],
};

/** A text as what it is compared by. */
export function normalise(text: string, writing: Writing): readonly number[] {
  const symbols: number[] = [];
  const reader = new TextReader({ automaton: NO_PATTERNS, writing, found: () => {}, record: symbols });
  for (const byte of new TextEncoder().encode(text)) reader.readByte(byte);
  reader.finish();
  return symbols;
}

interface ReaderOptions {
  readonly automaton: Automaton;
  readonly writing: Writing;
  readonly found: Found;
  /** Where symbols are written down. */
  readonly record?: number[];
  /**
   * Whose reading differs from this one's only after certain signs: from there on it reads for itself, until it has
   * nothing left to go on.
   */
  readonly follower?: TextReader;
}

/** One way of reading bytes as text, from chunk to chunk: a class, since its steps are the scan's time. */
export class TextReader {
  /** Whether nothing of what was read matters for what comes. */
  isIdle = true;
  readonly idle: Uint8Array;
  readonly #automaton: Automaton;
  readonly #writing: Writing;
  readonly #asciiClasses: Uint8Array;
  readonly #found: Found;
  readonly #record: number[] | undefined;
  readonly #follower: TextReader | undefined;
  readonly #isBeginning: (byte: number) => boolean;
  #state = 0;
  #isSpaced = false;
  /** Whether a letter or an escape is being read. */
  #isInside = false;
  // A letter of several bytes.
  #point = 0;
  #bytesLeft = 0;
  // An escape of JSON: not in one, after backslashes, or after `\u` with so many digits.
  #escape: "none" | "begun" | "digits" = "none";
  #digits = "";
  #high = 0;
  // An entity of HTML from its ampersand on, and a byte of an address from its percent sign on.
  #entity = "";
  #percent = "";

  constructor({ automaton, writing, found, record, follower }: ReaderOptions) {
    this.#automaton = automaton;
    this.#writing = writing;
    this.#found = found;
    this.#record = record;
    this.#follower = follower;
    this.#isBeginning =
      writing === "percent"
        ? (byte) => byte === PERCENT || byte === PLUS
        : (byte) => byte === BACKSLASH || byte === AMPERSAND;
    this.idle = idleBytes(automaton.firstBytes);
    this.#asciiClasses = Uint8Array.from({ length: ASCII_END }, (_, byte) => {
      const [symbol = BREAK] = symbolsOf(byte);
      return automaton.classes[symbol] ?? 0;
    });
  }

  reset(): void {
    this.#state = 0;
    this.#isSpaced = false;
    this.#point = 0;
    this.#bytesLeft = 0;
    this.#escape = "none";
    this.#digits = "";
    this.#high = 0;
    this.#entity = "";
    this.#percent = "";
    this.#isInside = false;
    this.isIdle = true;
    this.#follower?.reset();
  }

  read(bytes: Uint8Array): void {
    const { next } = this.#automaton;
    const { idle } = this;
    const classes = this.#asciiClasses;
    const spaceClass = this.#automaton.classes[SPACE] ?? 0;
    let state = this.#state;
    let isInside = this.#isInside;
    let isSpaced = this.#isSpaced;
    let isFollowed = this.#isFollowed();
    for (let at = 0; at < bytes.length; at += 1) {
      const byte = bytes[at] ?? 0;
      if (!isInside && !isFollowed) {
        if (state === 0 && idle[byte] === 1) continue;
        if (ORDINARY[byte] === 1) {
          if (isSpaced) {
            isSpaced = false;
            state = next[state + spaceClass] ?? 0;
          }
          state = next[state + (classes[byte] ?? 0)] ?? 0;
          if (state < 0) {
            state = ~state;
            this.#found(state);
          }
          continue;
        }
        if (byte <= SPACE) {
          isSpaced = true;
          continue;
        }
      }
      this.#state = state;
      this.#isSpaced = isSpaced;
      this.#lead(byte);
      this.#step(byte);
      state = this.#state;
      isSpaced = this.#isSpaced;
      isInside = this.#isInside;
      isFollowed = this.#isFollowed();
    }
    this.#state = state;
    this.#isSpaced = isSpaced;
    this.isIdle = state === 0 && !isInside;
  }

  /** One byte, for a caller that has checked `isIdle` and `idle`. */
  readByte(byte: number): void {
    this.#step(byte);
    this.isIdle = this.#state === 0 && !this.#isInside;
  }

  #step(byte: number): void {
    if (this.#isInside || this.#isSpaced || ORDINARY[byte] === 0 || this.#record !== undefined) {
      this.#take(byte);
      return;
    }
    const state = this.#automaton.next[this.#state + (this.#asciiClasses[byte] ?? 0)] ?? 0;
    this.#state = state < 0 ? ~state : state;
    if (state < 0) this.#found(this.#state);
  }

  #isFollowed(): boolean {
    const follower = this.#follower;
    return follower !== undefined && (!follower.isIdle || follower.#isFollowed());
  }

  /** Passes a byte to the followers before it is read here: one that begins to differ starts from this state. */
  #lead(byte: number): void {
    const follower = this.#follower;
    if (follower === undefined) return;
    const isApart = !follower.isIdle;
    if (!isApart) follower.#copy(this);
    follower.#lead(byte);
    if (isApart || follower.#isBeginning(byte)) follower.readByte(byte);
    else follower.isIdle = true;
  }

  #copy(leader: TextReader): void {
    this.#state = leader.#state;
    this.#isSpaced = leader.#isSpaced;
    this.#point = leader.#point;
    this.#bytesLeft = leader.#bytesLeft;
    this.#escape = leader.#escape;
    this.#digits = leader.#digits;
    this.#high = leader.#high;
    this.#entity = leader.#entity;
    this.#percent = "";
    this.#isInside = leader.#isInside;
  }

  /** Takes what was held back for what might follow. */
  finish(): void {
    this.#follower?.finish();
    if (this.isIdle) return;
    this.#flushPercent();
    this.#flushEscape();
    this.#flushEntity();
    this.reset();
  }

  #take(byte: number): void {
    if (this.#writing === "percent") this.#takePercent(byte);
    else this.#takeEscape(byte);
    this.#isInside =
      this.#bytesLeft > 0 || this.#escape !== "none" || this.#high > 0 || this.#entity !== "" || this.#percent !== "";
  }

  #takePercent(byte: number): void {
    if (this.#percent !== "" && isHex(byte)) {
      this.#percent += String.fromCharCode(byte);
      if (this.#percent.length < 3) return;
      const value = Number.parseInt(this.#percent.slice(1), 16);
      // What was encoded twice is decoded twice.
      this.#percent = value === PERCENT ? "%" : "";
      if (value !== PERCENT) this.#takeEscape(value);
      return;
    }
    this.#flushPercent();
    if (byte === PERCENT) this.#percent = "%";
    else this.#takeEscape(byte === PLUS ? SPACE : byte);
  }

  #flushPercent(): void {
    const held = this.#percent;
    this.#percent = "";
    for (const sign of held) this.#takeEscape(sign.charCodeAt(0));
  }

  /** A run of backslashes counts as one: texts are escaped once more wherever JSON is kept in JSON. */
  #takeEscape(byte: number): void {
    if (this.#writing === "plain") {
      if (byte !== BACKSLASH) this.#takeByte(byte);
      return;
    }
    if (this.#escape === "digits") {
      if (isHex(byte)) {
        this.#digits += String.fromCharCode(byte);
        if (this.#digits.length < 4) return;
        const unit = Number.parseInt(this.#digits, 16);
        this.#escape = "none";
        this.#digits = "";
        this.#takeUnit(unit);
        return;
      }
      this.#flushEscape();
    }
    if (byte === BACKSLASH) {
      if (this.#bytesLeft > 0) this.#emit(BREAK);
      this.#bytesLeft = 0;
      this.#escape = "begun";
      return;
    }
    const isWhite = this.#escape === "begun" && WHITE_ESCAPES.has(byte);
    if (this.#escape === "begun") {
      this.#escape = byte === LETTER_U ? "digits" : "none";
      if (byte === LETTER_U) return;
    }
    this.#takeByte(isWhite ? SPACE : byte);
  }

  #flushEscape(): void {
    const held = this.#escape === "digits" ? `u${this.#digits}` : "";
    this.#escape = "none";
    this.#digits = "";
    for (const sign of held) this.#takeByte(sign.charCodeAt(0));
  }

  #takeUnit(unit: number): void {
    if (unit >= LOW && unit < SURROGATES_END && this.#high > 0) {
      const point = 0x1_0000 + ((this.#high - HIGH) << 10) + (unit - LOW);
      this.#high = 0;
      this.#takePoint(point);
      return;
    }
    if (this.#high > 0) this.#emit(BREAK);
    this.#high = unit >= HIGH && unit < LOW ? unit : 0;
    if (this.#high === 0) this.#takePoint(unit);
  }

  #takeByte(byte: number): void {
    if (this.#high > 0) {
      this.#high = 0;
      this.#emit(BREAK);
    }
    if (this.#bytesLeft > 0) {
      if ((byte & 0xc0) === 0x80) {
        this.#point = (this.#point << 6) | (byte & 0x3f);
        this.#bytesLeft -= 1;
        if (this.#bytesLeft === 0) this.#takePoint(this.#point < POINTS_END ? this.#point : HIGH);
        return;
      }
      this.#bytesLeft = 0;
      this.#emit(BREAK);
    }
    if (byte < ASCII_END) this.#takePoint(byte);
    else if (byte >= 0xc2 && byte < 0xe0) this.#begin(byte & 0x1f, 1);
    else if (byte >= 0xe0 && byte < 0xf0) this.#begin(byte & 0x0f, 2);
    else if (byte >= 0xf0 && byte < 0xf5) this.#begin(byte & 0x07, 3);
    else this.#emit(BREAK);
  }

  #begin(point: number, bytesLeft: number): void {
    this.#point = point;
    this.#bytesLeft = bytesLeft;
  }

  #takePoint(point: number): void {
    if (this.#writing !== "plain") {
      if (this.#entity !== "" && this.#takeEntity(point)) return;
      if (point === AMPERSAND) {
        this.#entity = "&";
        return;
      }
    }
    this.#fold(point);
  }

  /** Whether the letter belongs to an entity; one that turns out to be none is read as it stands. */
  #takeEntity(point: number): boolean {
    if (point === SEMICOLON) {
      const name = this.#entity.slice(1).toLowerCase();
      const meant = pointOfEntity(name);
      if (meant === undefined) {
        this.#flushEntity();
        return false;
      }
      // What was encoded twice is decoded twice.
      this.#entity = meant === AMPERSAND ? "&" : "";
      if (meant !== AMPERSAND) this.#fold(meant);
      return true;
    }
    if (point < ASCII_END && this.#entity.length <= ENTITY_CHARS_MAX && isNamePart(point)) {
      this.#entity += String.fromCharCode(point);
      return true;
    }
    this.#flushEntity();
    return false;
  }

  #flushEntity(): void {
    const held = this.#entity;
    this.#entity = "";
    for (const sign of held) this.#fold(sign.charCodeAt(0));
  }

  #fold(point: number): void {
    const symbols = symbolsOf(point);
    if (symbols.length === 0) this.#isSpaced = true;
    for (const symbol of symbols) this.#emit(symbol);
  }

  #emit(symbol: number): void {
    const { next, classes } = this.#automaton;
    if (this.#record !== undefined) {
      // White space at either end of a text is none of it.
      if (this.#isSpaced && this.#record.length > 0) this.#record.push(SPACE);
      this.#record.push(symbol);
    }
    if (this.#isSpaced) this.#state = next[this.#state + (classes[SPACE] ?? 0)] ?? 0;
    this.#isSpaced = false;
    const state = next[this.#state + (classes[symbol] ?? 0)] ?? 0;
    this.#state = state < 0 ? ~state : state;
    if (state < 0) this.#found(this.#state);
  }
}

/** Names of HTML references without case, as texts are compared; each name is the code point after the one before it. */
const ENTITIES = counted(`9 tab newline 33 excl quot num dollar percnt amp apos lpar rpar ast plus comma 46 period sol
  58 colon semi lt equals gt quest commat 91 lsqb bsol rsqb hat lowbar grave 123 lcub verbar rcub 91 lbrack 93 rbrack
  123 lbrace vert rbrace 160 nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn
  sup2 sup3 acute micro para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest 215 times 223 szlig 230 aelig
  240 eth 247 divide oslash 254 thorn 267 cdot 273 dstrok 279 edot 289 gdot 295 hstrok 304 idot imath 305 inodot
  307 ijlig 322 lstrok 331 eng 339 oelig 359 tstrok 380 zdot 945 alpha beta gamma delta epsilon zeta eta theta iota kappa
  lambda mu nu xi omicron pi rho sigmaf sigma tau upsilon phi chi psi omega 1072 acy bcy vcy gcy dcy iecy zhcy zcy icy jcy
  kcy lcy mcy ncy ocy pcy rcy scy tcy ucy fcy khcy tscy chcy shcy shchcy hardcy ycy softcy ecy yucy yacy 1105 iocy djcy
  gjcy jukcy dscy iukcy yicy jsercy ljcy njcy tshcy kjcy 1118 ubrcy dzcy 8194 ensp emsp 8201 thinsp 8208 hyphen 8208 dash
  8211 ndash mdash 8216 lsquo rsquo sbquo 8220 ldquo rdquo bdquo 8226 bull 8230 hellip 8249 lsaquo rsaquo 8364 euro
  8482 trade`);
/** An accented letter is named by its letter and its accent; the combining mark of each. */
const ACCENTS = counted("768 grave acute circ tilde macr 774 breve 776 uml 778 ring dblac caron 807 cedil ogon");
const NUMBERED = /^#(?:x([0-9a-f]{1,6})|([0-9]{1,7}))$/i;

/**
 * What a reference of HTML stands for, by what is between `&` and `;`, in lower case: a number, a letter (Latin, Greek,
 * Cyrillic) or a punctuation mark; undefined for others, such as mathematical signs.
 */
function pointOfEntity(name: string): number | undefined {
  const [, hex, decimal = ""] = NUMBERED.exec(name) ?? [];
  const point = hex === undefined ? Number.parseInt(decimal, 10) : Number.parseInt(hex, 16);
  return point < POINTS_END ? point : (ENTITIES.get(name) ?? accentedPoint(name));
}

function accentedPoint(name: string): number | undefined {
  const mark = ACCENTS.get(name.slice(1));
  if (mark === undefined) return undefined;
  const composed = `${name.charAt(0)}${String.fromCodePoint(mark)}`.normalize("NFC");
  return composed.length === 1 ? composed.codePointAt(0) : undefined;
}

/** Words by the numbers they stand for, which a number among them begins anew. */
function counted(words: string): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  let next = 0;
  for (const word of words.split(/\s+/)) {
    if (/^\d/.test(word)) next = Number(word);
    else found.set(word, next++);
  }
  return found;
}

/** Whether a name of such a reference may have it. */
function isNamePart(point: number): boolean {
  return point === 0x23 || (point >= 0x30 && point <= 0x39) || ((point | 0x20) >= 0x61 && (point | 0x20) <= 0x7a);
}

function isHex(byte: number): boolean {
  return (byte >= 0x30 && byte <= 0x39) || ((byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x66);
}
