import { cleanSummary } from "../agent-memory/clean-summary.ts";
import { extractTier, summaryPrompt } from "../agent-memory/tier-text.ts";
import type { Usage } from "../contract/event.ts";
import type { Message } from "../contract/message.ts";
import type { ModelClient } from "../ports/model.ts";
import type { OpenTelemetry, Telemetry, Watch } from "../ports/telemetry.ts";
import { bytesOf, cutText } from "../state/transcript-text.ts";
import { type Asking, ask } from "../turn/model-call.ts";
import { assistantText } from "../turn/tokens.ts";

/** Summarises texts, oldest first; rejects if there is no summary. `spend` receives the cost in both cases. */
export type SummariseTexts = (
  texts: readonly string[],
  signal: AbortSignal,
  spend: (usage: Usage, model: string) => void,
) => Promise<{ readonly summary: string; readonly by: "model" | "extractive" }>;

export interface TierSummariser {
  readonly summarise: SummariseTexts;
  /** The bytes of text that it reads completely. */
  roomBytes(): Promise<number>;
}

export interface TierSummariserParts {
  /** The model that summarises; undefined if none is configured: then sentences of the memories are extracted. */
  readonly model: () => Promise<ModelClient | undefined>;
  readonly asking: Pick<Asking, "clock" | "retry" | "calls" | "redact">;
  readonly telemetry: OpenTelemetry | undefined;
}

const SUMMARY_TOKENS_MAX = 512;
/** Two or three sentences of a model say as much as a dozen extracted ones. */
const EXTRACT_CHARS_MAX = 1_200;
/** Assumed for an unknown window: base models are small. */
const UNKNOWN_WINDOW_TOKENS = 8_192;
/** Some languages take more than one token per four bytes. */
const BYTES_PER_TOKEN = 3;

/** Summaries by the configured model, base or chat, with one prompt; without a model, extracted sentences. */
export function createTierSummariser({ model, asking, telemetry }: TierSummariserParts): TierSummariser {
  const summarise: SummariseTexts = async (texts, signal, spend) => {
    const client = await model();
    if (client === undefined) return extractTexts(texts);
    const { maxOutputTokens, bytesMax } = roomOf(client);
    const content = summaryPrompt(fitTexts(texts, bytesMax));
    const watch = telemetry && watchSummary(await telemetry(), client, signal);
    const answer = await ask(
      {
        ...asking,
        model: watch?.model ?? client,
        deadlineMs: Number.POSITIVE_INFINITY,
        signal,
        acceptsEmpty: true,
        // There are no listeners, and an agent's log holds memories, not attempts.
        emit: () => {},
        append: async (bodies) => {
          for (const body of bodies) if (body.kind === "call_failed") spend(body.usage, client.modelId);
          watch?.appended(bodies);
        },
      },
      { messages: [spoken(content)], tools: [], maxOutputTokens },
    ).finally(() => watch?.end({}));
    if (!answer.ok) throw new Error(answer.failure.message);
    spend(answer.usage, client.modelId);
    const summary = cleanSummary(assistantText(answer));
    if (summary === "") throw new Error("the model returned no usable summary");
    return { summary, by: "model" };
  };
  return {
    summarise,
    roomBytes: async () => {
      const client = await model();
      return client === undefined ? Number.POSITIVE_INFINITY : roomOf(client).bytesMax;
    },
  };
}

function roomOf({ contextWindow = UNKNOWN_WINDOW_TOKENS }: ModelClient) {
  const maxOutputTokens = Math.min(SUMMARY_TOKENS_MAX, Math.floor(contextWindow / 4));
  const bytesMax = (contextWindow - maxOutputTokens) * BYTES_PER_TOKEN - bytesOf(summaryPrompt([]));
  return { maxOutputTokens, bytesMax };
}

function watchSummary(telemetry: Telemetry, model: ModelClient, signal: AbortSignal): Watch {
  const about = { kind: "compaction" as const, wantsJson: false, traceparent: undefined, isCompacted: () => false };
  return telemetry.watch({ ...about, model, tools: new Map(), signal });
}

export function extractTexts(texts: readonly string[]) {
  const summary = extractTier(texts, EXTRACT_CHARS_MAX);
  if (summary === "") throw new Error("the memories hold no sentence to summarise them by");
  return { summary, by: "extractive" as const };
}

function spoken(content: string): Message {
  return { role: "user", content, created_at: new Date(0).toISOString() };
}

/** The texts, the longest cut in the middle until all fit. */
export function fitTexts(texts: readonly string[], bytesMax: number): readonly string[] {
  const sizes = texts.map(bytesOf).sort((a, b) => a - b);
  let left = bytesMax;
  for (const [at, size] of sizes.entries()) {
    const share = Math.floor(left / (sizes.length - at));
    if (size > share) return texts.map((text) => cutText(text, Math.max(share, 1)));
    left -= size;
  }
  return texts;
}
