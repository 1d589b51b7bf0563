import type { Entry, EntryBody } from "../contract/entry.ts";
import { messageOf, RuntimeError } from "../contract/error.ts";
import type { Usage } from "../contract/event.ts";
import { defined } from "../contract/json.ts";
import type { Content, Message } from "../contract/message.ts";
import type { ModelPrices } from "../contract/money.ts";
import type { Figures, ReplayMark, SummariesBy } from "../contract/wire/simulation.ts";
import type { Clock } from "../ports/clock.ts";
import type { ModelClient, ModelPart, ModelRequest } from "../ports/model.ts";
import type { EventLog } from "../ports/store.ts";
import type { Tool } from "../ports/tool.ts";
import { isSaid, type Probe } from "../runtime/probes.ts";
import type { Runtime } from "../runtime/runtime-calls.ts";
import { assembleContext } from "../state/context.ts";
import { foldSession } from "../state/whole-state.ts";
import { addUsage, NO_USAGE, withCost } from "../turn/cost.ts";
import { estimateTokens, toolTokens } from "../turn/tokens.ts";
import {
  type BackgroundTurns,
  createBackgroundTurns,
  createReplayClock,
  type ReplayClock,
} from "./replay-background.ts";
import {
  contextKey,
  type RecordedAnswer,
  type RecordedTurn,
  type ReplayScript,
  type ReplayStep,
} from "./replay-script.ts";

/** A runtime for a replay, and the log it writes. */
interface ReplayRuntime {
  readonly runtime: Pick<Runtime, "dispatch" | "close">;
  readonly log: Pick<EventLog, "read">;
}

export interface ReplayOptions {
  readonly name: string;
  readonly script: ReplayScript;
  readonly probes: readonly Probe[];
  readonly prices: ModelPrices | undefined;
  readonly contextWindow: number | undefined;
  readonly summariesBy: SummariesBy;
  readonly summariser: ModelClient;
  readonly signal: AbortSignal;
  /** Composes the runtime with the policy under test. */
  compose(parts: {
    readonly model: ModelClient;
    readonly clock: Clock;
    readonly tools: readonly Tool[];
    appended(body: EntryBody): void;
  }): ReplayRuntime;
}

export interface Replayed {
  readonly calls: ReplayModel["calls"];
  readonly summaryUsage: Usage;
  readonly summaryCalls: number;
  readonly marks: readonly ReplayMark[];
  readonly entries: readonly Entry[];
  readonly probes: Figures["probes"];
}

/** Replays a recorded log in a real runtime, with its real turns, tools, compactions, receipts and memory. */
export async function replayLog(options: ReplayOptions): Promise<Replayed> {
  const { script, signal } = options;
  // Loaded before the replay: loading takes time that the recording does not know.
  await Promise.all([import("../compaction/run-compaction.ts"), import("../compaction/published.ts")]);
  const clock = createReplayClock(script.startedAtMs);
  const background = createBackgroundTurns(clock);
  const model = createReplayModel({ ...options, clock, background });
  const tools = toolsOf(script, { model, clock, background });
  const { runtime, log } = options.compose({ model, clock, tools, appended: background.appended });
  try {
    const { session_id } = await runtime.dispatch("createSession", {
      initial_turn: "deferred",
      max_turns: script.calls + SPARE_CALLS,
      tool_filter: { Allow: toolsAllowed(script) },
      ...defined({ system_prompt: script.systemPrompt, max_tokens: script.maxTokens }),
    });
    for (const [index, step] of script.steps.entries()) {
      if (signal.aborted) throw stopped();
      await takeStep({ ...options, runtime, log, clock, background, model, session_id }, step, index);
    }
    const entries = await log.read(session_id, 1, ENTRIES_MAX);
    return {
      calls: model.calls,
      summaryUsage: model.summaryCalls.map(({ usage }) => usage).reduce(addUsage, NO_USAGE),
      summaryCalls: model.summaryCalls.length,
      marks: marksOf(entries),
      entries,
      probes: await askProbes(options, runtime, { session_id, entries }),
    };
  } finally {
    await runtime.close();
  }
}

/** The runtime's own tool: trimmed output must stay readable. */
const RECALL_OUTPUT = "recall_output";

/** As in any session, a conversation without tools has no tool to read their output. */
function toolsAllowed({ tools }: ReplayScript): string[] {
  return tools.length === 0 ? [] : [...tools, RECALL_OUTPUT];
}

/** An interrupted turn makes one more call than it has answers. */
const SPARE_CALLS = 2;
const ENTRIES_MAX = Number.MAX_SAFE_INTEGER;

function stopped(): RuntimeError {
  return new RuntimeError("REQUEST_CANCELLED", "the simulation was stopped");
}

interface Replaying extends ReplayOptions, ReplayRuntime {
  readonly clock: ReplayClock;
  readonly background: BackgroundTurns;
  readonly model: ReplayModel;
  readonly session_id: string;
}

async function takeStep(replaying: Replaying, step: ReplayStep, index: number): Promise<void> {
  const { runtime, session_id, log } = replaying;
  switch (step.kind) {
    case "turn":
      return runRecorded(replaying, step.turn, index);
    case "notice":
      await rest(replaying, step.atMs);
      await runtime.dispatch("injectContext", { session_id, text: step.text, source: step.source });
      return;
    case "pin": {
      await rest(replaying, step.atMs);
      const { transcript } = foldSession(session_id, await log.read(session_id, 1, ENTRIES_MAX));
      const seq = transcript.filter(({ message }) => message.role !== "system")[step.index]?.seq;
      if (seq === undefined) return;
      await runtime.dispatch(step.pinned ? "pinMessage" : "unpinMessage", { session_id, seq });
      return;
    }
  }
}

/** Idle work of a session begins shortly after its turn. */
const REST_MS = 1_500;

/** Advances the time between turns. */
async function rest({ clock, background }: Replaying, untilMs: number): Promise<void> {
  clock.moveTo(Math.min(untilMs, clock.now() + REST_MS));
  await background.begin();
  clock.moveTo(untilMs);
  await background.settle();
}

async function runRecorded(replaying: Replaying, turn: RecordedTurn, index: number): Promise<void> {
  const { runtime, model, session_id, signal, name } = replaying;
  const { prompt, instructions } = turn;
  await rest(replaying, turn.atMs);
  model.open(turn);
  const more = instructions.length === 0 ? {} : { additional_instructions: instructions };
  let problem = "the turn ended early";
  try {
    await runtime.dispatch("startTurn", { session_id, prompt, ...more }, { signal });
  } catch (thrown) {
    problem = messageOf(thrown);
  }
  if (signal.aborted) throw stopped();
  // An interrupted or failed turn has no answer left and ends as recorded.
  if (model.left === 0) return;
  throw new RuntimeError("AGENT_ERROR", `${name}: its replay broke off at step ${index + 1}: ${problem}`);
}

/** The called tools with their recorded results. */
function toolsOf(
  { tools }: ReplayScript,
  { model, clock, background }: Pick<Replaying, "model" | "clock" | "background">,
): Tool[] {
  // The recorded result named references of the recorded context; the replay has its own.
  const own = tools.filter((name) => name !== RECALL_OUTPUT);
  return own.map((name) => ({
    name,
    description: "gives what it gave when the session was recorded",
    inputSchema: { type: "object" },
    execute: async (_, { toolUseId }) => {
      const { results } = model.answer ?? {};
      if (results !== undefined) clock.moveTo(results.atMs);
      await background.settle();
      const result = results?.byId.get(toolUseId);
      if (result === undefined) return { content: "nothing was recorded of this call", isError: true };
      return { content: result.content, isError: result.is_error };
    },
  }));
}

function marksOf(entries: readonly Entry[]): readonly ReplayMark[] {
  const marks: ReplayMark[] = [];
  let call = 0;
  for (const { body } of entries) {
    if (body.kind === "assistant") call += 1;
    if (body.kind === "compacted") marks.push({ call, kind: isEviction(body) ? "eviction" : "compaction" });
    if (body.kind === "compaction_failed") marks.push({ call, kind: "failed" });
  }
  return marks;
}

const EVICTION = "eviction";

/** Tool output trimmed to references, without a summary. */
export function isEviction({ strategy }: { readonly strategy: string }): boolean {
  return strategy === EVICTION;
}

const HITS_LOOKED_AT = 5;

async function askProbes(
  { probes, signal }: ReplayOptions,
  { dispatch }: Pick<Runtime, "dispatch">,
  { session_id, entries }: { readonly session_id: string; readonly entries: readonly Entry[] },
): Promise<Replayed["probes"]> {
  const shown = assembleContext(foldSession(session_id, entries));
  const left = probes.filter(({ expects }) => !isSaid(shown, expects));
  let found = 0;
  for (const { query, expects } of left) {
    if (signal.aborted) throw stopped();
    const input = { query, session_id, limit: HITS_LOOKED_AT };
    const { results } = await dispatch("searchMemory", input, { signal });
    if (results.some(({ content }) => content.includes(expects))) found += 1;
  }
  return { total: probes.length, in_context: probes.length - left.length, asked: left.length, found };
}

interface ReplayModelParts {
  readonly script: ReplayScript;
  readonly clock: ReplayClock;
  readonly background: BackgroundTurns;
  readonly prices: ModelPrices | undefined;
  readonly contextWindow: number | undefined;
  readonly summariesBy: SummariesBy;
  /** Writes what the recording lacks: the offline model, or the model under test. */
  readonly summariser: ModelClient;
}

interface ReplayedCall {
  readonly usage: Usage;
  /** Whether its context equals that of the recorded call. */
  readonly isAsRecorded: boolean;
  /** Whether the turn waited for a summary first. */
  readonly waited: boolean;
}

/** A call without a recorded answer, such as a summary. */
interface SummaryCall {
  readonly usage: Usage;
}

interface ReplayModel extends ModelClient {
  readonly calls: readonly ReplayedCall[];
  readonly summaryCalls: readonly SummaryCall[];
  /** Sets the turn that answers come from. */
  open(turn: RecordedTurn): void;
  /** Answers of the turn not yet given. */
  readonly left: number;
  /** The last answer, whose calls are running. */
  readonly answer: RecordedAnswer | undefined;
}

/** A model that gives the recorded answers in order and counts its real input. */
function createReplayModel(parts: ReplayModelParts): ReplayModel {
  const { script, clock, background, prices, summariser } = parts;
  const cache = createPrefixCache(script.scale);
  const calls: ReplayedCall[] = [];
  const summaryCalls: SummaryCall[] = [];
  let turn: RecordedTurn | undefined;
  let next = 0;
  let answer: RecordedAnswer | undefined;
  let waited = false;

  async function* giveAnswer(request: ModelRequest): AsyncGenerator<ModelPart> {
    answer = turn?.answers[next];
    next += 1;
    if (answer === undefined) {
      yield { type: "failed", failure: { kind: "invalid_request", message: "the recorded turn ends here" } };
      return;
    }
    const isAsRecorded = contextKey(request.messages) === answer.contextKey;
    const counted = isAsRecorded ? answer.usage?.input_tokens : undefined;
    const input = cache.take(request, clock.now(), counted);
    const usage = withCost({ ...input, output_tokens: answer.usage?.output_tokens ?? estimateAnswer(answer) }, prices);
    calls.push({ usage, isAsRecorded, waited });
    waited = false;
    clock.moveTo(answer.atMs);
    await background.settle();
    for (const block of answer.blocks) yield { type: "block", block };
    yield { type: "finish", stopReason: answer.stopReason, usage };
  }

  async function* writeSummary(request: ModelRequest, signal: AbortSignal): AsyncGenerator<ModelPart> {
    if (background.isTurnWaiting) waited = true;
    const recorded = parts.summariesBy === "recorded" ? script.summaries.get(calls.length) : undefined;
    const input = cache.take(request, clock.now());
    const source = recorded === undefined ? summariser.stream(request, signal) : say(recorded);
    for await (const part of source) {
      if (part.type !== "finish") {
        yield part;
        continue;
      }
      const isAsked = parts.summariesBy === "model";
      const usage = isAsked
        ? withCost(part.usage, summariser.prices)
        : withCost({ ...input, output_tokens: part.usage.output_tokens }, prices);
      // It costs money even if it is never used.
      summaryCalls.push({ usage });
      if (!background.isTurnWaiting && (await background.written(usage.output_tokens, signal))) waited = true;
      yield { ...part, usage };
    }
  }

  return {
    provider: script.provider,
    modelId: script.model,
    contextWindow: parts.contextWindow,
    prices,
    calls,
    summaryCalls,
    open: (opened) => {
      turn = opened;
      next = 0;
      answer = undefined;
    },
    get left() {
      return Math.max(0, (turn?.answers.length ?? 0) - next);
    },
    get answer() {
      return answer;
    },
    async *stream(request, signal) {
      if (!isOfTurn(request.messages, turn?.prompt)) return yield* writeSummary(request, signal);
      // Without this a replay, made of resolved promises, could not be interrupted.
      await background.begin();
      yield* giveAnswer(request);
    },
  };
}

/** A turn's request ends with the prompt or tool results; a summary's ends with its instruction. */
function isOfTurn(messages: readonly Message[], prompt: Content | undefined): boolean {
  const last = messages.at(-1);
  if (last?.role !== "user") return last?.role !== "block_assistant";
  return JSON.stringify(last.content) === JSON.stringify(prompt);
}

const BYTES_PER_TOKEN = 4;

function estimateAnswer({ blocks }: RecordedAnswer): number {
  return Math.ceil(Buffer.byteLength(JSON.stringify(blocks)) / BYTES_PER_TOKEN);
}

async function* say(text: string): AsyncGenerator<ModelPart> {
  const output_tokens = Math.ceil(Buffer.byteLength(text) / BYTES_PER_TOKEN);
  yield { type: "block", block: { block_type: "text", data: { text } } };
  yield { type: "finish", stopReason: "end_turn", usage: { input_tokens: 0, output_tokens } };
}

/** How long providers cache a request that is not repeated. */
const CACHE_LIFE_MS = 5 * 60 * 1_000;
/** Cached requests: those of turns and of summaries alternate. */
const REQUESTS_MAX = 4;

/** Simulates a provider's prefix cache: a known prefix is read, the rest is written. */
interface PrefixCache {
  /** `counted` are the counted input tokens; without them they are estimated. */
  take(request: ModelRequest, nowMs: number, counted?: number): Omit<Usage, "output_tokens">;
}

interface Sent {
  readonly atMs: number;
  readonly tools: string;
  readonly messages: readonly Message[];
}

function createPrefixCache(scale: number): PrefixCache {
  let sent: readonly Sent[] = [];
  return {
    take: ({ tools, messages }, nowMs, counted) => {
      const now: Sent = { atMs: nowMs, tools: JSON.stringify(tools), messages };
      const warm = sent.filter(({ atMs }) => nowMs - atMs <= CACHE_LIFE_MS);
      const shared = Math.max(0, ...warm.map((before) => sharedTokens(before, now, toolTokens(tools))));
      const estimated = toolTokens(tools) + estimateTokens(messages);
      const input_tokens = counted ?? Math.round(estimated * scale);
      const read = estimated === 0 ? 0 : Math.floor((input_tokens * shared) / estimated);
      sent = [...warm, now].slice(-REQUESTS_MAX);
      return {
        input_tokens,
        ...(read > 0 ? { cache_read_tokens: read } : {}),
        ...(input_tokens > read ? { cache_creation_tokens: input_tokens - read } : {}),
      };
    },
  };
}

function sharedTokens(before: Sent, now: Sent, ofTools: number): number {
  if (before.tools !== now.tools) return 0;
  let tokens = ofTools;
  for (const [index, message] of now.messages.entries()) {
    const other = before.messages[index];
    if (other === undefined || !isSame(other, message)) break;
    tokens += estimateTokens([message]);
  }
  return tokens;
}

function isSame(one: Message, other: Message): boolean {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}
