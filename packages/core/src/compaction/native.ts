import type { KeptNative } from "../contract/compaction.ts";
import type { Usage } from "../contract/event.ts";
import type { Message } from "../contract/message.ts";
import type { JsonObject } from "../contract/session.ts";
import type { ModelClient, NativeCompaction, NativeRequest, ToolSpec } from "../ports/model.ts";
import { type CompactionRecord, withSkill } from "../state/context.ts";
import { NO_USAGE } from "../turn/cost.ts";
import { type Asking, ask, type ModelAnswer } from "../turn/model-call.ts";
import { hostOf, nativeSummaryIn } from "../turn/native-summary.ts";
import { estimateTokens, toolTokens } from "../turn/tokens.ts";
import type { Compacting } from "./prepare.ts";
import { quiet } from "./summarise.ts";

export interface NativeWork {
  readonly asking: Asking;
  readonly compacting: Pick<Compacting, "native" | "compactor">;
  readonly compactions: readonly CompactionRecord[];
  /** The messages that leave the context, the system message first, including a replaced summary. */
  readonly leaving: readonly Message[];
  /** Whether the new summary is the first message. */
  readonly isSummaryFirst: boolean;
  readonly tools: readonly ToolSpec[];
  readonly skill: string | undefined;
  readonly instructions: string | undefined;
}

/** The provider's compaction, or why there is none. */
export interface NativeOutcome {
  readonly native?: KeptNative;
  readonly usage: Usage;
  readonly notes: readonly string[];
}

const NOTHING: NativeOutcome = { usage: NO_USAGE, notes: [] };

/** Several times the size of any provider's result; logs are read whole, so entries are bounded. */
const NATIVE_BYTES_MAX = 512 * 1_024;

/** Asks the provider to compact the messages that leave; a failure is noted and not retried. */
export async function compactNatively(work: NativeWork): Promise<NativeOutcome> {
  const { asking, compacting, leaving } = work;
  if (!compacting.native || leaving.every(({ role }) => role === "system")) return NOTHING;
  const { compaction, provider } = asking.model;
  if (compaction === undefined) return without(`${provider} has none for ${asking.model.modelId}`);
  const refusal = refusalOf(work, compaction);
  if (refusal !== undefined) return without(refusal);
  const once = { ...quiet(asking), model: asCompacting(asking.model, compaction, work), retry: NO_RETRY(asking) };
  // The provider compacts the whole request, so it is built where the instructions are known.
  const answer = await ask(once, requestOf(work));
  return answer.ok ? kept(asking.model, answer) : without(answer.failure.message);
}

const NO_RETRY = ({ retry }: Asking): Asking["retry"] => ({ ...retry, maxRetries: 0 });

function without(why: string, usage: Usage = NO_USAGE): NativeOutcome {
  return { usage, notes: [`no native compaction is stored with the summary: ${why}`] };
}

/** The estimate can be below the provider's count. */
const WINDOW_SHARE = 0.9;

function refusalOf(work: NativeWork, { takesInstructions }: NativeCompaction): string | undefined {
  const { asking, isSummaryFirst, instructions } = work;
  const { provider, contextWindow = Number.POSITIVE_INFINITY } = asking.model;
  if (!isSummaryFirst) return "the summary is not first in the context";
  if (instructions !== undefined && !takesInstructions) return `${provider} accepts no instructions for it`;
  const { messages, tools, maxOutputTokens = 0 } = requestOf(work);
  const tokens = estimateTokens(messages) + toolTokens(tools) + maxOutputTokens;
  if (tokens > contextWindow * WINDOW_SHARE) return `about ${tokens} tokens leave the context, too many for one call`;
  return undefined;
}

/** Without the session's tools and system prompt a provider may reject the calls. */
function requestOf(work: NativeWork): Omit<NativeRequest, "instructions"> {
  const { asking, compacting, compactions, leaving, tools, skill } = work;
  return {
    messages: withSkill(leaving, skill),
    tools,
    maxOutputTokens: compacting.compactor.maxSummaryTokens(),
    native: nativeSummaryIn(leaving, { model: asking.model, compactions, isOn: true }),
  };
}

/** Wraps the provider's compaction as a model answer, so that it is timed, priced and interrupted like one. */
function asCompacting(model: ModelClient, compaction: NativeCompaction, work: NativeWork): ModelClient {
  const { provider, modelId, contextWindow, prices, url } = model;
  const instructions = promptOf(work);
  return {
    provider,
    modelId,
    contextWindow,
    prices,
    url,
    stream: (request, signal) => compaction.stream({ ...request, instructions }, signal),
  };
}

/** Instructions replace the provider's own prompt, so they are sent with ours. */
function promptOf({ compacting, instructions }: NativeWork): string | undefined {
  if (instructions === undefined) return undefined;
  const more = "Call no tools; answer with the summary alone.";
  return `${compacting.compactor.compactionPrompt()}\n\nAdditional instructions: ${instructions}\n\n${more}`;
}

function kept(model: ModelClient, { blocks, usage, stopReason }: Extract<ModelAnswer, { ok: true }>): NativeOutcome {
  const { provider, modelId } = model;
  const given = blocks.find((block) => block.block_type === "server_tool_content");
  const item = given?.data.content;
  if (!isObject(item)) return without(`${provider} returned none and stopped with ${stopReason}`, usage);
  const bytes = new TextEncoder().encode(JSON.stringify(item)).length;
  if (bytes > NATIVE_BYTES_MAX) return without(`that of ${provider} has ${bytes} bytes, too many to store`, usage);
  const host = hostOf(model);
  const native = { provider, model: modelId, bytes, usage, item, ...(host === undefined ? {} : { host }) };
  return { native, usage, notes: [] };
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
