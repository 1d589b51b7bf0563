/** The word that was probably meant: one slip of a finger away from what was typed. */
export function nearMiss(typed: string, words: readonly string[]): string | undefined {
  return words.find((word) => word.length >= WORD_LETTERS_MIN && isOneSlipAway(typed, word));
}

/** Shorter words have too many neighbours that mean something. */
const WORD_LETTERS_MIN = 4;

/** One letter added, left out or replaced, or two neighbours swapped. */
function isOneSlipAway(typed: string, word: string): boolean {
  if (typed === word) return false;
  const shorter = Math.min(typed.length, word.length);
  let start = 0;
  while (start < shorter && typed[start] === word[start]) start += 1;
  let end = 0;
  while (end < shorter - start && typed.at(-1 - end) === word.at(-1 - end)) end += 1;
  const [was, meant] = [typed.slice(start, typed.length - end), word.slice(start, word.length - end)];
  if (was.length <= 1 && meant.length <= 1) return true;
  return was.length === 2 && was === [...meant].reverse().join("");
}
