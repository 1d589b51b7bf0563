import { Lexer, type Token } from "marked";
import type { Paint } from "./io.ts";
import type { Brush, WrappedText } from "./wrapped-text.ts";

/** More than this is not held back for a sign that may never be closed. */
const HELD_CHARS_MAX = 300;

const OPENERS = /[*_`[<~\\!&]/;
const SIGNS = /[*_`[<~\\&@]|:\/\/|www\.| {2}$/;

/** How much of a text that goes on can be shown, since nothing that follows would change how it looks. */
export function settledLength(text: string): number {
  // Two spaces at its end would break the line, so those are looked at when it is whole.
  const words = text.endsWith(" ") ? text.trimEnd().length : text.lastIndexOf(" ") + 1;
  if (!OPENERS.test(text)) return words;
  for (let from = 0; ; ) {
    const at = openerIn(text, from);
    if (at < 0) return words;
    const end = closedAt(text, at);
    if (end < 0) {
      const before = Math.min(words, text.lastIndexOf(" ", at) + 1);
      return text.length - before > HELD_CHARS_MAX ? words : before;
    }
    from = end;
  }
}

/** Where something begins that could be closed later; -1 where nothing does. */
function openerIn(text: string, from: number): number {
  for (let at = from; at < text.length; at += 1) {
    const sign = text[at] ?? "";
    if (!OPENERS.test(sign)) continue;
    const next = text[at + 1];
    const before = text[at - 1] ?? " ";
    const isEmphasis = sign === "*" || sign === "_" || sign === "~";
    // A sign between spaces, and a line within a name, is what it looks like.
    if (isEmphasis && next !== undefined && /\s/.test(next)) continue;
    if (sign === "_" && /[\p{L}\p{N}]/u.test(before)) continue;
    if ((sign === "!" || sign === "&") && next !== undefined && !/[[#\w]/.test(next)) continue;
    if (sign === "<" && next !== undefined && !/[a-z/!]/i.test(next)) continue;
    return at;
  }
  return -1;
}

/** Where what begins there is over, whatever it turns out to be; -1 while that cannot be told. */
function closedAt(text: string, at: number): number {
  const sign = text[at] ?? "";
  const after = (end: number, length: number): number => (end < 0 || end + length >= text.length ? -1 : end + length);
  switch (sign) {
    case "\\":
      return after(at, 2);
    case "&":
      return after(text.indexOf(";", at), 1);
    case "<":
      return after(text.indexOf(">", at), 1);
    case "!":
    case "[": {
      const end = text.indexOf("]", at);
      if (end < 0 || end + 1 >= text.length) return -1;
      return text[end + 1] === "(" ? after(text.indexOf(")", end), 1) : end + 1;
    }
    default: {
      let run = 1;
      while (text[at + run] === sign) run += 1;
      return after(text.indexOf(sign.repeat(run), at + run), run);
    }
  }
}

/** Adds a text with its marks turned into looks. */
export function addInline(text: string, to: WrappedText, paint: Paint): void {
  // Most words are only words.
  if (!SIGNS.test(text)) to.add(text, (word) => word);
  else addTokens(lexed(text), to, { paint, brush: (word) => word });
}

function lexed(text: string): readonly Token[] {
  return Lexer.lexInline(text, { gfm: true });
}

function addTokens(tokens: readonly Token[], to: WrappedText, { paint, brush }: { paint: Paint; brush: Brush }): void {
  for (const token of tokens) {
    const within = (mark: Brush): void => addTokens(tokensOf(token), to, { paint, brush: (word) => brush(mark(word)) });
    switch (token.type) {
      case "strong":
        within(paint.bold);
        break;
      case "em":
        within(paint.italic);
        break;
      case "del":
        within(paint.strikethrough);
        break;
      case "codespan":
        to.add(decoded(token.text), (word) => brush(paint.cyan(word)));
        break;
      case "link":
      case "image": {
        const { href } = token;
        const isBare = token.text === href || `mailto:${token.text}` === href;
        within(paint.underline);
        if (!isBare) to.add(` (${href})`, (word) => brush(paint.dim(word)));
        break;
      }
      case "br":
        to.breakLine();
        break;
      default:
        if (tokensOf(token).length > 0) within((word) => word);
        else to.add(decoded("text" in token && typeof token.text === "string" ? token.text : token.raw), brush);
    }
  }
}

function tokensOf(token: Token): readonly Token[] {
  return "tokens" in token && token.tokens !== undefined ? token.tokens : [];
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&lt;": "<",
  "&gt;": ">",
  "&amp;": "&",
  "&quot;": '"',
  "&#39;": "'",
  "&nbsp;": " ",
};

function decoded(text: string): string {
  return text.includes("&") ? text.replace(/&(?:lt|gt|amp|quot|nbsp|#39);/g, (name) => ENTITIES[name] ?? name) : text;
}
