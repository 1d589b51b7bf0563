import type { CompactionTrigger } from "../../contract/compaction.ts";
import type { EntryBody, EntryBodyOf } from "../../contract/entry.ts";
import { messageOf } from "../../contract/error.ts";
import type { Usage } from "../../contract/event.ts";
import type { Asking } from "../model/ask.ts";
import { advanceCadence } from "../session/cadence.ts";
import type { SessionState } from "../session/session-state.ts";
import { estimateTokens } from "../tokens.ts";
import { CASCADE, cutInSections } from "./cascade/sections.ts";
import { summariseByCascade } from "./cascade/summarise-by-cascade.ts";
import { describeCompaction } from "./describe.ts";
import { messagesOf, type Passed, passGates } from "./gates.ts";
import { keptOf, partsOf, rangesOf } from "./plan/plan.ts";
import type { Retained } from "./plan/retain.ts";
import { type Compacting, type Prepared, prepare, rangesIn, retainFrom } from "./prepare.ts";
import { inheritedFrom, originalsOf, recoverByExpanding, writeReceipt } from "./receipt.ts";
import { cutInvented, findInvented, type Invented } from "./specifics/groundedness.ts";
import { extracted, type Summarised, summarise } from "./summarise.ts";
import { isSummary } from "./summary-message.ts";

/** One compaction of a session that is held. */
export interface CompactionJob {
  readonly state: SessionState;
  readonly compacting: Compacting;
  readonly asking: Asking;
  readonly trigger: CompactionTrigger;
  readonly instructions?: string | undefined;
  append(bodies: readonly EntryBody[] | (() => readonly EntryBody[])): Promise<void>;
}

export type CompactionOutcome =
  | { readonly compacted: true; readonly compactionId: string }
  | { readonly compacted: false; readonly reason: string };

/**
 * Compacts a context: plan, summary, gates, receipt, then one entry. Until that entry is durable nothing has changed,
 * and whatever fails before it is told as `compaction_failed`. When there is nothing to take out, nothing is told.
 */
export async function runCompaction(job: CompactionJob): Promise<CompactionOutcome> {
  const { state, compacting, trigger, asking } = job;
  const window = asking.model.contextWindow;
  let prepared: ReturnType<typeof prepare>;
  try {
    await asking.clock.breathe();
    prepared = prepare(state, compacting, { trigger, contextWindow: window });
  } catch (thrown) {
    await job.append([started(state)]);
    return fail(job, messageOf(thrown));
  }
  if ("nothing" in prepared) return { compacted: false, reason: prepared.nothing };
  await asking.clock.breathe();
  await job.append([started(state)]);
  const veto = await askHook(job, prepared);
  if (veto !== undefined) return fail(job, veto);
  const summarised = await summaryFor(job, prepared);
  if (!summarised.ok) return fail(job, summarised.error, summarised.usage);
  const attempt = await tryCommit(job, prepared, summarised);
  if (attempt.compacted || trigger !== "overflow" || summarised.by === "extractive" || summarised.by === "none") {
    return attempt.compacted ? attempt : fail(job, attempt.reason, summarised.usage);
  }
  // The session cannot go on as it is: sentences of the conversation are better than none.
  const { compactor, extract } = compacting;
  const why = `the summary was refused (${attempt.reason})`;
  const spare = await extracted({ compactor, extract, shown: prepared.summarised }, why, summarised.usage);
  const last = await tryCommit(job, prepared, spare);
  return last.compacted ? last : fail(job, last.reason, summarised.usage);
}

async function tryCommit(job: CompactionJob, prepared: Prepared, written: Written): Promise<CompactionOutcome> {
  try {
    return await commit(job, prepared, written);
  } catch (thrown) {
    if (thrown instanceof Rejected) return { compacted: false, reason: thrown.message };
    throw thrown;
  }
}

/** A gate that did not open, or a compactor that failed: the context stays as it is. */
class Rejected extends Error {}

function started(state: SessionState): EntryBody {
  return {
    kind: "event",
    event: {
      type: "compaction_started",
      input_tokens: state.lastInputTokens,
      estimated_history_tokens: state.shownTokens,
      message_count: state.shown.length,
    },
  };
}

async function fail(job: CompactionJob, error: string, usage?: Usage): Promise<CompactionOutcome> {
  const spent = usage === undefined ? {} : { usage };
  await job.append([{ kind: "compaction_failed", error: job.asking.redact(error), ...spent }]);
  return { compacted: false, reason: error };
}

async function askHook({ compacting, state, trigger }: CompactionJob, prepared: Prepared): Promise<string | undefined> {
  const { before } = compacting.hooks;
  if (before === undefined) return undefined;
  try {
    const reason = await before({
      sessionId: state.sessionId,
      trigger,
      ...rangesIn(prepared),
      messagesBefore: prepared.source.shown.length,
      tokensBefore: estimateTokens(messagesOf(prepared.source.shown)),
    });
    return typeof reason === "string" && reason !== "" ? `vetoed: ${reason}` : undefined;
  } catch (thrown) {
    return `the hook before compaction failed: ${messageOf(thrown)}`;
  }
}

type Written = Omit<Extract<Summarised, { ok: true }>, "by"> & { readonly by: EntryBodyOf<"compacted">["summary_by"] };

const NO_SUMMARY: Written = {
  ok: true,
  summary: "",
  by: "none",
  tokens: 0,
  usage: { input_tokens: 0, output_tokens: 0 },
  notes: [],
};

async function summaryFor(
  job: CompactionJob,
  prepared: Prepared,
): Promise<Written | Extract<Summarised, { ok: false }>> {
  const { discarded } = prepared.retained.plan;
  // Only results become references: everything that was said still stands, and there is nothing to summarise.
  if (discarded.length === 0) return NO_SUMMARY;
  const { compactor, curator, extract, strategy } = job.compacting;
  const work = {
    asking: job.asking,
    compactor,
    extract,
    shown: prepared.summarised,
    instructions: job.instructions,
    mustSucceed: job.trigger === "overflow",
  };
  if (strategy === CASCADE && curator === undefined) return summariseByCascade({ ...work, leaving: prepared.leaving });
  return summarise({ ...work, curator, discarded: structuredClone(discarded.map(({ message }) => message)) });
}

async function commit(job: CompactionJob, prepared: Prepared, written: Written): Promise<CompactionOutcome> {
  const { state, compacting, asking } = job;
  const { source, transcript } = prepared;
  const { breathe } = asking.clock;
  const grounded = await ground(job, prepared, written);
  await breathe();
  const retained = retainAgain(job, prepared, grounded.summary);
  await breathe();
  const compaction_id = asking.clock.newId();
  const created_at = new Date(asking.clock.now()).toISOString();
  const passed = passGates(retained, {
    transcript,
    compactions: state.compactions,
    shown: source.shown,
    pins: state.pins,
    seq: state.lastSeq + 1,
    summary: { summary: grounded.summary, created_at, compaction_id },
    mayDiscardMore: written.isOfDiscarded !== true,
  });
  if (!passed.ok) throw new Rejected(passed.error);
  requireWhole(state, passed);
  await breathe();
  const receipt = await receiptOf(job, prepared, { passed, retained, ...grounded });
  await breathe();
  await job.append(() => {
    // What was said meanwhile, such as an injected text, stands after what was planned.
    const late = state.transcript.slice(transcript.length);
    const body: EntryBodyOf<"compacted"> = {
      kind: "compacted",
      compaction_id,
      created_at,
      strategy: compacting.strategy,
      trigger: job.trigger,
      summary_by: written.by,
      model: asking.model.modelId,
      notes: [...retained.notes, ...written.notes, ...passed.notes].map(asking.redact),
      ...(job.instructions === undefined ? {} : { instructions: job.instructions }),
      summary: grounded.summary,
      summary_tokens: written.tokens,
      messages_before: source.shown.length + late.length,
      messages_after: passed.shown.length + late.length,
      tokens_before: estimateTokens(messagesOf([...source.shown, ...late])),
      tokens_after: estimateTokens(messagesOf([...passed.shown, ...late])),
      shows: [...partsOf(passed.plan, transcript), ...rangesOf(late, state.transcript)],
      discarded: rangesOf(passed.plan.discarded, transcript),
      ...supersededBy(prepared, passed),
      pruned: [...retained.pruned],
      reshape: passed.reshape,
      receipt,
      usage: written.usage,
      cadence: state.cadence,
    };
    return [{ ...body, cadence: advanceCadence(state.cadence, body) }];
  });
  await tellHook(job, compaction_id);
  return { compacted: true, compactionId: compaction_id };
}

/** What was asked must be there to be answered, and what is gone must be spoken for. */
function requireWhole({ isTurnOpen, transcript }: SessionState, { plan }: Extract<Passed, { ok: true }>): void {
  if (plan.discarded.length > 0 && plan.items.every((item) => "kept" in item)) {
    throw new Rejected("the compactor takes messages out and puts no summary in their place");
  }
  const question = isTurnOpen ? transcript.findLast(({ message }) => message.role === "user") : undefined;
  if (question !== undefined && plan.discarded.some(({ seq }) => seq === question.seq)) {
    throw new Rejected("the compactor takes out what is being answered");
  }
}

/** The summary without what it invents, and what that was. */
async function ground(
  { compacting, asking }: CompactionJob,
  { source }: Prepared,
  { summary, by }: Written,
): Promise<{ summary: string; invented: readonly Invented[]; inventedCut: boolean }> {
  const { cutInvented: cuts, strategy } = compacting;
  // Sentences of the conversation invent nothing; what a curator adds of its own is told and left to it.
  if (by === "extractive" || by === "none") return { summary, invented: [], inventedCut: false };
  const invented = await findInvented(summary, messagesOf(source.shown), asking.clock.breathe);
  const inventedCut = cuts && by === "model" && invented.length > 0;
  if (!inventedCut) return { summary, invented, inventedCut };
  const cut = (text: string): string => cutInvented(text, invented);
  const kept = strategy === CASCADE ? cutInSections(summary, cut) : cut(summary);
  if (kept.trim() !== "") return { summary: kept, invented, inventedCut };
  throw new Rejected("nothing in the summary is said by its source");
}

function retainAgain({ state, compacting, trigger }: CompactionJob, prepared: Prepared, summary: string): Retained {
  if (prepared.retained.plan.discarded.length === 0) return prepared.retained;
  const { source, transcript, tokensTarget } = prepared;
  try {
    return retainFrom({ state, transcript, source, trigger, tokensTarget }, compacting, summary);
  } catch (thrown) {
    throw new Rejected(messageOf(thrown));
  }
}

function supersededBy({ source }: Prepared, { plan }: Extract<Passed, { ok: true }>): { superseded?: string } {
  const earlier = source.shown.map(({ message }) => message).find(isSummary);
  const isCarried = plan.items.some((item) => "message" in item && item.message === earlier);
  return earlier?.compaction_id === undefined || isCarried ? {} : { superseded: earlier.compaction_id };
}

interface Judged {
  readonly passed: Extract<Passed, { ok: true }>;
  readonly retained: Retained;
  readonly summary: string;
  readonly invented: readonly Invented[];
  readonly inventedCut: boolean;
}

function receiptOf({ compacting, state, asking }: CompactionJob, prepared: Prepared, judged: Judged) {
  const { passed, retained } = judged;
  const { plan } = passed;
  const kept = keptOf(plan);
  const keptSeqs = new Set(kept.map(({ seq }) => seq));
  const pinnedSeqs = new Set([...retained.pinned].map(({ seq }) => seq));
  // As they are shown: what stands as a reference is not in the tail.
  const shown = passed.shown.filter(({ seq }) => keptSeqs.has(seq));
  return writeReceipt({
    gone: originalsOf(prepared.transcript, { discarded: plan.discarded, pruned: retained.pruned }),
    inherited: inheritedFrom(state, supersededBy(prepared, passed).superseded),
    saved: kept.filter((placed) => retained.saved.has(placed)),
    summary: judged.summary,
    tail: messagesOf(shown.filter(({ seq }) => !pinnedSeqs.has(seq))),
    pinned: messagesOf(shown.filter(({ seq }) => pinnedSeqs.has(seq))),
    pruned: retained.pruned,
    invented: judged.invented,
    inventedCut: judged.inventedCut,
    breathe: asking.clock.breathe,
    recover: (compacting.recovering ?? recoverByExpanding)(prepared.transcript, asking.clock.breathe),
  });
}

async function tellHook({ compacting, state, asking }: CompactionJob, compactionId: string): Promise<void> {
  const { after } = compacting.hooks;
  const record = state.compactions.find(({ body }) => body.compaction_id === compactionId);
  if (after === undefined || record === undefined) return;
  try {
    await after(describeCompaction(record));
  } catch (thrown) {
    const error = asking.redact(messageOf(thrown));
    asking.emit({ type: "hook_failed", hook_id: "after_compaction", point: "turn_boundary", error });
  }
}
