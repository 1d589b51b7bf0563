import type { CompactionTrigger, SeqRange } from "../contract/compaction.ts";
import type { Message } from "../contract/message.ts";
import type { Clock } from "../ports/clock.ts";
import type { CompactionHooks, CompactionResult, Compactor, Curator, Judge } from "../ports/compactor.ts";
import { activeCompaction, type Placed, prunedBy, rangesOf, withReferences } from "../state/context.ts";
import { findPrunable } from "../state/transcript-text.ts";
import type { WholeState } from "../state/whole-state.ts";
import { isReplaced } from "../turn/skills.ts";
import { estimateTokens } from "../turn/tokens.ts";
import { keepAll, type Plan, type Source } from "./plan.ts";
import type { Reading } from "./reading.ts";
import type { Recover } from "./receipt.ts";
import { type Retained, retain } from "./retain.ts";
import { isSummary, summaryMessage } from "./shown-messages.ts";
import type { ExtractSummary } from "./summarise.ts";

export const CUSTOM = "custom";

/** How a session compacts, with its model. */
export interface Compacting {
  readonly compactor: Compactor;
  readonly strategy: string;
  readonly threshold: number;
  readonly minTurnsBetweenCompactions: number;
  /** The size at which eviction of tool output starts; undefined if it is off. */
  readonly evictFrom: number | undefined;
  /** Whether a context is compacted as soon as that is cheaper than continuing, besides at its threshold. */
  readonly isByPrice: boolean;
  /** The size at which the price is considered. */
  readonly pricedFrom: number;
  /** Whether the price may let a context grow beyond its threshold. */
  readonly mayExceed: boolean;
  /** Whether summaries are made in the background, so that a turn waits for one only if the context would not fit. */
  readonly prepares: boolean;
  /** The size at which preparing starts. */
  readonly prepareAt: number;
  readonly prune: boolean;
  /** The largest state of the work behind a summary, in tokens; 0 if it is off. */
  readonly workStateTokens: number;
  readonly cutInvented: boolean;
  /** Who judges a summary's claims; `model`: the session's own. Absent: no judge. */
  readonly judge: "model" | Judge | undefined;
  /** Whether native compactions are stored and sent, if the provider has them. */
  readonly native: boolean;
  readonly curator: Curator | undefined;
  readonly hooks: CompactionHooks;
  readonly extract: ExtractSummary;
  /** Proves that discarded content can be found again; absent: by expanding. */
  readonly recovering: ((log: readonly Placed[], yieldToEventLoop: Clock["yieldToEventLoop"]) => Recover) | undefined;
  /** Reads the whole history in a worker; absent: in this thread. */
  readonly reading?: Reading | undefined;
}

/** A context and everything that is decided before a model is called. */
export interface Prepared {
  readonly source: Source;
  readonly transcript: readonly Placed[];
  readonly retained: Retained;
  /** The summariser's input: large old results as references. */
  readonly summarised: readonly Message[];
  /** The discarded part of it. */
  readonly leaving: readonly Message[];
  readonly tokensTarget: number;
}

const DRAFT_SUMMARY = "(the summary stands here)";

/** Decides what would stay; gives a reason if nothing would change. */
export async function prepare(
  state: WholeState,
  compacting: Compacting,
  how: {
    trigger: CompactionTrigger;
    contextWindow: number | undefined;
    yieldToEventLoop: Clock["yieldToEventLoop"];
  },
): Promise<Prepared | { readonly nothing: string }> {
  const transcript = [...state.transcript];
  const source = sourceOf(state, transcript);
  const { shown } = source;
  const tokensTarget = targetOf(state.shownTokens, how);
  const retained = retainFrom(
    { state, transcript, source, tokensTarget, trigger: how.trigger },
    compacting,
    DRAFT_SUMMARY,
  );
  if (retained.plan.discarded.length === 0 && !prunesMore(state, retained)) {
    return { nothing: "nothing to remove: every turn is among the recent turns that are kept" };
  }
  await how.yieldToEventLoop();
  const gone = estimateTokens(retained.plan.discarded.map(({ message }) => message));
  if (retained.plan.discarded.length > 0 && gone <= introductionTokens()) {
    return { nothing: "the messages that could be removed are shorter than the shortest summary" };
  }
  const isOurs = compacting.strategy !== CUSTOM && compacting.curator === undefined;
  const summarised = isOurs ? forSummary(state, compacting) : structuredClone(forSummary(state, compacting));
  const discarded = new Set(retained.plan.discarded);
  const leaving = shown.flatMap((placed, at) => (discarded.has(placed) ? summarised.slice(at, at + 1) : []));
  return { source, transcript, retained, summarised, leaving, tokensTarget };
}

export function sourceOf(state: Pick<WholeState, "shown">, transcript: readonly Placed[]): Source {
  const logged = new Set(transcript);
  const seqs = new Set(transcript.map(({ seq }) => seq));
  // A pruned or simplified message is another object with the seq of the logged one.
  return { shown: [...state.shown], isLogged: (placed) => logged.has(placed) || seqs.has(placed.seq) };
}

/** The size of an empty summary message. */
const introductionTokens = () => estimateTokens([summaryMessage({ summary: "", created_at: "", compaction_id: "" })]);

interface Situation {
  readonly state: WholeState;
  readonly transcript: readonly Placed[];
  readonly source: Source;
  readonly trigger: CompactionTrigger;
  readonly tokensTarget: number;
}

/** What stays once the summary is known. Pruning alone keeps all other messages. */
export function retainFrom(situation: Situation, compacting: Compacting, summary: string): Retained {
  const { state, transcript, source, trigger, tokensTarget } = situation;
  const { compactor, prune } = compacting;
  const active = activeCompaction(state);
  const retained = retain({
    source,
    draft: rebuild(
      compacting,
      source.shown.map(({ message }) => message),
      summary,
    ),
    draftSummary: summary,
    pins: state.pins,
    transcript,
    trigger,
    prunedBefore: active === undefined ? [] : prunedBy(active, () => false),
    prune,
    tokensTarget,
    summaryTokens: compactor.maxSummaryTokens(),
  });
  return retained.plan.discarded.length > 0 ? retained : { ...retained, plan: keepAll(source) };
}

/** A custom compactor receives copies: its changes must not reach the session. */
function rebuild({ compactor, strategy }: Compacting, messages: readonly Message[], summary: string): CompactionResult {
  if (strategy !== CUSTOM) return compactor.rebuildHistory(messages, summary);
  const originals = new Map(messages.map((message) => [structuredClone(message), message]));
  const result = compactor.rebuildHistory([...originals.keys()], summary);
  const own = (message: Message): Message => originals.get(message) ?? message;
  return { messages: result.messages.map(own), discarded: result.discarded.map(own) };
}

const WINDOW_TARGET_SHARE = 0.7;
/** If the provider rejects a context that fits by the estimate, the estimate is wrong. */
const ESTIMATE_TARGET_SHARE = 0.5;

function targetOf(shownTokens: number, { contextWindow }: { contextWindow: number | undefined }): number {
  const byEstimate = shownTokens * ESTIMATE_TARGET_SHARE;
  return contextWindow === undefined
    ? byEstimate
    : Math.min(contextWindow * WINDOW_TARGET_SHARE, Math.max(byEstimate, 1));
}

function prunesMore({ compactions }: WholeState, { pruned }: Retained): boolean {
  const active = activeCompaction({ compactions });
  const before = new Set((active?.body.pruned ?? []).map(({ seq, tool_use_id }) => `${seq} ${tool_use_id}`));
  return pruned.some(({ seq, tool_use_id }) => !before.has(`${seq} ${tool_use_id}`));
}

/** Of a larger result its beginning and end are enough for a summariser. */
const SUMMARISED_RESULT_TOKENS_MAX = 2_000;

function forSummary({ shown: all, pins }: WholeState, { prune }: Compacting): readonly Message[] {
  const shown = all.map((placed) => (isReplaced(placed, pins) ? withoutText(placed) : placed));
  if (!prune) return shown.map(({ message }) => message);
  const pruned = findPrunable(shown, { tokensMin: SUMMARISED_RESULT_TOKENS_MAX, keepTurns: 1 });
  return withReferences(shown, pruned);
}

/** A summary must not repeat instructions that were replaced. */
function withoutText({ seq, message }: Placed): Placed {
  return { seq, message: { ...message, body: "(an earlier version, which no longer holds)" } as Message }; // A notice.
}

export function rangesIn({ retained, transcript }: Prepared): { kept: SeqRange[]; discarded: SeqRange[] } {
  const kept = retained.plan.items.flatMap((item) => ("kept" in item ? [item.kept] : []));
  return { kept: rangesOf(kept, transcript), discarded: rangesOf(retained.plan.discarded, transcript) };
}

/** The earlier compaction whose summary a plan replaces. */
export function supersededBy({ source }: Prepared, { plan }: { readonly plan: Plan }): { superseded?: string } {
  const earlier = source.shown.map(({ message }) => message).find(isSummary);
  const isCarried = plan.items.some((item) => "message" in item && item.message === earlier);
  return earlier?.compaction_id === undefined || isCarried ? {} : { superseded: earlier.compaction_id };
}

/** The discarded messages as the summariser sees them, after the system message. */
export function leavingBy(prepared: Prepared, by: { readonly plan: Plan }): readonly Message[] {
  const { source, summarised } = prepared;
  const gone = new Set(by.plan.discarded);
  if (gone.size === 0) return [];
  const { superseded } = supersededBy(prepared, by);
  const leaves = (placed: Placed): boolean => {
    const { message } = placed;
    if (message.role === "system" || gone.has(placed)) return true;
    return message.role === "user" && superseded !== undefined && message.compaction_id === superseded;
  };
  return source.shown.flatMap((placed, at) => (leaves(placed) ? summarised.slice(at, at + 1) : []));
}
