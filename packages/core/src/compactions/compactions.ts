import { planExpansion, planReturn, shownWith } from "../compaction/plan.ts";
import { describeCompaction } from "../compaction/policy.ts";
import type { Compacting } from "../compaction/prepare.ts";
import type { Readings } from "../compaction/reading.ts";
import type { CompactionJob, CompactionOutcome } from "../compaction/run-compaction.ts";
import { pinnedIn } from "../compaction/shown-messages.ts";
import type { SeqRange } from "../contract/compaction.ts";
import type { EntryBodyOf } from "../contract/entry.ts";
import { invalid, RuntimeError } from "../contract/error.ts";
import { ORIGINS, originOf } from "../contract/message.ts";
import type { OperationInput } from "../contract/operations.ts";
import type { ModelClient, ModelResolver } from "../ports/model.ts";
import type { Service } from "../runtime/dispatch.ts";
import { hooksFor, withHooks } from "../sessions/hooks.ts";
import {
  appendEntries,
  emitLive,
  type LiveSession,
  type LiveSessions,
  type LockedWork,
} from "../sessions/live-sessions.ts";
import { appendingTo, compactingIn, modelOf, sessionWork, type TurnParts } from "../sessions/turn-runner.ts";
import { chooseTools } from "../sessions/turn-tools.ts";
import { evictedFrom, type Placed, rangesOf } from "../state/context.ts";
import { type KeptCompaction, saidIn, transcriptAfter } from "../state/rewrites.ts";
import type { WholeState } from "../state/whole-state.ts";
import type { Asking } from "../turn/model-call.ts";
import { estimateTokens } from "../turn/tokens.ts";
import { closeLeftovers, requireAnswered } from "../turn/turn-end.ts";
import { requireReachableFor } from "./compaction-part.ts";
import type { Preparations } from "./preparations.ts";

export interface CompactionParts extends TurnParts {
  readonly preparations: Preparations;
  readonly live: LiveSessions;
  readonly locked: LockedWork;
  readonly models: ModelResolver;
}

type Operations =
  | "compactSession"
  | "listCompactions"
  | "readSummarySources"
  | "undoCompaction"
  | "expandCompaction"
  | "pinMessage"
  | "unpinMessage"
  | "listPins";

/**
 * The operations on the context, each with the parts that are current when it begins. The capability gate comes before
 * them.
 */
export function createCompactions(
  fixed: Pick<CompactionParts, "store" | "clock" | "live" | "locked" | "memory">,
  current: () => CompactionParts,
): Pick<Service, Operations> {
  const { store, live, locked } = fixed;
  const readSources = async (
    given: Readings["sources"]["given"],
    signal = new AbortController().signal,
  ): Promise<Readings["sources"]["answer"]> => {
    const { reading } = current().compaction ?? {};
    if (reading !== undefined) return reading("sources", given, signal);
    const { summarySources } = await import("../grounding/summary-sources.ts");
    return summarySources(given, fixed.clock.yieldToEventLoop);
  };
  return {
    compactSession: async (input, call) => {
      const session = await live.find(input.session_id);
      return locked.run(session, call, (signal) =>
        compactNow(current(), session, { input, signal, traceparent: call.traceparent, by: call.caller?.name }),
      );
    },
    listCompactions: async ({ session_id }) => {
      const state = await live.whole(await live.findFresh(session_id));
      return structuredClone({ compactions: state.compactions.map(describeCompaction) });
    },
    readSummarySources: async ({ session_id, compaction_id }, call) => {
      const state = await live.whole(await live.findFresh(session_id));
      const { body, madeFrom, madeAfter } = recordOf(state, compaction_id);
      // The messages behind an earlier summary are read verbatim, so a sentence leads to its first source.
      const source = saidIn(transcriptAfter(state, madeAfter)).slice(0, madeFrom);
      const sentences = await readSources({ summary: body.summary, messages: source }, call.signal);
      const { invented, doubtful = [] } = body.receipt;
      const doubtOf = (text: string): { doubt?: "invented" | "doubtful" } => {
        if (invented.some(({ sentence }) => sentence === text)) return { doubt: "invented" };
        return doubtful.includes(text) ? { doubt: "doubtful" } : {};
      };
      const origins = new Map(source.map(({ seq, message }) => [seq, originOf(message)]));
      return {
        sentences: sentences.map(({ text, seqs }) => {
          const origin = ORIGINS.findLast((one) => seqs.some((seq) => origins.get(seq) === one));
          return { text, seqs: [...seqs], ...(origin === undefined ? {} : { origin }), ...doubtOf(text) };
        }),
      };
    },
    undoCompaction: async ({ session_id, compaction_id }) => {
      const session = await live.find(session_id);
      return locked.run(session, {}, async () => {
        const state = await live.whole(session);
        const record = recordOf(state, compaction_id);
        // Compactions built on an undone one were undone with it.
        const built = record.undone ? [] : state.compactions.slice(state.compactions.indexOf(record));
        const ids = built.filter(({ undone }) => !undone).map(({ body }) => body.compaction_id);
        if (ids.length > 0) await appendEntries(store.log, session, [{ kind: "compaction_undone", compaction_id }]);
        fixed.memory?.indexLater(state);
        return { undone: true, compaction_ids: ids, ...sizeOf(state) };
      });
    },
    expandCompaction: async (input) => {
      const session = await live.find(input.session_id);
      return locked.run(session, {}, () => expand(current(), session, input));
    },
    pinMessage: async ({ session_id, seq }) => {
      const session = await live.find(session_id);
      return locked.run(session, {}, () => pin(current(), session, seq));
    },
    unpinMessage: async ({ session_id, seq }) => {
      const session = await live.find(session_id);
      return locked.run(session, {}, async () => {
        const state = await live.whole(session);
        requireMessage(state, seq);
        if (state.pins.has(seq)) await appendEntries(store.log, session, [{ kind: "pinned", seq, pinned: false }]);
        return { pinned: false, seq, pins: pinsIn(state) };
      });
    },
    listPins: async ({ session_id }) => ({ pins: pinsIn(await live.whole(await live.findFresh(session_id))) }),
  };
}

async function compactNow(
  parts: CompactionParts,
  session: LiveSession,
  asked: {
    input: OperationInput<"compactSession">;
    signal: AbortSignal;
    traceparent: string | undefined;
    by: string | undefined;
  },
) {
  const { input, signal, by } = asked;
  const state = await parts.whole(session);
  const { store, clock } = parts;
  const { model, provider } = state.settings;
  const client = await parts.models.resolve(model, provider);
  const compacting = withHooks(compactingOf(parts, state, client), hooksFor(parts, session));
  const { instructions } = input;
  if (input.preview) {
    const ready = await readyFor(parts, state, instructions);
    if (ready !== undefined) return { compacted: false, compaction: { ...describeReady(ready), cost: NO_COST } };
    const { previewCompaction } = await import("../compaction/run-compaction.ts");
    return previewCompaction(state, compacting, { model: client, clock, redact: parts.redact, instructions });
  }
  requireAnswered(state);
  await appendEntries(store.log, session, () => closeLeftovers(state, clock));
  // Waits for a preparation of the same compaction unless the request differs.
  if (instructions === undefined) await parts.preparations.settled(state.sessionId, signal);
  else await parts.preparations.stop(state.sessionId);
  const watch = await watchCompaction(parts, session, { client, ...asked });
  const append = appendingTo(store, session, { watch, by });
  const asking = { ...askingOf(parts, session, { client: watch?.model ?? client, signal }), append };
  const tools = chooseTools(parts, session, undefined);
  const calls = { tools: [...tools.values()], skill: parts.skillFor(tools) };
  const job = { state, compacting, asking, trigger: "manual" as const, instructions, ...calls, append };
  const outcome = await compactBy(parts, job).finally(() => watch?.end({}));
  if (!outcome.compacted) {
    if (signal.aborted) throw new RuntimeError("REQUEST_CANCELLED", "the compaction was interrupted; nothing changed");
    return { compacted: false, reason: outcome.reason };
  }
  return { compacted: true, compaction: structuredClone(describeCompaction(recordOf(state, outcome.compactionId))) };
}

/** Uses a matching prepared compaction; drops one that does not match, with an event. */
async function compactBy(parts: CompactionParts, job: CompactionJob): Promise<CompactionOutcome> {
  const { state } = job;
  const { hash } = parts;
  const { droppedEntry, publishPrepared } = await import("../compaction/published.ts");
  if ((await readyFor(parts, state, job.instructions)) !== undefined) {
    const compactionId = await publishPrepared({ ...job, hash });
    if (compactionId !== undefined) return { compacted: true, compactionId };
  }
  await job.append(() => (state.prepared === undefined ? [] : [droppedEntry(state.prepared, BY_HAND)]));
  const { runCompaction } = await import("../compaction/run-compaction.ts");
  return runCompaction(job);
}

const BY_HAND = "a compaction that includes newer messages was requested";

/** The entry that puts a prepared compaction into force; undefined if there is none that matches. */
async function readyFor({ hash, clock }: CompactionParts, state: WholeState, instructions: string | undefined) {
  const { prepared } = state;
  if (prepared === undefined || instructions !== undefined) return undefined;
  const { isUntouched, preparedEntry } = await import("../compaction/published.ts");
  const late = state.transcript.slice(prepared.body.basis.transcript);
  // A later turn can be summarised, too.
  if (late.some(({ message }) => message.role === "user") || !isUntouched(state, prepared, hash)) return undefined;
  return preparedEntry({ state, trigger: "manual" }, prepared, clock.now());
}

const NO_COST = { input_tokens: 0, max_output_tokens: 0 };

function describeReady(body: EntryBodyOf<"compacted">) {
  return structuredClone(describeCompaction({ seq: 0, body, madeFrom: 0, undone: false, expanded: [] }));
}

async function watchCompaction(
  { telemetry }: CompactionParts,
  session: LiveSession,
  asked: { client: ModelClient; signal: AbortSignal; traceparent: string | undefined },
) {
  if (telemetry === undefined) return undefined;
  const { client: model, signal, traceparent } = asked;
  const work = { kind: "compaction" as const, model, tools: new Map(), wantsJson: false, signal, traceparent };
  return (await telemetry()).watch({ ...work, ...sessionWork(session) });
}

function askingOf(
  { clock, policy, redact }: CompactionParts,
  session: LiveSession,
  { client, signal }: { client: ModelClient; signal: AbortSignal },
): Omit<Asking, "append"> {
  return {
    model: client,
    clock,
    retry: policy.retry,
    calls: policy.calls,
    deadlineMs: Number.POSITIVE_INFINITY,
    signal,
    redact,
    acceptsEmpty: false,
    emit: (event) => emitLive(session, clock, event),
  };
}

async function expand(parts: CompactionParts, session: LiveSession, input: OperationInput<"expandCompaction">) {
  const state = await parts.whole(session);
  const { compaction_id, from_seq = 0, to_seq = Number.MAX_SAFE_INTEGER, max_tokens } = input;
  const record = recordOf(state, compaction_id);
  if (record.undone) {
    const why = record.undoneByHand ? "was undone and" : "was made from messages that were rewritten since; it";
    throw invalid(`compaction_id: ${compaction_id} ${why} takes nothing out; name one that stands`);
  }
  if (to_seq < from_seq) throw invalid(`to_seq: write ${from_seq} or more, or leave it out`);
  const wanted = record.body.discarded.flatMap((range) => within(range, { from_seq, to_seq }));
  const taken = record.body.pruned.filter(({ reason }) => reason !== undefined);
  const isAskedFor = ({ seq }: { readonly seq: number }): boolean => from_seq <= seq && seq <= to_seq;
  if (wanted.length === 0 && !taken.some(isAskedFor)) {
    const ranges = [...record.body.discarded, ...rangesOf(taken, state.transcript)];
    const took = ranges.map((range) => `${range.from_seq}–${range.to_seq}`).join(", ");
    throw invalid(`from_seq: the compaction took out the seqs ${took || "of none"}`);
  }
  const { threshold } = compactingOf(parts, state, modelOf(parts, state.settings));
  // More than the threshold would be compacted again before the next answer.
  const room = max_tokens ?? Math.max(0, threshold - state.shownTokens);
  const names = new Set(taken.map(nameOf));
  const lines = evictedFrom(state).filter((one) => isAskedFor(one) && names.has(nameOf(one)));
  const outputs = planReturn(state, lines, room);
  const turns = planExpansion(state, wanted, room - outputs.tokens);
  const expanded = [...turns.expanded, ...outputs.expanded];
  const leftOut = [...turns.leftOut, ...outputs.leftOut];
  if (expanded.length === 0 && leftOut.length > 0) {
    const [what, least] =
      turns.leftOut.length > 0 ? ["turns", turns.smallestLeftOut] : ["outputs", outputs.smallestLeftOut];
    throw invalid(`max_tokens: ${room} is not enough, the smallest of these ${what} takes about ${least} tokens`);
  }
  await requireAcceptable(state, shownWith(state, { ranges: expanded }));
  if (expanded.length > 0) {
    await appendEntries(parts.store.log, session, [{ kind: "expanded", ranges: [...expanded] }]);
    parts.memory?.indexLater(state);
  }
  return { expanded: [...expanded], left_out: [...leftOut], ...sizeOf(state) };
}

function nameOf({ seq, tool_use_id }: { readonly seq: number; readonly tool_use_id: string }): string {
  return `${seq} ${tool_use_id}`;
}

async function pin(parts: CompactionParts, session: LiveSession, seq: number) {
  const state = await parts.whole(session);
  requireMessage(state, seq);
  if (!state.pins.has(seq)) {
    const pinned = pinnedIn(state.transcript, new Set([...state.pins, seq]));
    const pinTokens = estimateTokens([...pinned].map(({ message }) => message));
    const tools = chooseTools(parts, session, undefined).values();
    if (parts.compaction !== undefined) {
      const contextWindow = parts.windowOf(state.settings);
      requireReachableFor(parts.compaction, state.settings, { tools, pinTokens, contextWindow });
    }
    await requireAcceptable(state, shownWith(state, { pin: seq }));
    await appendEntries(parts.store.log, session, [{ kind: "pinned", seq, pinned: true }]);
  }
  return { pinned: true, seq, pins: pinsIn(state) };
}

/** Rejects a context that a provider would reject although it accepts the current one. */
async function requireAcceptable(state: WholeState, shown: readonly Placed[]): Promise<void> {
  const { grammarFaults } = await import("../compaction/grammar.ts");
  const faultsIn = (placed: readonly Placed[]) => grammarFaults(placed.map(({ message }) => message));
  const indifferent = new Set([...faultsIn(state.transcript), ...faultsIn(state.shown)].map(({ grammar }) => grammar));
  const fault = faultsIn(shown).find(({ grammar }) => !indifferent.has(grammar));
  if (fault === undefined) return;
  throw new RuntimeError("AGENT_ERROR", `this cannot stand in the context: ${fault.grammar}: ${fault.fault}`);
}

function within(range: SeqRange, { from_seq, to_seq }: SeqRange): SeqRange[] {
  const cut = { from_seq: Math.max(range.from_seq, from_seq), to_seq: Math.min(range.to_seq, to_seq) };
  return cut.from_seq <= cut.to_seq ? [cut] : [];
}

/** The capability gate has passed, so the capability is present. */
function compactingOf(
  parts: TurnParts,
  state: WholeState,
  model: Pick<ModelClient, "contextWindow" | "prices">,
): Compacting {
  const compacting = compactingIn(parts, state, { model });
  if (compacting === undefined) throw new Error("the gate let through a compaction without its capability");
  return compacting;
}

function recordOf({ compactions, sessionId }: WholeState, compactionId: string): KeptCompaction {
  const record = compactions.find(({ body }) => body.compaction_id === compactionId);
  if (record !== undefined) return record;
  throw new RuntimeError("SESSION_NOT_FOUND", `compaction_id: session ${sessionId} has no compaction ${compactionId}`);
}

function requireMessage({ transcript }: WholeState, seq: number): void {
  const message = transcript.find((placed) => placed.seq === seq)?.message;
  if (message === undefined) {
    const seqs = transcript.map((placed) => placed.seq);
    const near = seqs.findLast((known) => known < seq) ?? seqs[0];
    const hint = near === undefined ? "the session has none" : `the nearest before it is at ${near}`;
    throw invalid(`seq: there is no message at ${seq}; ${hint}`);
  }
  if (message.role === "system") throw invalid("seq: the system message always stays; pin another");
}

/** A message removed by a rewrite keeps its pin for a restoration. */
function pinsIn({ pins, transcript }: WholeState): number[] {
  const seqs = new Set(transcript.map(({ seq }) => seq));
  return [...pins].filter((seq) => seqs.has(seq));
}

function sizeOf({ shown, shownTokens }: WholeState) {
  return { messages: shown.length, estimated_tokens: shownTokens };
}
