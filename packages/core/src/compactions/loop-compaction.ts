import { hash } from "node:crypto";
import { compactConversation, receiptWithoutLog, type Shown } from "../compaction/kept-elsewhere.ts";
import { COMPACTION_DEFAULTS, DefaultCompactor, thresholdFor } from "../compaction/policy.ts";
import type { Compacting } from "../compaction/prepare.ts";
import type { ExtractSummary } from "../compaction/summarise.ts";
import type { ReceiptView } from "../contract/compaction.ts";
import { withVerdict } from "../contract/describe-event.ts";
import { invalid } from "../contract/error.ts";
import type { Usage } from "../contract/event.ts";
import type { Message } from "../contract/message.ts";
import type { Mark } from "../contract/wire/mark.ts";
import type { ModelClient } from "../ports/model.ts";
import { createSystemClock } from "../runtime/system-clock.ts";
import { createKnownPrefixes, type PrefixStore } from "../sessions/known-prefixes.ts";
import { chainHash } from "../state/context.ts";
import type { Asking } from "../turn/model-call.ts";
import { createRedactor } from "../turn/redact.ts";
import { estimateTokens } from "../turn/tokens.ts";
import { workStateTokens } from "./compaction-part.ts";

/** How the messages of your own loop are compacted. */
export interface LoopCompactionOptions {
  /** The model's context window in tokens; by default that of a known model. */
  readonly contextWindow?: number | undefined;
  /**
   * The size at which messages are compacted: a share of the window, or tokens. By default four fifths of the window.
   */
  readonly threshold?: { readonly share: number } | { readonly tokens: number } | undefined;
  /**
   * How many of the last turns are kept if they fit; a turn is a user message and all that follows it. 4 by default.
   */
  readonly recentTurns?: number | undefined;
  /** The largest summary: by default 4,096 tokens, and at most a quarter of the threshold. */
  readonly summaryTokensMax?: number | undefined;
  /** Whether old tool output is trimmed before anything is summarised. True by default. */
  readonly evict?: boolean | undefined;
  /** Stores results, so that they are found after a restart. */
  readonly store?: PrefixStore | undefined;
  /** Called for every compaction, made or failed, before the model is called. */
  readonly onCompaction?: ((report: CompactionReport) => Promise<void> | void) | undefined;
}

/** The result of a compaction, or why none was made; then the messages are unchanged. */
export type CompactionReport =
  | {
      readonly ok: true;
      /** `eviction`: tool output was trimmed without a model call or a summary. */
      readonly kind: "summary" | "eviction";
      /** Each specific of the removed messages and whether it survives; otherwise it is `lost`. */
      readonly receipt: ReceiptView;
      /** Empty for an eviction. */
      readonly summary: string;
      readonly messagesBefore: number;
      readonly messagesAfter: number;
      /** Estimated. */
      readonly tokens: { readonly before: number; readonly after: number };
      /** The usage of the summary's model call. */
      readonly usage: Usage;
      readonly notes: readonly string[];
    }
  | { readonly ok: false; readonly error: string };

/** One model call of the loop, before it is made. */
export interface LoopCall {
  readonly system: string;
  readonly messages: readonly Message[];
  readonly pins: ReadonlySet<number>;
  /** The model that writes the summary. */
  readonly summariser: ModelClient;
  /** The window of the called model. */
  readonly contextWindow: number | undefined;
  readonly toolTokens: number;
  readonly outputTokens: number;
  /** The input tokens of the previous call; 0 if `count` reports them or they are unknown. */
  readonly countedTokens: number;
  readonly isRefused: boolean;
  readonly signal: AbortSignal;
}

export interface LoopCompaction {
  /** The messages for the model; the hash identifies this call. */
  compact(call: LoopCall): Promise<{ readonly shown: readonly Shown[]; readonly hash: string }>;
  /** Records the counted input tokens of a call. */
  count(hash: string, tokens: number): void;
}

/** The share of the window reserved for estimates that are too low. */
const WINDOW_SHARE = 0.9;
/** The answer's reserve counts up to this share of the window. */
const OUTPUT_SHARE_MAX = 0.2;
const EVICT_AT = 0.6;
const SUMMARY_SHARE_MAX = 0.25;
/** Below this share of the threshold no conversation was compacted, so the store is not read. */
const STORED_FROM = 0.5;
const COUNTS_MAX = 4_096;

/** Compacts the messages of your own loop; earlier results are found by the conversation's prefix. */
export function createLoopCompaction(options: LoopCompactionOptions, extract: ExtractSummary): LoopCompaction {
  requireOptions(options);
  const { onCompaction } = options;
  const notify = async (report: CompactionReport): Promise<void> => onCompaction?.(report);
  const failures: string[] = [];
  const prefixes = createKnownPrefixes(options.store, (error) => failures.push(error));
  const counts = new Map<string, number>();
  const asking = { ...ASKING, clock: createSystemClock() };

  return {
    count: (hash, tokens) => {
      counts.set(hash, tokens);
      const [oldest] = counts.keys();
      if (counts.size > COUNTS_MAX && oldest !== undefined) counts.delete(oldest);
    },
    compact: async (call) => {
      const { system, messages, pins, summariser, signal, isRefused } = call;
      const sizes = sizesFor(options, call);
      const { room } = sizes;
      const compacting = compactingFor(options, sizes, extract);
      const hashes = chainOf(messages);
      const hash = hashes.at(-1) ?? "";
      const isLarge = estimateTokens(messages) >= compacting.threshold * STORED_FROM;
      const marks = await prefixes.find(hashes, isLarge ? "anywhere" : "memory");
      const { made, isFirst } = await prefixes.make(`${isRefused} ${hash}`, hash, () => {
        const left = room === undefined ? undefined : room - call.toolTokens;
        const model = { ...summariser, contextWindow: smallest(summariser.contextWindow, left) };
        const countedTokens = Math.max(call.countedTokens, countedFor(counts, { hashes, messages, marks }));
        const next = { contextWindow: room, toolTokens: call.toolTokens, outputTokens: 0, countedTokens, isRefused };
        return compactConversation({ system, messages, pins, marks }, compacting, {
          asking: { ...asking, model, signal },
          next,
        });
      });
      for (const error of failures.splice(0)) await notify({ ok: false, error });
      if (isFirst) {
        for (const report of reportsOf(made)) await notify(report);
      }
      return { shown: made.shown, hash };
    },
  };
}

/** A summary is tried twice: the call that waits for it has no other retry. */
const ASKING: Omit<Asking, "clock" | "model" | "signal"> = {
  retry: { maxRetries: 1, initialDelayMs: 500, maxDelayMs: 2_000, multiplier: 2, retryAfterMaxMs: 5_000 },
  calls: { callTimeoutMs: 120_000, stallTimeoutMs: 60_000 },
  deadlineMs: Number.POSITIVE_INFINITY,
  redact: createRedactor([]),
  acceptsEmpty: true,
  emit: () => {},
  append: async () => {},
};

interface Sizes {
  readonly window: number | undefined;
  /** The tokens available to messages and tools. */
  readonly room: number | undefined;
}

function sizesFor(options: LoopCompactionOptions, { contextWindow, outputTokens }: LoopCall): Sizes {
  const window = options.contextWindow ?? contextWindow;
  if (window === undefined) return { window, room: undefined };
  return { window, room: Math.floor(window * WINDOW_SHARE - Math.min(outputTokens, window * OUTPUT_SHARE_MAX)) };
}

function compactingFor(options: LoopCompactionOptions, sizes: Sizes, extract: ExtractSummary): Compacting {
  const { recentTurns = COMPACTION_DEFAULTS.recentTurnBudget, evict = true } = options;
  const threshold = thresholdOf(options, sizes);
  const { minTurnsBetweenCompactions } = COMPACTION_DEFAULTS;
  const summaryTokens = Math.min(COMPACTION_DEFAULTS.maxSummaryTokens, Math.floor(threshold * SUMMARY_SHARE_MAX));
  const compactor = new DefaultCompactor({
    autoCompactThreshold: threshold,
    recentTurnBudget: recentTurns,
    maxSummaryTokens: options.summaryTokensMax ?? Math.max(1, summaryTokens),
    minTurnsBetweenCompactions,
  });
  return {
    compactor,
    strategy: "summary",
    threshold,
    minTurnsBetweenCompactions,
    evictFrom: evict ? threshold * EVICT_AT : undefined,
    isByPrice: false,
    pricedFrom: 0,
    mayExceed: false,
    prepares: false,
    prepareAt: threshold,
    prune: evict,
    workStateTokens: workStateTokens({}, threshold),
    cutInvented: true,
    judge: undefined,
    native: false,
    curator: undefined,
    hooks: {},
    extract,
    recovering: undefined,
  };
}

function thresholdOf({ threshold }: LoopCompactionOptions, { window, room = Number.POSITIVE_INFINITY }: Sizes): number {
  if (threshold === undefined) return Math.min(thresholdFor(undefined, window, true), room);
  if ("tokens" in threshold) return Math.min(threshold.tokens, room);
  const byShare = window === undefined ? undefined : Math.floor(window * threshold.share);
  return Math.min(thresholdFor(byShare, window, true), room);
}

/** The hash of each prefix of a conversation. */
function chainOf(messages: readonly Message[]): readonly string[] {
  const hashes: string[] = [];
  for (const message of messages) hashes.push(chainHash(message, hashes.at(-1) ?? "", sha256));
  return hashes;
}

function sha256(text: string): string {
  return hash("sha256", text);
}

/** The counted tokens of the longest prefix since the last compaction, and the messages after it. */
function countedFor(
  counts: ReadonlyMap<string, number>,
  of: { readonly hashes: readonly string[]; readonly messages: readonly Message[]; readonly marks: readonly Mark[] },
): number {
  const { hashes, messages, marks } = of;
  const at = hashes.findLastIndex((hash) => counts.has(hash));
  const compactedAfter = marks.findLast(({ body }) => body.kind === "compacted")?.after ?? 0;
  if (at + 1 < compactedAfter) return 0;
  return (counts.get(hashes[at] ?? "") ?? 0) + (at < 0 ? 0 : estimateTokens(messages.slice(at + 1)));
}

function smallest(one: number | undefined, other: number | undefined): number | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return Math.min(one, other);
}

function reportsOf({ added, reason }: Awaited<ReturnType<typeof compactConversation>>): readonly CompactionReport[] {
  const reports = added.flatMap(({ body }): CompactionReport[] => {
    if (body.kind === "compaction_failed") return [{ ok: false, error: body.error }];
    if (body.kind !== "compacted") return [];
    return [
      {
        ok: true,
        kind: body.evicted === undefined ? "summary" : "eviction",
        receipt: withVerdict(receiptWithoutLog(body.receipt)),
        summary: body.summary,
        messagesBefore: body.messages_before,
        messagesAfter: body.messages_after,
        tokens: { before: body.tokens_before, after: body.tokens_after },
        usage: body.usage,
        notes: body.notes,
      },
    ];
  });
  return reason === undefined ? reports : [...reports, { ok: false, error: `the messages do not fit: ${reason}` }];
}

const NAMES = ["contextWindow", "threshold", "recentTurns", "summaryTokensMax", "evict", "store", "onCompaction"];

function requireOptions(options: LoopCompactionOptions): void {
  const unknown = Object.keys(options).find((name) => !NAMES.includes(name));
  if (unknown !== undefined) throw invalid(`${unknown}: no such option; there are ${NAMES.join(", ")}`);
  const { contextWindow, threshold, recentTurns, summaryTokensMax } = options;
  requireCount("contextWindow", contextWindow, 1);
  requireCount("recentTurns", recentTurns, 0);
  requireCount("summaryTokensMax", summaryTokensMax, 1);
  if (threshold === undefined) return;
  if ("tokens" in threshold) requireCount("threshold.tokens", threshold.tokens, 1);
  else if (!(threshold.share > 0 && threshold.share <= 1)) throw invalid("threshold.share: give more than 0, up to 1");
}

function requireCount(name: string, value: number | undefined, min: number): void {
  if (value === undefined || (Number.isSafeInteger(value) && value >= min)) return;
  throw invalid(`${name}: give a whole number, at least ${min}`);
}
