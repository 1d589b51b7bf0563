import type { Usage } from "../contract/event.ts";
import type { Content, Message } from "../contract/message.ts";
import type { ModelPrices } from "../contract/money.ts";
import type { SummariesBy } from "../contract/wire/simulation.ts";
import type { ModelClient, ModelPart, ModelRequest } from "../ports/model.ts";
import { withCost } from "../turn/cost.ts";
import { estimateTokens, toolTokens } from "../turn/tokens.ts";
import type { BackgroundTurns } from "./replay-background.ts";
import type { ReplayClock } from "./replay-clock.ts";
import { contextKey, type RecordedAnswer, type RecordedTurn, type ReplayScript } from "./replay-script.ts";

export interface ReplayModelParts {
  readonly script: ReplayScript;
  readonly clock: ReplayClock;
  readonly background: BackgroundTurns;
  readonly prices: ModelPrices | undefined;
  readonly contextWindow: number | undefined;
  readonly summariesBy: SummariesBy;
  /** Writes what the recording lacks: the offline model, or the model under test. */
  readonly summariser: ModelClient;
}

/** One model call of a turn. */
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

export interface ReplayModel extends ModelClient {
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
export function createReplayModel(parts: ReplayModelParts): ReplayModel {
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
