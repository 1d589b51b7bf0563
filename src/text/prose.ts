/** Of the signs of a text that are no spaces, so many are letters: code has four in five, a log three. */
const LETTERS_SHARE_MIN = 0.88;
/** A line that says something has so many letters on the average; a list of names has fewer. */
const LINE_LETTERS_MIN = 24;
/** A text is as its beginning is. */
const LOOKED_AT_CHARS = 4_000;

/** Whether a text is sentences of a language, of any script, rather than what programs write: logs, code, tables, lists. */
export function isProse(text: string): boolean {
  const looked = text.slice(0, LOOKED_AT_CHARS);
  const letters = looked.replace(/[^\p{L}\p{M}]+/gu, "").length;
  const signs = looked.replace(/\s+/g, "").length;
  const lines = looked.split("\n").filter((line) => line.trim() !== "").length;
  return letters >= LETTERS_SHARE_MIN * signs && letters >= LINE_LETTERS_MIN * lines && lines > 0;
}
