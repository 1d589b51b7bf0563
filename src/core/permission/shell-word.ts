import type { Word, WordPart } from "unbash";
import { type Item, UNKNOWN } from "./glob.ts";

/** A word of a command: its text with `UNKNOWN` for what only the shell will know, or `isMany` for any number of words. */
export type ShellWord = Item;

const UNKNOWN_WORD: ShellWord = { text: UNKNOWN };
export const UNKNOWN_WORDS: ShellWord = { text: UNKNOWN, isMany: true };

/** Whether all of a word is known. */
export function isKnown({ text, isMany }: ShellWord): boolean {
  return isMany !== true && !text.includes(UNKNOWN);
}

/** What the shell makes of a word, as far as that can be told before it runs. */
export function shellWord(word: Word): ShellWord {
  const { parts } = word;
  // A tilde at the beginning, or where a value begins, becomes a folder.
  if (/(?:^|[=:])~/.test(word.text)) return UNKNOWN_WORD;
  if (parts === undefined) return { text: isPlain(word.text) ? word.value : UNKNOWN };
  const read = parts.map(partOf);
  const text = read.map((part) => part.text).join("");
  return read.some(({ isMany }) => isMany === true) ? { text, isMany: true } : { text };
}

/** A second look, in case the parser took an expansion for a text. */
function isPlain(text: string): boolean {
  if (!/[$`*?'"\\]/.test(text)) return true;
  return !/[$`*?'"]/.test(text.replaceAll(/\\./gs, ""));
}

function partOf(part: WordPart): ShellWord {
  switch (part.type) {
    case "Literal":
      return { text: isPlain(part.text) ? part.value : UNKNOWN };
    case "SingleQuoted":
    case "AnsiCQuoted":
      return { text: part.value };
    case "DoubleQuoted":
      return quoted(part.parts);
    case "LocaleString":
    case "ProcessSubstitution":
      return UNKNOWN_WORD;
    case "Glob":
    case "ExtendedGlob":
    case "BraceExpansion":
    case "SimpleExpansion":
    case "ParameterExpansion":
    case "CommandExpansion":
    case "ArithmeticExpansion":
      return UNKNOWN_WORDS;
  }
}

/** Between double quotes an expansion is one word, unless it is all of a list: `"$@"`, `"${a[@]}"`, `"${!a@}"`. */
function quoted(parts: readonly WordPart[]): ShellWord {
  const isMany = parts.some((part) => part.type !== "Literal" && part.text.includes("@"));
  const text = parts.map((part) => (part.type === "Literal" ? part.value : UNKNOWN)).join("");
  return isMany ? { text, isMany } : { text };
}
