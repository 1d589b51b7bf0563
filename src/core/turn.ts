import type { EntryBody, TurnEnd } from "../contract/entry.ts";
import type { AgentEvent, BudgetType, TerminalCause, Usage } from "../contract/event.ts";
import type { AssistantBlock, Content, Message, StopReason, ToolUseBlock } from "../contract/message.ts";
import type { Clock } from "../ports/clock.ts";
import type { ModelClient } from "../ports/model.ts";
import type { Tool } from "../ports/tool.ts";
import { judgeTurnBoundary, runDueCompaction, withSkill } from "./boundary.ts";
import { readBudget } from "./budget.ts";
import type { Compacting } from "./compaction/prepare.ts";
import { assembleContext, type Hash, hashContext } from "./context.ts";
import { type Extraction, extractOutput } from "./extraction.ts";
import type { CheckApart } from "./json-schema.ts";
import { type Asking, ask, type CallLimits, type ModelAnswer } from "./model-call.ts";
import type { Redact } from "./redact.ts";
import type { RetryPolicy } from "./retry.ts";
import { foldAhead, type SessionState } from "./session-state.ts";
import { closeCalls, OUT_OF, runToolCalls, type ToolBatch, type ToolLimits } from "./tool-batch.ts";
import { CANCELLED, closeLeftovers, endOfFailure, outOfTime, outputLimit } from "./turn-end.ts";

export interface TurnPolicy {
  /** The share of a budget at which its warning is given. */
  readonly warnAt: number;
  readonly retry: RetryPolicy;
  readonly calls: CallLimits;
  readonly tools: ToolLimits;
}

/** Everything a turn needs from outside. Effects are handed in; `state` moves only through `append`. */
export interface Turn {
  readonly state: SessionState;
  readonly model: ModelClient;
  readonly tools: ReadonlyMap<string, Tool>;
  /** What the model is told of its tools; like them it goes with every request and is no part of what was said. */
  readonly skill: string | undefined;
  /** Absent without the capability. */
  readonly compacting: Compacting | undefined;
  readonly policy: TurnPolicy;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly redact: Redact;
  readonly hash: Hash;
  readonly checkApart: CheckApart;
  /**
   * Makes entries durable, advances `state` and tells listeners; the turn goes on only after that. What speaks of the
   * state is given as a function, called when nothing else can be appended before it.
   */
  append(bodies: readonly EntryBody[] | (() => readonly EntryBody[])): Promise<void>;
  /** Tells listeners what is not kept, such as deltas. */
  emit(event: AgentEvent): void;
  /** Keeps a text too large for the context and returns its blob id. */
  keep(text: string): Promise<string>;
}

/** How a turn went, for the caller that waits for it. */
export interface TurnOutcome {
  readonly end: TurnEnd;
  readonly text: string;
  readonly turns: number;
  readonly toolCalls: number;
  readonly extraction: Extraction;
}

/** Runs one turn to its end: ask the model, run its tools, ask again. */
export async function runTurn(
  turn: Turn,
  input: { prompt: Content; instructions?: readonly string[] },
): Promise<TurnOutcome> {
  const run = createRun(turn);
  const over = new AbortController();
  // A store that fails here fails the turn's own next append, which tells of it.
  const warning = warnOfTime(run, over.signal).catch(() => {});
  try {
    return await loop(run, openTurn(turn, input.prompt, input.instructions ?? []));
  } finally {
    over.abort("over");
    await warning;
  }
}

async function loop(run: Run, opening: EntryBody[]): Promise<TurnOutcome> {
  const { turn } = run;
  let unsaved = opening;
  // A call that is made again after a recovery is not one more.
  while (run.turns - run.recoveries < turn.state.settings.max_turns) {
    let stop = checkBudget(run, unsaved);
    if (stop === undefined && (await compactIfDue(run, unsaved))) {
      unsaved = [];
      if (turn.signal.aborted) return close(run, unsaved, () => CANCELLED);
      stop = checkBudget(run, unsaved);
    }
    if (stop !== undefined) return closeBy(run, unsaved, causeOf(stop));
    const { settings } = turn.state;
    const messages = await openCall(run, unsaved, run.turns);
    run.turns += 1;
    const answer = await ask(asking(run), {
      messages: withSkill(messages, turn.skill),
      tools: [...turn.tools.values()],
      maxOutputTokens: outputLimit(settings.max_tokens, turn.model.contextWindow),
      providerParams: settings.provider_params,
    });
    if (!answer.ok) {
      if (!(await recoversFrom(run, answer))) return closeFailed(run, answer);
      unsaved = [];
      continue;
    }
    run.isRecovering = false;
    const calls = answer.blocks.filter((block) => block.block_type === "tool_use");
    unsaved = [assistantEntry(turn, answer.blocks, { stopReason: answer.stopReason, usage: answer.usage })];
    if (calls.length === 0) return finish(run, unsaved, answer);
    unsaved = await serveCalls(run, unsaved, calls);
    if (turn.signal.aborted) return close(run, unsaved, () => CANCELLED);
  }
  return closeBy(run, unsaved, "turn_limit_reached");
}

type Failed = Extract<ModelAnswer, { ok: false }>;

/** Compacts before a call when that is due. True: what was to be saved is, and the context may be another. */
async function compactIfDue(run: Run, unsaved: readonly EntryBody[]): Promise<boolean> {
  const { turn } = run;
  const verdict = judgeTurnBoundary(turn, foldAhead(turn.state, unsaved));
  if (verdict === "not_due") return false;
  if (typeof verdict === "object") {
    await turn.append(() => [...stillUnsaved(run, unsaved), { kind: "compaction_failed", error: verdict.error }]);
    return true;
  }
  await turn.append(() => stillUnsaved(run, unsaved));
  await runDueCompaction(turn, asking(run), verdict === "overflow" ? "overflow" : "threshold");
  return true;
}

/** A context the provider finds too long is compacted once, and the call made again. */
async function recoversFrom(run: Run, { because, failure }: Failed): Promise<boolean> {
  if (because !== "failure" || failure.kind !== "context_exceeded" || run.isRecovering) return false;
  run.isRecovering = true;
  const isShorter = await runDueCompaction(run.turn, asking(run), "overflow");
  if (isShorter) run.recoveries += 1;
  return isShorter;
}

/** What one run of the loop keeps besides the session's state. */
interface Run {
  readonly turn: Turn;
  readonly startedMs: number;
  readonly deadlineMs: number;
  /** Seq before the turn's first entry: text up to here is not its result. */
  readonly seqBefore: number;
  readonly toolCallsBefore: number;
  turns: number;
  /** The context was compacted because the provider found it too long, and no answer has come since. */
  isRecovering: boolean;
  recoveries: number;
}

function createRun(turn: Turn): Run {
  const startedMs = turn.clock.now();
  const durationMs = turn.state.settings.budget_limits.max_duration_ms ?? Number.POSITIVE_INFINITY;
  return {
    turn,
    startedMs,
    deadlineMs: startedMs + durationMs,
    seqBefore: turn.state.lastSeq,
    toolCallsBefore: turn.state.toolCallsUsed,
    turns: 0,
    isRecovering: false,
    recoveries: 0,
  };
}

function openTurn(turn: Turn, prompt: Content, instructions: readonly string[]): EntryBody[] {
  const { state, clock } = turn;
  const created_at = timestamp(clock);
  const opening = [...closeLeftovers(state, clock)];
  for (const body of instructions) {
    opening.push({ kind: "notice", message: { role: "system_notice", kind: "instructions", body, created_at } });
  }
  opening.push({ kind: "turn_opened", message: { role: "user", content: prompt, created_at } });
  return opening;
}

/** Adds the warnings that are due to what is to be saved, and says which budget, if any, is used up. */
function checkBudget(run: Run, unsaved: EntryBody[]): BudgetType | undefined {
  const { state, policy, clock } = run.turn;
  const { usage, toolCallsUsed, warned, settings } = foldAhead(state, unsaved);
  const spent = { usage, toolCalls: toolCallsUsed, elapsedMs: clock.now() - run.startedMs };
  const reading = readBudget(settings.budget_limits, spent, { at: policy.warnAt, given: warned });
  for (const event of reading.warnings) unsaved.push({ kind: "event", event });
  return reading.exhausted;
}

function causeOf(exhausted: BudgetType): TerminalCause {
  return exhausted === "time" ? "time_budget_exceeded" : "budget_exhausted";
}

/** Gives the warning for time when it is due: a call or a tool can take the rest of it. */
async function warnOfTime(run: Run, over: AbortSignal): Promise<void> {
  const { turn } = run;
  const { max_duration_ms } = turn.state.settings.budget_limits;
  if (max_duration_ms === undefined) return;
  await turn.clock.sleep(max_duration_ms * turn.policy.warnAt, over);
  if (over.aborted) return;
  await turn.append(() => {
    const warnings: EntryBody[] = [];
    if (turn.state.isTurnOpen) checkBudget(run, warnings);
    return warnings;
  });
}

/** What is still to be saved: a warning that was given meanwhile is not given again. */
function stillUnsaved({ turn }: Run, unsaved: readonly EntryBody[]): readonly EntryBody[] {
  const { isTurnOpen, warned } = turn.state;
  const isGiven = (body: EntryBody): boolean =>
    isTurnOpen && body.kind === "event" && body.event.type === "budget_warning" && warned.has(body.event.budget_type);
  return unsaved.filter((body) => !isGiven(body));
}

/** Saves what is to be saved before a call, and returns the context the call is recorded with. */
async function openCall(run: Run, unsaved: readonly EntryBody[], step: number): Promise<readonly Message[]> {
  const { turn } = run;
  let messages: readonly Message[] = [];
  await turn.append(() => {
    messages = assembleContext(foldAhead(turn.state, unsaved));
    const context_sha256 = hashContext(messages, turn.hash);
    return [
      ...stillUnsaved(run, unsaved),
      { kind: "model_called", turn_number: step, model: turn.model.modelId, context_sha256 },
    ];
  });
  return messages;
}

function asking(run: Run): Asking {
  const { turn, deadlineMs } = run;
  const { model, clock, policy, signal, redact, emit, append } = turn;
  return {
    model,
    clock,
    retry: policy.retry,
    calls: policy.calls,
    deadlineMs,
    signal,
    redact,
    // After something was said in this turn, an empty answer is a model that has nothing to add.
    acceptsEmpty: textInTurn(run) !== undefined,
    emit,
    append,
  };
}

function assistantEntry(
  turn: Turn,
  blocks: readonly AssistantBlock[],
  how: { stopReason: StopReason; usage?: Usage },
): EntryBody {
  return {
    kind: "assistant",
    message: {
      role: "block_assistant",
      blocks: [...blocks],
      stop_reason: how.stopReason,
      created_at: timestamp(turn.clock),
    },
    ...(how.usage === undefined ? {} : { usage: how.usage }),
  };
}

/** Saves the answer, then runs or closes its calls; returns what is to be saved next. */
async function serveCalls(run: Run, unsaved: EntryBody[], calls: readonly ToolUseBlock[]): Promise<EntryBody[]> {
  const { turn } = run;
  const { state, clock } = turn;
  const stop = checkBudget(run, unsaved);
  await turn.append(() => stillUnsaved(run, unsaved));
  if (stop === "tokens" || stop === "cost") return [closeCalls(calls, OUT_OF[stop], clock)];
  const { max_tool_calls = Number.POSITIVE_INFINITY } = state.settings.budget_limits;
  const deadline = watchDeadline(run);
  const batch: ToolBatch = {
    sessionId: state.sessionId,
    tools: turn.tools,
    clock,
    limits: turn.policy.tools,
    signal: deadline.signal,
    shellEnv: state.settings.shell_env ?? {},
    callsAllowed: max_tool_calls - state.toolCallsUsed,
    redact: turn.redact,
    checkApart: turn.checkApart,
    emit: turn.emit,
    keep: turn.keep,
  };
  try {
    return [await runToolCalls(batch, calls)];
  } finally {
    await deadline.release();
  }
}

/** The turn's signal, which also aborts when its time is up; without a budget of time that is the signal alone. */
function watchDeadline({ turn, deadlineMs }: Run): { readonly signal: AbortSignal; release(): Promise<void> } {
  const { clock, signal } = turn;
  if (deadlineMs === Number.POSITIVE_INFINITY) return { signal, release: async () => {} };
  const expired = new AbortController();
  const released = new AbortController();
  const expiry = clock.sleep(deadlineMs - clock.now(), released.signal).then(() => expired.abort());
  return {
    signal: AbortSignal.any([signal, expired.signal]),
    release: () => {
      released.abort();
      return expiry;
    },
  };
}

async function finish(
  run: Run,
  unsaved: EntryBody[],
  answer: Extract<ModelAnswer, { ok: true }>,
): Promise<TurnOutcome> {
  const { turn } = run;
  const stop = checkBudget(run, unsaved);
  const schema = stop === undefined ? turn.state.settings.output_schema : undefined;
  const closed = await close(run, unsaved, () => ({
    ...completed(run, unsaved),
    final_call: { stop_reason: answer.stopReason, usage: answer.usage },
    ...(stop === undefined ? {} : { cause: causeOf(stop) }),
    extraction_required: schema !== undefined,
  }));
  if (schema === undefined) return closed;
  await compactIfDue(run, []);
  const { state, checkApart } = turn;
  const extraction = await extractOutput(asking(run), { schema, text: closed.text, state, checkApart });
  return { ...closed, extraction };
}

/** A call that could not be answered: what it streamed is kept as a message marked `cancelled`. */
async function closeFailed(run: Run, answer: Failed): Promise<TurnOutcome> {
  const { turn } = run;
  const unsaved: EntryBody[] =
    answer.text === ""
      ? []
      : [assistantEntry(turn, [{ block_type: "text", data: { text: answer.text } }], { stopReason: "cancelled" })];
  return close(run, unsaved, () => failureEnd(run, unsaved, answer));
}

function failureEnd(run: Run, unsaved: EntryBody[], answer: Failed): TurnEnd {
  switch (answer.because) {
    case "interrupted":
      return CANCELLED;
    case "out_of_time": {
      checkBudget(run, unsaved);
      const end = { ...completed(run, unsaved), cause: "time_budget_exceeded" as const };
      const hasResult = end.text_seq !== undefined || run.turn.state.toolCallsUsed > run.toolCallsBefore;
      return hasResult ? end : outOfTime(answer.failure);
    }
    case "failure":
      return endOfFailure(answer.failure, run.turn);
  }
}

/** A graceful end, counting what is still to be saved. */
function completed(run: Run, unsaved: readonly EntryBody[]): Extract<TurnEnd, { status: "completed" }> {
  const ahead = foldAhead(run.turn.state, unsaved);
  const text = textInTurn(run, ahead);
  return {
    status: "completed",
    extraction_required: false,
    usage: ahead.usage,
    ...(text === undefined ? {} : { text_seq: text.seq }),
  };
}

/** Ends a turn gracefully for a cause other than the model's own end. */
function closeBy(run: Run, unsaved: readonly EntryBody[], cause: TerminalCause): Promise<TurnOutcome> {
  return close(run, unsaved, () => ({ ...completed(run, unsaved), cause }));
}

/** Saves the rest together with the end: one append, so a turn is never seen finished without its answer. */
async function close(run: Run, unsaved: readonly EntryBody[], endOf: () => TurnEnd): Promise<TurnOutcome> {
  const { turn } = run;
  let end: TurnEnd = CANCELLED;
  await turn.append(() => {
    const { cost } = foldAhead(turn.state, unsaved).turnUsage;
    end = { ...endOf(), ...(cost === undefined ? {} : { turn_cost: cost }) };
    return [...stillUnsaved(run, unsaved), { kind: "turn_closed", end }];
  });
  return {
    end,
    text: textInTurn(run)?.text ?? "",
    turns: run.turns,
    toolCalls: turn.state.toolCallsUsed - run.toolCallsBefore,
    extraction: {},
  };
}

function textInTurn(run: Run, state: Pick<SessionState, "lastText"> = run.turn.state): SessionState["lastText"] {
  const { lastText } = state;
  return lastText !== undefined && lastText.seq > run.seqBefore ? lastText : undefined;
}

function timestamp(clock: Clock): string {
  return new Date(clock.now()).toISOString();
}
