import type { Usage } from "../../contract/event.ts";
import { jsonIn } from "../../contract/json.ts";
import type { AssistantBlock, Message, StopReason } from "../../contract/message.ts";
import type { JsonObject } from "../../contract/session.ts";
import type { ModelClient, ModelPart, ModelRequest } from "../../ports/model.ts";
import { clip, quotableSentences } from "../../text/sentences.ts";
import { tokensIn } from "../../text/terms.ts";
import { type Ask, isAsking, readAsks, type ToolCall } from "./asks.ts";
import {
  asFields,
  contentText,
  currentTurn,
  type Exchange,
  flattenJson,
  isCompactionPrompt,
  isOwnWords,
  memoriesOf,
  type Passage,
  readPassages,
} from "./conversation.ts";
import { COVERAGE_MIN, isStopWord, queryOf, rankPassages } from "./rank.ts";
import { extractiveMemorySummary, extractiveSummary } from "./summary.ts";

const CONTEXT_TOKENS = 128_000;
const BYTES_PER_TOKEN = 4;
const MEDIA_TOKENS = 1_600;
/** Text without spaces is streamed in pieces of this size. */
const CHUNK_CHARS_MAX = 24;

/** A model without network, weights, clock or randomness: it echoes, quotes, computes, summarises and calls tools. */
export function createOfflineModel({ contextWindow = CONTEXT_TOKENS }: { contextWindow?: number } = {}): ModelClient {
  return {
    provider: "offline",
    modelId: "offline",
    contextWindow,
    noToolChoice: "the offline model decides itself whether to call a tool; leave it out",
    refuseParams,
    stream: streamReply,
  };
}

/** Sampling parameters are accepted and have no effect: this model does not sample. */
const SAMPLING_PARAMS = ["temperature", "top_p", "top_k", "seed", "presence_penalty", "frequency_penalty"];

function refuseParams(params: JsonObject): string | undefined {
  const unknown = Object.keys(params).find(
    (name) => !SAMPLING_PARAMS.includes(name.replace(/[A-Z]/g, "_$&").toLowerCase()),
  );
  return unknown === undefined ? undefined : `${unknown}: the offline model has no such parameter; leave it out`;
}

async function* streamReply(request: ModelRequest, signal: AbortSignal): AsyncGenerator<ModelPart> {
  const reply = signal.aborted ? { text: "", calls: [] } : composeReply(request);
  const { chunks, stopReason } = limit(reply, request);
  for (const delta of chunks) {
    if (signal.aborted) break;
    yield { type: "text_delta", delta };
  }
  if (signal.aborted) {
    yield { type: "failed", failure: { kind: "unknown", message: "aborted" } };
    return;
  }
  const blocks = blocksOf(chunks.join(""), stopReason === "max_tokens" ? [] : reply.calls, request.messages);
  for (const block of blocks) yield { type: "block", block };
  yield { type: "finish", stopReason, usage: estimateUsage(request, blocks) };
}

/** Splits the answer into word-sized pieces, and ends it at a stop sequence or the token limit. */
function limit({ text, calls }: Reply, request: ModelRequest): { chunks: string[]; stopReason: StopReason } {
  const stops = (request.stopSequences ?? []).filter((stop) => stop !== "").map((stop) => text.indexOf(stop));
  const stop = Math.min(...stops.filter((at) => at >= 0));
  const kept = Number.isFinite(stop) ? text.slice(0, stop) : text;
  const bytesMax = (request.maxOutputTokens ?? Number.POSITIVE_INFINITY) * BYTES_PER_TOKEN;
  const chunks: string[] = [];
  let bytes = 0;
  for (const chunk of chunksOf(kept)) {
    bytes += Buffer.byteLength(chunk);
    // At least one piece is streamed: an empty answer counts as a broken model and is retried.
    if (bytes > bytesMax && chunks.length > 0) return { chunks, stopReason: "max_tokens" };
    chunks.push(chunk);
  }
  if (kept !== text) return { chunks, stopReason: "stop_sequence" };
  return { chunks, stopReason: calls.length > 0 ? "tool_use" : "end_turn" };
}

function chunksOf(text: string): string[] {
  return (text.match(/\s+\S*|\S+/gu) ?? []).flatMap((word) => {
    if (word.length <= CHUNK_CHARS_MAX) return [word];
    return word.match(new RegExp(`[^]{1,${CHUNK_CHARS_MAX}}`, "gu")) ?? [];
  });
}

function blocksOf(text: string, calls: Reply["calls"], messages: readonly Message[]): AssistantBlock[] {
  const said: AssistantBlock[] = text === "" ? [] : [{ block_type: "text", data: { text } }];
  const used = messages.flatMap((message) => (message.role === "block_assistant" ? message.blocks : []));
  const count = used.filter((block) => block.block_type === "tool_use").length;
  // Compaction hides earlier calls, so a count alone would repeat ids that the log already holds.
  const moment = hash(messages.findLast((message) => message.role === "user"));
  return [
    ...said,
    ...calls.map(({ name, args }, index): AssistantBlock => {
      return {
        block_type: "tool_use",
        data: { id: `offline-${count + index + 1}-${moment}`, name, args: { ...args } },
      };
    }),
  ];
}

/** FNV-1a of a user message's time and text. */
function hash(message: Message | undefined): string {
  const text = message?.role === "user" ? `${message.created_at}\n${contentText(message.content).slice(0, 1_000)}` : "";
  let value = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) value = Math.imul(value ^ text.charCodeAt(at), 0x01000193);
  return (value >>> 0).toString(36);
}

function estimateUsage({ messages, tools }: ModelRequest, blocks: readonly AssistantBlock[]): Usage {
  const answer = blocks.map((block) => (block.block_type === "text" ? block.data.text : JSON.stringify(block.data)));
  const output_tokens = Math.ceil(Buffer.byteLength(answer.join("")) / BYTES_PER_TOKEN);
  return { input_tokens: estimateTokens(messages) + estimateTokens(tools), output_tokens };
}

/** JSON bytes / 4, with media counted separately. */
function estimateTokens(value: readonly unknown[]): number {
  let media = 0;
  const json = JSON.stringify(value, function replace(this: unknown, key: string, inner: unknown) {
    if (key !== "data" || typeof inner !== "string" || !isMedia(this)) return inner;
    media += 1;
    return "";
  });
  return value.length === 0 ? 0 : Math.ceil(Buffer.byteLength(json) / BYTES_PER_TOKEN) + media * MEDIA_TOKENS;
}

function isMedia(holder: unknown): boolean {
  return typeof holder === "object" && holder !== null && "media_type" in holder;
}

/** Asks beyond this in one message are not answered. */
const ASKS_MAX = 8;
const SUMMARY_TOKENS_DEFAULT = 4_096;

const IDENTITY =
  "I am rkat's built-in offline model: no network, no weights. I answer only from what is in this conversation and from the tools I am given: tell me facts, then ask for them. I can also add up, summarise, and search memory.";

interface Reply {
  readonly text: string;
  readonly calls: readonly ToolCall[];
}

/** Decides on an answer; the same request always gives the same one. */
function composeReply(request: ModelRequest): Reply {
  const { outputSchema } = request;
  const messages = withoutSchema(request);
  const maxTokens = request.maxOutputTokens ?? SUMMARY_TOKENS_DEFAULT;
  const last = messages.findLast((message) => message.role === "user");
  if (last !== undefined && isCompactionPrompt(last)) return sayOnly(extractiveSummary(messages, { maxTokens }));
  const turn = currentTurn(messages);
  const memories = memoriesOf(turn.text);
  if (memories !== undefined) return sayOnly(extractiveMemorySummary(memories, { maxTokens }));

  const passages = readPassages(messages);
  const tools = new Set(request.tools.map((tool) => tool.name));
  const knowledge: Knowledge = { passages, tools, exchanges: turn.exchanges };
  const asks = readAsks(turn.text);
  if (outputSchema !== undefined) {
    const plain = composeText(asks, { ...knowledge, tools: new Set() });
    return sayOnly(JSON.stringify(fillSchema(outputSchema, { passages, reply: plain.text })));
  }
  const reply = composeText(asks, knowledge);
  if (!turn.hasMedia || reply.calls.length > 0) return reply;
  return sayOnly(`I cannot see images or video; I read only the text beside them.\n${reply.text}`.trim());
}

/** The conversation before the message that carries the schema: field descriptions are no evidence. */
function withoutSchema({ messages, outputSchema }: ModelRequest): ModelRequest["messages"] {
  if (outputSchema === undefined) return messages;
  const schema = JSON.stringify(outputSchema);
  const asked = messages.findIndex(
    (message) => message.role === "user" && typeof message.content === "string" && message.content.includes(schema),
  );
  return asked === -1 ? messages : messages.slice(0, asked);
}

function sayOnly(text: string): Reply {
  return { text, calls: [] };
}

/** Calls the tools that are needed, all at once; without any, answers everything in the order it was asked. */
function composeText(asks: readonly Ask[], knowledge: Knowledge): Reply {
  const statements = asks.flatMap((ask) => (ask.kind === "statement" ? [ask.text] : []));
  const others = asks.flatMap((ask) => (ask.kind === "statement" ? [] : [ask]));
  const steps = others.slice(0, ASKS_MAX).map((ask) => takeStep(ask, knowledge));
  const calls = steps.flatMap((step) => ("call" in step ? [step.call] : []));
  if (calls.length > 0) return { text: "", calls: distinct(calls) };
  const echoed = statements.length === 0 ? [] : [echo(statements)];
  const said = [...echoed, ...steps.flatMap((step) => ("say" in step ? [step.say] : []))];
  return sayOnly(said.length === 0 ? IDENTITY : [...new Set(said)].join("\n"));
}

function takeStep(ask: Exclude<Ask, { kind: "statement" }>, knowledge: Knowledge): Step {
  switch (ask.kind) {
    case "identity":
      return { say: IDENTITY };
    case "arithmetic":
      return { say: ask.answer };
    case "call":
      return useTool(ask.call, knowledge);
    case "request":
      return { say: "I cannot do that: I only quote, add up, summarise and call tools." };
    case "question":
      return answerQuestion(ask.text, knowledge);
  }
}

function distinct(calls: readonly ToolCall[]): ToolCall[] {
  return [...new Map(calls.map((call) => [JSON.stringify(call), call])).values()];
}

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
interface Knowledge {
  readonly passages: readonly Passage[];
  readonly tools: ReadonlySet<string>;
  readonly exchanges: readonly Exchange[];
}

/** Calls a tool, reports its result, or says that the tool is missing. */
function useTool(call: ToolCall, { tools, exchanges }: Knowledge): Step {
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
function answerQuestion(question: string, { passages, tools, exchanges }: Knowledge): Step {
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
  const parsed = jsonIn(text);
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

const DEPTH_MAX = 8;
const ITEMS_MAX = 5;
const UNKNOWN = "unknown";
/** Fields that take the answer itself. */
const ANSWER_FIELD = /^(?:|answer|summary|text|result|message|response|reply|output|content)$/iu;
const NEGATION = /\b(?:not|never|no|none|false|disabled|off|without|cannot)\b|n't\b/iu;
const NUMBER = /(?<![\w.])-?\d+(?:\.\d+)?/u;
const FORMATS: Readonly<Record<string, { readonly shape: RegExp; readonly blank: string }>> = {
  date: { shape: /\b\d{4}-\d\d-\d\d\b/u, blank: "1970-01-01" },
  "date-time": {
    shape: /\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)/u,
    blank: "1970-01-01T00:00:00Z",
  },
  time: { shape: /\b\d\d:\d\d:\d\d(?:Z|[+-]\d\d:\d\d)/u, blank: "00:00:00Z" },
  email: { shape: /(?<![\w.+-])[\w.+-]+@[\w-]+\.[\w.-]*\w/u, blank: "unknown@example.invalid" },
  uri: { shape: /https?:\/\/[^\s"'<>)]+/u, blank: "about:blank" },
  uuid: { shape: /\b[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}\b/iu, blank: "00000000-0000-0000-0000-000000000000" },
};

interface Evidence {
  readonly passages: readonly Passage[];
  readonly reply: string;
}

interface Filled {
  readonly value: unknown;
  readonly isFound: boolean;
}

interface Place {
  readonly evidence: Evidence;
  readonly root: JsonObject;
  readonly name: string;
  readonly depth: number;
}

type Schema = Readonly<Record<string, unknown>>;

/** JSON of a schema, filled from the conversation; required fields get a valid blank when nothing was said about them. */
function fillSchema(schema: JsonObject, evidence: Evidence): unknown {
  return fill(schema, { evidence, root: schema, name: "", depth: 0 }).value;
}

function fill(given: unknown, place: Place): Filled {
  const schema = resolve(given, place);
  const deeper = { ...place, depth: place.depth + 1 };
  if (place.depth > DEPTH_MAX) return { value: null, isFound: false };
  if ("const" in schema) return { value: schema.const, isFound: true };
  if (Array.isArray(schema.enum)) return fillEnum(schema.enum, place);
  const types = typesOf(schema);
  const branches = [schema.anyOf, schema.oneOf].find(Array.isArray) ?? types.map((type) => ({ ...schema, type }));
  if (branches.length > 1) return firstFound(branches.map((branch) => fill(branch, deeper)));
  switch (types[0]) {
    case "object":
      return fillObject(schema, place);
    case "array":
      return fillArray(schema, deeper);
    case "number":
    case "integer":
      return fillNumber(schema, place);
    case "boolean": {
      const text = newestAbout(place);
      return { value: text !== undefined && !NEGATION.test(text), isFound: text !== undefined };
    }
    case "null":
      return { value: null, isFound: false };
    default:
      return fillString(schema, place);
  }
}

function resolve(given: unknown, { root }: Place): Schema {
  let schema: Schema = asFields(given);
  for (let hops = 0; hops < DEPTH_MAX && typeof schema.$ref === "string"; hops += 1) {
    const keys = schema.$ref.replace(/^#\/?/u, "").split("/").filter(Boolean);
    schema = asFields(keys.reduce<unknown>((value, key) => asFields(value)[key], root));
  }
  if (!Array.isArray(schema.allOf)) return schema;
  const parts = [schema, ...schema.allOf.map(asFields)];
  const properties = Object.assign({}, ...parts.map((part) => asFields(part.properties)));
  const required = parts.flatMap((part) => (Array.isArray(part.required) ? part.required : []));
  return { ...Object.assign({}, ...parts), properties, required, allOf: undefined };
}

function typesOf(schema: Schema): readonly unknown[] {
  if (schema.type !== undefined) return [schema.type].flat();
  if (schema.properties !== undefined) return ["object"];
  return schema.items === undefined ? ["string"] : ["array"];
}

function firstFound(filled: readonly Filled[]): Filled {
  const found = filled.find((branch) => branch.isFound) ?? filled.find((branch) => branch.value === null);
  return found ?? filled[0] ?? { value: null, isFound: false };
}

function fillEnum(values: readonly unknown[], { evidence }: Place): Filled {
  // As whole words: "low" is not in "follow".
  const words = (text: string) => ` ${text.toLowerCase().replaceAll(/[^\p{L}\p{N}]+/gu, " ")} `;
  const said = evidence.passages.map(({ text }) => words(text)).reverse();
  const found = said.flatMap((text) => values.filter((value) => text.includes(words(String(value)))));
  return { value: found[0] ?? values[0] ?? null, isFound: found.length > 0 };
}

function fillObject(schema: Schema, place: Place): Filled {
  const properties = asFields(schema.properties);
  const required = new Set(Array.isArray(schema.required) ? schema.required.map(String) : []);
  const value: Record<string, unknown> = {};
  let isFound = false;
  for (const name of new Set([...Object.keys(properties), ...required])) {
    const inner = fill(properties[name] ?? {}, { ...place, name, depth: place.depth + 1 });
    isFound ||= inner.isFound;
    if (inner.isFound || required.has(name)) value[name] = inner.value;
  }
  return { value, isFound };
}

function fillArray(schema: Schema, place: Place): Filled {
  const items = resolve(schema.items, place);
  const least = typeof schema.minItems === "number" ? Math.min(schema.minItems, ITEMS_MAX) : 0;
  const most = Math.max(least, Math.min(typeof schema.maxItems === "number" ? schema.maxItems : ITEMS_MAX, ITEMS_MAX));
  const single = fill(items, place);
  const isText = typesOf(items)[0] === "string" && items.enum === undefined;
  const found = isText ? textsAbout(place) : single.isFound ? [single.value] : [];
  const values = schema.uniqueItems === true ? [...new Set(found)] : [...found];
  while (values.length < least) values.push(single.value);
  return { value: values.slice(0, most), isFound: found.length > 0 };
}

function fillString({ format, minLength, maxLength }: Schema, place: Place): Filled {
  const known = typeof format === "string" ? FORMATS[format] : undefined;
  if (known !== undefined) {
    const said = place.evidence.passages.toReversed().map(({ text }) => known.shape.exec(text)?.[0]);
    const value = said.find((match) => match !== undefined);
    return { value: value ?? known.blank, isFound: value !== undefined };
  }
  const { reply } = place.evidence;
  const isAnswer = ANSWER_FIELD.test(place.name) && reply !== "";
  const found = newestAbout(place) ?? (isAnswer ? reply : undefined);
  const text = valueIn(found ?? UNKNOWN, place);
  const padded = typeof minLength === "number" ? text.padEnd(minLength, ".") : text;
  return {
    value: typeof maxLength === "number" ? padded.slice(0, maxLength) : padded,
    isFound: found !== undefined,
  };
}

function fillNumber({ type, minimum, maximum, ...exclusive }: Schema, place: Place): Filled {
  const { exclusiveMinimum: above, exclusiveMaximum: below } = exclusive;
  const found = NUMBER.exec(valueIn(newestAbout(place) ?? "", place).replaceAll(/(?<=\d),(?=\d{3}\b)/gu, ""))?.[0];
  const low = [minimum, typeof above === "number" ? above + 1 : above].find(Number.isFinite) ?? -Infinity;
  const high = [maximum, typeof below === "number" ? below - 1 : below].find(Number.isFinite) ?? Infinity;
  const value = Math.min(Math.max(Number(found ?? 0), Number(low)), Math.max(Number(high), Number(low)));
  return { value: type === "integer" ? Math.trunc(value) : value, isFound: found !== undefined };
}

/** "The deploy key is in vault/prod." gives "in vault/prod" for `deploy_key`; otherwise the whole sentence. */
function valueIn(sentence: string, { name }: Place): string {
  const verb = "(?:\\bis\\b|\\bare\\b|\\bwas\\b|=|:)";
  const said = new RegExp(`(?<![\\p{L}\\p{N}])${lastWord(name)}\\w*[^.:=]{0,40}?${verb}\\s*(?<value>.+)$`, "iu").exec(
    sentence,
  );
  return said?.groups?.value?.replace(/[.。!]$/u, "").trim() || sentence;
}

function newestAbout(place: Place): string | undefined {
  return textsAbout(place).at(-1);
}

/** The sentences with the last word of the field's name, oldest first. */
function textsAbout({ name, evidence }: Place): readonly string[] {
  const word = lastWord(name);
  const form = new RegExp(`(?<![\\p{L}\\p{N}])${word}`, "iu");
  return evidence.passages.flatMap(({ text }) => (word !== "" && form.test(text) ? [text] : []));
}

/** In lower case and singular, without signs that mean something in an expression. */
function lastWord(name: string): string {
  const words = name.split(/[^\p{L}\p{N}]+|(?<=[\p{Ll}\p{N}])(?=\p{Lu})/u).filter((word) => word !== "");
  return (words.at(-1) ?? "").toLowerCase().replace(/(?<=\p{L}{2})s$/u, "");
}
