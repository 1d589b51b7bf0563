import { clip, quotableSentences } from "../../text/sentences.ts";
import { tokensIn } from "../../text/terms.ts";
import { isAsking } from "./asks.ts";
import { isOwnWords, type Passage, parseJson } from "./conversation.ts";
import { asFields, type Bench, failureOf, findExchange, type Step, type ToolCall } from "./errands.ts";
import { COVERAGE_MIN, findAnswers, type Match, type Query, queryOf, rankPassages } from "./rank.ts";
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
