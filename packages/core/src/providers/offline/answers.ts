import { clip, quotableSentences } from "../../text/sentences.ts";
import { tokensIn } from "../../text/terms.ts";
import { isAsking, type ToolCall } from "./asks.ts";
import { asFields, type Exchange, flattenJson, isOwnWords, type Passage, parseJson } from "./conversation.ts";
import { COVERAGE_MIN, isStopWord, queryOf, rankPassages } from "./rank.ts";

/** Tried in this order, each once per turn. */
const RECALL_TOOLS = ["memory_search", "search_project_history"] as const;
const QUERY_WORDS_MAX = 16;
const HITS_READ_MAX = 20;
const HIT_CHARS_MAX = 8_000;
const QUOTE_CHARS_MAX = 400;
const OUTPUT_LINES_MAX = 8;
const LINE_CHARS_MAX = 200;
/** Further statements are counted, not repeated. */
const STATEMENTS_ECHOED_MAX = 3;
const ECHO_CHARS_MAX = 240;

const FIRST_PERSON = /(?<![\w/.'-])(?:I am|I'm|I|me|my|mine)(?![\w/'-])/giu;
const SECOND: Readonly<Record<string, string>> = {
  "i am": "you are",
  "i'm": "you're",
  i: "you",
  me: "you",
  my: "your",
  mine: "yours",
};
const NOTHING_FOUND = "I find nothing about that in this conversation";
const TO_REMEMBER =
  /^(?:(?:please|also|can you|could you|would you|will you)[,: ]+)*(?:remember|note|keep in mind)(?: this| it)?\s*(?:that\b|:|,)?\s*/iu;

/** The reply to one ask: a text, or a tool call that has to come first. */
export type Step = { readonly say: string } | { readonly call: ToolCall };

/** What asks are answered from. */
export interface Knowledge {
  readonly passages: readonly Passage[];
  readonly tools: ReadonlySet<string>;
  readonly exchanges: readonly Exchange[];
}

/** Calls a tool, reports its result, or says that the tool is missing. */
export function useTool(call: ToolCall, { tools, exchanges }: Knowledge): Step {
  const done = findExchange(call, exchanges);
  if (done === undefined) return tools.has(call.name) ? { call } : { say: `I have no tool \`${call.name}\` here.` };
  return { say: failureOf(done) ?? report(call, done.result?.text ?? "") };
}

function report({ name, args }: ToolCall, text: string): string {
  if (name === "task_create") return `Task added: “${args.subject}”.`;
  return `\`${name}\` answered:\n${firstLines(flattenJson(text, "keyed"), OUTPUT_LINES_MAX)}`;
}

/** The exchange that served a call in this turn. A call is never repeated, whatever its result. */
function findExchange(call: ToolCall, exchanges: readonly Exchange[]): Exchange | undefined {
  const args = JSON.stringify(call.args);
  return exchanges.find((exchange) => exchange.name === call.name && JSON.stringify(exchange.args) === args);
}

function failureOf({ name, result }: Exchange): string | undefined {
  if (result === undefined) return `The tool \`${name}\` gave no result.`;
  return result.isError
    ? `The tool \`${name}\` failed: ${firstLines(result.text, 3) || "it gave no reason"}`
    : undefined;
}

function firstLines(text: string, linesMax: number): string {
  const lines = text
    .slice(0, linesMax * LINE_CHARS_MAX * 4)
    .trim()
    .split("\n");
  const shown = lines.slice(0, linesMax).map((line) => clip(line.trimEnd(), LINE_CHARS_MAX));
  return [...shown, ...(lines.length > linesMax ? ["…"] : [])].join("\n");
}

/** Answers a question from the conversation, else from memory, else says that it does not know. */
export function answerQuestion(question: string, { passages, tools, exchanges }: Knowledge): Step {
  const here = bestPassage(question, passages);
  if (here !== undefined) return { say: quote(here) };
  const failures: string[] = [];
  let searches = 0;
  for (const name of RECALL_TOOLS) {
    const call: ToolCall = { name, args: { query: searchWords(question) } };
    const done = findExchange(call, exchanges);
    if (done === undefined && tools.has(name)) return { call };
    if (done === undefined) continue;
    searches += 1;
    const failure = failureOf(done);
    if (failure !== undefined) failures.push(failure);
    const hit = failure === undefined ? bestPassage(question, readHits(done.result?.text ?? "")) : undefined;
    if (hit !== undefined) return { say: quote(hit) };
  }
  const where = searches > failures.length ? ", nor in memory" : "";
  return { say: [...failures, `${NOTHING_FOUND}${where}. Tell me, and I can quote it later.`].join("\n") };
}

/** The best match; a question without words of its own, such as "and why?", is about the last statement. */
function bestPassage(question: string, passages: readonly Passage[]): Passage | undefined {
  const query = queryOf(question);
  if (query.length === 0) return passages.findLast(({ source }) => source.kind === "user");
  return rankPassages(query, passages).find(({ coverage }) => coverage >= COVERAGE_MIN)?.passage;
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
  const said = hits.flatMap(({ content, session_id, turn }) => {
    if (typeof content !== "string" || isOwnWords(content)) return [];
    const session = typeof session_id === "string" && session_id !== "" ? [`session ${session_id.slice(0, 8)}`] : [];
    const place = [...session, ...(typeof turn === "number" ? [`turn ${turn}`] : [])].join(", ");
    return quotableSentences(content.slice(0, HIT_CHARS_MAX))
      .filter((sentence) => !isOwnWords(sentence) && !isAsking(sentence))
      .map((sentence) => ({ text: sentence, place, turn: typeof turn === "number" ? turn : 0 }));
  });
  // In the order of turns, so that of two hits that say the same the newer is quoted.
  return said
    .sort((a, b) => a.turn - b.turn)
    .map(({ text: sentence, place }, order) => ({ text: sentence, source: { kind: "memory", place }, order }));
}

function quote({ text, source }: Passage): string {
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

/** Acknowledges statements by repeating them, so that a misreading is seen at once. */
export function echo(statements: readonly string[]): string {
  const repeated = statements.slice(0, STATEMENTS_ECHOED_MAX);
  const rest = statements.length - repeated.length;
  const lines = repeated.map((statement) => `Noted: ${plainSentence(statement.replace(TO_REMEMBER, ""))}`);
  return [...lines, ...(rest === 0 ? [] : [`Noted: ${rest} more sentences.`])].join("\n");
}

function plainSentence(statement: string): string {
  const said = clip(statement.trim(), ECHO_CHARS_MAX).replace(
    FIRST_PERSON,
    (word) => SECOND[word.toLowerCase()] ?? word,
  );
  const opening = /^\p{L}+(?= )/u.exec(said)?.[0] ?? "";
  const begun = isStopWord(opening) ? opening.toLowerCase() + said.slice(opening.length) : said;
  return /[.!?。！？…]$/u.test(begun) ? begun : `${begun}.`;
}
