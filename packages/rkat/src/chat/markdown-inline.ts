import type { Paint } from "../io.ts";
import { type Ink, inked, inkOf, type TextSink } from "./wrapped-text.ts";

type Look = "em" | "strong" | "both" | "del" | "code" | "link" | "tag";

/** How the parts of a text look; `tag` is what is shown faintly. */
export type Inks = Readonly<Record<Look, Ink>>;

export function createInks(paint: Paint): Inks {
  const [em, strong] = [inkOf(paint.italic), inkOf(paint.bold)];
  return {
    em,
    strong,
    both: inked(strong, em),
    del: inkOf(paint.strikethrough),
    code: inkOf(paint.cyan),
    link: inkOf(paint.underline),
    tag: inkOf(paint.dim),
  };
}

export interface Reading {
  readonly inks: Inks;
  readonly ink: Ink;
  readonly before: string;
  /** Whether nothing of its line follows. */
  readonly isWhole: boolean;
  /** How many spans it stands in. */
  readonly depth: number;
}

/** A sign is closed so far behind it, or is what it looks like: more is not held back. */
const SPAN_CHARS_MAX = 300;
const ADDRESS_CHARS_MAX = 2_000;
/** What stands deeper is shown as it is written. */
const DEPTH_MAX = 4;

/** Not decided yet: more text is needed. */
const OPEN = -1;

/**
 * Adds as much of a text as nothing to come can change, with its marks turned into looks; says how much that was. Each
 * sign looks ahead so far and no further, so that the work is in proportion to the text, and the same in whatever
 * pieces it comes.
 */
export function addInline(text: string, to: TextSink, reading: Reading): number {
  const { ink, isWhole } = reading;
  let from = 0;
  for (let at = 0; at < text.length; ) {
    const code = text.charCodeAt(at);
    if (code > 127 || IS_SIGN[code] !== 1) {
      at += 1;
      continue;
    }
    const before = at === 0 ? reading.before : (text[at - 1] ?? "");
    const span = spanAt(text, at, { before, isWhole });
    if (span === undefined) {
      at += signsAt(text, at);
      continue;
    }
    if (at > from) to.add(text.slice(from, at), ink);
    if (span.end === OPEN) return at;
    addSpan(span, to, reading);
    at = span.end;
    from = at;
  }
  // Two spaces at the end break the line, which is known only once the line is complete.
  const end = isWhole ? text.length : lengthOfWords(text, from);
  if (end > from) to.add(text.slice(from, end), ink);
  return Math.max(from, end);
}

const IS_SIGN = new Uint8Array(128);
for (const sign of "\\`*_~[!<&hw") IS_SIGN[sign.charCodeAt(0)] = 1;

function lengthOfWords(text: string, from: number): number {
  const least = Math.max(from, text.length - 2);
  let end = text.length;
  while (end > least && text[end - 1] === " ") end -= 1;
  return end;
}

/** Whether a piece may decide about text that is held back. */
export function hasMore(held: string, piece: string): boolean {
  const closer = held.length < HELD_CHARS_MIN ? undefined : CLOSERS[held[0] ?? ""];
  if (closer === undefined || closer.test(piece)) return true;
  return held.length > (closer === BEHIND_ADDRESS ? ADDRESS_CHARS_MAX : SPAN_CHARS_MAX);
}

/** From here on it is seen how many signs a text begins with, and that an address is one. */
const HELD_CHARS_MIN = 9;
const BEHIND_ADDRESS = /[\s<>`"、。，）」]/;
const CLOSERS: Readonly<Record<string, RegExp>> = {
  "*": /\*/,
  _: /_/,
  "~": /~/,
  "`": /`/,
  h: BEHIND_ADDRESS,
  w: BEHIND_ADDRESS,
};

/** Signs that are no span are passed together: four stars are not two and two. */
function signsAt(text: string, at: number): number {
  const sign = text[at] ?? "";
  return isMark(sign) || sign === "`" ? runAt(text, at) : 1;
}

function isMark(sign: string): boolean {
  return sign === "*" || sign === "_" || sign === "~";
}

function runAt(text: string, at: number): number {
  const sign = text[at];
  let end = at + 1;
  while (text[end] === sign) end += 1;
  return end - at;
}

interface Span {
  readonly end: number;
  readonly look: Look | "text" | "break";
  readonly text: string;
  readonly address?: string;
}

interface Around {
  readonly before: string;
  readonly isWhole: boolean;
}

const HELD: Span = { end: OPEN, look: "text", text: "" };

/** The span that begins there; undecided where more text is needed; undefined where it is a plain character. */
function spanAt(text: string, at: number, around: Around): Span | undefined {
  const span = anySpanAt(text, at, around);
  return span?.end === OPEN && around.isWhole ? undefined : span;
}

function anySpanAt(text: string, at: number, around: Around): Span | undefined {
  switch (text[at]) {
    case "\\":
      return escapeAt(text, at, around);
    case "`":
      return codeAt(text, at, around);
    case "[":
      return linkAt(text, at);
    case "!":
      if (at + 1 >= text.length) return HELD;
      return text[at + 1] === "[" ? linkAt(text, at + 1) : undefined;
    case "<":
      return tagAt(text, at);
    case "&":
      return entityAt(text, at);
    case "h":
    case "w":
      return addressAt(text, at, around);
    default:
      return emphasisAt(text, at, around);
  }
}

function escapeAt(text: string, at: number, { isWhole }: Around): Span | undefined {
  const next = text[at + 1];
  if (next === undefined) return isWhole ? { end: at + 1, look: "break", text: "" } : HELD;
  // Brackets that are escaped are mostly those of a formula, which reads better with its signs.
  if (!/[!-/:-@[-`{-~]/.test(next)) return undefined;
  return { end: at + 2, look: "text", text: /[()[\]]/.test(next) ? `\\${next}` : next };
}

function codeAt(text: string, at: number, { before, isWhole }: Around): Span | undefined {
  const run = runAt(text, at);
  if (before === "`" || run > SPAN_CHARS_MAX) return undefined;
  const start = at + run;
  if (start === text.length) return HELD;
  const limit = start + SPAN_CHARS_MAX;
  for (let end = start; end < text.length && end <= limit; ) {
    if (text[end] !== "`") {
      end += 1;
      continue;
    }
    const closing = runAt(text, end);
    if (end + closing === text.length && !isWhole) return HELD;
    if (closing === run) return { end: end + run, look: "code", text: bareCode(text.slice(start, end)) };
    end += closing;
  }
  return text.length <= limit ? HELD : undefined;
}

/** A space each side keeps a sign of code off those around it. */
function bareCode(code: string): string {
  const isPadded = code.startsWith(" ") && code.endsWith(" ") && code.trim() !== "";
  return isPadded ? code.slice(1, -1) : code;
}

const LOOKS: readonly Look[] = ["em", "strong", "both"];

function emphasisAt(text: string, at: number, { before, isWhole }: Around): Span | undefined {
  const sign = text[at] ?? "";
  const run = runAt(text, at);
  const start = at + run;
  if (before === sign || run > SPAN_CHARS_MAX) return undefined;
  if (start === text.length) return HELD;
  if (run > LOOKS.length || (sign === "~" && run !== 2)) return undefined;
  // A sign before a space, and a line within a name, is what it looks like.
  const next = text[start] ?? "";
  if (isSpace(next)) return undefined;
  if (isLetter(before) && (sign === "_" || (!isLetter(next) && before < FIRST_UNSPACED))) return undefined;
  const limit = start + SPAN_CHARS_MAX;
  for (let end = start; end < text.length && end <= limit; ) {
    const here = text[end] ?? "";
    if (here === "\\") {
      end += 2;
    } else if (here === "`") {
      const code = codeAt(text, end, { before: "", isWhole });
      if (code?.end === OPEN && !isWhole) return HELD;
      end = code === undefined || code.end === OPEN ? end + runAt(text, end) : code.end;
    } else if (here === sign) {
      const closing = runAt(text, end);
      const after = text[end + closing];
      if (after === undefined && !isWhole) return HELD;
      const isCloser = !isSpace(text[end - 1] ?? "") && !(sign === "_" && isLetter(after ?? ""));
      // Three may close what is within, too.
      if (isCloser && (closing === run || (closing === LOOKS.length && closing > run))) {
        const inner = text.slice(start, end + closing - run);
        return { end: end + closing, look: sign === "~" ? "del" : (LOOKS[run - 1] ?? "em"), text: inner };
      }
      end += closing;
    } else end += 1;
  }
  return text.length <= limit ? HELD : undefined;
}

/** From this code point on scripts have no spaces between words and brackets. */
const FIRST_UNSPACED = "\u2e80";

function isSpace(sign: string): boolean {
  return sign === "" || sign === " " || sign === "\u00a0" || sign === "\u3000";
}

/** By where the signs of all scripts stand: an expression of all letters takes longer to be made than an answer to be shown. */
function isLetter(sign: string): boolean {
  const code = sign === "" ? 0 : sign.charCodeAt(0);
  if (code < 0x80)
    return (code >= 0x30 && code <= 0x39) || (code >= 0x41 && code <= 0x5a) || (code >= 0x61 && code <= 0x7a);
  if (code < 0xc0) return code === 0xaa || code === 0xb5 || code === 0xba;
  return !(
    (code >= 0x2000 && code <= 0x2bff) ||
    (code >= 0x3000 && code <= 0x303f) ||
    (code >= 0xff00 && code <= 0xff0f)
  );
}

/** A link or a picture: what it says, and where it leads. */
function linkAt(text: string, bracket: number): Span | undefined {
  const limit = bracket + SPAN_CHARS_MAX;
  let depth = 0;
  let end = bracket;
  for (; ; end += 1) {
    if (end > limit) return undefined;
    if (end >= text.length) return HELD;
    const sign = text[end];
    if (sign === "\\") end += 1;
    else if (sign === "[") depth += 1;
    else if (sign === "]") {
      depth -= 1;
      if (depth === 0) break;
    }
  }
  if (end + 1 >= text.length) return HELD;
  if (text[end + 1] !== "(") return undefined;
  const words = text.slice(bracket + 1, end);
  const start = end + 2;
  const stop = endOfAddress(text, start);
  if (stop === undefined) return undefined;
  if (stop === OPEN) return HELD;
  const address = text.slice(start, stop).trim();
  const [whole = ""] = /^(?:<[^<>]*>|\S*)/.exec(address) ?? [];
  const href = whole.startsWith("<") ? whole.slice(1, -1) : whole;
  return { end: stop + 1, look: "link", text: words, address: href };
}

/** The bracket that ends an address, which may be followed by a title; undefined where none does. */
function endOfAddress(text: string, start: number): number | undefined {
  let depth = 1;
  let quote = "";
  for (let at = start; at < start + ADDRESS_CHARS_MAX; at += 1) {
    if (at >= text.length) return OPEN;
    const sign = text[at] ?? "";
    if (quote !== "") {
      if (sign === quote) quote = "";
    } else if (sign === " ") {
      const next = text[at + 1];
      if (next === undefined) return OPEN;
      if (!" \"')".includes(next)) return undefined;
    } else if ((sign === '"' || sign === "'") && text[at - 1] === " ") quote = sign;
    else if (sign === "(") depth += 1;
    else if (sign === ")") {
      depth -= 1;
      if (depth === 0) return at;
    }
  }
  return undefined;
}

/** A tag of HTML, which is shown faintly, or an address between angles. */
function tagAt(text: string, at: number): Span | undefined {
  const next = text[at + 1];
  if (next === undefined) return HELD;
  if (!/[a-z/!]/i.test(next)) return undefined;
  for (let end = at + 1; end <= at + SPAN_CHARS_MAX; end += 1) {
    const sign = text[end];
    if (sign === undefined) return HELD;
    if (sign === "<") return undefined;
    if (sign !== ">") continue;
    const inner = text.slice(at + 1, end);
    if (/^br ?\/?$/i.test(inner)) return { end: end + 1, look: "break", text: "" };
    if (/^(?:https?:|mailto:)[^ ]*$/i.test(inner)) return { end: end + 1, look: "link", text: inner, address: inner };
    const isTag = /^(?:\/?[a-z][a-z0-9-]*(?=[ /]|$)|!--)/i.test(inner);
    return isTag ? { end: end + 1, look: "tag", text: text.slice(at, end + 1) } : undefined;
  }
  return undefined;
}

const ENTITIES: Readonly<Record<string, string>> = {
  lt: "<",
  gt: ">",
  amp: "&",
  quot: '"',
  apos: "'",
  "#39": "'",
  nbsp: " ",
};
const ENTITY_CHARS_MAX = 6;

function entityAt(text: string, at: number): Span | undefined {
  const end = text.slice(at, at + ENTITY_CHARS_MAX).indexOf(";");
  if (end < 0) return text.length - at < ENTITY_CHARS_MAX && /^[\w#]*$/.test(text.slice(at + 1)) ? HELD : undefined;
  const sign = ENTITIES[text.slice(at + 1, at + end)];
  return sign === undefined ? undefined : { end: at + end + 1, look: "text", text: sign };
}

const SCHEMES = ["https://", "http://", "www."];

/** An address as it is, whose signs are no marks. */
function addressAt(text: string, at: number, { before, isWhole }: Around): Span | undefined {
  if (isLetter(before)) return undefined;
  const ahead = text.slice(at, at + "https://".length);
  const scheme = SCHEMES.find((one) => ahead.startsWith(one));
  if (scheme === undefined) return SCHEMES.some((one) => one.startsWith(ahead)) ? HELD : undefined;
  let end = at + scheme.length;
  const limit = at + ADDRESS_CHARS_MAX;
  while (end < text.length && end < limit && !BEHIND_ADDRESS.test(text[end] ?? "")) end += 1;
  if (end === text.length && end < limit && !isWhole) return HELD;
  end -= signsBehind(text.slice(at, end));
  if (end <= at + scheme.length) return undefined;
  const address = text.slice(at, end);
  return { end, look: "link", text: address, address };
}

/** What ends a sentence is not part of an address, nor is a mark or a bracket that was opened before it. */
function signsBehind(address: string): number {
  let unopened = address.split(")").length - address.split("(").length;
  let end = address.length;
  while (/[.,:;!?*_~'"\])]/.test(address[end - 1] ?? "")) {
    if (address[end - 1] === ")") {
      if (unopened <= 0) break;
      unopened -= 1;
    }
    end -= 1;
  }
  return address.length - end;
}

function addSpan({ look, text, address }: Span, to: TextSink, { inks, ink, depth }: Reading): void {
  if (look === "break") {
    to.breakLine();
    return;
  }
  const own = look === "text" ? ink : inked(ink, inks[look]);
  const isBare = look === "text" || look === "code" || look === "tag" || address === text;
  if (isBare || depth >= DEPTH_MAX) to.add(text, own);
  else addInline(text, to, { inks, ink: own, before: "", isWhole: true, depth: depth + 1 });
  if (look === "link" && address !== text && address !== "") to.add(` (${address})`, inked(ink, inks.tag));
}
