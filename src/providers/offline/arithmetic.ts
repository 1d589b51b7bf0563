/** Longer expressions are not arithmetic somebody typed. */
const EXPRESSION_CHARS_MAX = 200;
const EXPONENT_MAX = 64n;
/** Above this a power or product is refused, so that no expression can take long. */
const DIGITS_MAX = 400;
const DECIMALS_SHOWN_MAX = 12;

/** Exact: 0.1 + 0.2 is 0.3. The denominator is positive. */
interface Fraction {
  readonly top: bigint;
  readonly bottom: bigint;
}

interface Cursor {
  readonly tokens: readonly string[];
  at: number;
}

const LEAD =
  /^(?:(?:please|hey|so)[ ,]+)?(?:what(?:'s|’s| is| are| does)?|how much (?:is|are)|calculate|compute|evaluate|work out)\s+/iu;
const WORDS: readonly (readonly [RegExp, string])[] = [
  [/\bmultiplied by\b|\btimes\b|[×·]|(?<=[\d)]\s?)x(?=\s?[\d(])/giu, "*"],
  [/\bdivided by\b|\bover\b|÷/giu, "/"],
  [/\bplus\b/giu, "+"],
  [/\bminus\b|[−–]/giu, "-"],
  [/\bmod(?:ulo)?\b/giu, "%"],
  [/\bto the power of\b|\*\*/giu, "^"],
  [/\bsquared\b/giu, "^2"],
  [/\bcubed\b/giu, "^3"],
];

/** "17 * 23 = 391" for a question that is only arithmetic; undefined for anything else. */
export function answerArithmetic(question: string): string | undefined {
  if (question.length > EXPRESSION_CHARS_MAX) return undefined;
  const asked = question.trim().replace(LEAD, "");
  const typed = asked.replace(/(?<![\s=?.!])[\s=?.!]+$/u, "").replace(/(?<=\d),(?=\d{3})/gu, "");
  let expression = typed;
  for (const [word, sign] of WORDS) expression = expression.replace(word, sign);
  if (!/^[\d\s+\-*/%^().]+$/u.test(expression) || !/\d\s*[-+*/%^]/u.test(expression)) return undefined;
  // A date or a range on its own is something the user says, not a sum.
  if (asked === question.trim() && !/[=?]\s*$|\s[-+*/%^]\s|[*+^]/u.test(question)) return undefined;
  if (/^\d{4}-\d\d?-\d\d?$/u.test(expression)) return undefined;
  return evaluate({ expression, typed: typed.trim() });
}

function evaluate({ expression, typed }: { expression: string; typed: string }): string | undefined {
  const tokens = expression.match(/\d+(?:\.\d+)?|\.\d+|[-+*/%^()]|\S/gu) ?? [];
  const cursor: Cursor = { tokens, at: 0 };
  try {
    const value = readSum(cursor);
    return cursor.at === tokens.length ? `${typed} = ${formatFraction(value)}` : undefined;
  } catch (cause) {
    if (cause instanceof RangeError) return `${typed} has no answer I can give: ${cause.message}.`;
    if (cause instanceof SyntaxError) return undefined;
    throw cause;
  }
}

function readSum(cursor: Cursor): Fraction {
  let value = readProduct(cursor);
  for (let sign = take(cursor, "+-"); sign !== undefined; sign = take(cursor, "+-")) {
    const right = readProduct(cursor);
    const top = sign === "+" ? right.top : -right.top;
    value = fraction(value.top * right.bottom + top * value.bottom, value.bottom * right.bottom);
  }
  return value;
}

function readProduct(cursor: Cursor): Fraction {
  let value = readSigned(cursor);
  for (let sign = take(cursor, "*/%"); sign !== undefined; sign = take(cursor, "*/%")) {
    const right = readSigned(cursor);
    if (sign === "*") value = fraction(value.top * right.top, value.bottom * right.bottom);
    if (sign === "/") value = fraction(value.top * right.bottom, value.bottom * right.top);
    if (sign === "%") value = remainder(value, right);
  }
  return value;
}

function readSigned(cursor: Cursor): Fraction {
  let isNegative = false;
  for (let sign = take(cursor, "+-"); sign !== undefined; sign = take(cursor, "+-")) {
    if (sign === "-") isNegative = !isNegative;
  }
  const value = readPower(cursor);
  return isNegative ? { top: -value.top, bottom: value.bottom } : value;
}

function readPower(cursor: Cursor): Fraction {
  const base = readAtom(cursor);
  if (take(cursor, "^") === undefined) return base;
  const exponent = readSigned(cursor);
  if (exponent.bottom !== 1n) throw new RangeError("I only raise to whole powers");
  const size = exponent.top < 0n ? -exponent.top : exponent.top;
  if (size > EXPONENT_MAX) throw new RangeError(`I only raise to powers up to ${EXPONENT_MAX}`);
  const top = base.top ** size;
  const bottom = base.bottom ** size;
  return exponent.top < 0n ? fraction(bottom, top) : fraction(top, bottom);
}

function readAtom(cursor: Cursor): Fraction {
  if (take(cursor, "(") !== undefined) {
    const inner = readSum(cursor);
    if (take(cursor, ")") === undefined) throw new SyntaxError("a bracket is not closed");
    return inner;
  }
  const token = cursor.tokens[cursor.at] ?? "";
  if (!/^[\d.]+$/u.test(token) || token === ".") throw new SyntaxError("a number is missing");
  cursor.at += 1;
  const [whole = "", decimals = ""] = token.split(".");
  return fraction(BigInt(whole + decimals), 10n ** BigInt(decimals.length));
}

function take(cursor: Cursor, signs: string): string | undefined {
  const token = cursor.tokens[cursor.at];
  if (token === undefined || token.length !== 1 || !signs.includes(token)) return undefined;
  cursor.at += 1;
  return token;
}

function remainder(left: Fraction, right: Fraction): Fraction {
  if (right.top === 0n) throw new RangeError("it divides by zero");
  return fraction((left.top * right.bottom) % (right.top * left.bottom), left.bottom * right.bottom);
}

function fraction(top: bigint, bottom: bigint): Fraction {
  if (bottom === 0n) throw new RangeError("it divides by zero");
  const divisor = greatestDivisor(top < 0n ? -top : top, bottom < 0n ? -bottom : bottom) * (bottom < 0n ? -1n : 1n);
  const value = { top: top / divisor, bottom: bottom / divisor };
  if (value.top.toString().length > DIGITS_MAX) throw new RangeError(`it has more than ${DIGITS_MAX} digits`);
  return value;
}

function greatestDivisor(left: bigint, right: bigint): bigint {
  let [a, b] = [left, right];
  while (b !== 0n) [a, b] = [b, a % b];
  return a;
}

/** A whole number, an exact decimal, or a rounded one marked as such. */
function formatFraction(value: Fraction): string {
  if (value.bottom === 1n) return value.top.toString();
  const sign = value.top < 0n ? "-" : "";
  const top = value.top < 0n ? -value.top : value.top;
  const scaled = (top * 10n ** BigInt(DECIMALS_SHOWN_MAX)) / value.bottom;
  const isExact = (top * 10n ** BigInt(DECIMALS_SHOWN_MAX)) % value.bottom === 0n;
  const digits = scaled.toString().padStart(DECIMALS_SHOWN_MAX + 1, "0");
  const whole = digits.slice(0, -DECIMALS_SHOWN_MAX);
  const decimals = digits.slice(-DECIMALS_SHOWN_MAX).replace(/(?<!0)0+$/u, "");
  return `${isExact ? "" : "about "}${sign}${whole}${decimals === "" ? "" : `.${decimals}`}`;
}
