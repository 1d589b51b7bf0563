import type { CompactionTrigger, UserRule } from "../../contract/compaction.ts";
import type { EntryBody, EntryBodyOf } from "../../contract/entry.ts";
import { messageOf } from "../../contract/error.ts";
import type { Usage } from "../../contract/event.ts";
import type { Message } from "../../contract/message.ts";
import { advanceCadence, messagesOf, type Placed } from "../context.ts";
import { type Asking, waitFor } from "../model-call.ts";
import type { SessionState } from "../session-state.ts";
import { estimateTokens } from "../tokens.ts";
import { summariseByCascade } from "./cascade.ts";
import { type Passed, passGates } from "./gates.ts";
import { type Grounded, ground, ungrounded, type Written } from "./ground.ts";
import { keptOf, type Plan, partsOf, rangesOf } from "./plan.ts";
import { describeCompaction } from "./policy.ts";
import { type Compacting, type Prepared, prepare, rangesIn, retainFrom } from "./prepare.ts";
import {
  apartFor,
  inheritedFrom,
  originalsOf,
  type ReceiptSource,
  recoverByExpanding,
  writeReceipt,
} from "./receipt.ts";
import type { Retained } from "./retain.ts";
import { CASCADE, isSummary, summaryWithRules, withoutRulesIntro } from "./shown-messages.ts";
import { extracted, type Summarised, summarise } from "./summarise.ts";
import { carryRules, inheritedRules } from "./user-rules.ts";

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
  const grounded = await ground({ compacting, asking, source: messagesOf(prepared.source.shown) }, summarised);
  const { usage } = grounded;
  const attempt = grounded.ok
    ? await tryCommit(job, prepared, grounded)
    : { compacted: false as const, reason: grounded.error };
  if (attempt.compacted) return attempt;
  if (trigger !== "overflow" || summarised.by === "extractive" || summarised.by === "none") {
    return fail(job, attempt.reason, usage);
  }
  // The session cannot go on as it is: sentences of the conversation are better than none.
  const { compactor, extract } = compacting;
  const why = `the summary was refused (${attempt.reason})`;
  const spare = await extracted({ compactor, extract, shown: prepared.summarised }, why, usage);
  const last = await tryCommit(job, prepared, ungrounded(spare));
  return last.compacted ? last : fail(job, last.reason, usage);
}

async function tryCommit(job: CompactionJob, prepared: Prepared, grounded: Grounded): Promise<CompactionOutcome> {
  try {
    return await commit(job, prepared, grounded);
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

async function askHook(job: CompactionJob, prepared: Prepared): Promise<string | undefined> {
  const { compacting, state, trigger, asking } = job;
  const { before } = compacting.hooks;
  if (before === undefined) return undefined;
  const plan = {
    sessionId: state.sessionId,
    trigger,
    ...rangesIn(prepared),
    messagesBefore: prepared.source.shown.length,
    tokensBefore: estimateTokens(messagesOf(prepared.source.shown)),
  };
  try {
    const reason = await waitFor(asking, () => before(plan));
    return typeof reason === "string" && reason !== "" ? `vetoed: ${reason}` : undefined;
  } catch (thrown) {
    return `the hook before compaction failed: ${messageOf(thrown)}`;
  }
}

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
  const summarised =
    strategy === CASCADE && curator === undefined
      ? await summariseByCascade({ ...work, leaving: prepared.leaving })
      : await summarise({ ...work, curator, discarded: curator === undefined ? [] : copiesOf(discarded) });
  return summarised.ok ? { ...summarised, summary: withoutRulesIntro(summarised.summary) } : summarised;
}

/** A curator is given copies: what it does to them must not reach the session. */
function copiesOf(placed: readonly Placed[]): readonly Message[] {
  return structuredClone(messagesOf(placed));
}

async function commit(job: CompactionJob, prepared: Prepared, grounded: Grounded): Promise<CompactionOutcome> {
  const { state, compacting, asking } = job;
  const { source, transcript } = prepared;
  const { breathe } = asking.clock;
  const retained = retainAgain(job, prepared, grounded.summary);
  await breathe();
  const compaction_id = asking.clock.newId();
  const created_at = new Date(asking.clock.now()).toISOString();
  const { passed, rules, leftOut } = await passWithRules(job, { prepared, retained, grounded }, (carried) =>
    passGates(retained, {
      transcript,
      compactions: state.compactions,
      shown: source.shown,
      pins: state.pins,
      seq: state.lastSeq + 1,
      summary: { summary: grounded.summary, rules: carried, created_at, compaction_id },
      mayDiscardMore: grounded.isOfDiscarded !== true,
    }),
  );
  if (!passed.ok) throw new Rejected(passed.error);
  requireWhole(state, passed);
  await breathe();
  const { judged, invented, inventedCut, unverified } = grounded;
  const summary = summaryWithRules({ summary: grounded.summary, rules });
  const receipt = await receiptOf(job, prepared, { passed, retained, summary, invented, inventedCut, unverified });
  const notes = [...retained.notes, ...grounded.notes, ...passed.notes, ...leftOut].map(asking.redact);
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
      summary_by: grounded.by,
      model: asking.model.modelId,
      notes,
      ...(job.instructions === undefined ? {} : { instructions: job.instructions }),
      summary: grounded.summary,
      summary_tokens: grounded.tokens,
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
      ...(rules.length === 0 ? {} : { rules }),
      ...(judged === undefined ? {} : { judged }),
      usage: grounded.usage,
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

interface Carried {
  readonly passed: Passed;
  readonly rules: UserRule[];
  readonly leftOut: readonly string[];
}

/** The gates, with the rules of the user that leave the context below the summary; they must not keep it from shrinking. */
async function passWithRules(
  { state, compacting, asking }: CompactionJob,
  of: { readonly prepared: Prepared; readonly retained: Retained; readonly grounded: Grounded },
  pass: (rules: UserRule[]) => Passed,
): Promise<Carried> {
  const { prepared, retained, grounded } = of;
  // A compactor of one's own may write no summary, and then there is nothing they could follow.
  const hasSummary = retained.plan.items.some((item) => "summary" in item);
  const carry = (plan: Plan) =>
    carryRules({
      gone: hasSummary ? originalsOf(prepared.transcript, { discarded: plan.discarded, pruned: [] }) : [],
      inherited: hasSummary ? inheritedRules(state, supersededBy(prepared, { plan }).superseded) : [],
      summary: grounded.summary,
      summaryTokensMax: compacting.compactor.maxSummaryTokens(),
      breathe: asking.clock.breathe,
    });
  let { rules, leftOut } = await carry(retained.plan);
  let passed = pass(rules);
  if (passed.ok && passed.plan.discarded.length > retained.plan.discarded.length) {
    ({ rules, leftOut } = await carry(passed.plan));
    passed = pass(rules);
  }
  const following = rules.filter(({ follows }) => follows).length;
  if (!passed.ok && following > 0) {
    rules = rules.map((rule) => ({ ...rule, follows: false }));
    passed = pass(rules);
    leftOut += following;
  }
  const hint = "what may follow a summary; pin a message to keep its rules in the context";
  return { passed, rules, leftOut: leftOut === 0 ? [] : [`left out ${leftOut} rules of the user, beyond ${hint}`] };
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

function supersededBy({ source }: Prepared, { plan }: { readonly plan: Plan }): { superseded?: string } {
  const earlier = source.shown.map(({ message }) => message).find(isSummary);
  const isCarried = plan.items.some((item) => "message" in item && item.message === earlier);
  return earlier?.compaction_id === undefined || isCarried ? {} : { superseded: earlier.compaction_id };
}

interface Settled extends Pick<Grounded, "summary" | "invented" | "inventedCut" | "unverified"> {
  readonly passed: Extract<Passed, { ok: true }>;
  readonly retained: Retained;
}

async function receiptOf({ compacting, state, asking }: CompactionJob, prepared: Prepared, settled: Settled) {
  const { passed, retained, summary, invented, inventedCut, unverified } = settled;
  const { plan } = passed;
  const kept = keptOf(plan);
  const keptSeqs = new Set(kept.map(({ seq }) => seq));
  const pinnedSeqs = new Set([...retained.pinned].map(({ seq }) => seq));
  // As they are shown: what stands as a reference is not in the tail.
  const shown = passed.shown.filter(({ seq }) => keptSeqs.has(seq));
  const source: ReceiptSource = {
    gone: originalsOf(prepared.transcript, { discarded: plan.discarded, pruned: retained.pruned }),
    inherited: inheritedFrom(state, supersededBy(prepared, passed).superseded),
    saved: kept.filter((placed) => retained.saved.has(placed)),
    summary,
    tail: messagesOf(shown.filter(({ seq }) => !pinnedSeqs.has(seq))),
    pinned: messagesOf(shown.filter(({ seq }) => pinnedSeqs.has(seq))),
    pruned: retained.pruned,
    invented,
    inventedCut,
    unverified,
    breathe: asking.clock.breathe,
    recover: (compacting.recovering ?? recoverByExpanding)(prepared.transcript, asking.clock.breathe),
    ...apartFor(compacting, prepared.transcript, asking.signal),
  };
  try {
    return await writeReceipt(source);
  } catch (thrown) {
    throw new Rejected(messageOf(thrown));
  }
}

async function tellHook({ compacting, state, asking }: CompactionJob, compactionId: string): Promise<void> {
  const { after } = compacting.hooks;
  const record = state.compactions.find(({ body }) => body.compaction_id === compactionId);
  if (after === undefined || record === undefined) return;
  try {
    await waitFor(asking, () => after(describeCompaction(record)));
  } catch (thrown) {
    const error = asking.redact(messageOf(thrown));
    asking.emit({ type: "hook_failed", hook_id: "after_compaction", point: "turn_boundary", error });
  }
}
