/** What stands between two words, in scripts without spaces as well. */
const BETWEEN = /[\s，。、！？；：「」]+/u;
/** A word as a sentence has it, with the marks before and after it. */
const WORD = /^[\p{Ps}\p{Pi}"']*[\p{L}\p{M}]+(?:['’-][\p{L}\p{M}]+)*[\p{Po}\p{Pe}\p{Pf}]*$/u;
/** So many of what stands between spaces are words: of code it is about half, of a log a tenth. */
const WORDS_SHARE_MIN = 0.75;
/** A line that says something has so many letters on the average; a list of names has fewer. */
const LINE_LETTERS_MIN = 24;
/** A text is as its beginning is. */
const LOOKED_AT_CHARS = 2_000;

/** Whether a text is sentences of a language, of any script, rather than what programs write: logs, code, tables, lists. */
export function isProse(text: string): boolean {
  const looked = text.slice(0, LOOKED_AT_CHARS);
  const pieces = looked.split(BETWEEN).filter((piece) => piece !== "");
  const words = pieces.filter((piece) => WORD.test(piece));
  const letters = words.reduce((sum, { length }) => sum + length, 0);
  const lines = looked.split("\n").filter((line) => line.trim() !== "").length;
  return lines > 0 && words.length >= WORDS_SHARE_MIN * pieces.length && letters >= LINE_LETTERS_MIN * lines;
}
