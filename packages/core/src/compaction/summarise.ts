import { cleanSummary } from "../agent-memory/clean-summary.ts";
import { summaryPrompt } from "../agent-memory/tier-text.ts";
import { messageOf } from "../contract/error.ts";
import type { Usage } from "../contract/event.ts";
import type { Message } from "../contract/message.ts";
import type { Compactor, Curator } from "../ports/compactor.ts";
import { cutText, excerptOf } from "../state/transcript-text.ts";
import { addUsage } from "../turn/cost.ts";
import { type Asking, ask, type ModelAnswer, waitFor } from "../turn/model-call.ts";
import { assistantText, estimateTokens } from "../turn/tokens.ts";
import { grammarFaults } from "./grammar.ts";
import { isSummary, readSections, type Sections, sectionText, summaryText, writeSections } from "./shown-messages.ts";
import { boundInput } from "./summary-input.ts";

/** A summary of the conversation's own sentences, without a model. */
export type ExtractSummary = (messages: readonly Message[], options: { readonly maxTokens: number }) => Promise<string>;

export interface Summarising {
  readonly asking: Asking;
  readonly compactor: Compactor;
  readonly curator: Curator | undefined;
  readonly extract: ExtractSummary;
  /** The context, large old results as references. */
  readonly shown: readonly Message[];
  readonly discarded: readonly Message[];
  readonly instructions: string | undefined;
  /** Whether the session needs a summary to continue: one is extracted if the model fails. */
  readonly mustSucceed: boolean;
}

export type Summarised =
  | {
      readonly ok: true;
      readonly summary: string;
      readonly by: "model" | "curator" | "extractive";
      readonly tokens: number;
      readonly usage: Usage;
      readonly notes: readonly string[];
      /** Made from the discarded messages only: nothing else may be discarded. */
      readonly isOfDiscarded?: true;
    }
  | { readonly ok: false; readonly error: string; readonly usage?: Usage };

/** Gets a summary from the curator, else the model, else by extraction. */
export async function summarise(work: Summarising): Promise<Summarised> {
  if (work.curator !== undefined) return curate(work, work.curator);
  return askForText({ ...work, request: () => requestOf(work), read: (answer) => answer.trim() });
}

/** A text requested from a model, and the source to extract it from if the model fails. */
interface Wanted extends Pick<Summarising, "asking" | "compactor" | "extract" | "shown" | "mustSucceed"> {
  /** The share of the summary's limit; defaults to all. */
  readonly share?: number;
  request(): SummaryRequest;
  /** The usable part of an answer; empty if there is none. */
  read(answer: string): string;
}

async function askForText(work: Wanted): Promise<Summarised> {
  let request: SummaryRequest;
  await work.asking.clock.yieldToEventLoop();
  try {
    request = work.request();
  } catch (thrown) {
    return { ok: false, error: `the compactor failed: ${work.asking.redact(messageOf(thrown))}` };
  }
  const answer = await ask(quiet(work.asking), { ...request, tools: [] });
  if (!answer.ok) return answerless(work, answer);
  const summary = work.read(assistantText(answer));
  if (!SAYS_SOMETHING.test(summary)) return unusable(work, "LLM returned empty summary", answer.usage);
  const notes = answer.stopReason === "max_tokens" ? ["the summary reached max_summary_tokens and ends there"] : [];
  return { ok: true, summary, by: "model", tokens: answer.usage.output_tokens, usage: answer.usage, notes };
}

/** A letter, digit or symbol; some blank characters survive trimming. */
const SAYS_SOMETHING = /[\p{L}\p{N}\p{S}]/u;

/** An unusable summary; if the session needs one, it is extracted. */
async function unusable(work: Extracting, error: string, usage: Usage): Promise<Summarised> {
  return work.mustSucceed ? extracted(work, error, usage) : { ok: false, error, usage };
}

/** Suppresses deltas, which would look like the answer, and does not retry an empty one. */
export function quiet(asking: Asking): Asking {
  return { ...asking, acceptsEmpty: true, emit: () => {} };
}

/** The assumed window of a model whose window is unknown. */
const UNKNOWN_WINDOW_TOKENS = 125_000;
/** The estimate can be below the model's count. */
const WINDOW_SHARE = 0.9;
const INPUT_TOKENS_MIN = 256;

/** The summary request: the compactor's view of the context, bounded to the window, then its prompt. */
export function requestOf(parts: RequestParts): SummaryRequest {
  const { asking, compactor, shown, instructions } = parts;
  const more = instructions === undefined ? "" : `\n\nAdditional instructions: ${instructions}`;
  const prompt = promptOf(`${compactor.compactionPrompt()}${more}`, asking);
  const { maxOutputTokens, tokensLeft } = roomFor(asking, summaryTokensMax(parts), prompt);
  return { messages: [...boundInput(compactor.prepareForSummarization(shown), tokensLeft), prompt], maxOutputTokens };
}

export function promptOf(content: string, { clock }: Pick<Asking, "clock">): Message {
  return { role: "user", content, created_at: new Date(clock.now()).toISOString() };
}

function summaryTokensMax({ compactor, share = 1 }: Pick<RequestParts, "compactor" | "share">): number {
  return Math.floor(compactor.maxSummaryTokens() * share);
}

/** The answer's limit, and the room for the input besides the prompt. */
export function roomFor({ model }: Pick<Asking, "model">, tokensMax: number, prompt: Message) {
  const window = Math.floor((model.contextWindow ?? UNKNOWN_WINDOW_TOKENS) * WINDOW_SHARE);
  // A generous answer limit must leave room for the input.
  const tokens = Math.min(tokensMax, Math.floor(window / 2));
  const maxOutputTokens = Math.max(1, tokens);
  const tokensLeft = Math.max(INPUT_TOKENS_MIN, window - maxOutputTokens - estimateTokens([prompt]));
  return { maxOutputTokens, tokensLeft };
}

export interface SummaryRequest {
  readonly messages: readonly Message[];
  readonly maxOutputTokens: number;
}

export interface RequestParts extends Pick<Summarising, "compactor" | "shown" | "instructions"> {
  readonly asking: Pick<Asking, "clock" | "model">;
  readonly share?: number;
}

function answerless(work: Extracting, answer: Extract<ModelAnswer, { ok: false }>): Promise<Summarised> | Summarised {
  const { failure, because } = answer;
  if (because === "interrupted") return { ok: false, error: "interrupted" };
  if (because === "out_of_time") return { ok: false, error: "the time budget ran out" };
  const cannotServe = failure.kind === "context_exceeded";
  if (!cannotServe && !work.mustSucceed) return { ok: false, error: failure.message };
  return extracted(work, `the model could not summarise (${failure.message})`, NO_USAGE);
}

const NO_USAGE: Usage = { input_tokens: 0, output_tokens: 0 };

type Extracting = Pick<Wanted, "compactor" | "extract" | "shown" | "share" | "mustSucceed">;

/** A summary of the conversation's own sentences; `usage` was spent on failed attempts. */
export async function extracted(
  { compactor, extract, shown, share = 1 }: Omit<Extracting, "mustSucceed">,
  why: string,
  usage: Usage,
): Promise<Extract<Summarised, { ok: true }>> {
  const intro = "(This summary was made without a model, of sentences of the conversation, word for word.)";
  const maxTokens = Math.max(1, summaryTokensMax({ compactor, share }));
  const body = await extract(compactor.prepareForSummarization(shown), { maxTokens });
  const summary = `${intro}\n\n${body}`;
  return {
    ok: true,
    summary,
    by: "extractive",
    tokens: countText(summary),
    usage,
    notes: [`${why}, so the summary is extractive`],
  };
}

async function curate(work: Summarising, curator: Curator): Promise<Summarised> {
  const { shown, discarded, compactor, instructions, asking } = work;
  const earlier = shown.find(isSummary);
  try {
    const source = {
      messages: shown,
      discarded,
      previousSummary: earlier === undefined ? undefined : summaryText(earlier),
      maxSummaryTokens: compactor.maxSummaryTokens(),
      instructions,
    };
    const written = await waitFor(asking, (signal) => curator({ ...source, signal }));
    const summary = typeof written === "string" ? written.trim() : "";
    if (!SAYS_SOMETHING.test(summary)) return unusable(work, "the curator returned no summary", NO_USAGE);
    return { ok: true, summary, by: "curator", tokens: countText(summary), usage: NO_USAGE, notes: [] };
  } catch (thrown) {
    return unusable(work, `the curator failed: ${asking.redact(messageOf(thrown))}`, NO_USAGE);
  }
}

function countText(content: string): number {
  return estimateTokens([{ role: "user", content, created_at: "" }]);
}

interface Cascading extends Omit<Summarising, "discarded" | "curator"> {
  /** The messages discarded now, without an earlier summary. */
  readonly leaving: readonly Message[];
}

const SECTION_SHARE = 1 / 2;

/**
 * Writes the two sections of a summary: the long-term one from both existing sections, then the recent one from the
 * discarded messages. The first time only the recent one. If either fails, both do.
 */
export async function summariseByCascade(work: Cascading): Promise<Summarised> {
  const earlier = work.shown.find(isSummary);
  const longterm = earlier && (await askForText(longtermWanted(work, earlier)));
  if (longterm?.ok === false) return longterm;
  const recent = await askForText(recentWanted(work));
  if (recent.ok) return joined(longterm, recent);
  if (longterm === undefined) return recent;
  const usage = recent.usage === undefined ? longterm.usage : addUsage(longterm.usage, recent.usage);
  return { ...recent, usage };
}

/** The requests for both sections, in order. */
export function cascadeRequests(work: RequestParts & Pick<Cascading, "leaving">): readonly SummaryRequest[] {
  const earlier = work.shown.find(isSummary);
  return [...(earlier === undefined ? [] : [longtermRequest(work, earlier)]), recentRequest(work)];
}

type Earlier = Parameters<typeof summaryText>[0];

function longtermWanted(work: Cascading, earlier: Earlier) {
  return {
    ...work,
    shown: [earlier],
    share: SECTION_SHARE,
    request: () => longtermRequest(work, earlier),
    read: (answer: string) => cleanSummary(sectionText(answer)),
  };
}

const BYTES_PER_TOKEN = 4;

/** Uses the prompt of agent memories, without instructions: those apply to the discarded messages. */
function longtermRequest(work: RequestParts, earlier: Earlier): SummaryRequest {
  const { longterm, recent } = readSections(summaryText(earlier));
  const memories = [longterm, recent].filter((section) => section !== "");
  const { asking } = work;
  const room = roomFor(
    asking,
    summaryTokensMax({ ...work, share: SECTION_SHARE }),
    promptOf(summaryPrompt([]), asking),
  );
  const bytesMax = Math.floor((room.tokensLeft * BYTES_PER_TOKEN) / Math.max(1, memories.length));
  const prompt = summaryPrompt(memories.map((memory) => cutText(memory, bytesMax)));
  return { messages: [promptOf(prompt, asking)], maxOutputTokens: room.maxOutputTokens };
}

function recentWanted(work: Cascading) {
  return {
    ...work,
    shown: leavingOf(work),
    share: recentShare(work),
    request: () => recentRequest(work),
    read: sectionText,
  };
}

function recentRequest(work: RequestParts & Pick<Cascading, "leaving">): SummaryRequest {
  return requestOf({ ...work, shown: readable(leavingOf(work), work), share: recentShare(work) });
}

function recentShare({ shown }: Pick<Cascading, "shown">): number {
  return shown.some(isSummary) ? SECTION_SHARE : 1;
}

function leavingOf({ shown, leaving }: Pick<Cascading, "shown" | "leaving">): readonly Message[] {
  const [first] = shown;
  return first?.role === "system" ? [first, ...leaving] : leaving;
}

/** Out of context the messages may not form a valid conversation, such as exchanges of a turn in progress. */
function readable(messages: readonly Message[], { compactor }: Pick<Cascading, "compactor">): readonly Message[] {
  const prepared = compactor.prepareForSummarization(messages);
  if (grammarFaults(prepared).length === 0) return messages;
  const systems = messages.filter(({ role }) => role === "system");
  const said = prepared.filter(({ role }) => role !== "system");
  const content = excerptOf(said, Number.MAX_SAFE_INTEGER);
  const created_at = said.at(-1)?.created_at ?? "";
  return content === "" ? systems : [...systems, { role: "user", content, created_at }];
}

type Written = Extract<Summarised, { ok: true }>;

function joined(longterm: Written | undefined, recent: Written): Written {
  const parts = longterm === undefined ? [recent] : [longterm, recent];
  const sections: Sections = { longterm: longterm?.summary ?? "", recent: recent.summary };
  return {
    ok: true,
    summary: writeSections(sections),
    // A model's text is checked against its source, even if the other section is extractive.
    by: parts.some(({ by }) => by === "model") ? "model" : "extractive",
    tokens: parts.reduce((sum, { tokens }) => sum + tokens, 0),
    usage: parts.map(({ usage }) => usage).reduce(addUsage),
    notes: [...new Set(parts.flatMap(({ notes }) => notes))],
    isOfDiscarded: true,
  };
}
