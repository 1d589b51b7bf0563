import type { Caller } from "../contract/caller.ts";
import type { Entry, EntryBody, EntryBodyOf } from "../contract/entry.ts";
import { hasCode, invalid, RuntimeError } from "../contract/error.ts";
import { defined, isRecord } from "../contract/json.ts";
import type { PendingCall, ToolUseBlock } from "../contract/message.ts";
import type { OperationInput, OperationOutput } from "../contract/operations.ts";
import type { JsonObject, RunResult } from "../contract/session.ts";
import type { Approval } from "../contract/session-operations.ts";
import type { Clock } from "../ports/clock.ts";
import type { Store } from "../ports/store.ts";
import type { CallContext, Service } from "../runtime/dispatch.ts";
import { textOfEntry } from "../state/entry-events.ts";
import { isUnfinished, isWaiting, type SessionState } from "../state/session-state.ts";
import { TIMEOUT } from "../turn/approval.ts";
import { totalTokens } from "../turn/cost.ts";
import { type CheckInWorker, compileSchema } from "../turn/json-schema.ts";
import type { Redact } from "../turn/redact.ts";
import { closeCalls, INTERRUPTED } from "../turn/tool-batch.ts";
import { closeWaiting, type TurnOutcome } from "../turn/turn-end.ts";
import type { Delivery } from "./event-queue.ts";
import { appendEntries, type LiveSession, type LiveSessions, type LockedWork } from "./live-sessions.ts";
import { readEvents } from "./subscriptions.ts";
import { walkRows } from "./walk-rows.ts";

interface ApprovalParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly checkInWorker: CheckInWorker;
  readonly live: LiveSessions;
  readonly locked: LockedWork;
  /** Masks the secrets of a session. */
  redactFor(session: LiveSession): Redact;
  /** Whether this process has what the turn was begun with: its model, tools, servers and hooks. */
  canResume(session: LiveSession): Promise<boolean>;
  /** Resumes the turn of a held session once all approvals it waits for are answered. */
  resume(session: LiveSession, signal: AbortSignal): Promise<unknown>;
  /** Aborts when the runtime closes; the approval stays open and can be answered in another process. */
  readonly ending: AbortSignal;
  readonly resumesTurns: boolean;
  /** Adds rules to the project's permissions. */
  allowInProject(rules: readonly string[]): Promise<void>;
}

/** A turn, by default the newest, and the seq after which its events are wanted, by default what comes from now on. */
export interface TurnEvents {
  /** A function where the turn is not known yet, which then gives undefined: the events of all turns are wanted. */
  readonly turn?: number | (() => number | undefined);
  readonly after?: number;
}

interface Approvals extends Pick<Service, "answerApproval" | "listApprovals"> {
  /** Waits for the end of a turn that waits for approval, which any process may answer. */
  untilOver(session: LiveSession, call: CallContext, of?: TurnEvents): Promise<RunResult>;
  /** Ends a waiting turn without approvals or results; does nothing if none waits. */
  giveUp(session: LiveSession): Promise<void>;
}

type Given = OperationInput<"answerApproval">;
type Answering = Pick<CallContext, "background" | "caller"> & { readonly by?: string };

type Answered = EntryBodyOf<"approval_answered">;

const CONTENT_CHARS_MAX = 16 * 1_024;

/** How long the process that asked may take to release the session. */
const LETTING_GO_MS_MAX = 5_000;
const STEP_MS = 20;

/** How often the timeout and the process that resumed the turn are checked. */
const LOOK_MS = 1_000;

/** Approvals and their answers are in the log, so any process can resume the turn. */
export function createApprovals(parts: ApprovalParts): Approvals {
  const { store, clock, live, locked } = parts;

  const answerApproval = async (given: Given, call: Answering) => {
    const session = await live.findFresh(given.session_id);
    return whenReleased(session, async () => {
      requireOpen(session.state, given.approval_id);
      return answer(session, given, call);
    });
  };

  /** Repeats what finds the session busy: an approval is reported before the process that asked releases the session. */
  const whenReleased = async <T>(session: LiveSession, attempt: () => Promise<T>): Promise<T> => {
    for (let waitedMs = 0; ; waitedMs += STEP_MS) {
      try {
        return await attempt();
      } catch (thrown) {
        if (!hasCode(thrown, "SESSION_BUSY") || waitedMs >= LETTING_GO_MS_MAX) throw thrown;
      }
      await clock.sleep(STEP_MS, new AbortController().signal);
      await live.refresh(session);
    }
  };

  /** Stores an answer; resolves once it is durable. The turn continues in the background. */
  const answer = async (session: LiveSession, given: Given, { by, caller, background }: Answering) => {
    const answered = Promise.withResolvers<OperationOutput<"answerApproval">>();
    const turn = locked.run(session, {}, async (signal) => {
      const { state } = session;
      const body = answerEntry(state, given, by ?? caller?.name);
      await checkContent(session, body);
      if (clock.now() >= expiryOf(state) && by !== TIMEOUT) throw gone(given.approval_id, "nobody answered in time");
      if (body.remember === "project") {
        requireWhole(caller);
        await parts.allowInProject(body.rules ?? []);
      }
      await appendEntries(store.log, session, [body]);
      const left = waitingCalls(state).length;
      answered.resolve({ session_id: state.sessionId, answered: true, waiting_calls: left });
      // Otherwise the process that asked resumes it, or one that has what the turn needs.
      // A server of 2025 waits for the process that asked.
      const isHere =
        session.askedId === given.approval_id ||
        !state.approval?.asked.resuming?.some(({ value }) => value.held === true);
      if (left === 0 && isHere && (await parts.canResume(session))) await parts.resume(session, signal);
    });
    // From here on, events and the waiting caller report the outcome of the turn.
    turn.catch(answered.reject);
    background?.(turn.catch(() => {}));
    return answered.promise;
  };

  /** Throws INVALID_PARAMS for an answer that a server's question does not allow, or that the log must not hold. */
  const checkContent = async (session: LiveSession, { calls, value }: Answered): Promise<void> => {
    const asked = session.state.approval?.asked.calls.find(({ id }) => id === calls[0])?.question;
    if (asked === undefined || value === undefined) return;
    const text = JSON.stringify(value);
    if (text.length > CONTENT_CHARS_MAX) throw invalid(`content: write at most ${CONTENT_CHARS_MAX} characters`);
    if (parts.redactFor(session)(text) !== text)
      throw invalid("content: it contains a secret, which is not given to an MCP server; answer without it, or deny");
    const schema = `the schema of MCP server ${asked.server}`;
    const problems = await (await compileSchema(asked.schema, schema, parts.checkInWorker))(value);
    if (problems.length > 0)
      throw invalid(`content: ${problems.join("; ")}; answer by the schema ${JSON.stringify(asked.schema)}`);
  };

  const untilOver: Approvals["untilOver"] = async (session, call, of = {}) => {
    const { turn = session.state.turn?.seq ?? 1, after = session.state.lastSeq } = of;
    const { listener } = call;
    const signal = AbortSignal.any([call.signal, call.leaving, parts.ending].filter((one) => one !== undefined));
    const { sessionId } = session.state;
    let seen = after;
    let isNext = false;
    let woken = Promise.withResolvers<void>();
    const pass = (delivery: Delivery): void => {
      if (delivery.seq !== 0 && delivery.seq <= seen) return;
      if (delivery.seq !== 0) seen = delivery.seq;
      // A message that waited may begin another turn at once.
      isNext ||= typeof turn === "number" && delivery.event.type === "run_started" && delivery.seq > turn;
      if (!isNext) listener?.(delivery);
    };
    /** Events of this process while the log is read; they follow the log's. */
    let meanwhile: Delivery[] | undefined;
    const onDelivery = (delivery: Delivery): void => {
      if (meanwhile === undefined) pass(delivery);
      else meanwhile.push(delivery);
      woken.resolve();
    };
    /** Delivers entries that another process appended. */
    const catchUp = async (): Promise<void> => {
      // The log may be ahead of the state: the appender in this process delivers its own entries, in order with deltas.
      const { lastSeq } = session.state;
      if (lastSeq <= seen) return;
      const reported: Delivery[] = [];
      meanwhile = reported;
      try {
        const read = await readEvents(store.log, sessionId, { after: seen, max: Number.MAX_SAFE_INTEGER });
        for (const delivery of read) if (delivery.seq <= lastSeq) pass(delivery);
      } finally {
        meanwhile = undefined;
        for (const delivery of reported) pass(delivery);
      }
    };
    session.listeners.add(onDelivery);
    const wake = (): void => woken.resolve();
    signal.addEventListener("abort", wake);
    const unsubscribe = store.signals.subscribe(sessionId, wake);
    let wasHeld = true;
    try {
      for (;;) {
        await live.refresh(session);
        await catchUp();
        const seq = typeof turn === "number" ? turn : turn();
        const over = seq === undefined ? undefined : await resultOf(store, session, seq);
        if (over !== undefined) return over;
        if (signal.aborted) throw left(session.state);
        if (session.state.archived) throw new RuntimeError("SESSION_NOT_FOUND", `session ${sessionId} is archived`);
        const { state } = session;
        if (isWaiting(state) && !session.isRunning) {
          if (clock.now() >= expiryOf(state)) await expire(session);
        } else {
          const isHeld = session.isRunning || (await store.locks.isHeld(sessionId));
          // Twice: the holder may just be releasing the session.
          if (!isHeld && !wasHeld) {
            // Answered by a process that could not resume the turn; this one began it.
            if (state.approval !== undefined) await resumeHere(session, call);
            // Where turns are resumed, another process continues it.
            else if (!parts.resumesTurns)
              throw new RuntimeError("AGENT_ERROR", "the process that continued the turn ended");
          }
          wasHeld = isHeld;
        }
        woken = Promise.withResolvers<void>();
        const look = new AbortController();
        // A finished turn releases its session without an event.
        const lookMs = session.isRunning && !state.isTurnOpen ? STEP_MS : LOOK_MS;
        await Promise.race([woken.promise, clock.sleep(lookMs, look.signal)]);
        look.abort("woken");
      }
    } finally {
      unsubscribe();
      signal.removeEventListener("abort", wake);
      session.listeners.delete(onDelivery);
    }
  };

  /** Does nothing if another process was first. */
  const resumeHere = async (session: LiveSession, call: CallContext): Promise<void> => {
    const isReady = (): boolean => session.state.approval !== undefined && !isWaiting(session.state);
    try {
      await locked.run(session, call, async (signal) => (isReady() ? parts.resume(session, signal) : undefined));
    } catch (thrown) {
      if (!hasCode(thrown, "SESSION_BUSY")) throw thrown;
    }
  };

  const expire = async (session: LiveSession): Promise<void> => {
    const { sessionId: session_id, approval } = session.state;
    const no = {
      session_id,
      approval_id: approval?.asked.approval_id ?? "",
      decision: "deny",
      remember: "once",
    } as const;
    // Another process may have noticed the timeout or hold the session: then nothing is left to do.
    await answer(session, no, { by: TIMEOUT }).catch(() => {});
  };

  return {
    answerApproval,
    untilOver,
    listApprovals: async ({ session_id }, { caller }) => {
      const waiting = { archived: false, waiting: true, labels: caller?.labels ?? {} } as const;
      const rows = session_id === undefined ? walkRows(store.sessions, waiting) : [{ session_id }];
      const approvals = new Map<string, Approval>();
      for await (const { session_id: id } of rows) {
        const { state } = await live.findFresh(id);
        const isOver = state.archived || clock.now() >= expiryOf(state);
        if (state.approval !== undefined && isWaiting(state) && !isOver)
          approvals.set(id, describe(id, state.approval));
      }
      return { approvals: [...approvals.values()].sort((a, b) => a.asked_at.localeCompare(b.asked_at)) };
    },
    giveUp: async (session) => {
      const { state } = session;
      const close = async (): Promise<void> => {
        if (isWaiting(state)) {
          const sentence = "not run: the turn was interrupted before anybody said whether it may";
          await appendEntries(store.log, session, () => closeWaiting(state, sentence, clock));
        } else if (state.pending.length > 0) {
          const { openCalls, heldResults } = state;
          await appendEntries(store.log, session, () => [closeCalls(openCalls, INTERRUPTED, clock, heldResults)]);
        }
      };
      await whenReleased(session, async () => {
        if (!isWaiting(state) && state.pending.length === 0) return;
        await locked.run(session, {}, close).catch(async (thrown: unknown) => {
          // An answer may just have arrived: then there is a turn to interrupt.
          if (hasCode(thrown, "SESSION_BUSY")) await store.locks.interrupt(state.sessionId);
          throw thrown;
        });
      });
    },
  };
}

/** A project rule applies to every user of the project. */
function requireWhole(caller: Caller | undefined): void {
  if (Object.keys(caller?.labels ?? {}).length === 0) return;
  throw new RuntimeError("PERMISSION_DENIED", "remember: a token with labels cannot allow for the whole project");
}

function waitingCalls({ approval }: SessionState) {
  return approval?.asked.calls.filter(({ id }) => !approval.answers.has(id)) ?? [];
}

function expiryOf({ approval }: SessionState): number {
  return approval?.asked.expires_at_ms ?? 0;
}

function describe(session_id: string, { asked, askedAtMs, answers }: NonNullable<SessionState["approval"]>): Approval {
  return {
    session_id,
    approval_id: asked.approval_id,
    calls: asked.calls.filter(({ id }) => !answers.has(id)),
    asked_at: new Date(askedAtMs).toISOString(),
    expires_at: new Date(asked.expires_at_ms).toISOString(),
  };
}

function gone(approvalId: string, why: string): RuntimeError {
  return invalid(`approval_id: ${approvalId} waits for no answer: ${why}`);
}

function requireOpen(state: SessionState, approvalId: string): void {
  const { approval } = state;
  if (approval?.asked.approval_id !== approvalId) throw gone(approvalId, "it was answered, or was never asked");
  if (!isWaiting(state)) throw gone(approvalId, "it was answered");
}

/** The entry of an answer; throws INVALID_PARAMS if its calls do not wait or no rule can be remembered. */
function answerEntry(state: SessionState, given: Given, by: string | undefined): EntryBodyOf<"approval_answered"> {
  requireOpen(state, given.approval_id);
  const { decision, remember = "once", reason, content } = given;
  const waiting = waitingCalls(state);
  const ids = new Set(given.calls ?? waiting.map(({ id }) => id));
  const meant = waiting.filter(({ id }) => ids.has(id));
  const unknown = [...ids].find((id) => !meant.some((call) => call.id === id));
  if (unknown !== undefined || meant.length === 0) {
    const names = waiting.map(({ id }) => id).join(", ");
    throw invalid(`calls: ${unknown ?? "an empty list"} waits for no answer; ${names} do`);
  }
  const asked = meant.find(({ question }) => question !== undefined)?.question;
  if (asked === undefined && (decision === "cancel" || content !== undefined)) {
    throw invalid(`${content === undefined ? "decision" : "content"}: no MCP server asks here; write allow or deny`);
  }
  if (content !== undefined && decision !== "allow") throw invalid("content: only with the decision allow");
  const isAnswer = asked !== undefined && decision === "allow";
  if (isAnswer && meant.length > 1) throw invalid("calls: name the one call whose question the content answers");
  const rules = [...new Set(meant.flatMap(({ always = [] }) => always))];
  if (remember !== "once" && decision !== "allow") {
    throw invalid("remember: only a yes is remembered; write a rule to deny for good");
  }
  const unnamed = remember === "once" ? undefined : meant.find(({ always }) => always === undefined);
  if (unnamed !== undefined) {
    throw invalid(`remember: no rule can be named for this call of ${unnamed.name}; allow it once`);
  }
  return {
    kind: "approval_answered",
    approval_id: given.approval_id,
    decision,
    calls: meant.map(({ id }) => id),
    remember,
    ...(remember === "once" ? {} : { rules }),
    ...defined({ reason, by }),
    ...(isAnswer ? { value: { ...defaultsOf(asked.schema), ...content } } : {}),
  };
}

function defaultsOf({ properties }: JsonObject): JsonObject {
  const fields = Object.entries(isRecord(properties) ? properties : {});
  return Object.fromEntries(
    fields.flatMap(([name, field]) => (isRecord(field) && field.default !== undefined ? [[name, field.default]] : [])),
  );
}

function left({ sessionId, approval }: SessionState): RuntimeError {
  const message = "the turn goes on once somebody has said whether its calls may run";
  const details = { session_id: sessionId, approval_id: approval?.asked.approval_id };
  return new RuntimeError("REQUEST_CANCELLED", message, { details });
}

/** The outcome of a turn, by default the newest, read from the log; undefined while it runs. Throws as the turn did. */
export async function resultOf(
  { log }: Store,
  session: LiveSession,
  turnSeq = session.state.turn?.seq ?? 1,
): Promise<RunResult | undefined> {
  const { state } = session;
  const isNewest = turnSeq === (state.turn?.seq ?? 1);
  if (isNewest && (isUnfinished(state) || session.isRunning)) return undefined;
  const entries = await log.read(state.sessionId, turnSeq, Number.MAX_SAFE_INTEGER);
  const next = entries.findIndex(({ seq, body }) => seq > turnSeq && OPENS.has(body.kind));
  const own = next < 0 ? entries : entries.slice(0, next);
  const of = <K extends EntryBody["kind"]>(kind: K) =>
    own.filter((entry): entry is Entry<EntryBodyOf<K>> => entry.body.kind === kind);
  const end = of("turn_closed").at(-1)?.body.end;
  if (end === undefined) return undefined;
  const textSeq = end.status === "completed" ? end.text_seq : undefined;
  const spoken =
    textSeq === undefined ? undefined : own.find(({ seq, span }) => seq <= textSeq && textSeq < seq + span);
  const text = spoken === undefined || textSeq === undefined ? "" : textOfEntry(spoken, textSeq);
  const ran = [...of("tool_results"), ...of("results_held")].flatMap(({ body }) => body.calls);
  const toolCalls = ran.filter(({ counted }) => counted).length;
  const pending = state.openCalls.filter(({ data }) => state.pending.includes(data.id));
  return toResult(session, {
    end,
    text,
    turns: of("model_called").length,
    toolCalls,
    extraction: extractionIn(of("event")),
    ...(isNewest && pending.length > 0 ? { pending } : {}),
  });
}

const OPENS: ReadonlySet<EntryBody["kind"]> = new Set(["turn_opened", "turn_continued"]);

function extractionIn(events: readonly Entry<EntryBodyOf<"event">>[]): TurnOutcome["extraction"] {
  for (const { body } of events.toReversed()) {
    const { event } = body;
    if (event.type === "extraction_succeeded") return { structured_output: event.structured_output };
    if (event.type === "extraction_failed") {
      const { last_output, attempts, reason } = event;
      return { extraction_error: { last_output, attempts, reason }, cause: "structured_output_validation_failed" };
    }
  }
  return {};
}

/** The result of a turn; throws if it failed. */
export function toResult(live: LiveSession, outcome: TurnOutcome): RunResult {
  const { sessionId: session_id, usage, turnUsage, delegated } = live.state;
  const { end } = outcome;
  if (end.status === "failed") throw failureOf(end, session_id);
  // A turn with an extraction has no finish reason of its own.
  const { cause = end.cause, ...extraction } = outcome.extraction;
  return {
    session_id,
    text: outcome.text,
    turns: outcome.turns,
    tool_calls: outcome.toolCalls,
    usage: { ...usage, total_tokens: totalTokens(usage) },
    ...(totalTokens(delegated.usage) + delegated.toolCalls === 0
      ? {}
      : { delegated: { usage: delegated.usage, tool_calls: delegated.toolCalls } }),
    ...defined({ turn_cost: turnUsage.cost, terminal_cause_kind: cause }),
    ...(outcome.pending === undefined ? {} : { pending_calls: outcome.pending.map(toPendingCall) }),
    ...extraction,
  };
}

function toPendingCall({ data: { id, name, args } }: ToolUseBlock): PendingCall {
  return { id, name, args };
}

function failureOf(end: Extract<TurnOutcome["end"], { status: "failed" }>, session_id: string): RuntimeError {
  const { error, error_class, cause, reason } = end;
  const details = {
    session_id,
    error_class,
    ...defined({ terminal_cause_kind: cause, reason }),
  };
  switch (error_class) {
    case "cancelled":
      return new RuntimeError("REQUEST_CANCELLED", error, { details });
    case "budget":
      return new RuntimeError("BUDGET_EXHAUSTED", error, { details });
    case "hook":
      // The name that wire clients expect.
      return new RuntimeError("HOOK_DENIED", error, { details: { ...details, core_apply_failure_cause: cause } });
    default:
      return new RuntimeError("PROVIDER_ERROR", error, { details });
  }
}
