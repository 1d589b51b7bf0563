import { atomsIn } from "../../../text/atoms.ts";
import { canonical, canonicalPiece, foldWidth } from "../../../text/canonical.ts";
import { datesIn } from "../../../text/dates.ts";
import { withDigits } from "../../../text/number-words.ts";
import { collectOffers, numeralsIn, takenBy } from "../../../text/numbers.ts";
import { tokensOf } from "../../../text/words.ts";

/** What of a rule or an ask must stand in the sentence that is taken for it, because one word of it makes another. */
export interface Marks {
  /** Capitals within the sentence, as tokens. */
  readonly names: readonly string[];
  /** What would prove each number; one of a row suffices. */
  readonly numbers: readonly (readonly string[])[];
  /** Paths, identifiers, addresses and what stands in quotes, in canonical form. */
  readonly pieces: readonly string[];
  /** The words that say something, in their order. */
  readonly tokens: readonly string[];
}

const NAME = /(?<=[\p{L}\p{N},;:)”’»]\s{1,4})\p{Lu}[\p{L}\p{M}\p{N}’'-]*/gu;
const QUOTED = /[“„«「『]([^“”„«»「」『』\n]{1,400})[”“»」』]|(?<![\p{L}\p{N}])"([^"\n]{1,400})"|`([^`\n]{1,400})`/gu;

export function marksOf(text: string): Marks {
  const quotes = [...text.matchAll(QUOTED)].map(([, curly, straight, ticked]) => curly ?? straight ?? ticked ?? "");
  const atoms = atomsIn(text).flatMap(({ kind, text: atom }) => (kind === "number" ? [] : [atom]));
  return {
    names: [...text.matchAll(NAME)].flatMap(([name]) => tokensOf(name)),
    numbers: numbersIn(text),
    pieces: [...quotes, ...atoms].map(canonicalPiece).filter((piece) => piece !== ""),
    tokens: tokensOf(withoutNumbers(text)),
  };
}

function numbersIn(text: string): readonly (readonly string[])[] {
  const spelt = withDigits(foldWidth(text));
  const dates = datesIn(spelt);
  const isTaken = takenBy(dates);
  const numerals = numeralsIn(spelt).filter(({ raw, start, text: written }) => {
    // "A ticket" is not told from "the ticket".
    return !isTaken(start, written.length) && (raw > 1 || text.includes(written));
  });
  return [...dates, ...numerals].map(({ needs }) => needs);
}

/** Two weeks are fourteen days: numbers and their units are compared as numbers. */
export function withoutNumbers(text: string): string {
  const spelt = withDigits(foldWidth(text));
  let rest = "";
  let end = 0;
  for (const { start, text: written } of numeralsIn(spelt)) {
    rest += `${spelt.slice(end, Math.max(end, start))} `;
    end = Math.max(end, start + written.length);
  }
  return rest + spelt.slice(end);
}

/** Whether a sentence has every mark, and no other word where one of the specific's own should stand. */
export function hasMarks(marks: Marks, sentence: string): boolean {
  const held = new Set(tokensOf(sentence));
  if (!marks.names.every((name) => held.has(name))) return false;
  const text = canonical(sentence);
  if (!marks.pieces.every((piece) => text.includes(piece))) return false;
  if (marks.numbers.length > 0) {
    const offers = new Set<string>();
    collectOffers(sentence, offers);
    if (!marks.numbers.every((needs) => needs.some((need) => offers.has(need)))) return false;
  }
  return !isReplaced(marks.tokens, tokensOf(withoutNumbers(sentence)));
}

/** Words of a specific that are laid beside those of a sentence; a longer one is compared by its beginning. */
const TOKENS_MAX = 400;

/** Whether between two words both have, one has a word the other lacks and the other one that the first lacks. */
function isReplaced(own: readonly string[], there: readonly string[]): boolean {
  const [a, b] = [own.slice(0, TOKENS_MAX), there.slice(0, TOKENS_MAX)];
  const [inA, inB] = [new Set(own), new Set(there)];
  if (a.every((token) => inB.has(token))) return false;
  const common = commonLengths(a, b);
  let [isMissing, isAdded] = [false, false];
  for (let [i, j] = [0, 0]; i < a.length || j < b.length; ) {
    const [mine, other] = [a[i], b[j]];
    if (mine !== undefined && mine === other) {
      [isMissing, isAdded] = [false, false];
      i += 1;
      j += 1;
      continue;
    }
    const skipsOwn =
      other === undefined || (mine !== undefined && lengthAt(common, i + 1, j) >= lengthAt(common, i, j + 1));
    if (skipsOwn && mine !== undefined) {
      isMissing ||= !inB.has(mine);
      i += 1;
    } else if (other !== undefined) {
      isAdded ||= !inA.has(other);
      j += 1;
    }
    if (isMissing && isAdded) return true;
  }
  return false;
}

const lengthAt = (rows: readonly Uint16Array[], i: number, j: number): number => rows[i]?.[j] ?? 0;

/** How many words the rest of one and the rest of the other have in common, in their order. */
function commonLengths(a: readonly string[], b: readonly string[]): readonly Uint16Array[] {
  const rows = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      const row = rows[i];
      if (row === undefined) continue;
      row[j] =
        a[i] === b[j] ? lengthAt(rows, i + 1, j + 1) + 1 : Math.max(lengthAt(rows, i + 1, j), lengthAt(rows, i, j + 1));
    }
  }
  return rows;
}
