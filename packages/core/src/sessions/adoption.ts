import type { Caller } from "../contract/caller.ts";
import type { EntryBody, TurnEnd, TurnSetup } from "../contract/entry.ts";
import { type ErrorCode, messageOf, RuntimeError } from "../contract/error.ts";
import type { RunResult } from "../contract/session.ts";
import type { UnfinishedTurn } from "../contract/session-info.ts";
import type { Clock } from "../ports/clock.ts";
import type { RowQuery, Store } from "../ports/store.ts";
import { belowCeiling, requireToolScope } from "../runtime/ceiling.ts";
import { requireLeft, type Service } from "../runtime/dispatch.ts";
import { isUnfinished, isWaiting, type SessionState } from "../state/session-state.ts";
import type { SubAgents, UntilOver } from "../sub-agents/sub-agents.ts";
import type { WAITING } from "../turn/turn.ts";
import { CANCELLED, closeLeftovers } from "../turn/turn-end.ts";
import { ignoreBusy } from "./inbox.ts";
import { appendEntries, giveTools, type LiveSession, type LiveSessions, type LockedWork } from "./live-sessions.ts";
import { callerAgain, withinCeiling } from "./turn-input.ts";
import type { Current } from "./turn-operations.ts";
import type { TurnInput } from "./turn-runner.ts";
import { chooseTools } from "./turn-tools.ts";

interface AdoptionParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly live: LiveSessions;
  readonly locked: LockedWork;
  readonly current: Current;
  readonly run: SubAgents["run"];
  readonly untilOver: UntilOver;
  /** The US dollars that a caller has spent today. */
  spentToday(name: string): Promise<number>;
  /** Reports turns that this process cannot continue. */
  warn(sentence: string): void;
  readonly resuming: Partial<Resuming>;
}

/** What decides, besides the configuration, whether a server continues a turn. */
export interface Resuming {
  /** Aborts when no further turn is taken over. */
  readonly until: AbortSignal;
  /** What the caller that began a turn lacks to run one now; undefined if it may. */
  lacks(caller: NonNullable<TurnSetup["caller"]>): string | undefined;
}

export interface Adoption extends Pick<Service, "finishTurn"> {
  /** Whether this process has what the unfinished turn of a session was begun with. */
  canContinue(session: LiveSession): Promise<boolean>;
  /** The unfinished turn of a session that no process runs; undefined if there is none. */
  describe(session: LiveSession): Promise<UnfinishedTurn | undefined>;
  /** Ends the unfinished turn of a session that no process runs. */
  cancel(session: LiveSession): Promise<void>;
  /** Continues unfinished turns of this realm until the signal aborts. */
  watch(signal: AbortSignal): Promise<void>;
}

/** How often unfinished turns are looked for, and the most of one look. */
const LOOK_MS = 1_000;
const ROWS_MAX = 100;
/** How often a turn that this process cannot continue is checked again. */
const LOOK_AGAIN_MS = 30_000;
/** Sessions that are remembered for that; beyond it they are checked, and reported, once more. */
const LATER_MAX = 1_000;
/** The time for which a turn waits for the client that runs its tools; then it continues without them. */
const CLIENT_MS = 30_000;
/** A turn that has been idle for longer is continued by a person only. */
const IDLE_MS_MAX = 60 * 60 * 1_000;
/** Turns that a process continues by itself in a minute. */
const PER_MINUTE = 10;
const MINUTE_MS = 60_000;
/** The wait before the second and the third process, after the last entry of the one before. */
const DELAYS_MS: readonly number[] = [0, 0, 5_000];
const DELAY_MS_MAX = 30_000;

/** Turns whose process is gone, and how another process finishes them. */
export function createAdoption(parts: AdoptionParts): Adoption {
  const { store, clock, live, locked } = parts;
  const lackOf = ({ caller }: TurnSetup) => caller && parts.resuming.lacks?.(caller);

  /** The inputs of the turn in this process, and what it lacks to continue it. */
  const inputsFor = async (
    { state, tools: own }: LiveSession,
    {
      hasApprover = false,
      isNew = false,
      by,
    }: { readonly hasApprover?: boolean; readonly isNew?: boolean; readonly by?: Caller | undefined } = {},
  ) => {
    const began = parts.current();
    const { settings, turn } = state;
    const { setup = {} } = turn ?? {};
    const missing: string[] = [];
    // The turn runs for the caller that finishes it, else for the one that began it.
    const caller = by ?? (setup.caller && callerAgain(setup.caller));
    const model = await began.models.resolve(settings.model, settings.provider).catch(() => undefined);
    if (model === undefined) missing.push(`model ${settings.model}`);
    const lack = by === undefined && !isNew ? lackOf(setup) : undefined;
    if (lack !== undefined) missing.push(lack);
    const { overlay } = setup;
    const tools = chooseTools(began, { state, tools: own }, overlay, caller);
    const hookIds = began.hooks.hooks.map(({ id }) => id);
    const { code_tools = [], callback_tools = [], mcp_servers = [], code_hooks = [] } = setup;
    const awaited = clock.now() < state.updatedAtMs + CLIENT_MS ? callback_tools : [];
    missing.push(
      ...code_tools.filter((name) => !tools.has(name)).map((name) => `tool ${name}`),
      ...awaited.filter((name) => !tools.has(name)).map((name) => `the client that runs ${name}`),
      ...mcp_servers.filter((name) => !began.mcpServersOf(settings).includes(name)).map((name) => `MCP server ${name}`),
      ...code_hooks.filter((id) => !hookIds.includes(id)).map((id) => `hook ${id}`),
      ...(setup.has_own_hooks === true ? ["the hooks of its request"] : []),
      ...(setup.has_approver === true && !hasApprover ? ["an approval handler"] : []),
    );
    const allowed = new Map<string, unknown>(Object.entries(belowCeiling(settings.tools, began.defaults.ceiling)));
    const isBelow = Object.entries(settings.tools).every(([name, value]) => allowed.get(name) === value);
    if (!isBelow || withinCeiling(settings, began.defaults) !== settings)
      missing.push("a ceiling that allows its settings");
    const rest = { prompt: undefined, instructions: [], traceparent: undefined, added: [], isAdopted: true };
    const inputs = {
      ...rest,
      overlay,
      caller,
      unattended: setup.is_unattended && NO_APPROVER,
      toolChoice: toolChoiceOf(state),
    };
    return { began, missing, model, inputs };
  };

  /** Continues the turn of a held session. */
  const adopt = async (
    session: LiveSession,
    {
      signal,
      ...how
    }: { readonly signal: AbortSignal; readonly hasApprover?: boolean; readonly by?: Caller | undefined },
  ): Promise<RunResult | typeof WAITING> => {
    requireUnfinished(session.state);
    const { began, missing, model, inputs } = await inputsFor(session, how);
    if (model === undefined || missing.length > 0) throw cannotContinue(session.state, missing);
    if (inputs.caller !== undefined) await requireLeft(inputs.caller, parts.spentToday);
    return parts.run(began, session, { ...inputs, model, signal } satisfies TurnInput);
  };

  const describe = async (session: LiveSession): Promise<UnfinishedTurn | undefined> => {
    const { state } = session;
    if (!isUnfinished(state) || isWaiting(state) || state.turn === undefined) return undefined;
    if (session.isRunning || (await store.locks.isHeld(state.sessionId))) return undefined;
    const { missing } = await inputsFor(session);
    return {
      since: new Date(state.updatedAtMs).toISOString(),
      attempt: state.turn.attempt,
      ...(missing.length === 0 ? {} : { missing }),
    };
  };

  /** Ends a turn that no process runs. */
  const end = (session: LiveSession, how: TurnEnd): Promise<void> =>
    locked.run(session, {}, async () => {
      const { state } = session;
      if (!isUnfinished(state) || isWaiting(state)) return;
      await appendEntries(store.log, session, () => endEntries(state, clock, how));
    });

  const started: number[] = [];
  /** Where the next look begins: more turns may be open than one look reads, most of them running. */
  let after: RowQuery["after"];
  /** The turns that were continued here by themselves, and run. */
  const adopted = new Map<AbortController, TurnSetup>();
  /** Sessions that are not looked at before a time, with the sentence that was reported about them. */
  const later = new Map<string, { readonly atMs: number; readonly sentence?: string }>();

  /** Continues the turn of a row if this process can and may; resolves once that is decided. */
  const consider = async (
    sessionId: string,
    stopping: AbortSignal,
  ): Promise<{ readonly over: Promise<unknown> } | undefined> => {
    const session = await live.findFresh(sessionId);
    const { state } = session;
    const { turn, settings } = state;
    // The session of a sub-agent continues with its parent.
    if (settings.sub_agent !== undefined) {
      later.set(sessionId, { atMs: clock.now() + LOOK_AGAIN_MS });
      return undefined;
    }
    if (isWaiting(state) || state.archived) return undefined;
    if (turn === undefined || !isUnfinished(state)) return considerQueue(session, stopping);
    const { attempts } = parts.current().resuming;
    if (turn.attempt >= attempts && !turn.isReleased) return { over: end(session, killedProcesses(turn.attempt)) };
    const delayMs = turn.isReleased ? 0 : (DELAYS_MS[turn.attempt] ?? DELAY_MS_MAX);
    const now = clock.now();
    if (now < state.updatedAtMs + delayMs) return undefined;
    const { missing } = await inputsFor(session);
    if (missing.length > 0) {
      const sentence = cannotContinue(state, missing).message;
      if (later.get(sessionId)?.sentence !== sentence) parts.warn(sentence);
      later.set(sessionId, { atMs: now + LOOK_AGAIN_MS, sentence });
      return undefined;
    }
    if (!mayStart(sessionId, stopping)) return undefined;
    const revoked = new AbortController();
    adopted.set(revoked, turn.setup);
    const over = parts.untilOver(session, { signal: revoked.signal }, (signal) => adopt(session, { signal }));
    return { over: over.finally(() => adopted.delete(revoked)) };
  };

  const mayStart = (sessionId: string, stopping: AbortSignal): boolean => {
    const now = clock.now();
    later.delete(sessionId);
    while (started[0] !== undefined && started[0] <= now - MINUTE_MS) started.shift();
    if (started.length >= PER_MINUTE || stopping.aborted) return false;
    started.push(now);
    return true;
  };

  /** Begins the next message of a session whose process is gone, if this one has what its newest turn had. */
  const considerQueue = async (session: LiveSession, stopping: AbortSignal) => {
    const { state } = session;
    const { missing } = await inputsFor(session, { hasApprover: true, isNew: true });
    if (missing.length === 0 && !mayStart(state.sessionId, stopping)) return undefined;
    later.set(state.sessionId, { atMs: clock.now() + LOOK_AGAIN_MS });
    if (missing.length > 0) return undefined;
    // The holder begins it instead of releasing the session.
    return { over: locked.run(session, {}, async () => {}) };
  };

  return {
    // A person who answers an approval is an approver.
    canContinue: async (session) => (await inputsFor(session, { hasApprover: true })).missing.length === 0,
    describe,
    cancel: async (session) => {
      if (session.isRunning || !isUnfinished(session.state) || isWaiting(session.state)) return;
      await end(session, CANCELLED).catch(ignoreBusy);
    },
    finishTurn: async ({ session_id }, call) => {
      const session = await live.findFresh(session_id);
      requireUnfinished(session.state);
      requireToolScope(call.caller, session.state.settings.tools, parts.current().defaults.ceiling);
      if (call.tools !== undefined) giveTools(session, call.tools);
      return parts.untilOver(session, call, (signal) =>
        adopt(session, { signal, hasApprover: call.hasApprover === true, by: call.caller }),
      );
    },
    watch: async (ending) => {
      const { until = ending } = parts.resuming;
      const signal = AbortSignal.any([ending, until]);
      const running = new Set<Promise<unknown>>();
      while (!signal.aborted) {
        // A store that is away is reported by the calls of clients; the next look tries again.
        await look(signal, running).catch(() => {});
        await clock.sleep(LOOK_MS, signal);
      }
      await Promise.allSettled(running);
    },
  };

  async function look(signal: AbortSignal, running: Set<Promise<unknown>>): Promise<void> {
    for (const [revoked, setup] of adopted) if (lackOf(setup) !== undefined) revoked.abort("its caller was revoked");
    if (later.size > LATER_MAX) later.clear();
    const updatedSinceMs = clock.now() - IDLE_MS_MAX;
    const from = after === undefined ? {} : { after };
    const rows = await store.sessions.page({ archived: false, open: true, updatedSinceMs, max: ROWS_MAX, ...from });
    after = rows.length < ROWS_MAX ? undefined : rows.at(-1);
    const open = rows.filter((row) => (row.waiting_calls ?? 0) === 0);
    // An import or a copy of a log is not: a turn that has not run in this realm does not begin to by itself.
    const abandoned = await Promise.all(open.map(({ session_id }) => store.locks.isAbandoned?.(session_id)));
    for (const { session_id } of open.filter((_, at) => abandoned[at] === true)) {
      if (signal.aborted) return;
      if ((later.get(session_id)?.atMs ?? 0) > clock.now()) continue;
      const failed = (thrown: unknown): void => {
        later.set(session_id, { atMs: clock.now() + LOOK_AGAIN_MS });
        if (thrown instanceof RuntimeError && NOT_REPORTED.has(thrown.code)) return;
        parts.warn(`session ${session_id}: its unfinished turn could not be continued: ${messageOf(thrown)}`);
      };
      try {
        const turn = await consider(session_id, signal);
        if (turn === undefined) continue;
        const ended = turn.over.then(() => {}, failed).finally(() => running.delete(ended));
        running.add(ended);
      } catch (thrown) {
        failed(thrown);
      }
    }
  }
}

/** Another process was first, or the turn itself has ended so, which its log says. */
const NOT_REPORTED: ReadonlySet<ErrorCode> = new Set([
  "SESSION_BUSY",
  "PROVIDER_ERROR",
  "REQUEST_CANCELLED",
  "BUDGET_EXHAUSTED",
  "HOOK_DENIED",
]);

/** The entries that end a turn whose process is gone. */
function endEntries(state: SessionState, clock: Clock, end: TurnEnd): readonly EntryBody[] {
  if (state.isTurnOpen) return closeLeftovers(state, clock, end);
  const reason = end.status === "failed" ? end.error : "";
  const failed = {
    type: "extraction_failed" as const,
    session_id: state.sessionId,
    last_output: "",
    attempts: 0,
    reason,
  };
  return [{ kind: "event", event: failed }];
}

const NO_APPROVER = "no approver is available";

/** A forced tool call applies to the first answer of a turn. */
function toolChoiceOf({ turn }: SessionState): TurnInput["toolChoice"] {
  return turn?.calls === 0 ? turn.setup.tool_choice : undefined;
}

function killedProcesses(attempts: number): TurnEnd {
  return {
    status: "failed",
    error_class: "terminal",
    error: `the turn was given up: each of the ${attempts} processes that ran it ended before it did`,
    cause: "fatal_failure",
  };
}

function requireUnfinished(state: SessionState): void {
  if (isUnfinished(state) && !isWaiting(state)) return;
  throw new RuntimeError("SESSION_NOT_RUNNING", `session ${state.sessionId} has no unfinished turn`);
}

export function cannotContinue({ sessionId }: SessionState, missing: readonly string[]): RuntimeError {
  const message = `session ${sessionId} has an unfinished turn that this process cannot continue; it lacks ${missing.join(", ")}`;
  return new RuntimeError("CAPABILITY_UNAVAILABLE", message);
}
