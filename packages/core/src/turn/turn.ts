import type { EntryBody, EntryBodyOf, TurnEnd, TurnSetup } from "../contract/entry.ts";
import { defined } from "../contract/json.ts";
import type { Content, Message, ToolResult, ToolUseBlock } from "../contract/message.ts";
import type { AskedCall, Progress } from "../contract/permission.ts";
import { outputSchemaOf } from "../contract/session.ts";
import type { NativeSummary } from "../ports/model.ts";
import { assembleContext, hashAhead, hashContext, messagesOf, withSkill } from "../state/context.ts";
import { foldAhead } from "../state/session-state.ts";
import { askedEntry, ruleAgain, ruleOn } from "./approval.ts";
import { evictIfDue, judgeTurnBoundary, runDueCompaction } from "./boundary.ts";
import { spentIn } from "./budget.ts";
import { withCost } from "./cost.ts";
import { extractOutput } from "./extraction.ts";
import { type Asking, ask, type ModelAnswer } from "./model-call.ts";
import { leavesOut, nativeSummaryIn, refusedNative } from "./native-summary.ts";
import {
  causeOf,
  checkBudget,
  createRun,
  progressOf,
  type Run,
  stillUnsaved,
  type Turn,
  warnOfTime,
  watchDeadline,
} from "./run.ts";
import { toolTokens } from "./tokens.ts";
import {
  closeCalls,
  heldEntry,
  interruptedIn,
  joinAnswers,
  OUT_OF,
  runToolCalls,
  type ToolBatch,
  takeResults,
  UNKNOWN,
} from "./tool-batch.ts";
import {
  assistantEntry,
  CANCELLED,
  CUT_COMPACTION,
  close,
  closeBy,
  closeCancelled,
  closedOutcome,
  closeFailed,
  closeLeftovers,
  closePending,
  completed,
  type Failed,
  outputLimit,
  type Served,
  type TurnOutcome,
  textInTurn,
  timestamp,
  type Unfinished,
} from "./turn-end.ts";
import {
  decidedBefore,
  guardAnswer,
  guardCalls,
  guardEnd,
  guardStep,
  judgeResults,
  judgingOutputs,
  notifyBeforeEnd,
  notifyObservers,
} from "./turn-hooks.ts";

/** The outcome of a turn that waits for approval; `resumeTurn` continues it, in any process. */
export const WAITING = Symbol("waiting");

/** Runs one turn to its end: call the model, run its tools, call again. */
export async function runTurn(
  turn: Turn,
  input: { prompt: Content; instructions?: readonly string[] },
): Promise<TurnOutcome | typeof WAITING> {
  return within(createRun(turn), (run) => loop(run, openTurn(turn, input.prompt, input.instructions ?? [])));
}

/** Runs a turn that a message of another sender begins: the model sees it as data. */
export async function runDelivered(
  turn: Turn,
  queued: EntryBodyOf<"message_queued">,
): Promise<TurnOutcome | typeof WAITING> {
  const opening = [...closeLeftovers(turn.state, turn.clock), { kind: "turn_continued" as const, ...setupOf(turn) }];
  return within(createRun(turn), (run) => loop(run, [...opening, deliveryOf(queued)]));
}

function deliveryOf({ id, message, source, by }: EntryBodyOf<"message_queued">): EntryBody {
  return { kind: "message_delivered", id, message, source, by };
}

/** Runs a turn that starts with the results that the previous one ended for, and an optional user message. */
export async function continueTurn(
  turn: Turn,
  input: { results: readonly ToolResult[]; prompt: Content | undefined; instructions?: readonly string[] },
): Promise<TurnOutcome | typeof WAITING> {
  const { state, redact, clock, keep, keepMedia } = turn;
  const begun = createRun(turn);
  const { reported, results } =
    turn.hooks === undefined ? { reported: [], results: input.results } : await judgeResults(begun, input.results);
  const taken = await takeResults({ redact, clock, keep, keepMedia, limits: turn.policy.tools }, state, results);
  const { prompt, instructions = [] } = input;
  const opening: EntryBody[] =
    prompt === undefined
      ? [{ kind: "turn_continued", ...setupOf(turn) }, ...reported, taken, ...noticesOf(turn, instructions)]
      : [...reported, taken, ...openTurn(turn, prompt, instructions, foldAhead(state, [taken]))];
  return within(begun, (run) => loop(run, opening));
}

/** Repeats a turn that failed before the model answered: its prompt is in the log. */
export async function retryTurn(turn: Turn): Promise<TurnOutcome | typeof WAITING> {
  return within(createRun(turn), (run) => loop(run, [{ kind: "turn_continued", ...setupOf(turn) }]));
}

/** Continues a waiting turn once every approval is answered. */
export async function resumeTurn(turn: Turn): Promise<TurnOutcome | typeof WAITING> {
  const { approval } = turn.state;
  if (approval === undefined) throw new Error("no turn waits");
  return within(createRun(turn, approval.asked.progress), async (run) => {
    const { hooks: decided } = approval.asked.progress;
    const { calls, refusals: denied } = decidedBefore(unrecordedCalls(turn.state), decided);
    const refusals = await ruleAgain(calls, approval, turn.approvals);
    return proceed(run, await runCalls(run, calls, new Map([...refusals, ...denied]), { decided }));
  });
}

/** Open calls without a recorded result. */
function unrecordedCalls({ openCalls, heldResults }: Turn["state"]): readonly ToolUseBlock[] {
  const recorded = new Set(heldResults.flatMap(({ body }) => body.results.map((one) => one.tool_use_id)));
  return openCalls.filter(({ data }) => !recorded.has(data.id));
}

/** Continues a turn of another process after its open calls. */
async function proceed(run: Run, ran: Served | typeof WAITING): Promise<TurnOutcome | typeof WAITING> {
  if (ran === WAITING) return WAITING;
  if (run.turn.signal.aborted) return closeCancelled(run, ran);
  return ran.pending.length > 0 ? closePending(run, ran) : loop(run, ran.unsaved);
}

/** Continues an unfinished turn of a process that is gone: what its log contains is not repeated. */
export async function adoptTurn(turn: Turn): Promise<TurnOutcome | typeof WAITING> {
  const { state } = turn;
  return within(createRun(turn, progressOf(state)), async (run) => {
    await turn.append(() => adoptionEntries(turn));
    if (!state.isTurnOpen) return extract(run, await closedOutcome(run));
    if (state.openCalls.length === 0) return loop(run, []);
    const decided = state.approval?.asked.progress.hooks;
    const { calls: open, refusals: denied } = decidedBefore(unrecordedCalls(state), decided);
    const unknown = unknownCalls(turn, open);
    const judged = open.filter(({ data }) => !unknown.has(data.id) && !denied.has(data.id));
    const ruled =
      state.approval === undefined
        ? await ruleOn(judged, turn.approvals)
        : { refusals: await ruleAgain(judged, state.approval, turn.approvals) };
    if ("asked" in ruled) {
      await waitFor(run, ruled.asked);
      return WAITING;
    }
    return proceed(run, await runCalls(run, open, new Map([...ruled.refusals, ...denied, ...unknown]), { decided }));
  });
}

/** Records that this process continues the turn, and closes what the process before left open. */
function adoptionEntries({ state, model, tools }: Turn): readonly EntryBody[] {
  const { turn, isCompacting, lastSeq } = state;
  if (turn === undefined) throw new Error("no turn was opened");
  const { isReleased, isCalling } = turn;
  const lost = {
    input_tokens: state.shownTokens + toolTokens(tools.values()),
    output_tokens: 0,
    estimated: true as const,
  };
  return [
    {
      kind: "turn_adopted",
      attempt: turn.attempt + (isReleased ? 0 : 1),
      from_seq: lastSeq,
      reason: isReleased ? "released" : "process_ended",
      superseded: isCalling,
    },
    ...(isCompacting ? [{ kind: "compaction_failed" as const, error: CUT_COMPACTION }] : []),
    // The provider may charge for a call whose answer was lost.
    ...(isCalling ? [{ kind: "call_failed" as const, usage: withCost(lost, model.prices) }] : []),
  ];
}

/** Calls that may have run and must not run again. */
function unknownCalls({ tools }: Turn, open: readonly ToolUseBlock[]): ReadonlyMap<string, string> {
  const isOnce = ({ data }: ToolUseBlock): boolean => {
    const { effects = "once", isClients = false } = tools.get(data.name) ?? {};
    // A client's call is handed out when the turn ends, so it has not begun.
    return effects === "once" && !isClients;
  };
  return new Map(open.filter(isOnce).map(({ data }) => [data.id, UNKNOWN]));
}

async function within<T>(run: Run, work: (run: Run) => Promise<T>): Promise<T> {
  const over = new AbortController();
  // A store failure here also fails the turn's next append, which reports it.
  const warning = warnOfTime(run, over.signal).catch(() => {});
  try {
    return await work(run);
  } finally {
    over.abort("over");
    await warning;
  }
}

async function loop(run: Run, opening: EntryBody[]): Promise<TurnOutcome | typeof WAITING> {
  const { turn } = run;
  let unsaved = opening;
  if (turn.hooks !== undefined && run.turns === 0) {
    const begun = await guardStep(run, "run_started", unsaved);
    if (begun?.end !== undefined) return closeAt(run, begun.unsaved, begun.end);
    unsaved = begun?.unsaved ?? unsaved;
  }
  // A call repeated after a recovery does not count again.
  while (run.turns - run.recoveries < turn.state.settings.max_turns) {
    let stop = checkBudget(run, unsaved);
    if (stop === undefined && (await compactIfDue(run, unsaved))) {
      unsaved = [];
      if (turn.signal.aborted) return close(run, unsaved, () => CANCELLED);
      stop = checkBudget(run, unsaved);
    }
    if (stop !== undefined) return closeBy(run, await notifyBeforeEnd(run, unsaved), causeOf(stop));
    if (turn.hooks !== undefined) {
      const asked = await guardStep(run, "pre_llm_request", unsaved);
      if (asked?.end !== undefined) return closeAt(run, asked.unsaved, asked.end);
      unsaved = asked?.unsaved ?? unsaved;
    }
    const { settings } = turn.state;
    const { messages, native } = await openCall(run, unsaved, run.turns);
    if (run.unnotified.length > 0) await notifyAndSave(run);
    turn.background?.consider();
    run.turns += 1;
    const answer = await ask(asking(run), {
      messages: withSkill(await turn.fillMedia(messages), turn.skill),
      tools: [...turn.tools.values()],
      maxOutputTokens: outputLimit(settings.max_tokens, turn.model.contextWindow),
      providerParams: settings.provider_params,
      native,
      // A call repeated after a recovery is still the first one.
      toolChoice: run.turns - run.recoveries === 1 ? turn.toolChoice : undefined,
    });
    if (!answer.ok) {
      if (!leavesOut(run, answer, native) && !(await recoversFrom(run, answer))) return closeFailed(run, answer);
      unsaved = [];
      continue;
    }
    run.isRecovering = false;
    const judged = turn.hooks && (await guardAnswer(run, answer));
    if (judged?.end !== undefined) return closeAt(run, [...refusedNative(run), ...judged.unsaved], judged.end);
    const calls = answer.blocks.filter((block) => block.block_type === "tool_use");
    const { stopReason, usage } = answer;
    const said = assistantEntry(turn, answer.blocks, { stopReason, usage });
    unsaved = [...refusedNative(run), ...(judged?.unsaved ?? []), said];
    if (calls.length === 0) return finish(run, unsaved, answer);
    const served = await serveCalls(run, unsaved, calls);
    if (served === WAITING) return WAITING;
    if (turn.signal.aborted) return closeCancelled(run, served);
    if (served.pending.length > 0) return closePending(run, served, answer);
    unsaved = served.unsaved;
    if (turn.hooks === undefined) continue;
    const crossed = await guardStep(run, "turn_boundary", unsaved);
    if (crossed?.end !== undefined) return closeAt(run, crossed.unsaved, crossed.end);
    unsaved = crossed?.unsaved ?? unsaved;
  }
  return closeBy(run, await notifyBeforeEnd(run, unsaved), "turn_limit_reached");
}

function closeAt(run: Run, unsaved: readonly EntryBody[], end: TurnEnd): Promise<TurnOutcome> {
  return close(run, unsaved, () => end);
}

async function notifyAndSave(run: Run): Promise<void> {
  const reported = await notifyObservers(run);
  if (reported.length > 0) await run.turn.append(reported);
}

/** Compacts before a call if that is due. True: the entries are saved, and the context may have changed. */
async function compactIfDue(run: Run, unsaved: readonly EntryBody[]): Promise<boolean> {
  const { turn } = run;
  const ahead = foldAhead(turn.state, unsaved);
  let verdict = judgeTurnBoundary(turn, ahead);
  const at = {
    ahead,
    isNewTurn: run.turns === 0,
    isDue: verdict === "due" || verdict === "overflow",
  };
  let isSaved = false;
  const save = async (): Promise<void> => {
    if (isSaved) return;
    await turn.append(() => stillUnsaved(run, unsaved));
    isSaved = true;
    if (run.unnotified.length > 0) await notifyAndSave(run);
  };
  const hasEvicted = await evictIfDue(turn, at, asking(run), save);
  // Whether to summarise depends on what the eviction left.
  if (hasEvicted) verdict = judgeTurnBoundary(turn, foldAhead(turn.state, []));
  if (verdict === "not_due") return isSaved;
  await save();
  if (typeof verdict === "object") {
    await turn.append([{ kind: "compaction_failed", error: verdict.error }]);
    return true;
  }
  await runDueCompaction(turn, asking(run), verdict);
  return true;
}

/** The provider refused the context, whatever the estimate says: it must shrink as much as by a compaction. */
const RECOVERED_SHARE = 0.5;

/** Compacts once and repeats the call if the provider finds the context too long. */
async function recoversFrom(run: Run, { because, failure }: Failed): Promise<boolean> {
  if (because !== "failure" || failure.kind !== "context_exceeded" || run.isRecovering) return false;
  run.isRecovering = true;
  const { state } = run.turn;
  const sizeBefore = state.shownTokens;
  const at = { ahead: foldAhead(state, []), isNewTurn: false, isDue: true };
  const hasEvicted = await evictIfDue(run.turn, at, asking(run), async () => {});
  if (hasEvicted && state.shownTokens <= sizeBefore * RECOVERED_SHARE) {
    run.recoveries += 1;
    return true;
  }
  const isShorter = await runDueCompaction(run.turn, asking(run), "refused");
  if (isShorter) run.recoveries += 1;
  return isShorter;
}

function openTurn(
  turn: Turn,
  prompt: Content,
  instructions: readonly string[],
  state: Unfinished = turn.state,
): EntryBody[] {
  const { clock } = turn;
  const created_at = timestamp(clock);
  return [
    ...closeLeftovers(state, clock),
    ...noticesOf(turn, instructions),
    { kind: "turn_opened", message: { role: "user", content: prompt, created_at }, ...setupOf(turn) },
  ];
}

function setupOf({ setup }: Turn): { readonly setup?: TurnSetup } {
  return Object.values(setup).some((value) => value !== undefined) ? { setup } : {};
}

function noticesOf({ clock }: Turn, instructions: readonly string[]): readonly EntryBody[] {
  const created_at = timestamp(clock);
  return instructions.map((body) => ({
    kind: "notice",
    message: { role: "system_notice", kind: "instructions", body, created_at },
  }));
}

interface Opened {
  readonly messages: readonly Message[];
  readonly native: NativeSummary | undefined;
}

/** Saves the pending entries before a call, and returns the context that the call records. */
async function openCall(run: Run, unsaved: readonly EntryBody[], step: number): Promise<Opened> {
  const { turn } = run;
  const { model, compacting } = turn;
  let opened: Opened = { messages: [], native: undefined };
  await hashAhead(assembleContext(turn.state), turn.hash, turn.clock.yieldToEventLoop);
  await turn.append(() => {
    // What came while tools ran; that of a turn's first call waits behind its prompt.
    const steered = turn.state.inbox.filter(({ body }) => body.when_busy === "steer" && !opens(unsaved, body.id));
    const delivered = steered.map(({ body }) => deliveryOf(body));
    const { added, shownBy } = foldAhead(turn.state, [...unsaved, ...delivered]);
    const messages = [...assembleContext(turn.state), ...messagesOf(added)];
    const isOn = compacting?.native === true && run.leftOut === undefined;
    const native = nativeSummaryIn(messages, { model, compactions: shownBy, isOn });
    opened = { messages, native };
    const context_sha256 = hashContext(messages, turn.hash);
    const carried = {
      tool_tokens: toolTokens(turn.tools.values()),
      ...(native === undefined ? {} : { native_of: native.compactionId }),
    };
    return [
      ...stillUnsaved(run, unsaved),
      ...delivered,
      { kind: "model_called", turn_number: step, model: model.modelId, context_sha256, ...carried },
    ];
  });
  return opened;
}

/** Whether entries deliver a message. */
function opens(unsaved: readonly EntryBody[], id: string): boolean {
  return unsaved.some(
    (body) =>
      (body.kind === "turn_opened" && body.setup?.inbox_id === id) ||
      (body.kind === "message_delivered" && body.id === id),
  );
}

function asking(run: Run): Asking {
  const { model, clock, policy, signal, redact, emit, append } = run.turn;
  const { retry, calls } = policy;
  // After text in this turn, an empty answer means that the model has nothing to add.
  const acceptsEmpty = textInTurn(run) !== undefined;
  return { model, clock, retry, calls, deadlineMs: run.deadlineMs, signal, redact, acceptsEmpty, emit, append };
}

/** Saves the answer, then runs, closes or asks approval for its calls; returns the entries to save next. */
async function serveCalls(
  run: Run,
  unsaved: EntryBody[],
  calls: readonly ToolUseBlock[],
): Promise<Served | typeof WAITING> {
  const { turn } = run;
  const { clock, approvals } = turn;
  const stop = checkBudget(run, unsaved);
  await turn.append(() => stillUnsaved(run, unsaved));
  if (stop === "tokens" || stop === "cost") return { unsaved: [closeCalls(calls, OUT_OF[stop], clock)], pending: [] };
  const guarded = turn.hooks && (await guardCalls(run, calls));
  const { reported = [], calls: given = calls, refusals: denied = NONE, decided } = guarded ?? {};
  const judged = denied.size === 0 ? given : given.filter(({ data }) => !denied.has(data.id));
  const ruled = await ruleOn(judged, approvals);
  if ("refusals" in ruled) {
    const refusals = denied.size === 0 ? ruled.refusals : new Map([...ruled.refusals, ...denied]);
    return runCalls(run, given, refusals, { reported, decided });
  }
  await waitFor(run, ruled.asked, { reported, decided });
  return WAITING;
}

const NONE: ReadonlyMap<string, string> = new Map();

interface Decided {
  readonly reported?: readonly EntryBody[];
  readonly decided?: Progress["hooks"];
}

/** Makes the turn wait for approval of calls, or for answers to their questions. */
async function waitFor(
  { turn, ...run }: Run,
  asked: readonly AskedCall[],
  { reported = [], decided, resuming }: Decided & Pick<EntryBodyOf<"approval_asked">, "resuming"> = {},
): Promise<void> {
  const { clock, approvals, setup } = turn;
  const progress = {
    turns: run.turns - run.recoveries,
    elapsed_ms: clock.now() - run.startedMs,
    seq_before: run.seqBefore,
    tool_calls_before: run.toolCallsBefore,
    ...defined({ overlay: setup.overlay, caller: setup.caller, hooks: decided }),
  };
  await turn.append([...reported, askedEntry(asked, { clock, timeoutMs: approvals.timeoutMs, progress, resuming })]);
}

async function runCalls(
  run: Run,
  calls: readonly ToolUseBlock[],
  refusals: ReadonlyMap<string, string>,
  { reported = [], decided }: Decided,
): Promise<Served | typeof WAITING> {
  const { turn } = run;
  // Changed arguments must be stored first, in case the process dies in the tool.
  const isRewritten = reported.some((body) => body.kind === "event" && body.event.type === "hook_completed");
  if (isRewritten) await turn.append(reported);
  const notes: EntryBody[] = isRewritten ? [] : [...reported];
  const judge = turn.hooks && judgingOutputs(run, notes);
  const { state, clock } = turn;
  const { max_tool_calls = Number.POSITIVE_INFINITY } = state.settings.budget_limits;
  const deadline = watchDeadline(run);
  const batch: ToolBatch = {
    state,
    append: turn.append,
    tools: turn.tools,
    clock,
    limits: turn.policy.tools,
    signal: deadline.signal,
    shellEnv: state.settings.shell_env ?? {},
    refusals,
    asksWithinMs: turn.approvals.unattended === undefined ? turn.approvals.timeoutMs : undefined,
    callsAllowed: max_tool_calls - spentIn(state).toolCalls,
    redact: turn.redact,
    checkInWorker: turn.checkInWorker,
    ...(judge === undefined ? {} : { judge }),
    interrupted: (callId) => interruptedIn(state)(callId),
    emit: turn.emit,
    keep: turn.keep,
    keepMedia: turn.keepMedia,
  };
  try {
    const { answers, pending, asking } = await runToolCalls(batch, calls);
    if (asking.length > 0 && !turn.signal.aborted) {
      const held = answers.length === 0 ? [] : [heldEntry(answers)];
      const asked = asking.map(({ call: { id, name, args }, ask: { question } }) => {
        return { id, name, args, why: `MCP server ${question.server} asks`, question };
      });
      const resuming = asking.map(({ call: { id }, ask }) => ({ id, value: ask.resuming }));
      await waitFor(run, asked, { reported: [...notes, ...held], decided, resuming });
      return WAITING;
    }
    if (pending.length === 0) return { unsaved: [...notes, joinAnswers(state, answers, clock)], pending };
    return { unsaved: answers.length === 0 ? notes : [...notes, heldEntry(answers)], pending };
  } finally {
    await deadline.release();
  }
}

async function finish(run: Run, said: EntryBody[], answer: Extract<ModelAnswer, { ok: true }>): Promise<TurnOutcome> {
  const { turn } = run;
  const stop = checkBudget(run, said);
  const crossed = turn.hooks && (await guardEnd(run, said));
  if (crossed?.end !== undefined) return closeAt(run, crossed.unsaved, crossed.end);
  const unsaved = crossed?.unsaved ?? said;
  const schema = stop === undefined ? outputSchemaOf(turn.state.settings) : undefined;
  const closed = await close(run, unsaved, () => ({
    ...completed(run, unsaved),
    final_call: { stop_reason: answer.stopReason, usage: answer.usage },
    ...(stop === undefined ? {} : { cause: causeOf(stop) }),
    extraction_required: schema !== undefined,
  }));
  return schema === undefined ? closed : extract(run, closed);
}

/** Extracts the structured output of a turn that has ended. */
async function extract(run: Run, closed: TurnOutcome): Promise<TurnOutcome> {
  const { state, checkInWorker } = run.turn;
  const schema = outputSchemaOf(state.settings);
  if (schema === undefined) return closed;
  await compactIfDue(run, []);
  const extraction = await extractOutput(asking(run), { schema, text: closed.text, state, checkInWorker });
  return { ...closed, extraction };
}
