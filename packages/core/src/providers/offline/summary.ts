import { exitCodeIn } from "../../contract/entry.ts";
import { type Message, splitPiped } from "../../contract/message.ts";
import { clip, clipStart, quotableSentences } from "../../text/sentences.ts";
import { isAsking, isRequest } from "./asks.ts";
import {
  contentText,
  flattenJson,
  isCompactionPrompt,
  isOwnWords,
  isSummary,
  memoriesOf,
  SEARCHED_CHARS_MAX,
  summaryBody,
} from "./conversation.ts";
import { isCorrection, queryOf, termsOf } from "./rank.ts";

const BYTES_PER_TOKEN = 4;
/** A summary as long as its source would not compact anything. */
const SOURCE_SHARE_MAX = 0.25;
const SUMMARY_BYTES_MIN = 800;
/** The share of an earlier summary while there is something new to add. */
const EARLIER_SHARE = 0.6;
const TOOL_OUTPUT_CHARS_MAX = 4_000;
const MEMORY_SENTENCES_MAX = 3;
const MEMORIES_CHARS_MAX = 200_000;
const CORRECTIONS_READ_MAX = 20;

/** The sections in the prompt's order; a line of an earlier summary keeps its section by these headings. */
const HEADINGS = {
  progress: "## Progress and decisions",
  constraints: "## Constraints and preferences",
  next: "## Next steps",
  data: "## Critical data",
  tools: "## Tool calls that worked or failed",
} as const satisfies Record<Section | "tools", string>;
const PARTS = ["progress", "constraints", "next", "data", "tools"] as const;

interface Candidate {
  readonly isEarlier?: boolean;
  readonly text: string;
  readonly part: (typeof PARTS)[number];
  readonly score: number;
  readonly order: number;
}

/** A handoff summary made only of literal sentences of the conversation, the most important ones that fit. */
export function extractiveSummary(messages: readonly Message[], options: { readonly maxTokens: number }): string {
  const source = messages.filter((message) => !isCompactionPrompt(message));
  const candidates = readCandidates(source);
  const bytesMax = summaryBytes(source, options.maxTokens);
  const chosen = choose(candidates, bytesMax);
  const parts = PARTS.flatMap((part) => {
    const lines = chosen.filter((candidate) => candidate.part === part).map(({ text }) => `- ${text}`);
    return lines.length === 0 ? [] : [[HEADINGS[part], ...lines].join("\n")];
  });
  return parts.length > 0 ? parts.join("\n\n") : lastWords(source, bytesMax);
}

/** The end of the conversation if no sentence fits; a summary must not be empty. */
function lastWords(messages: readonly Message[], bytesMax: number): string {
  const said = messages.map(saidIn).findLast((text) => text.trim() !== "");
  if (said === undefined) return "Nothing was said yet.";
  const [first = said] = quotableSentences(clipStart(said, SUMMARY_BYTES_MIN));
  if (Buffer.byteLength(first) <= bytesMax) return first;
  const cut = clip(first, Math.max(1, Math.floor(bytesMax / BYTES_PER_TOKEN)));
  // Half a word or number would be an invention.
  return /^.*\S(?=\s)/su.exec(cut)?.[0] ?? cut;
}

/** Two or three literal sentences of the memories, spread over their time, so that the oldest part is included. */
export function extractiveMemorySummary(
  text: string,
  options: { readonly maxTokens?: number | undefined } = {},
): string {
  const memories = (memoriesOf(text) ?? text).slice(-MEMORIES_CHARS_MAX);
  const sentences = [...new Set(quotableSentences(memories))].filter((line) => !/^(?:#|---|```)/u.test(line));
  const significant = sentences.filter((sentence) => salienceOf(sentence) > -3);
  const pool = significant.length >= MEMORY_SENTENCES_MAX ? significant : sentences;
  const third = Math.ceil(pool.length / MEMORY_SENTENCES_MAX);
  const parts = [pool.slice(0, third), pool.slice(third, 2 * third), pool.slice(2 * third)];
  const chosen = parts.flatMap((part) => mostTelling(part));
  const bytesMax = (options.maxTokens ?? Number.POSITIVE_INFINITY) * BYTES_PER_TOKEN;
  const fitting: string[] = [];
  let bytes = 0;
  for (const sentence of chosen) {
    bytes += Buffer.byteLength(sentence) + 2;
    if (bytes > bytesMax && fitting.length > 0) break;
    fitting.push(/[.!?。！？…”"')]$/u.test(sentence) ? sentence : `${sentence}.`);
  }
  return fitting.join(" ");
}

/** The most significant sentence on the main topic of the part. */
function mostTelling(part: readonly string[]): string[] {
  const counts = new Map<string, number>();
  const terms = part.map((sentence) => new Set(termsOf(sentence)));
  for (const term of terms.flatMap((set) => [...set])) counts.set(term, (counts.get(term) ?? 0) + 1);
  let best: { readonly text: string; readonly score: number } | undefined;
  for (const [index, text] of part.entries()) {
    const own = [...(terms[index] ?? [])];
    const shared = own.reduce((sum, term) => sum + (counts.get(term) ?? 0) - 1, 0) / Math.max(4, own.length);
    const score = salienceOf(text) + Math.min(shared, 4);
    if (best === undefined || score > best.score) best = { text, score };
  }
  return best === undefined ? [] : [best.text];
}

/** An earlier summary counts in full, the rest by its share: kept lines must fit again. */
function summaryBytes(messages: readonly Message[], maxTokens: number): number {
  let earlier = 0;
  let rest = 0;
  for (const message of messages) {
    const bytes = Buffer.byteLength(saidIn(message));
    if (isSummary(message)) earlier += bytes;
    else rest += bytes;
  }
  return Math.min(maxTokens * BYTES_PER_TOKEN, Math.max(SUMMARY_BYTES_MIN, earlier + rest * SOURCE_SHARE_MAX));
}

function saidIn(message: Message): string {
  switch (message.role) {
    case "user":
      return isSummary(message) ? summaryBody(message) : contentText(message.content);
    case "block_assistant":
      return message.blocks.map((block) => (block.block_type === "text" ? block.data.text : "")).join("\n");
    case "tool_results":
      return message.results
        .map((result) => flattenJson(contentText(result.content).slice(0, TOOL_OUTPUT_CHARS_MAX), "bare"))
        .join("\n");
    case "system":
    case "system_notice":
      return "";
  }
}

/** Newest first up to the bound, then in order; the earlier summary is always read. */
function readCandidates(messages: readonly Message[]): Candidate[] {
  const lastUser = messages.findLastIndex((message) => message.role === "user" && !isSummary(message));
  const isAnswered = messages
    .slice(lastUser + 1)
    .some((message) => message.role === "block_assistant" && message.stop_reason !== "tool_use");
  const batches: Omit<Candidate, "order">[][] = [];
  let left = SEARCHED_CHARS_MAX;
  for (const [back, message] of messages.toReversed().entries()) {
    const index = messages.length - 1 - back;
    const said = saidIn(message);
    if (left > 0 || isSummary(message)) {
      const text = isSummary(message) ? said : clipStart(said, left);
      batches.push(candidatesOf(message, text, index === lastUser && !isAnswered));
    }
    left -= said.length;
  }
  const tools = toolLines(messages).map((text) => ({
    text,
    part: "tools" as const,
    score: toolScore(text),
  }));
  const ordered = [...batches.reverse().flat(), ...tools];
  const scored = ordered.map((candidate, order) => {
    return { ...candidate, order, score: candidate.score + order / ordered.length };
  });
  return demoteRepeated(demoteCorrected(scored));
}

/** Failed calls score higher, so that they are not repeated. */
function toolScore(line: string): number {
  return line.startsWith("failed") ? 5 : 2;
}

function candidatesOf(message: Message, text: string, isOpen: boolean): Omit<Candidate, "order">[] {
  if (isSummary(message)) return earlierLines(text);
  switch (message.role) {
    case "user": {
      const { piped, asked } = splitPiped(text);
      return [...significantIn("page", piped, isOpen), ...significantIn("user", asked, isOpen)];
    }
    case "block_assistant":
      return isOwnWords(text.trimStart()) ? [] : significantIn("model", text, isOpen);
    default:
      return significantIn("page", text, isOpen);
  }
}

/** The significant sentences of a text; tool output and pages never give constraints. */
function significantIn(who: "user" | "model" | "page", text: string, isOpen: boolean): Omit<Candidate, "order">[] {
  return quotableSentences(text).flatMap((sentence) => {
    if (sentence.length < 2 || isOwnWords(sentence) || /^(?:#|```)/u.test(sentence)) return [];
    const salience = salienceOf(sentence);
    const asks = who === "user" && (isAsking(sentence) || (isOpen && isRequest(sentence)));
    if (asks && !isOpen) return [];
    if (asks) return [{ text: sentence, part: "next", score: salience + 8 }];
    const score = salience + (who === "user" ? 3 : 0);
    if (score <= (who === "page" ? 3 : 1)) return [];
    const section = isRequest(sentence) ? "progress" : sectionOf(sentence);
    return [{ text: sentence, part: section === "constraints" && who !== "user" ? "progress" : section, score }];
  });
}

/** Lines of an earlier summary keep their section and come before everything new. */
function earlierLines(body: string): Omit<Candidate, "order">[] {
  let part: Candidate["part"] | undefined;
  // The user's rules follow every summary literally and are not part of it.
  const [own = ""] = body.split("\n\nRules of the user, word for word;");
  return own.split("\n").flatMap((line) => {
    if (line.startsWith("(This summary was made without a model")) return [];
    if (line.startsWith("#")) {
      part = PARTS.find((name) => HEADINGS[name] === line.trim());
      return [];
    }
    const texts = part === "tools" && line !== "" ? [line.replace(/^- /u, "")] : quotableSentences(line);
    return texts.map((text) => {
      const telling = part === "tools" ? toolScore(text) : 0;
      return { isEarlier: true, text, part: part ?? sectionOf(text), score: 10 + salienceOf(text) + telling };
    });
  });
}

const ALIKE_MAX = 3;
const ALIKE_PENALTY_MAX = 8;

/** Of lines that differ only in numbers and ids a few are enough, so that a log does not crowd out a rule. */
function demoteRepeated(candidates: readonly Candidate[]): Candidate[] {
  const seen = new Map<string, number>();
  const demoted = candidates.toReversed().map((candidate) => {
    const shape = candidate.text.toLowerCase().replaceAll(/(?<!\S)\S*\p{N}\S*/gu, "#");
    const count = seen.get(shape) ?? 0;
    seen.set(shape, count + 1);
    const penalty = Math.min(ALIKE_PENALTY_MAX, Math.max(0, count - ALIKE_MAX + 1));
    return penalty === 0 ? candidate : { ...candidate, score: candidate.score - penalty };
  });
  return demoted.reverse();
}

/** Corrected statements go last, so that no stale value survives. */
function demoteCorrected(candidates: readonly Candidate[]): Candidate[] {
  const corrections = candidates.filter(({ text }) => isCorrection(text)).slice(-CORRECTIONS_READ_MAX);
  const about = corrections.map(({ text, order }) => {
    return { order, terms: queryOf(text.toLowerCase()).flatMap(({ term }) => (/\d/u.test(term) ? [] : [term])) };
  });
  const open = about.filter(({ terms }) => terms.length > 0);
  if (open.length === 0) return [...candidates];
  return candidates.map((candidate) => {
    const terms = new Set(termsOf(candidate.text));
    const isStale = open.some(
      ({ order, terms: words }) => order > candidate.order && words.every((word) => terms.has(word)),
    );
    return isStale ? { ...candidate, score: candidate.score - 8 } : candidate;
  });
}

/**
 * The highest scores that fit, without duplicates, in original order. Lines of an earlier summary come first, up to
 * their share: otherwise a full summary would never take in anything new.
 */
function choose(candidates: readonly Candidate[], bytesMax: number): Candidate[] {
  const ranked = candidates.toSorted((a, b) => b.score - a.score || b.order - a.order);
  const seen = new Set<string>();
  const opened = new Set<string>();
  const chosen: Candidate[] = [];
  let left = bytesMax;
  const take = (from: readonly Candidate[], bytesLeft: number): void => {
    let room = Math.min(left, bytesLeft);
    for (const candidate of from) {
      const key = candidate.text.toLowerCase();
      const heading = opened.has(candidate.part) ? 0 : HEADINGS[candidate.part].length + 2;
      const cost = Buffer.byteLength(candidate.text) + 3 + heading;
      if (seen.has(key) || cost > room) continue;
      seen.add(key);
      opened.add(candidate.part);
      chosen.push(candidate);
      left -= cost;
      room -= cost;
    }
  };
  // Of equal lines the oldest stay, so that the beginning is not forgotten.
  const earlier = candidates.filter(({ isEarlier }) => isEarlier);
  take(
    earlier.toSorted((a, b) => Math.floor(b.score) - Math.floor(a.score) || a.order - b.order),
    bytesMax * EARLIER_SHARE,
  );
  take(
    ranked.filter(({ isEarlier }) => !isEarlier),
    left,
  );
  take(ranked, left);
  return chosen.sort((a, b) => a.order - b.order);
}

/** Further specifics add nothing: a line of numbers is not worth ten rules. */
const SPECIFICS_COUNTED_MAX = 3;

const SPECIFIC =
  /`[^`]+`|https?:\/\/\S+|(?<![\w./~-])[\w.~-]*\/[\w./-]*\w|(?<![\w-])[\w-]+\.[a-z]{1,5}\b|\b_*[^\W_]+_\w+\b|\b[a-z]+[A-Z]\w*|\b[A-Z][A-Z0-9]{2,}\b|(?<![\w-])[a-zA-Z-]*\d[\w.:-]*|“[^“”]+”|"[^"]+"/gu;
const RULE =
  /\b(?:must|never|always|prefers?|preference|only|require[sd]?|avoid|forbidden|not allowed|at most|at least|no more than|don't|do not|from now on|should)\b/iu;
const DECISION =
  /\b(?:decided|decision|chose|chosen|agreed|settled|because|instead|switched|will use|we use|going with|approved|rejected)\b/iu;
const PROGRESS =
  /\b(?:done|finished|fixed|implemented|added|created|updated|removed|works?|passed|passes|failed|fails|deployed|merged|released|complete[d]?)\b/iu;
const OPEN =
  /\b(?:next|to-?do|remaining|remains|still (?:need|have|open|missing)|need to|needs to|follow[- ]up|later|pending|blocked|open question|waiting for)\b/iu;
const TO_KEEP = /\b(?:remember|note that|important|keep in mind|for the record|critical|secret|my name is|call me)\b/iu;
const CHATTER =
  /^(?:sure|great|okay|ok|thanks|thank you|hello|hi|hey|of course|certainly|let me|let's see|happy to|sounds good|perfect|got it|you're welcome|nice to meet)\b/iu;
/** An endless token such as base64, or a piece of one. */
const UNREADABLE = /[!-~]{161,}/u;

type Section = "progress" | "constraints" | "next" | "data";

/** The importance of a sentence: rules, decisions and specifics score high, chatter at or below zero. */
function salienceOf(sentence: string): number {
  if (UNREADABLE.test(sentence) || !/[\p{L}\p{N}]/u.test(sentence)) return -10;
  let score = 2 * countSpecifics(sentence);
  if (RULE.test(sentence)) score += 4;
  if (DECISION.test(sentence)) score += 2;
  if (TO_KEEP.test(sentence)) score += 5;
  if (PROGRESS.test(sentence) || OPEN.test(sentence)) score += 1;
  if (CHATTER.test(sentence)) score -= 3;
  return sentence.length < 12 ? score - 1 : score;
}

function sectionOf(sentence: string): Section {
  if (DECISION.test(sentence)) return "progress";
  if (RULE.test(sentence)) return "constraints";
  if (OPEN.test(sentence)) return "next";
  if (PROGRESS.test(sentence)) return "progress";
  return countSpecifics(sentence) > 0 ? "data" : "constraints";
}

function countSpecifics(sentence: string): number {
  let count = 0;
  for (const _ of sentence.matchAll(SPECIFIC)) {
    count += 1;
    if (count === SPECIFICS_COUNTED_MAX) break;
  }
  return count;
}

const LINES_MAX = 6;
const VALUE_CHARS_MAX = 120;

/** One line for each of the last tool calls: name, argument and outcome. */
function toolLines(messages: readonly Message[]): string[] {
  const results = new Map<string, { readonly text: string; readonly isError: boolean }>();
  const lines = new Map<string, string>();
  for (const message of messages.toReversed()) {
    if (message.role === "tool_results") {
      for (const result of message.results) {
        results.set(result.tool_use_id, { text: contentText(result.content), isError: result.is_error });
      }
    }
    if (message.role !== "block_assistant") continue;
    for (const block of message.blocks.toReversed()) {
      if (block.block_type !== "tool_use") continue;
      const { id, name, args } = block.data;
      const result = results.get(id);
      const call = [name, ...tellingValue(args)].join(": ");
      // The newest outcome of the same call counts.
      if (result !== undefined && !lines.has(call)) lines.set(call, outcome(call, result));
      if (lines.size === LINES_MAX) return [...lines.values()].reverse();
    }
  }
  return [...lines.values()].reverse();
}

/** The first text argument if it is short; a cut one would name something else. */
function tellingValue(args: Readonly<Record<string, unknown>>): string[] {
  const value = Object.values(args).find((candidate) => typeof candidate === "string" && candidate !== "");
  return typeof value === "string" && value.length <= VALUE_CHARS_MAX && !value.includes("\n") ? [value] : [];
}

function outcome(call: string, { text, isError }: { readonly text: string; readonly isError: boolean }): string {
  const exitCode = exitCodeIn(text);
  if (exitCode !== undefined && exitCode !== 0)
    return `failed: ${call} (${exitCode === null ? "no exit code" : `exit code ${exitCode}`})`;
  if (!isError) return `worked: ${call}`;
  const reason = quotableSentences(text.slice(0, 1_000))[0] ?? "";
  return `failed: ${call}${reason === "" || reason.length > 2 * VALUE_CHARS_MAX ? "" : ` (${reason})`}`;
}
