import { quotableSentences } from "../../text/sentences.ts";
import { termsOf } from "./words.ts";

/** What one message asks for or says, in its order. */
export type Ask =
  | { readonly kind: "greeting" | "thanks" | "identity" | "recap" }
  | { readonly kind: "task_list" }
  | { readonly kind: "arithmetic"; readonly answer: string }
  | { readonly kind: "time"; readonly text: string }
  | { readonly kind: "task_create"; readonly subject: string }
  | { readonly kind: "shell"; readonly command: string }
  | { readonly kind: "question" | "request"; readonly text: string }
  | { readonly kind: "statement"; readonly text: string };

/** Asks are read from the beginning and the end of a message: a pasted megabyte is material, not a thousand asks. */
const ASK_CHARS_MAX = 6_000;

/** Where "and" may join two asks; a right side that only says something is joined again. */
const JOINT =
  /(?:,\s*|(?<!\s)\s+)(?:and|then|also)\s+(?:then\s+|also\s+|please\s+)*(?=(?:what|where|when|who|which|how|why|tell|list|show|add|create|make|run|execute|remind)\b)|;\s+/giu;

/** What no ask can lack; most sentences of a long history lack it, and are not looked at further. */
const MAY_ASK =
  /[?？¿=]|[吗呢か]$|^[\d(.$-]|^(?:what|where|when|who|which|how|why|tell|remind|recall|do|does|did|is|are|was|were|can|could|should|would|will|has|have|search|look|find|quote|please|and|but|so|also|now|then|ok|add|create|make|open|new|task|to-?do|list|show|run|execute|summari[sz]e|recap|sum|help|introduce|hi|hello|hey|good|hallo|hola|bonjour|ciao|greetings|你好|こんにちは|안녕하세요|thank|thx|cheers|great|perfect|nice|got|bye|the|current|calculate|compute|evaluate|work)/iu;

const GREETING =
  /^(?:hi|hello|hey|hallo|hola|bonjour|ciao|greetings|good (?:morning|afternoon|evening|day)|你好|こんにちは|안녕하세요)(?: (?:there|rkat|all|everyone|again|world))?[,.!👋]*(?:\s+|$)/iu;
const THANKS =
  /^(?:(?:thanks?|thx|cheers|great|perfect|nice|ok(?:ay)?|got it|bye|goodbye|you|a lot|so much|very much|again|for (?:that|this|now)|rkat|then)[\s,.!👍🙏]*)+$/iu;
const IDENTITY =
  /^(?:(?:and )?(?:who|what) (?:exactly )?are you|what(?:'s| is) your name|what can you do|(?:what|which) model (?:are you|is this)|are you (?:an? )?(?:ai|llm|bot|human|robot|real|language model|claude|gpt|online|offline)\b|how do you work|introduce yourself|help)[^:]{0,30}$/iu;
const RECAP =
  /^(?:(?:please|can you|could you) )*(?:summari[sz]e|recap|sum up)\b(?![^.]*\bof\b .*:)|^what (?:have we|did we) (?:discussed?|talked? about|covered?)|^what do you (?:know|remember)(?: about me| so far)?\s*\?*$|^what (?:did i tell you|have i told you)(?: so far)?\s*\?*$/iu;
const TIME =
  /\bwhat (?:time|day|date|year) is it\b|\bwhat(?:'s|’s| is) the (?:current )?(?:time|date|day)(?: (?:now|today|right now))?\s*(?:[?.!,]|$)|\bwhat(?:'s|’s| is) today(?:'s|’s)? date\b|\bwhat day is (?:it )?today\b|^(?:tell me )?the (?:current )?(?:time|date)\b[^.]{0,20}$|^(?:show |tell me |give me )?(?:the )?current (?:time|date)\b[^.]{0,20}$/iu;
const TASK_CREATE =
  /^(?:(?:please|also|can you|could you) )*(?:(?:add|create|make|open|new)(?: me)?(?: an?| another| the)?(?: new)? (?:task|to-?do)(?: item)?(?:\s*[:–—-]\s*|\s+(?:to|for|that|called|named)\s+|\s+)|(?:task|to-?do)\s*:\s*|remind me to\s+|add to (?:my|the) (?:to-?do|task) list\s*(?::\s*)?)(?<subject>\S.*)$/iu;
const TASK_LIST =
  /\b(?:list|show)(?: me)?(?: all| my| the| our| open)* (?:tasks|to-?dos|to-?do list|task list)\b|\bwhat(?:'s|’s| is| are)(?: still)? (?:left|remaining|open)(?: to (?:do|be done))?\s*(?:[?.!]|$)|\bwhat (?:remains|do (?:i|we) (?:still )?have)(?: left)? to (?:be done|do)\b|\bwhat(?:'s|’s| is| are) (?:on )?(?:my|the|our)(?: open)? (?:tasks|to-?dos|to-?do list|task list)\b/iu;
// Only what is marked as a command is run: "run away" must never reach a shell.
const SHELL = /^(?:(?:please|now|also|can you|could you) )*(?:run|execute)(?: the command)?:?\s+`(?<ticked>[^`]+)`/iu;
const SHELL_LINE = /^(?:(?:run|execute)\s*:\s*|\$ )(?<plain>\S.*)$/iu;
const TO_REMEMBER = /^(?:can|could|would|will) you (?:please )?(?:remember|note|keep in mind)\b/iu;
const QUESTION_LEAD =
  /^(?:(?:and|but|so|also|now|then|ok|please)[, ]+)*(?:what|where|when|who|whom|whose|which|how|why|tell me|remind me|recall|do you (?:know|remember)|search (?:for|your|memory)|look up|find (?:out|what|where|who|when|the)|quote)\b/iu;
const YES_NO_LEAD =
  /^(?:is|are|was|were|do|does|did|can|could|should|would|will|has|have) (?:the|we|you|i|it|there|my|our|this|that|any|he|she|they)\b/iu;
const REQUEST =
  /^(?:(?:please|now|also|then|next|can you|could you|would you|will you|i want you to|i need you to)[, ]+)*(?:write|fix|refactor|implement|build|create|make|generate|draft|explain|translate|describe|compare|analy[sz]e|review|deploy|open|read|edit|rewrite|delete|rename|install|send|email|print|calculate|check|debug|design|plan|continue|proceed|run|execute|test|sing|imagine|compose)\b/iu;

/** Reads a message as a list of asks and statements. */
export function readAsks(text: string): Ask[] {
  const half = ASK_CHARS_MAX / 2;
  const read = text.length <= ASK_CHARS_MAX ? text : `${text.slice(0, half)}\n${text.slice(-half)}`;
  const asks = quotableSentences(read).flatMap(readSentence);
  const isPolite = (ask: Ask) => ask.kind === "greeting" || ask.kind === "thanks";
  return asks.every(isPolite) ? asks.slice(0, 1) : asks.filter((ask) => !isPolite(ask));
}

/** Whether a sentence only wants something, and so holds nothing worth quoting. */
export function isAsking(sentence: string): boolean {
  if (!MAY_ASK.test(sentence)) return false;
  const kind = readClause(sentence).kind;
  return kind !== "statement" && kind !== "request";
}

/** Whether a sentence asks for work. It may be quoted, but states no fact. */
export function isRequest(sentence: string): boolean {
  return REQUEST.test(sentence);
}

function readSentence(sentence: string): Ask[] {
  const greeting = GREETING.exec(sentence)?.[0] ?? "";
  const rest = sentence.slice(greeting.length).trim();
  // "Hi Bob" says nothing to keep.
  const isOnlyName = greeting !== "" && /^\p{L}+(?:\s\p{L}*)?[.!]*$/u.test(rest) && !isAsking(rest);
  if (rest === "" || isOnlyName) return [{ kind: "greeting" }];
  return joinStatements(rest.split(JOINT)).map(readClause);
}

/** "We use LMDB and run it nightly" is one statement; "what time is it and add a task" is two asks. */
function joinStatements(pieces: readonly string[]): string[] {
  const whole = pieces.join(" and ");
  if (pieces.length === 1) return [whole];
  // "… and why?" has no words of its own to look for.
  const isWhole = (piece: string) => isAsking(piece) && (termsOf(piece).length > 0 || TIME.test(piece));
  return pieces.every((piece) => isWhole(piece.trim())) ? pieces.map((piece) => piece.trim()) : [whole];
}

function readClause(clause: string): Ask {
  return readErrand(clause) ?? readTalk(clause);
}

/** What a tool or a sum can answer. */
function readErrand(clause: string): Ask | undefined {
  const sum = answerArithmetic(clause);
  if (sum !== undefined) return { kind: "arithmetic", answer: sum };
  const command = SHELL.exec(clause)?.groups?.ticked ?? SHELL_LINE.exec(clause)?.groups?.plain;
  if (command !== undefined) return { kind: "shell", command: command.trim() };
  const subject = TASK_CREATE.exec(clause)?.groups?.subject;
  if (subject !== undefined) return { kind: "task_create", subject: trimSubject(subject) };
  if (!MAY_ASK.test(clause)) return undefined;
  if (TASK_LIST.test(clause)) return { kind: "task_list" };
  if (TIME.test(clause)) return { kind: "time", text: clause };
  return undefined;
}

function readTalk(clause: string): Ask {
  if (IDENTITY.test(clause)) return { kind: "identity" };
  if (RECAP.test(clause)) return { kind: "recap" };
  if (THANKS.test(clause)) return { kind: "thanks" };
  if (TO_REMEMBER.test(clause)) return { kind: "statement", text: clause.replace(/\?$/u, ".") };
  if (REQUEST.test(clause)) return { kind: "request", text: clause };
  return { kind: isQuestion(clause) ? "question" : "statement", text: clause };
}

/** Without a question mark only a short clause that opens like a question is one: "When it fails, roll back." is not. */
function isQuestion(clause: string): boolean {
  if (/[?？][”"')\]]*$/u.test(clause) || clause.startsWith("¿") || /[吗呢か]$/u.test(clause)) return true;
  if (/[.!:,。]/u.test(clause.replace(/\S[.:]\S/gu, ""))) return false;
  return QUESTION_LEAD.test(clause) || YES_NO_LEAD.test(clause);
}

function trimSubject(subject: string): string {
  const bare = subject.trim().replace(/(?<![.!?])[.!?]+$/u, "");
  return bare.replace(/^["“'](.+)["”']$/u, "$1");
}

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
