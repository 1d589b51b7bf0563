/** Words, with what joins an identifier, path, version or address kept inside. */
const TOKEN = /[\p{L}\p{N}\p{M}_$]+(?:[.:/@#~+\\=&%'’-]+[\p{L}\p{N}\p{M}_$]+)*/gu;
const NON_ASCII = /[\u0080-\uffff]/;
/** Global, so used by `matchAll` and `replace` only: `test` would remember where it stopped. */
const UNSPACED_RUNS = /[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]+/g;
const COMPOUND = /[^A-Za-z0-9]|[a-z0-9][A-Z]/;
/** An endless token (base64, a minified line) says nothing and would cost as much as a page. */
const TOKEN_CHARS_MAX = 120;

const STOP_WORDS = new Set(
  `a about after again all also am an and any are as at be because been before being but by can could did do does doing
  for from had has have having he her here him his how i if in into is it its just know let may me might must shall ought use used uses using mine more most
  much my myself no not now of on one only or other our ours out over please quick recall remember remind said say
  she should so some still such sure tell than thank thanks that the their them then there these they thing things
  this those to today told too up us very was we well were what when where which while who whom whose why will with
  would yes you your yours yourself actually correction mention mentioned want need give show find look search again
  ok okay hi hello hey got get dont don't doesn't didn't isn't aren't wasn't can't won't i'm i've i'll i'd we're we've
  you're you've it's that's what's where's who's when's how's let's there's kindly note noted called`.split(/\s+/u),
);

/** Words that ask for the same thing; stems on both sides. */
const SAME_AS = new Map(
  Object.entries({
    chos: "decid",
    chosen: "decid",
    choos: "decid",
    choic: "decid",
    pick: "decid",
    decision: "decid",
    settl: "decid",
    agre: "decid",
    db: "databas",
    repo: "repository",
    dir: "directory",
    folder: "directory",
    configuration: "config",
    prod: "production",
    doc: "documentation",
    kept: "keep",
    held: "keep",
    ran: "run",
    built: "build",
    wrot: "writ",
    written: "writ",
    broke: "break",
    broken: "break",
  }),
);

/** The words of a text as they stand. */
export function tokensOf(text: string): string[] {
  return text.match(TOKEN) ?? [];
}

/** Whether a token carries meaning of its own. */
export function isStopWord(token: string): boolean {
  return STOP_WORDS.has(token.toLowerCase().replace("’", "'"));
}

/** What a text is found by: stems without stop words; an identifier whole and also in its parts. */
export function termsOf(text: string): string[] {
  const terms: string[] = [];
  for (const token of tokensOf(text)) collectTerms(token, terms);
  return terms;
}

/** The terms of one word, the whole one first. */
export function collectTerms(token: string, into: string[]): void {
  if (NON_ASCII.test(token)) {
    collectForeign(token, into);
    return;
  }
  if (token.length > TOKEN_CHARS_MAX) return;
  const lower = token.toLowerCase();
  if (STOP_WORDS.has(lower)) return;
  if (!COMPOUND.test(token)) {
    into.push(stem(lower));
    return;
  }
  into.push(lower.replace(/'s$/u, ""));
  const file = lower.slice(lower.lastIndexOf("/") + 1);
  if (file !== lower && file.includes(".")) into.push(file);
  for (const part of token.split(/[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])/u)) {
    const word = part.toLowerCase();
    if (word.length > 1 && !STOP_WORDS.has(word)) into.push(stem(word));
  }
}

/** Scripts without spaces are found by pairs of signs; accents are dropped. */
function collectForeign(token: string, into: string[]): void {
  const plain = token.toLowerCase().replaceAll("’", "'").normalize("NFD").replace(/\p{M}/gu, "").normalize("NFC");
  if (STOP_WORDS.has(plain)) return;
  for (const [run] of plain.matchAll(UNSPACED_RUNS)) {
    if (run.length === 1) into.push(run);
    for (let at = 0; at + 1 < run.length; at += 1) into.push(run.slice(at, at + 2));
  }
  for (const rest of plain.replace(UNSPACED_RUNS, " ").split(" ")) {
    if (rest !== "") into.push(stem(rest.replace(/'s$/u, "")));
  }
}

/** English plurals, -ing and -ed taken off; what holds a digit is left alone. */
export function stem(word: string): string {
  const cut = word.length < 4 || /[0-9_]/u.test(word) ? word : dropEnding(word);
  return SAME_AS.get(cut) ?? cut;
}

function dropEnding(word: string): string {
  const singular = dropPlural(word);
  const verb = /^([^aeiouy]*[aeiouy].*)(?:ing|ed)$/u.exec(singular)?.[1];
  const base = verb !== undefined && verb.length >= 3 ? verb.replace(/([^aeiouylsz])\1$/u, "$1") : singular;
  return base.length > 3 && base.endsWith("e") ? base.slice(0, -1) : base;
}

function dropPlural(word: string): string {
  if (word.endsWith("ies") && word.length > 4) return `${word.slice(0, -3)}y`;
  if (/(?:x|ch|sh|ss|z)es$/u.test(word)) return word.slice(0, -2);
  return /[^sui]s$/u.test(word) ? word.slice(0, -1) : word;
}
