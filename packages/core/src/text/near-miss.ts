/** The word that was probably meant: at most `slips` typing errors away. */
export function nearMiss(typed: string, words: readonly string[], slips = 1): string | undefined {
  for (let allowed = 1; allowed <= slips; allowed += 1) {
    const min = WORD_LETTERS_MIN + allowed - 1;
    const meant = words.find((word) => word !== typed && word.length >= min && isWithin(allowed, typed, word));
    if (meant !== undefined) return meant;
  }
  return undefined;
}

/** Shorter words have too many neighbours; each further error needs one more letter. */
const WORD_LETTERS_MIN = 4;

/** Whether `slips` edits are enough: a letter added, removed or replaced, or two neighbours swapped. */
function isWithin(slips: number, typed: string, word: string): boolean {
  if (Math.abs(typed.length - word.length) > slips) return false;
  let start = 0;
  while (start < word.length && typed[start] === word[start]) start += 1;
  const [was, meant] = [typed.slice(start), word.slice(start)];
  if (was === meant) return true;
  if (slips === 0) return false;
  const isSwapped = was.length > 1 && was[0] === meant[1] && was[1] === meant[0];
  return (
    isWithin(slips - 1, was.slice(1), meant) ||
    isWithin(slips - 1, was, meant.slice(1)) ||
    isWithin(slips - 1, was.slice(1), meant.slice(1)) ||
    (isSwapped && isWithin(slips - 1, was.slice(2), meant.slice(2)))
  );
}
