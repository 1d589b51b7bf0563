import type { AgentEvent } from "../../../contract/event.ts";
import type { RunResult } from "../../../contract/session.ts";
import type { ModelRequest } from "../../../ports/model.ts";
import type { Runtime } from "../../../runtime.ts";
import type { OpenOptions } from "../../../runtime-on-disk.ts";
import type { EventStream } from "../../../service/session-handle.ts";
import { compactionLine, noticeOf } from "../commands/turn-view.ts";
import { oneLine } from "../io.ts";
import type { Parts } from "../parts.ts";
import type { Page } from "./page.ts";

/** One thing to watch. It claims what it shows, and the claims are checked. */
export interface Scene {
  readonly title: string;
  readonly story: string;
  play(stage: Stage): Promise<void>;
}

/** What a scene has to play with. */
export interface Stage {
  /** A runtime with the offline model. */
  readonly runtime: Runtime;
  /** A runtime whose model says what the scene wrote for it. */
  openScripted(script: Parameters<Parts["createScriptedModel"]>[0]): Promise<Runtime>;
  /** A runtime that keeps what happens in it; opened again, it has what was kept. */
  openKept(options?: Pick<OpenOptions, "compaction">): Promise<Runtime>;
  /** Shows a turn as it happens. */
  watch(prompt: string, start: (prompt: string) => EventStream): Promise<Watched>;
  /** Shows a value as JSON. */
  show(value: unknown): Promise<void>;
  /** Shows rows of the same columns. */
  table(rows: readonly Row[]): Promise<void>;
  /** Says something beside a word that tells what it is about. */
  tell(word: string, sentence: string): Promise<void>;
  /** Says what was to be seen, and remembers whether it was. */
  claim(sentence: string, isTrue: boolean): Promise<void>;
}

export type Row = Readonly<Record<string, string | number>>;

/** Everything a turn told. */
export interface Watched {
  readonly events: readonly AgentEvent[];
  readonly result: RunResult;
}

/** The events of one type, in their order. */
export function eventsOf<T extends AgentEvent["type"]>(
  { events }: Watched,
  type: T,
): readonly Extract<AgentEvent, { type: T }>[] {
  return events.filter((event): event is Extract<AgentEvent, { type: T }> => event.type === type);
}

export function createWatch(page: Page): Stage["watch"] {
  return async (prompt, start) => {
    page.speaker("you");
    for (const word of prompt.match(/(?<!\s)\s*\S+/gu) ?? []) await page.say(word);
    page.endLine();
    const stream = start(prompt);
    const events: AgentEvent[] = [];
    for await (const event of stream) {
      await showEvent(page, event, events.at(-1));
      events.push(event);
    }
    page.endLine();
    return { events, result: await stream.result };
  };
}

async function showEvent(page: Page, event: AgentEvent, before: AgentEvent | undefined): Promise<void> {
  const { dim, yellow } = page.paint;
  if (event.type === "text_delta") {
    if (before?.type !== "text_delta") page.speaker("model");
    return page.say(event.delta);
  }
  const indent = "          ";
  const line = toolLine(event);
  if (line !== undefined) return page.line(dim(`${indent}${oneLine(line, page.columns - indent.length)}`));
  if (event.type === "compaction_completed") return page.line(dim(`${indent}${compactionLine(event)}`));
  const notice = noticeOf(event);
  if (notice !== undefined) return page.line(yellow(`${indent}! ${notice}`));
}

function toolLine(event: AgentEvent): string | undefined {
  if (event.type === "tool_call_requested") return `→ ${event.name} ${JSON.stringify(event.args)}`;
  if (event.type === "tool_execution_started") return `… ${event.name} started`;
  if (event.type !== "tool_execution_completed") return undefined;
  return `← ${event.name} ${event.is_error ? "failed" : "answered"}: ${event.result}`;
}

const RETRY_AFTER_MS = 700;

/** A call of a tool that is not there. */
export const badCall: Scene = {
  title: "A bad tool call",
  story: "Scripted, since the offline model makes no such mistakes: the model calls a tool that does not exist.",
  play: async ({ openScripted, watch, claim }) => {
    const runtime = await openScripted((request, index) =>
      index === 0
        ? { text: ["Let me ", "look."], calls: [{ name: "weather", args: { city: "Oslo" } }] }
        : { text: `I have no such tool, I was told: ${lastToolError(request)}`.split(/(?<=\s)/) },
    );
    const turn = await watch("How is the weather in Oslo?", (prompt) =>
      runtime.createSessionStreaming(prompt, { toolPreset: "safe" }),
    );
    const [answer] = eventsOf(turn, "tool_result_received");
    await claim("the model was shown an error result", answer?.is_error === true);
    await claim("and the turn went on to its end", eventsOf(turn, "run_completed").length === 1);
  },
};

function lastToolError({ messages }: ModelRequest): string {
  const last = messages.findLast((message) => message.role === "tool_results");
  const content = last?.role === "tool_results" ? last.results[0]?.content : undefined;
  const text = typeof content === "string" ? content : "nothing";
  return text.replace(/;.*/s, ".");
}

/** A provider that is too busy once. */
export const retry: Scene = {
  title: "A provider in trouble",
  story: "Scripted: the first call is refused with status 429 and the wish to be asked again in 0.7 s.",
  play: async ({ openScripted, watch, claim }) => {
    const failure = {
      kind: "rate_limited",
      message: "429: too many requests",
      status: 429,
      retryAfterMs: RETRY_AFTER_MS,
    } as const;
    const runtime = await openScripted((_request, index) =>
      index === 0 ? { ends: { failure } } : { text: ["Here ", "I ", "am, ", "a ", "little ", "later."] },
    );
    const turn = await watch("Are you there?", (prompt) => runtime.createSessionStreaming(prompt));
    const [again] = eventsOf(turn, "retrying");
    await claim("the wait was announced, and was the one asked for", again?.delay_ms === RETRY_AFTER_MS);
    await claim("and the turn has its answer", turn.result.text.endsWith("later."));
  },
};

const TOKENS_MAX = 360;

const FURTHER_PROMPTS = [
  "Its port is 8443.",
  "What is the staging server called?",
  "Which port?",
  "Thank you.",
  "What do you know so far?",
];

/** A budget that warns, then ends the talk without breaking it. */
export const budget: Scene = {
  title: "A budget",
  story: `The offline model again, with ${TOKENS_MAX} tokens for the whole session.`,
  play: async ({ runtime, watch, claim }) => {
    const limits = { toolPreset: "none", budgetLimits: { max_tokens: TOKENS_MAX } } as const;
    let turn = await watch("The staging server is called heron.", (prompt) =>
      runtime.createSessionStreaming(prompt, limits),
    );
    const session = runtime.session(turn.result.session_id);
    const events = [...turn.events];
    for (const question of FURTHER_PROMPTS) {
      if (turn.result.terminal_cause_kind !== undefined) break;
      turn = await watch(question, (prompt) => session.stream(prompt));
      events.push(...turn.events);
    }
    const warning = events.findIndex(({ type }) => type === "budget_warning");
    const end = events.findIndex((event) => event.type === "run_completed" && event.terminal_cause_kind !== undefined);
    await claim("a warning came at 80 %, before the end", warning >= 0 && warning < end);
    await claim("the answer that crossed the limit was kept", turn.result.text !== "");
    await claim("the result says why it ended", turn.result.terminal_cause_kind === "budget_exhausted");
  },
};
