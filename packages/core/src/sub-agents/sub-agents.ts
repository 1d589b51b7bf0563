import { hasCode, invalid, messageOf, RuntimeError } from "../contract/error.ts";
import type { AgentEvent, Usage } from "../contract/event.ts";
import type { RunResult, SessionSettings } from "../contract/session.ts";
import type { Clock } from "../ports/clock.ts";
import type { ModelClient, ModelResolver } from "../ports/model.ts";
import type { EventLog, SessionRow, Store } from "../ports/store.ts";
import type { SubAgent, SubAgentBounds } from "../ports/sub-agent.ts";
import type { Tool, ToolCallContext, ToolOutput } from "../ports/tool.ts";
import { belowCeiling } from "../runtime/ceiling.ts";
import { type CallContext, requireLeft } from "../runtime/dispatch.ts";
import type { UsageSums } from "../runtime/usage.ts";
import { resultOf } from "../sessions/approvals.ts";
import type { Listener } from "../sessions/event-queue.ts";
import { runSessionHooks } from "../sessions/hooks.ts";
import {
  appendEntries,
  beginSession,
  emitLive,
  type LiveSession,
  type LiveSessions,
  type LockedWork,
} from "../sessions/live-sessions.ts";
import { requireParams, requirePrice, type SessionDefaults } from "../sessions/session-settings.ts";
import { withDayLimit } from "../sessions/turn-input.ts";
import { runSessionTurn, type TurnInput, type TurnParts } from "../sessions/turn-runner.ts";
import { foldRow } from "../state/session-row.ts";
import { isUnfinished, isWaiting } from "../state/session-state.ts";
import { requireNotWaiting } from "../turn/approval.ts";
import type { Child } from "../turn/budget.ts";
import { addUsage, NO_USAGE, totalTokens } from "../turn/cost.ts";
import { progressOf } from "../turn/run.ts";
import { WAITING } from "../turn/turn.ts";
import { closeLeftovers } from "../turn/turn-end.ts";
import {
  agentNamed,
  childSettings,
  depthOf,
  limitsFrom,
  shareOf,
  shownHistory,
  withGeneral,
} from "./sub-agent-settings.ts";

/** The sub-agents of a runtime and their limits. */
export interface SubAgentOptions {
  readonly agents: readonly SubAgent[];
  readonly bounds: SubAgentBounds;
}

/** The part of a turn that decides about sub-agents. */
interface Began extends TurnParts {
  readonly models: ModelResolver;
  readonly defaults: SessionDefaults;
  readonly subAgents: SubAgentOptions;
}

interface SubAgentParts extends SettlingParts {
  current(): Began;
  readonly usage: Pick<UsageSums, "spentBy">;
  readonly untilOver: UntilOver;
}

/** Runs a turn of a session to its end, also where it first waits for an approval, in any process. */
export type UntilOver = (
  session: LiveSession,
  call: CallContext,
  turn: (signal: AbortSignal) => Promise<RunResult | typeof WAITING>,
) => Promise<RunResult>;

export interface SubAgents {
  /** The tools, with `agent` for a session that may delegate and is not too deep. */
  offer(configured: Pick<Began, "defaults" | "subAgents" | "toolsFor">): Pick<Began, "toolsFor">;
  /** Runs a turn of a held session after the unfinished tasks of earlier processes are counted. */
  run(began: Began, session: LiveSession, input: TurnInput): Promise<RunResult | typeof WAITING>;
}

/** A running turn: what its sub-agents inherit, and their number. */
interface Running {
  readonly session: LiveSession;
  readonly input: TurnInput;
  readonly deadlineMs: number;
  /** The limits of each running task. */
  readonly shares: Map<symbol, SessionSettings["budget_limits"]>;
  readonly places: Places;
  tasks: number;
  isOver: boolean;
}

/** The tool `agent`: tasks in sessions of their own, paid from the caller's budget. */
export function createSubAgents(parts: SubAgentParts): SubAgents {
  const { store, clock, live } = parts;
  const { settle, quiet } = createSettling(parts);
  const spentToday = async (name: string) => (await parts.usage.spentBy(name, clock.now())).amount;
  const turns = new Map<string, Running>();

  const execute = async (task: Task, context: ToolCallContext): Promise<ToolOutput> => {
    const turn = turns.get(context.sessionId);
    if (turn === undefined) throw new Error("no turn of this session runs here");
    const began = parts.current();
    const { bounds } = began.subAgents;
    turn.tasks += 1;
    if (turn.tasks > bounds.tasksMax) {
      const most = `a turn hands out ${bounds.tasksMax} tasks at most, and this one has`;
      return { content: `not run: ${most}; do the rest yourself, or in the next turn`, isError: true };
    }
    const place = Symbol(context.toolUseId);
    if (!(await turn.places.take(bounds.concurrentMax, context.signal))) {
      return { content: "not run: the turn was interrupted", isError: true };
    }
    try {
      const begun = turn.session.state.children.find(({ callId }) => callId === context.toolUseId);
      if (begun !== undefined) return await continueTask(began, turn, { begun, context });
      return await runTask(began, turn, { task, context, place });
    } finally {
      turn.shares.delete(place);
      turn.places.leave();
    }
  };

  const runTask = async (
    began: Began,
    turn: Running,
    { task, context, place }: { task: Task; context: ToolCallContext; place: symbol },
  ): Promise<ToolOutput> => {
    const { agents, bounds } = began.subAgents;
    const parent = turn.session;
    const { caller } = turn.input;
    if (caller !== undefined) await requireLeft(caller, spentToday);
    const again = task.session_id === undefined ? undefined : await childOf(parent, task, task.session_id);
    const agent = agentNamed(withGeneral(agents), again?.state.settings.sub_agent?.agent ?? task.agent);
    // No await until it is recorded: two concurrent tasks must not get the same budget.
    const reserved = [...turn.shares.values()];
    const leftMs = turn.deadlineMs - clock.now();
    const share = shareOf({ state: parent.state, reserved, leftMs, bounds }, agent.limits);
    turn.shares.set(place, share);
    const model = await modelOf(began, parent, agent);
    const budget_limits = again === undefined ? share : limitsFrom(share, again.state);
    const callId = context.toolUseId;
    const asked = { agent, callId, model, budget_limits, maxTurns: began.defaults.max_turns };
    const settings = childSettings(parent.state, asked);
    requireParams(model, settings);
    requirePrice(model, withDayLimit(settings, caller));
    const child = again ?? (await beginChild(parent, settings, agent));
    if (again === undefined) await runSessionHooks(began, child, "session_created");
    return runChild(turn, child, { task: { ...task, settings }, agent, model, context, bounds });
  };

  /** Continues a task of an earlier process, or reports how it ended. */
  const continueTask = async (
    began: Began,
    turn: Running,
    { begun, context }: { begun: Child; context: ToolCallContext },
  ): Promise<ToolOutput> => {
    const { agents, bounds } = began.subAgents;
    const child = await live.findFresh(begun.childId);
    const agent = agentNamed(withGeneral(agents), begun.agent);
    const model = await modelOf(began, turn.session, agent);
    return runChild(turn, child, { begun, agent, model, context, bounds });
  };

  const childOf = async (parent: LiveSession, { agent }: Task, sessionId: string): Promise<LiveSession> => {
    const { sessionId: own } = parent.state;
    const found = await live.findFresh(sessionId).catch(() => undefined);
    const made = found?.state.settings.sub_agent;
    if (found === undefined || made?.parent !== own) {
      throw invalid(`session_id: ${sessionId} is no session of a task of this session`);
    }
    if (agent !== undefined && agent !== made.agent) {
      throw invalid(`agent: session ${sessionId} is one of ${made.agent}; leave agent out`);
    }
    requireNotWaiting(found.state, clock);
    return found;
  };

  const beginChild = (parent: LiveSession, settings: SessionSettings, agent: SubAgent): Promise<LiveSession> => {
    const history = agent.inherit === "fork" ? shownHistory(parent.state) : [];
    const bodies = [{ kind: "session_created" as const, settings }, ...history];
    const { tools } = parent;
    return live.admit(() =>
      beginSession(store.log, clock.newId(), { bodies, tools, yieldToEventLoop: clock.yieldToEventLoop }),
    );
  };

  interface Asked {
    /** A new task; absent for one that an earlier process began. */
    readonly task?: Task & { readonly settings: SessionSettings };
    readonly begun?: Child;
    readonly agent: SubAgent;
    readonly model: ModelClient;
    readonly context: ToolCallContext;
    readonly bounds: SubAgentBounds;
  }

  const runChild = async (turn: Running, child: LiveSession, asked: Asked): Promise<ToolOutput> => {
    const { session: parent, input } = turn;
    const { task, begun, agent, model, context, bounds } = asked;
    // A task inherits the hooks of the turn, or delegating would bypass them.
    const { caller, unattended, traceparent, overlay, hooks } = input;
    const { sessionId: childId } = child.state;
    const of = { call_id: context.toolUseId, child_id: childId, agent: agent.name };
    let fromSeq = begun?.fromSeq;
    const run = async (signal: AbortSignal): Promise<RunResult | typeof WAITING> => {
      child.tools = parent.tools;
      const rest = { instructions: [], added: [], overlay, unattended, traceparent, caller, hooks };
      if (task === undefined) {
        if (isWaiting(child.state)) return WAITING;
        return subAgents.run(parts.current(), child, { prompt: undefined, isAdopted: true, model, signal, ...rest });
      }
      requireNotWaiting(child.state, clock);
      const { lastSeq } = child.state;
      await appendEntries(store.log, parent, [{ kind: "child_opened", ...of, task: task.task, from_seq: lastSeq }]);
      fromSeq = lastSeq;
      const { settings } = task;
      if (JSON.stringify(settings) !== JSON.stringify(child.state.settings)) {
        await appendEntries(store.log, child, [{ kind: "settings_changed", settings }]);
      }
      return subAgents.run(parts.current(), child, { prompt: task.task, model, signal, ...rest });
    };
    const call = { signal: context.signal, listener: emittingUp(parent, of) };
    const over = begun === undefined || isUnfinished(child.state) ? undefined : await resultOf(store, child);
    const end = await endOfTask(over === undefined ? parts.untilOver(child, call, run) : Promise.resolve(over));
    if (fromSeq === undefined) return { content: end.problem ?? end.text, isError: true };
    const isQuiet = await quiet(child);
    const used = await readUse(store.log, childId, fromSeq);
    // An abandoned task must not append to a session that others may hold: the next turn counts it.
    if (isQuiet && !turn.isOver && begun?.isOpen !== false) {
      const { usage, toolCalls: tool_calls } = used;
      await appendEntries(store.log, parent, [{ kind: "child_closed", ...of, status: end.status, usage, tool_calls }]);
    }
    return reportOf(end, { agent: agent.name, childId, used, bytesMax: bounds.resultBytesMax });
  };

  /** Forwards the events of a child to the parent's listeners. */
  const emittingUp = (
    parent: LiveSession,
    of: { readonly call_id: string; readonly child_id: string; readonly agent: string },
  ): Listener => {
    let reported = 0;
    return ({ event }) => {
      if (event.type === "text_delta" || event.type === "reasoning_delta") return;
      reported += 1;
      if (reported > EVENTS_MAX + 1 && !isAboutWord(event)) return;
      const isCut = reported === EVENTS_MAX + 1 && !isAboutWord(event);
      const reason = `more than ${EVENTS_MAX} events of one task; the session has all of them`;
      const shown: AgentEvent = isCut ? { type: "stream_truncated", reason } : event;
      const up: AgentEvent =
        shown.type === "sub_agent_event"
          ? { ...shown, depth: shown.depth + 1 }
          : { type: "sub_agent_event", ...of, depth: 1, event: shown };
      emitLive(parent, clock, up);
    };
  };

  const tools = new WeakMap<SubAgentOptions, Tool>();
  const subAgents: SubAgents = {
    offer: ({ defaults, subAgents: options, toolsFor }) => ({
      toolsFor: (settings, caller) => {
        const others = toolsFor(settings, caller);
        const isOn = belowCeiling(settings.tools, defaults.ceiling).agents === true;
        if (!isOn || depthOf(settings) >= options.bounds.depthMax) return others;
        const tool = tools.get(options) ?? createAgentTool(withGeneral(options.agents), execute);
        tools.set(options, tool);
        // First, so that a custom tool of this name replaces it.
        return [tool, ...others];
      },
    }),
    run: async (began, session, input) => {
      const { isAdopted = false } = input;
      // An adopted turn continues its tasks.
      if (!isAdopted) await settle(session);
      const { sessionId, settings, approval, tasksOpened } = session.state;
      const isResumed = input.prompt === undefined && input.results === undefined;
      const before = isAdopted ? progressOf(session.state) : isResumed ? approval?.asked.progress : undefined;
      const startedMs = clock.now() - (before?.elapsed_ms ?? 0);
      const { max_duration_ms = Number.POSITIVE_INFINITY } = settings.budget_limits;
      const turn: Running = {
        session,
        input,
        deadlineMs: startedMs + max_duration_ms,
        shares: new Map(),
        places: createPlaces(),
        tasks: isResumed ? tasksOpened : 0,
        isOver: false,
      };
      turns.set(sessionId, turn);
      try {
        return await runSessionTurn(began, session, input);
      } finally {
        turn.isOver = true;
        turns.delete(sessionId);
      }
    },
  };
  return subAgents;
}

function modelOf(began: Began, { state }: LiveSession, agent: SubAgent): Promise<ModelClient> {
  const { model, provider } = state.settings;
  if (agent.model === undefined) return began.models.resolve(model, provider);
  return began.models.resolve(agent.model, agent.provider);
}

/** The most forwarded events per task. */
const EVENTS_MAX = 1_000;

/** Approval requests are always forwarded, or they would never be answered. */
function isAboutWord(event: AgentEvent): boolean {
  const { type } = event.type === "sub_agent_event" ? event.event : event;
  return type === "tool_approval_requested" || type === "tool_approval_answered";
}

interface Places {
  /** Resolves when a place is free; false if the signal aborts first. */
  take(placesMax: number, signal: AbortSignal): Promise<boolean>;
  leave(): void;
}

function createPlaces(): Places {
  let taken = 0;
  // At most the calls of one answer.
  const waiting = new Set<() => void>();
  return {
    take: async (placesMax, signal) => {
      if (signal.aborted) return false;
      if (taken < placesMax) {
        taken += 1;
        return true;
      }
      const { promise, resolve } = Promise.withResolvers<boolean>();
      const next = (): void => resolve(true);
      waiting.add(next);
      const giveUp = (): void => {
        // A granted place is kept.
        if (waiting.delete(next)) resolve(false);
      };
      signal.addEventListener("abort", giveUp, { once: true });
      try {
        return await promise;
      } finally {
        signal.removeEventListener("abort", giveUp);
      }
    },
    leave: () => {
      const [next] = waiting;
      if (next === undefined) taken -= 1;
      else {
        waiting.delete(next);
        next();
      }
    },
  };
}

async function endOfTask(running: Promise<RunResult>): Promise<TaskEnd> {
  try {
    return endOf(await running);
  } catch (thrown) {
    const isInterrupted = hasCode(thrown, "REQUEST_CANCELLED");
    if (!isInterrupted) return { status: "failed", text: "", problem: messageOf(thrown) };
    return {
      status: "interrupted",
      text: "",
      problem: "it was interrupted; agent with its session_id continues it",
    };
  }
}

/** The usage of a task, including its own sub-agents. */
interface TaskUse {
  readonly usage: Usage;
  readonly toolCalls: number;
  readonly modelCalls: number;
}

/** Reads the usage after a seq from the log, whichever process ran the task. */
async function readUse(log: EventLog, sessionId: string, fromSeq: number): Promise<TaskUse> {
  let row: SessionRow | undefined;
  let modelCalls = 0;
  for (const entry of await log.read(sessionId, fromSeq + 1, Number.MAX_SAFE_INTEGER)) {
    row = foldRow(row, sessionId, entry);
    if (entry.body.kind === "model_called") modelCalls += 1;
  }
  const { usage = NO_USAGE, delegated, budget } = row ?? {};
  return {
    usage: addUsage(usage, delegated?.usage ?? NO_USAGE),
    toolCalls: (budget?.tool_calls ?? 0) + (delegated?.tool_calls ?? 0),
    modelCalls,
  };
}

const NO_USE: TaskUse = { usage: NO_USAGE, toolCalls: 0, modelCalls: 0 };

interface SettlingParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly live: LiveSessions;
  readonly locked: LockedWork;
  /** Stops the session's background preparation, which costs, too. */
  readonly preparations: { stop(sessionId: string): Promise<void> };
  giveUp(session: LiveSession): Promise<void>;
}

interface Settling {
  /** Ends the tasks of a held session whose processes ended, and counts their usage. */
  settle(parent: LiveSession): Promise<void>;
  /** Waits until a task's session spends nothing more; false after a timeout. */
  quiet(child: LiveSession): Promise<boolean>;
}

/** How long another process may take to release an interrupted session. */
const LETTING_GO_MS_MAX = 5_000;
const STEP_MS = 20;

function createSettling(parts: SettlingParts): Settling {
  const { store, clock, live, locked, preparations } = parts;

  const quiet = async (child: LiveSession): Promise<boolean> => {
    const { sessionId } = child.state;
    await preparations.stop(sessionId);
    const never = new AbortController().signal;
    for (let waitedMs = 0; await store.locks.isHeld(sessionId); waitedMs += STEP_MS) {
      if (waitedMs >= LETTING_GO_MS_MAX) return false;
      await store.locks.interrupt(sessionId);
      await clock.sleep(STEP_MS, never);
    }
    await live.refresh(child);
    if (isWaiting(child.state)) await parts.giveUp(child);
    return !(await store.locks.isHeld(sessionId));
  };

  /** The outcome of a task whose process ended; its own sub-agents' tasks end first, since their usage counts. */
  const useOf = async (parentId: string, childId: string, fromSeq: number): Promise<TaskUse> => {
    const child = await live.findFresh(childId).catch((thrown: unknown) => {
      if (hasCode(thrown, "SESSION_NOT_FOUND")) return undefined;
      throw thrown;
    });
    // An imported copy of the parent does not own the child and did not pay for it.
    if (child === undefined || child.state.settings.sub_agent?.parent !== parentId) return NO_USE;
    if (!(await quiet(child))) {
      const message = `sub-agent session ${childId} of session ${parentId} still runs elsewhere; interrupt it first`;
      throw new RuntimeError("SESSION_BUSY", message);
    }
    if (!child.state.archived) {
      await locked.run(child, {}, async () => {
        await settle(child);
        await appendEntries(store.log, child, () => closeLeftovers(child.state, clock));
      });
    }
    return readUse(store.log, childId, fromSeq);
  };

  const settle = async (parent: LiveSession): Promise<void> => {
    const { sessionId, children } = parent.state;
    for (const { callId: call_id, childId: child_id, agent, fromSeq, isOpen } of children) {
      if (!isOpen) continue;
      const { usage, toolCalls: tool_calls } = await useOf(sessionId, child_id, fromSeq);
      const closed = { call_id, child_id, agent, status: "interrupted" as const, usage, tool_calls };
      await appendEntries(store.log, parent, [{ kind: "child_closed", ...closed }]);
    }
  };

  return { settle, quiet };
}

/** The tool's input, validated before it runs. */
interface Task {
  readonly task: string;
  readonly agent?: string;
  readonly session_id?: string;
}

function createAgentTool(
  agents: readonly SubAgent[],
  run: (task: Task, context: ToolCallContext) => Promise<ToolOutput>,
): Tool {
  return {
    name: "agent",
    description: [
      "Hands a task to a sub-agent, which works on it in a session of its own, with an empty context of its own, and answers " +
        "with a report. Use it for work that would fill your context with what you need only once, such as reading many " +
        "files, and for parts that do not need each other: several calls in one answer run at the same time. What it uses " +
        "counts in your budgets. Write in task all it has to know, and what its report must say. The report names its " +
        "session: give it as session_id to continue with that sub-agent, also after it was interrupted.",
      "Sub-agents:",
      ...agents.map(({ name, description }) => `- ${name}: ${description}`),
    ].join("\n"),
    inputSchema: {
      type: "object",
      properties: {
        task: { type: "string", minLength: 1, description: "what it is to do, and what it has to know for that" },
        agent: { type: "string", enum: agents.map(({ name }) => name), description: "who; without it, general" },
        session_id: { type: "string", description: "the session of an earlier task of yours, to continue it" },
      },
      required: ["task"],
      additionalProperties: false,
    },
    // A call that runs again continues its sub-agent.
    effects: "idempotent",
    // The turn's own timeout or interruption ends it.
    timeoutMs: Number.POSITIVE_INFINITY,
    execute: (args, context) => run(args as unknown as Task, context), // By the input schema.
  };
}

interface TaskEnd {
  readonly status: "completed" | "failed" | "interrupted";
  readonly text: string;
  /** Why it failed; undefined if it succeeded. */
  readonly problem?: string;
}

function endOf(result: RunResult): TaskEnd {
  const { text, terminal_cause_kind: cause } = result;
  if (cause === undefined) return { status: "completed", text };
  return { status: "failed", text, problem: `it stopped short: ${cause}` };
}

/** The tool result, with the ids to read the rest. */
function reportOf(
  end: TaskEnd,
  of: { readonly agent: string; readonly childId: string; readonly used: TaskUse; readonly bytesMax: number },
): ToolOutput {
  const { agent, childId, used, bytesMax } = of;
  const counts = `${plural(used.modelCalls, "model call")}, ${plural(totalTokens(used.usage), "token")}`;
  const reference = `[sub-agent ${agent}, session ${childId}, ${end.status}, ${counts}]`;
  const parts = [...(end.problem === undefined ? [] : [end.problem]), cut(end.text, bytesMax), reference];
  const content = parts.filter((part) => part !== "").join("\n\n");
  return end.status === "completed" ? content : { content, isError: true };
}

function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

function cut(text: string, bytesMax: number): string {
  const bytes = new TextEncoder().encode(text);
  if (bytes.length <= bytesMax) return text;
  // Not fatal: a character cut at the end is dropped.
  const head = new TextDecoder().decode(bytes.subarray(0, bytesMax), { stream: true });
  return `${head}\n[… ${bytes.length - bytesMax} of ${bytes.length} bytes left out here; the session has all of it …]`;
}
