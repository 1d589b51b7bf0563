import { quotableSentences } from "../../text/sentences.ts";

export interface ToolCall {
  readonly name: string;
  readonly args: Readonly<Record<string, unknown>>;
}

/** One sentence of a message: what it asks for or states. */
export type Ask =
  | { readonly kind: "identity" | "request" }
  | { readonly kind: "arithmetic"; readonly answer: string }
  | { readonly kind: "call"; readonly call: ToolCall }
  | { readonly kind: "question"; readonly text: string }
  | { readonly kind: "statement"; readonly text: string };

/** Asks are read from the beginning and the end of a message: a pasted megabyte is material, not a thousand asks. */
const ASK_CHARS_MAX = 6_000;

const GREETING = /^(?:hi|hello|hey)(?: \p{L}+)?[.!]*$/iu;
const IDENTITY =
  /^(?:(?:who|what) (?:exactly )?are you\b.{0,30}|what(?:'s| is) your name\W*|what can you do\W*|help\W*)$/iu;
const TIME =
  /^(?:(?:and|so|please|now|tell me)[, ]+)*(?:what (?:time|day|date|year) is it\b|what day is (?:it )?today\b|what(?:'s|’s| is) (?:the (?:current )?(?:time|date|day)(?: (?:now|today|right now))?|today(?:'s|’s)? date)\s*(?:[?.!,]|$)|the (?:current )?(?:time|date)[?.!]?$)/iu;
const TASK_CREATE =
  /^(?:(?:please|also) )*(?:(?:add|create)(?: an?| another)?(?: new)? (?:task|to-?do)(?:\s*:\s*|\s+to\s+|\s+)|(?:task|to-?do)\s*:\s*|remind me to\s+)(?<subject>\S.*)$/iu;
const TASK_LIST =
  /^(?:(?:list|show)(?: me)?(?: all| my| the| our| open)* (?:tasks|to-?dos|to-?do list|task list)\b|what(?:'s|’s| is| are)(?: still)? (?:left|remaining|open)(?: to (?:do|be done))?\s*(?:[?.!]|$))/iu;
// Only a marked command is run: "run away" must never reach a shell.
const SHELL = /^(?:(?:please|now|also|can you|could you) )*(?:run|execute)(?: the command)?:?\s+`(?<ticked>[^`]+)`/iu;
const SHELL_LINE = /^(?:(?:run|execute)\s*:\s*|\$ )(?<plain>\S.*)$/iu;
/** Thanks, and requests for a recap: they state no fact. */
const NO_FACT =
  /^(?:(?:thanks?|thx|cheers|great|perfect|nice|ok(?:ay)?|got it|bye|goodbye|you|a lot|so much|very much|again|for (?:that|this|now)|then)[\s,.!👍🙏]*)+$|^(?:(?:please|can you|could you) )*(?:summari[sz]e|recap|sum up)\b(?![^.]*\bof\b .*:)/iu;
const TO_REMEMBER = /^(?:can|could|would|will) you (?:please )?(?:remember|note|keep in mind)\b/iu;
const QUESTION_START =
  /^(?:(?:and|but|so|also|now|then|ok|please)[, ]+)*(?:what|where|when|who|whom|whose|which|how|why|tell me|remind me|recall|do you (?:know|remember)|search (?:for|your|memory)|look up|find (?:out|what|where|who|when|the)|quote)\b/iu;
const YES_NO_START =
  /^(?:is|are|was|were|do|does|did|can|could|should|would|will|has|have) (?:the|we|you|i|it|there|my|our|this|that|any|he|she|they)\b/iu;
const REQUEST =
  /^(?:(?:please|now|also|then|next|can you|could you|would you|will you|i want you to|i need you to)[, ]+)*(?:write|fix|refactor|implement|build|create|make|generate|draft|explain|translate|describe|compare|analy[sz]e|review|deploy|open|read|edit|rewrite|delete|rename|install|send|email|print|calculate|check|debug|design|plan|continue|proceed|run|execute|test|sing|imagine|compose)\b/iu;

/** Reads a message as a list of asks and statements, one per sentence. */
export function readAsks(text: string): Ask[] {
  const half = ASK_CHARS_MAX / 2;
  const read = text.length <= ASK_CHARS_MAX ? text : `${text.slice(0, half)}\n${text.slice(-half)}`;
  return quotableSentences(read).map((sentence) =>
    GREETING.test(sentence) ? { kind: "identity" } : readSentence(sentence),
  );
}

/** Whether a sentence only asks for something, and so holds nothing worth quoting. */
export function isAsking(sentence: string): boolean {
  const { kind } = readSentence(sentence);
  return (kind !== "statement" && kind !== "request") || NO_FACT.test(sentence);
}

/** Whether a sentence asks for work. It may be quoted, but states no fact. */
export function isRequest(sentence: string): boolean {
  return REQUEST.test(sentence);
}

function readSentence(sentence: string): Ask {
  const answer = answerArithmetic(sentence);
  if (answer !== undefined) return { kind: "arithmetic", answer };
  const call = readCall(sentence);
  if (call !== undefined) return { kind: "call", call };
  if (IDENTITY.test(sentence)) return { kind: "identity" };
  if (TO_REMEMBER.test(sentence)) return { kind: "statement", text: sentence.replace(/\?$/u, ".") };
  if (REQUEST.test(sentence)) return { kind: "request" };
  return isQuestion(sentence) ? { kind: "question", text: sentence } : { kind: "statement", text: sentence };
}

function readCall(sentence: string): ToolCall | undefined {
  const command = (SHELL.exec(sentence)?.groups?.ticked ?? SHELL_LINE.exec(sentence)?.groups?.plain)?.trim();
  if (command !== undefined) return { name: "shell", args: { command } };
  const subject = TASK_CREATE.exec(sentence)
    ?.groups?.subject?.trim()
    .replace(/(?<![.!?])[.!?]+$/u, "");
  if (subject !== undefined) return { name: "task_create", args: { subject, description: subject } };
  if (TASK_LIST.test(sentence)) return { name: "task_list", args: {} };
  return TIME.test(sentence) ? { name: "datetime", args: {} } : undefined;
}

/** Without a question mark only a short sentence that opens like a question is one: "When it fails, roll back." is not. */
function isQuestion(sentence: string): boolean {
  if (/[?？][”"')\]]*$/u.test(sentence) || sentence.startsWith("¿") || /[吗呢か]$/u.test(sentence)) return true;
  if (/[.!:,。]/u.test(sentence.replace(/\S[.:]\S/gu, ""))) return false;
  return QUESTION_START.test(sentence) || YES_NO_START.test(sentence);
}

/** Longer expressions are not arithmetic that a user typed. */
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

const QUESTION_WORDS =
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
  const asked = question.trim().replace(QUESTION_WORDS, "");
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
