import type {
  Compaction,
  CompactionTrigger,
  CompactResult,
  KeptNative,
  UserRule,
  WorkState,
} from "../contract/compaction.ts";
import { withVerdict } from "../contract/describe-event.ts";
import type { EntryBody, EntryBodyOf } from "../contract/entry.ts";
import { messageOf, RuntimeError } from "../contract/error.ts";
import type { Usage } from "../contract/event.ts";
import { defined, isRecord } from "../contract/json.ts";
import type { Message } from "../contract/message.ts";
import type { Clock } from "../ports/clock.ts";
import type { ModelClient, NativeCompaction, NativeRequest, ToolSpec } from "../ports/model.ts";
import { type CompactionRecord, type Hash, messagesOf, type Placed, rangesOf, withSkill } from "../state/context.ts";
import type { WholeState } from "../state/whole-state.ts";
import { addUsage, NO_USAGE } from "../turn/cost.ts";
import { type Asking, ask, type ModelAnswer, waitFor } from "../turn/model-call.ts";
import { hostOf, isSummaryOf, nativeSummaryIn } from "../turn/native-summary.ts";
import { estimateTokens, toolTokens } from "../turn/tokens.ts";
import { economyOf, usualSummaryTokens } from "./economy.ts";
import { foldCandidate, type Passed, passGates } from "./gates.ts";
import { type Grounded, ground, judgeRequest, ungrounded, type Written } from "./ground.ts";
import { keptOf, type Plan, partsOf } from "./plan.ts";
import { type Compacting, leavingBy, type Prepared, prepare, rangesIn, retainFrom, supersededBy } from "./prepare.ts";
import { basisOf, callHook, type Made, publishedEntry } from "./published.ts";
import { quoteInstructions } from "./quote.ts";
import {
  inheritedFrom,
  originalsOf,
  type ReceiptSource,
  recoverByExpanding,
  workerFor,
  writeReceipt,
} from "./receipt.ts";
import type { Retained } from "./retain.ts";
import { CASCADE, isSummary, wholeSummary, withFenceClosed, withoutMarkers } from "./shown-messages.ts";
import {
  cascadeRequests,
  extracted,
  quiet,
  requestOf,
  type Summarised,
  summarise,
  summariseByCascade,
} from "./summarise.ts";
import { carryRules, inheritedRules } from "./user-rules.ts";
import { allWork, readWork, workFor } from "./work-state.ts";

/** One compaction of a locked session. */
export interface CompactionJob {
  readonly state: WholeState;
  readonly compacting: Compacting;
  readonly asking: Asking;
  readonly trigger: CompactionTrigger;
  readonly instructions?: string | undefined;
  readonly tools?: readonly ToolSpec[] | undefined;
  readonly skill?: string | undefined;
  /** How long the model will have been idle when it takes effect; defaults to the idle time until now. */
  readonly idleMs?: number | undefined;
  readonly compactionId?: string | undefined;
  /** Since when the turn waits for it; defaults to its start. */
  readonly begunMs?: number | undefined;
  append(bodies: readonly EntryBody[] | (() => readonly EntryBody[])): Promise<void>;
}

export type CompactionOutcome =
  | { readonly compacted: true; readonly compactionId: string }
  | { readonly compacted: false; readonly reason: string };

/**
 * Compacts a context: plan, summary, gates, receipt, then one entry. Nothing changes before that entry is durable;
 * earlier failures emit `compaction_failed`. If there is nothing to remove, nothing is emitted.
 */
export async function runCompaction(given: CompactionJob): Promise<CompactionOutcome> {
  const { compacting, asking, trigger, begunMs = asking.clock.now() } = given;
  // The started and completed events share this id.
  const job = { ...given, compactionId: asking.clock.newId() };
  const planned = await plan(job);
  if ("nothing" in planned) return { compacted: false, reason: planned.nothing };
  await job.append([started(job, "error" in planned ? undefined : planned)]);
  const made = "error" in planned ? planned : await make(job, planned);
  if ("error" in made) return fail(job, made.error, made.usage);
  await job.append(() => {
    const isWaitedFor = compacting.prepares && trigger !== "manual";
    const waited = isWaitedFor ? { waited_ms: asking.clock.now() - begunMs } : {};
    return [...(compacting.hooks.reported?.() ?? []), publishedEntry(job.state, made, waited)];
  });
  await callHook(job, made.compaction.compaction_id);
  return { compacted: true, compactionId: made.compaction.compaction_id };
}

type Unmade = { readonly error: string; readonly usage?: Usage | undefined };

/** Makes a compaction up to its entry without changing the state; the caller activates it later, or not. */
export async function prepareCompaction(
  job: Omit<CompactionJob, "append">,
  hash: Hash,
): Promise<EntryBodyOf<"compaction_prepared"> | Unmade | { readonly nothing: string }> {
  const planned = await plan(job);
  if ("nothing" in planned || "error" in planned) return planned;
  const made = await make(job, planned);
  if ("error" in made) return made;
  const { transcript, shown } = job.state;
  const lengths = { transcript: transcript.length, shown: shown.length };
  return { kind: "compaction_prepared", ...made, basis: { ...lengths, sha256: basisOf(job.state, lengths, hash) } };
}

type Making = Omit<CompactionJob, "append">;

async function plan({ state, compacting, trigger, asking }: Making): Promise<Prepared | Unmade | { nothing: string }> {
  try {
    await asking.clock.yieldToEventLoop();
    const { yieldToEventLoop } = asking.clock;
    const { contextWindow } = asking.model;
    const prepared = await prepare(state, compacting, { trigger, contextWindow, yieldToEventLoop });
    await asking.clock.yieldToEventLoop();
    return prepared;
  } catch (thrown) {
    return { error: messageOf(thrown) };
  }
}

/** Everything in the entry except its time. */
async function make(job: Making, prepared: Prepared): Promise<Made | Unmade> {
  const { compacting, trigger, asking } = job;
  const veto = await askHook(job, prepared);
  if (veto !== undefined) return { error: veto };
  const summarised = await summaryFor(job, prepared);
  if (!summarised.ok) return summarised;
  const grounded = await ground({ compacting, asking, source: messagesOf(prepared.source.shown) }, summarised);
  const { usage } = grounded;
  const attempt = grounded.ok ? await tryMake(job, prepared, grounded) : { error: grounded.error };
  if (!("error" in attempt)) return attempt;
  if (trigger !== "overflow" || summarised.by === "extractive" || summarised.by === "none") {
    return { error: attempt.error, usage };
  }
  // The session cannot continue as it is: an extractive summary is better than none.
  const { compactor, extract } = compacting;
  const why = `the summary was refused (${attempt.error})`;
  const spare = await extracted({ compactor, extract, shown: prepared.summarised }, why, usage);
  const last = await tryMake(job, prepared, ungrounded(spare));
  return "error" in last ? { error: last.error, usage } : last;
}

async function tryMake(job: Making, prepared: Prepared, grounded: Grounded): Promise<Made | Unmade> {
  try {
    return await fill(job, prepared, await withQuotes(job, prepared, grounded));
  } catch (thrown) {
    // A store failure also fails the turn. Any other failure is reported with the compaction's usage.
    if (thrown instanceof RuntimeError) throw thrown;
    return { error: messageOf(thrown) };
  }
}

type Quoting = Grounded & Pick<Compaction, "quoted">;

/** The summary without the instructions of tools, which are quoted behind it. */
async function withQuotes(job: Making, prepared: Prepared, grounded: Grounded): Promise<Quoting> {
  const { state, compacting, asking } = job;
  const superseded = supersededBy(prepared, { plan: prepared.retained.plan }).superseded;
  const before = state.compactions.find(({ body }) => body.compaction_id === superseded)?.body.quoted ?? [];
  const { transcript } = prepared;
  const { summary, quoted } = await quoteInstructions(grounded.summary, before, { transcript, compacting, asking });
  return { ...grounded, summary, ...(quoted.length === 0 ? {} : { quoted }) };
}

/** A gate rejected it or the compactor failed: the context stays as it is. */
class Rejected extends Error {}

function started({ state, compacting, asking, compactionId }: CompactionJob, planned: Prepared | undefined): EntryBody {
  const economy = planned && economyOf(state, compacting, { ...asking, planned });
  return {
    kind: "event",
    event: {
      type: "compaction_started",
      input_tokens: state.lastInputTokens,
      estimated_history_tokens: state.shownTokens,
      message_count: state.shown.length,
      ...defined({ compaction_id: compactionId, economy }),
    },
  };
}

async function fail(job: CompactionJob, error: string, usage?: Usage): Promise<CompactionOutcome> {
  const spent = usage === undefined ? {} : { usage };
  const reported = job.compacting.hooks.reported?.() ?? [];
  await job.append([...reported, { kind: "compaction_failed", error: job.asking.redact(error), ...spent }]);
  return { compacted: false, reason: error };
}

async function askHook(job: Making, prepared: Prepared): Promise<string | undefined> {
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
    const reason = await waitFor(asking, (signal) => before(plan, signal));
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

async function summaryFor(job: Making, prepared: Prepared): Promise<Written | Extract<Summarised, { ok: false }>> {
  const { discarded } = prepared.retained.plan;
  // Pruning alone discards no messages, so there is nothing to summarise.
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
  return summarised.ok ? { ...summarised, summary: withFenceClosed(withoutMarkers(summarised.summary)) } : summarised;
}

/** A curator receives copies: its changes must not reach the session. */
function copiesOf(placed: readonly Placed[]): readonly Message[] {
  return structuredClone(messagesOf(placed));
}

async function fill(job: Making, prepared: Prepared, grounded: Quoting): Promise<Made> {
  const { state, compacting, asking } = job;
  const { source, transcript } = prepared;
  const { yieldToEventLoop } = asking.clock;
  const retained = retainAgain(job, prepared, grounded.summary);
  await yieldToEventLoop();
  const compaction_id = job.compactionId ?? asking.clock.newId();
  const created_at = new Date(asking.clock.now()).toISOString();
  await readWork(state, yieldToEventLoop);
  const quotes = grounded.quoted === undefined ? {} : { quoted: grounded.quoted };
  const { passed, rules, work, leftOut } = await passWithRules(job, { prepared, retained, grounded }, (carried) =>
    passGates(retained, {
      transcript,
      compactions: state.compactions,
      shown: source.shown,
      pins: state.pins,
      seq: state.lastSeq + 1,
      summary: { summary: grounded.summary, ...quotes, ...carried, created_at, compaction_id },
      mayDiscardMore: grounded.isOfDiscarded !== true,
    }),
  );
  if (!passed.ok) throw new Rejected(passed.error);
  requireWhole(state, passed);
  await yieldToEventLoop();
  const { judged, invented, inventedCut, unverified, doubtful } = grounded;
  const made = { summary: grounded.summary, ...quotes, rules, created_at, compaction_id, ...work };
  const summary = wholeSummary(made);
  const receipt = await receiptOf(job, prepared, {
    passed,
    retained,
    summary,
    work,
    invented,
    inventedCut,
    unverified,
    doubtful,
  });
  const own = await compactNatively({
    compacting,
    asking,
    tools: job.tools ?? [],
    skill: job.skill,
    instructions: job.instructions,
    compactions: state.compactions,
    leaving: leavingBy(prepared, passed),
    isSummaryFirst: isSummaryOf(
      messagesOf(passed.shown).find(({ role }) => role !== "system"),
      made,
    ),
  });
  const usage = addUsage(grounded.usage, own.usage);
  const reported = [...retained.notes, ...grounded.notes, ...passed.notes, ...leftOut, ...own.notes];
  const notes = reported.map(asking.redact);
  await yieldToEventLoop();
  const sizes = {
    tokens_before: estimateTokens(messagesOf(source.shown)),
    tokens_after: estimateTokens(messagesOf(passed.shown)),
  };
  const economy = economyOf(state, compacting, { ...asking, idleMs: job.idleMs, made: { ...sizes, usage } });
  return {
    basis: { transcript: transcript.length },
    compaction: {
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
      messages_before: source.shown.length,
      messages_after: passed.shown.length,
      ...sizes,
      shows: partsOf(passed.plan, transcript),
      discarded: rangesOf(passed.plan.discarded, transcript),
      ...supersededBy(prepared, passed),
      pruned: [...retained.pruned],
      reshape: passed.reshape,
      receipt,
      ...quotes,
      ...(rules.length === 0 ? {} : { rules }),
      ...work,
      ...defined({ judged, native: own.native }),
      usage,
      ...(economy === undefined ? {} : { economy }),
      cadence: state.cadence,
    },
  };
}

/** The current prompt must stay, and discarded messages need a summary. */
function requireWhole({ isTurnOpen, transcript }: WholeState, { plan }: Extract<Passed, { ok: true }>): void {
  if (plan.discarded.length > 0 && plan.items.every((item) => "kept" in item)) {
    throw new Rejected("the compactor discards messages without a summary");
  }
  const question = isTurnOpen ? transcript.findLast(({ message }) => message.role === "user") : undefined;
  if (question !== undefined && plan.discarded.some(({ seq }) => seq === question.seq)) {
    throw new Rejected("the compactor discards the message being answered");
  }
}

interface Following {
  readonly rules: UserRule[];
  readonly work_state?: WorkState;
}

interface Carried {
  readonly passed: Passed;
  readonly rules: UserRule[];
  readonly work: Pick<Following, "work_state">;
  readonly leftOut: readonly string[];
}

/** Runs the gates with the user's rules and the state of the work behind the summary; these must not prevent shrinking. */
async function passWithRules(
  { state, compacting, asking, trigger }: Making,
  of: { readonly prepared: Prepared; readonly retained: Retained; readonly grounded: Grounded },
  gate: (following: Following) => Passed,
): Promise<Carried> {
  const { prepared, retained, grounded } = of;
  // A custom compactor may write no summary, and then no rules can follow it.
  const hasSummary = retained.plan.items.some((item) => "summary" in item);
  const carry = (plan: Plan) =>
    carryRules({
      gone: hasSummary ? originalsOf(prepared.transcript, { discarded: plan.discarded, pruned: [] }) : [],
      inherited: hasSummary ? inheritedRules(state, supersededBy(prepared, { plan }).superseded) : [],
      summary: grounded.summary,
      summaryTokensMax: compacting.compactor.maxSummaryTokens(),
      yieldToEventLoop: asking.clock.yieldToEventLoop,
    });
  let work: Carried["work"] = hasWritten(retained.plan) ? workFor(state, compacting, asking.redact) : {};
  const pass = (carried: UserRule[]): Passed => {
    const whole = gate({ rules: carried, ...work });
    // Work that is forgotten is done again: only a context that does not fit loses sight of it.
    if (whole.ok || work.work_state === undefined || trigger !== "overflow") return whole;
    work = {};
    return gate({ rules: carried });
  };
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
  const hint = "the limit of a summary; pin a message to keep its rules in the context";
  return { passed, rules, work, leftOut: leftOut === 0 ? [] : [`left out ${leftOut} user rules beyond ${hint}`] };
}

/** Whether a plan has a message that the state of the work can follow. */
function hasWritten({ items }: Plan): boolean {
  return items.some((item) => !("kept" in item));
}

function retainAgain({ state, compacting, trigger }: Making, prepared: Prepared, summary: string): Retained {
  if (prepared.retained.plan.discarded.length === 0) return prepared.retained;
  const { source, transcript, tokensTarget } = prepared;
  try {
    return retainFrom({ state, transcript, source, trigger, tokensTarget }, compacting, summary);
  } catch (thrown) {
    throw new Rejected(messageOf(thrown));
  }
}

interface Settled extends Pick<Grounded, "summary" | "invented" | "inventedCut" | "unverified" | "doubtful"> {
  readonly passed: Extract<Passed, { ok: true }>;
  readonly retained: Retained;
  readonly work: Carried["work"];
}

async function receiptOf({ compacting, state, asking }: Making, prepared: Prepared, settled: Settled) {
  const { passed, retained, summary, work, invented, inventedCut, unverified, doubtful } = settled;
  const { plan } = passed;
  const kept = keptOf(plan);
  const keptSeqs = new Set(kept.map(({ seq }) => seq));
  const pinnedSeqs = new Set([...retained.pinned].map(({ seq }) => seq));
  // As shown: references are not part of the tail.
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
    doubtful,
    ...(work.work_state && {
      work: { facts: await workFacts(state, keptSeqs, asking), shown: work.work_state.lines },
    }),
    yieldToEventLoop: asking.clock.yieldToEventLoop,
    recover: (compacting.recovering ?? recoverByExpanding)(prepared.transcript, asking.clock.yieldToEventLoop),
    ...workerFor(compacting, prepared.transcript, asking.signal),
  };
  try {
    return await writeReceipt(source);
  } catch (thrown) {
    throw new Rejected(messageOf(thrown));
  }
}

/** The facts about the work whose calls are no longer in the context. */
async function workFacts(state: WholeState, keptSeqs: ReadonlySet<number>, { redact, clock }: Asking) {
  return (await allWork(state, redact, clock.yieldToEventLoop)).filter(({ seq }) => !keptSeqs.has(seq));
}

interface NativeWork {
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
interface NativeOutcome {
  readonly native?: KeptNative;
  readonly usage: Usage;
  readonly notes: readonly string[];
}

const NOTHING: NativeOutcome = { usage: NO_USAGE, notes: [] };

/** Several times the size of any provider's result; logs are read whole, so entries are bounded. */
const NATIVE_BYTES_MAX = 512 * 1_024;

/** Asks the provider to compact the messages that leave; a failure is noted and not retried. */
async function compactNatively(work: NativeWork): Promise<NativeOutcome> {
  const { asking, compacting, leaving } = work;
  if (!compacting.native || leaving.every(({ role }) => role === "system")) return NOTHING;
  const { compaction, provider } = asking.model;
  if (compaction === undefined) return without(`${provider} has none for ${asking.model.modelId}`);
  const refusal = refusalOf(work, compaction);
  if (refusal !== undefined) return without(refusal);
  const once = { ...quiet(asking), model: asCompacting(asking.model, compaction, work), retry: NO_RETRY(asking) };
  // The provider compacts the whole request, so it is built where the instructions are known.
  const answer = await ask(once, requestFor(work));
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
  const { messages, tools, maxOutputTokens = 0 } = requestFor(work);
  const tokens = estimateTokens(messages) + toolTokens(tools) + maxOutputTokens;
  if (tokens > contextWindow * WINDOW_SHARE) return `about ${tokens} tokens leave the context, too many for one call`;
  return undefined;
}

/** Without the session's tools and system prompt a provider may reject the calls. */
function requestFor(work: NativeWork): Omit<NativeRequest, "instructions"> {
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
  if (!isRecord(item)) return without(`${provider} returned none and stopped with ${stopReason}`, usage);
  const bytes = new TextEncoder().encode(JSON.stringify(item)).length;
  if (bytes > NATIVE_BYTES_MAX) return without(`that of ${provider} has ${bytes} bytes, too many to store`, usage);
  const host = hostOf(model);
  const native = { provider, model: modelId, bytes, usage, item, ...(host === undefined ? {} : { host }) };
  return { native, usage, notes: [] };
}

const PREVIEW = "preview";

/**
 * What compacting now would keep, drop and cost. No model is called, so there is no summary: the receipt lists what one
 * would have to contain, `tokens_after` assumes one of the usual length, and the cost the longest one.
 */
export async function previewCompaction(
  state: WholeState,
  compacting: Compacting,
  by: { model: ModelClient; clock: Clock; redact: Asking["redact"]; instructions: string | undefined },
): Promise<CompactResult> {
  const { model, clock, instructions } = by;
  const { compactor, strategy } = compacting;
  const prepared = await prepare(state, compacting, {
    trigger: "manual",
    contextWindow: model.contextWindow,
    yieldToEventLoop: clock.yieldToEventLoop,
  });
  if ("nothing" in prepared) return { compacted: false, reason: prepared.nothing };
  const { source, transcript, retained } = prepared;
  const { plan, pruned, pinned } = retained;
  const hasSummary = plan.discarded.length > 0;
  const earlier = source.shown.map(({ message }) => message).find(isSummary)?.compaction_id;
  const { rules } = await carryRules({
    gone: originalsOf(transcript, { discarded: plan.discarded, pruned: [] }),
    inherited: hasSummary ? inheritedRules(state, earlier) : [],
    summary: "",
    summaryTokensMax: compactor.maxSummaryTokens(),
    yieldToEventLoop: clock.yieldToEventLoop,
  });
  const created_at = new Date(clock.now()).toISOString();
  await readWork(state, clock.yieldToEventLoop);
  const work = hasWritten(plan) ? workFor(state, compacting, by.redact) : {};
  const summary = { summary: "", rules, created_at, compaction_id: PREVIEW, ...work };
  const seq = state.lastSeq + 1;
  const shown = foldCandidate(
    { plan, pruned, reshape: "as_is" },
    { transcript, compactions: state.compactions, pins: state.pins, seq, summary },
  );
  const summaryTokensMax = hasSummary ? compactor.maxSummaryTokens() : 0;
  const leavingTokens = estimateTokens(messagesOf(plan.discarded));
  const summaryTokens = usualSummaryTokens(compacting, leavingTokens);
  const receipt = await writeReceipt({
    gone: originalsOf(transcript, { discarded: plan.discarded, pruned }),
    inherited: inheritedFrom(state, earlier),
    saved: keptOf(plan).filter((placed) => retained.saved.has(placed)),
    summary: wholeSummary(summary),
    tail: messagesOf(keptOf(plan).filter((placed) => !pinned.has(placed))),
    pinned: messagesOf(keptOf(plan).filter((placed) => pinned.has(placed))),
    pruned,
    invented: [],
    inventedCut: false,
    unverified: [],
    yieldToEventLoop: clock.yieldToEventLoop,
    recover: (compacting.recovering ?? recoverByExpanding)(transcript, clock.yieldToEventLoop),
    ...workerFor(compacting, transcript, new AbortController().signal),
  });
  const compaction: Compaction = {
    compaction_id: PREVIEW,
    seq: 0,
    created_at,
    strategy,
    trigger: "manual",
    summary_by: hasSummary ? "model" : "none",
    model: model.modelId,
    notes: [...retained.notes],
    summary: "",
    summary_tokens: 0,
    messages_before: source.shown.length,
    messages_after: shown.length,
    tokens_before: estimateTokens(messagesOf(source.shown)),
    tokens_after: estimateTokens(messagesOf(shown)) + summaryTokens,
    ...rangesIn(prepared),
    reshape: "as_is",
    receipt: withVerdict(receipt),
    ...(rules.length === 0 ? {} : { rules }),
    ...work,
    usage: { input_tokens: 0, output_tokens: 0 },
    cadence: state.cadence,
    undone: false,
    expanded: [],
  };
  const asked = { asking: { clock, model }, compactor, shown: prepared.summarised, instructions };
  const isCascade = strategy === CASCADE && compacting.curator === undefined;
  const writing = isCascade ? cascadeRequests({ ...asked, leaving: prepared.leaving }) : [requestOf(asked)];
  const judging = compacting.judge === "model" ? [judgeRequest([], messagesOf(source.shown), { clock, model })] : [];
  // A judge reads the summary, too.
  const readTokens = [...writing, ...judging].reduce((sum, { messages }) => sum + estimateTokens(messages), 0);
  // A native compaction reads the discarded messages, and may write as much as a summary.
  const native = compacting.native && model.compaction !== undefined ? [estimateTokens(prepared.leaving)] : [];
  const nativeTokens = native.reduce((sum, tokens) => sum + tokens, 0);
  const longest = summaryTokensMax * (1 + native.length);
  const cost = {
    input_tokens: hasSummary ? readTokens + judging.length * summaryTokensMax + nativeTokens : 0,
    max_output_tokens: hasSummary ? judging.reduce((sum, one) => sum + one.maxOutputTokens, longest) : 0,
  };
  const usage = { input_tokens: cost.input_tokens, output_tokens: summaryTokens };
  const economy = economyOf(state, compacting, { model, clock, made: { ...compaction, usage } });
  return { compacted: false, compaction: { ...compaction, cost, ...(economy === undefined ? {} : { economy }) } };
}
