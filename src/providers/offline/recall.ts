import { clip, quotableSentences } from "../../text/sentences.ts";
import { tokensIn } from "../../text/terms.ts";
import { isAsking, isRequest } from "./asks.ts";
import { isOwnWords, type Passage, parseJson } from "./conversation.ts";
import { asFields, type Bench, failureOf, findExchange, type Step, type ToolCall } from "./errands.ts";
import { COVERAGE_MIN, findAnswers, isCorrection, type Match, type Query, queryOf, rankPassages } from "./rank.ts";
import { salienceOf } from "./summary.ts";
import { isStopWord } from "./words.ts";

/** Tried in this order, each once a turn. */
const RECALL_TOOLS = ["memory_search", "search_project_history"] as const;
const QUERY_WORDS_MAX = 16;
const HITS_READ_MAX = 20;
const HIT_CHARS_MAX = 8_000;
const QUOTES_MAX = 5;
const QUOTE_CHARS_MAX = 400;
/** A hit that shares too few words is believed only when the search itself is sure. */
const SURE_SCORE_MIN = 0.7;
const UNSURE_COVERAGE_MIN = 0.4;

const NOTHING_FOUND = "I find nothing about that in this conversation";

const LISTING =
  /\bwhat (?:else )?(?:do you (?:know|remember)|did i (?:say|tell you)|have i (?:said|told you))\b.*\babout\b/iu;

/** What a question is answered from. */
export interface Knowledge extends Bench {
  readonly passages: readonly Passage[];
}

/** Answers a question from the conversation, else from memory, else says that it does not know. */
export function answerQuestion(question: string, knowledge: Knowledge): Step {
  const query = withFallback(queryOf(question), knowledge.passages);
  const here = LISTING.test(question)
    ? rankPassages(query, knowledge.passages).filter((match) => match.coverage >= COVERAGE_MIN)
    : findAnswers(query, knowledge.passages);
  if (here.length > 0) return { say: quoteMatches(here.slice(0, QUOTES_MAX)) };
  return answerFromMemory(question, query, knowledge);
}

/** "And why?" asks about what was said last, if that can tell. */
function withFallback(query: Query, passages: readonly Passage[]): Query {
  if (query.terms.length > 0) return query;
  const last = passages.findLast(({ source, text }) => source.kind === "user" && (query.wanted?.test(text) ?? true));
  return { terms: last === undefined ? [] : queryOf(last.text).terms, wanted: query.wanted };
}

function answerFromMemory(question: string, query: Query, { tools, exchanges }: Knowledge): Step {
  const failures: string[] = [];
  const searched: string[] = [];
  for (const name of RECALL_TOOLS) {
    const call = { name, args: { query: searchWords(question) } } satisfies ToolCall;
    const done = findExchange(call, exchanges);
    if (done === undefined && tools.has(name)) return { call };
    if (done === undefined) continue;
    searched.push(name);
    const failure = failureOf(done);
    if (failure !== undefined) failures.push(failure);
    const hit = failure === undefined ? bestHit(query, readHits(done.result?.text ?? "")) : undefined;
    if (hit !== undefined) return { say: quoteMatches([hit]) };
  }
  const where = searched.length > failures.length ? ", nor in memory" : "";
  return { say: [...failures, `${NOTHING_FOUND}${where}. Tell me, and I can quote it later.`].join("\n") };
}

/** The question's own words, without those that only ask. */
function searchWords(question: string): string {
  const words = tokensIn(question).filter((token) => !isStopWord(token));
  return (words.length === 0 ? tokensIn(question) : words).slice(0, QUERY_WORDS_MAX).join(" ") || question.trim();
}

function readHits(text: string): Passage[] {
  const parsed = parseJson(text);
  const fields = asFields(parsed);
  const rows = [parsed, fields.results, fields.hits].find(Array.isArray) ?? [];
  const hits = rows.slice(0, HITS_READ_MAX).map(asFields);
  const said = hits.flatMap(({ content, score, session_id, turn }) => {
    if (typeof content !== "string" || isOwnWords(content)) return [];
    const place = describePlace(session_id, turn);
    const source = { kind: "memory" as const, place, score: typeof score === "number" ? score : 0 };
    return quotableSentences(content.slice(0, HIT_CHARS_MAX))
      .filter((sentence) => !isOwnWords(sentence) && !isAsking(sentence))
      .map((sentence) => ({ text: sentence, source, turn: typeof turn === "number" ? turn : 0 }));
  });
  // By turn, so that of two that say the same the newer is quoted.
  return said
    .sort((a, b) => a.turn - b.turn)
    .map(({ text: sentence, source }, order) => ({ text: sentence, source, order }));
}

function describePlace(sessionId: unknown, turn: unknown): string {
  const session = typeof sessionId === "string" && sessionId !== "" ? [`session ${sessionId.slice(0, 8)}`] : [];
  return [...session, ...(typeof turn === "number" ? [`turn ${turn}`] : [])].join(", ");
}

function bestHit(query: Query, hits: readonly Passage[]): Match | undefined {
  const [answer] = findAnswers(query, hits);
  if (answer !== undefined) return answer;
  const near = rankPassages(query, hits).find((match) => match.coverage >= UNSURE_COVERAGE_MIN);
  if (near !== undefined) return near;
  const sure = hits
    .filter(({ source }) => source.kind === "memory" && source.score >= SURE_SCORE_MIN)
    .sort((a, b) => scoreOf(b) - scoreOf(a))[0];
  return sure && { passage: sure, coverage: 0, score: scoreOf(sure), bits: 0 };
}

function scoreOf({ source }: Passage): number {
  return source.kind === "memory" ? source.score : 0;
}

function quoteMatches(matches: readonly Match[]): string {
  const inOrder = matches.toSorted((a, b) => a.passage.order - b.passage.order);
  return inOrder.map(({ passage }) => quote(passage)).join("\n");
}

/** A quotation that says where it comes from. */
export function quote({ text, source }: Passage): string {
  const said = `“${clip(text, QUOTE_CHARS_MAX).replace(/[.。]$/u, "")}”.`;
  switch (source.kind) {
    case "user":
      return `You told me: ${said}`;
    case "summary":
      return `The summary of our earlier conversation says: ${said}`;
    case "tool":
      return `\`${source.name}\` answered: ${said}`;
    case "memory":
      return `I found in memory${source.place === "" ? "" : ` (${source.place})`}: ${said}`;
  }
}

/** More than this is counted, not repeated: the user knows what they said. */
const STATEMENTS_RESTATED_MAX = 3;
/** Of each that is repeated. */
const RESTATED_CHARS_MAX = 240;
/** How much of what is corrected the correction must share, to be shown beside it. */
const CORRECTED_COVERAGE_MIN = 0.5;

const LEAD =
  /^(?:(?:please|also|and|ok|so|fyi|just|can you|could you|would you|will you)[,: ]+)*(?:remember|note|keep in mind|fyi|for the record|don't forget)(?: this| it)?\s*(?:that\b|:|,|—|-)?\s*/iu;
const CORRECTION_LEAD =
  /^(?:(?:oh|wait|hm+|sorry|no)[,.! ]+)*(?:actually|correction|update|i meant|i was wrong|scratch that)[,:.! ]*/iu;
const NAMING =
  /^(?:my name is|i am called|call me|i'm|i’m|i am) (?<name>\p{Lu}[\p{L}'’-]+(?: \p{Lu}[\p{L}'’-]+)?)[.!]?$/iu;

const OTHER_PERSON: Readonly<Record<string, string>> = {
  i: "you",
  me: "you",
  my: "your",
  mine: "yours",
  myself: "yourself",
  "i'm": "you're",
  "i've": "you've",
  "i'll": "you'll",
  "i'd": "you'd",
};

/** Acknowledges what the user said by saying it back, so that a misreading is seen at once. */
export function restate(statements: readonly string[], earlier: readonly Passage[]): string {
  const [only] = statements;
  if (only === undefined) return "";
  if (statements.length === 1) return restateOne(only, earlier);
  if (statements.length <= STATEMENTS_RESTATED_MAX) {
    return statements.map((statement) => restateOne(statement, earlier)).join("\n");
  }
  const chosen = statements
    .map((text, index) => ({ text, index, salience: salienceOf(text) }))
    .sort((a, b) => b.salience - a.salience || a.index - b.index)
    .slice(0, STATEMENTS_RESTATED_MAX)
    .sort((a, b) => a.index - b.index);
  const lines = chosen.map(({ text }) => `- “${clip(text, RESTATED_CHARS_MAX)}”`);
  return [`Noted, ${statements.length} sentences. The most specific:`, ...lines].join("\n");
}

function restateOne(statement: string, earlier: readonly Passage[]): string {
  if (isCorrection(statement)) return restateCorrection(statement, earlier);
  const name = NAMING.exec(statement)?.groups?.name;
  if (name !== undefined && !isStopWord(name) && /^\p{Lu}/u.test(name)) return `Nice to meet you, ${name}.`;
  return `Noted: ${turnRound(statement.replace(LEAD, ""))}`;
}

function restateCorrection(statement: string, earlier: readonly Passage[]): string {
  const said = turnRound(statement.replace(CORRECTION_LEAD, ""));
  const before = findCorrected(statement, earlier);
  return `Corrected: ${said}${before === undefined ? "" : ` Before, you told me: “${clip(before.text, RESTATED_CHARS_MAX)}”`}`;
}

/** What a correction takes back: the newest passage about the same words, whatever its values. */
function findCorrected(statement: string, earlier: readonly Passage[]): Passage | undefined {
  const words = tokensIn(statement).filter((token) => !/\d/u.test(token));
  const query = queryOf(words.join(" ").toLowerCase());
  const said = earlier.filter(({ text, source }) => source.kind !== "tool" && text !== statement);
  if (query.terms.length === 0) return said.findLast(({ text }) => !isRequest(text));
  return rankPassages(query, said).find((match) => match.coverage >= CORRECTED_COVERAGE_MIN)?.passage;
}

/** "My key is in vault/prod" → "your key is in vault/prod."; what addresses us, or quotes, is quoted as it stands. */
function turnRound(statement: string): string {
  const said = clip(statement.trim(), RESTATED_CHARS_MAX);
  if (/[`"“”«»]|\byou\b|\byour\b|\byou'/iu.test(said)) return `“${said}”`;
  const turned = said
    .replace(/\bI am\b/giu, "you are")
    .replace(/\bI was\b/giu, "you were")
    .replaceAll("’", "'")
    .replace(/(?<![\w/.-])(?:I|me|my|mine|myself|I'm|I've|I'll|I'd)(?![\w/'-])/giu, (word) => {
      return OTHER_PERSON[word.toLowerCase()] ?? word;
    });
  const opening = /^\p{L}+(?= )/u.exec(turned)?.[0] ?? "";
  const begun = isStopWord(opening) ? opening.toLowerCase() + turned.slice(opening.length) : turned;
  return /[.!?。！？…]$/u.test(begun) ? begun : `${begun}.`;
}
