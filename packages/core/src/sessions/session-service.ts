import type { AgentOperations } from "../agents/agents.ts";
import { dueAt, idleMsOf, nextCallCost } from "../compaction/economy.ts";
import { compactingFor } from "../compactions/compaction-part.ts";
import { createCompactions } from "../compactions/compactions.ts";
import { createPreparations } from "../compactions/preparations.ts";
import { describeAccess } from "../contract/caller.ts";
import type { Capabilities, Capability } from "../contract/capability.ts";
import { RuntimeError } from "../contract/error.ts";
import { createForgettingLater, type LaterParts } from "../erasure/forget-later.ts";
import { createMemoryOperations } from "../memory/memory-operations.ts";
import type { ReadAgentsMd } from "../ports/agents-md.ts";
import type { Clock } from "../ports/clock.ts";
import type { SessionJobs } from "../ports/jobs.ts";
import { sessionsWith } from "../runtime/caller-view.ts";
import { type Comms, createComms } from "../runtime/comms.ts";
import type { Configuration } from "../runtime/configuration.ts";
import type { Service } from "../runtime/dispatch.ts";
import { lateBound } from "../runtime/late-bound.ts";
import { createMcpServerOperations, type SessionServerTools } from "../runtime/mcp-servers.ts";
import type { UsageSums } from "../runtime/usage.ts";
import { createGoals } from "../schedules/goals.ts";
import type { ScheduleOperations } from "../schedules/schedules.ts";
import type { SkillCatalogue } from "../skills/skill-catalogue.ts";
import { createSkills, type Skills } from "../skills/skills.ts";
import type { SessionState } from "../state/session-state.ts";
import { createSubAgents, type SubAgents, type UntilOver } from "../sub-agents/sub-agents.ts";
import { createHistoryImports } from "../transfer/import-history.ts";
import { createPortableSessions } from "../transfer/portable-sessions.ts";
import { toolTokens } from "../turn/tokens.ts";
import { cannotContinue, createAdoption, type Resuming } from "./adoption.ts";
import { createApprovals } from "./approvals.ts";
import { createForks, createInjections } from "./fork.ts";
import { runSessionHooks } from "./hooks.ts";
import { createInbox } from "./inbox.ts";
import { createJobs, type JobParts, type Jobs } from "./jobs.ts";

import {
  appendEntries,
  createLiveSessions,
  createLockedWork,
  type LiveSession,
  type LiveSessions,
} from "./live-sessions.ts";
import { createModelCalls } from "./model-calls.ts";
import { createRewrites } from "./rewrites.ts";
import { type ContextSizes, createSessionReader } from "./session-reader.ts";
import { callerAgain } from "./turn-input.ts";
import {
  type Configured,
  type Current,
  createEndOf,
  createFinishTurn,
  createRepeats,
  createTurnOperations,
  pinningIn,
} from "./turn-operations.ts";
import { appendingTo, type FixedParts, modelOf, redactFor, type TurnParts } from "./turn-runner.ts";
import { chooseTools, type ToolParts } from "./turn-tools.ts";

export interface ServiceParts extends FixedParts {
  readonly capabilities: ReadonlySet<Capability>;
  readonly agents: AgentOperations;
  readonly schedules: ScheduleOperations;
  readonly usage: UsageSums;
  readonly forgetting: Pick<LaterParts, "tools" | "agents" | "schedules" | "warn"> & { readonly isShortLived: boolean };
  readonly configuration: Configuration<Configured>;
  readonly catalogue: SkillCatalogue;
  readonly readAgentsMd: ReadAgentsMd | undefined;
  allowInProject(rules: readonly string[]): Promise<void>;
  /** Whether this process finishes turns of processes that are gone, and leaves its own to another one when it stops. */
  readonly resumesTurns: boolean;
  readonly resuming: Partial<Resuming>;
  readonly servers: SessionServerTools;
  readonly jobs: Pick<JobParts, "processes" | "outlives">;
  /** Reports turns that cannot be finished here. */
  warn(sentence: string): void;
  /** What `readCapabilities` answers. */
  describeCapabilities(): Capabilities;
}

export interface SessionService {
  readonly service: Service;
  readonly live: LiveSessions;
  /** What the tool does by which a model loads a skill. */
  readonly loadSkill: Skills["load"];
  readonly jobs: SessionJobs;
  readonly comms: Comms;
  stop(): Promise<void>;
}

/** Sessions and their turns: the one behaviour behind every surface. */
export function createSessionService(parts: ServiceParts): SessionService {
  const { store, clock, configuration, redact, hash } = parts;
  const { yieldToEventLoop } = clock;
  const live = createLiveSessions(store, {
    sessionsMax: () => configuration.current().sessionsMax,
    isStored: parts.capabilities.has("session-store"),
    keeping: { hash, yieldToEventLoop },
  });
  const locked = createLockedWork({
    ...{ store, clock, live },
    next: (session) => inbox.next(session) ?? goals.next(session),
    accept: (session, note) => inbox.accept(session, note),
  });
  const appending = (session: LiveSession, reported: Parameters<typeof appendingTo>[2]) =>
    appendingTo(store, session, reported);
  const preparations = createPreparations({ clock, redact, hash, live, locked, appending });
  const sessionRedact = (session: LiveSession) => redactFor(session, redact);
  const jobs = createJobs({ ...parts.jobs, store, clock, live, locked, redactFor: sessionRedact });
  const erasing = createErasing(parts, live, jobs);
  // A turn may run sub-agents, whose tasks are turns, and a turn that waits for an approval is resumed with them.
  const subAgents = lateBound<SubAgents>("sub-agents");
  /** Read once when a turn begins: the turn keeps this configuration to its end. */
  const current: Current = () => {
    const configured = configuration.current();
    return { ...parts, ...configured, ...subAgents.get().offer(configured), preparations, whole: live.whole };
  };
  const ending = new AbortController();
  const approvals = createApprovals({
    ...{ store, clock, live, locked, redactFor: sessionRedact, checkInWorker: parts.checkInWorker },
    canResume: (session) => adoption.canContinue(session),
    resume: async (session, signal) => {
      const began = current();
      const { settings, approval } = session.state;
      const model = await began.models.resolve(settings.model, settings.provider);
      const { overlay, caller: asked } = approval?.asked.progress ?? {};
      const lack = asked && parts.resuming.lacks?.(asked);
      if (lack !== undefined) throw cannotContinue(session.state, [lack]);
      const caller = asked && callerAgain(asked);
      const rest = { instructions: [], traceparent: undefined, unattended: undefined, added: [], caller };
      return subAgents.get().run(began, session, { prompt: undefined, model, overlay, signal, ...rest });
    },
    resumesTurns: parts.resumesTurns,
    allowInProject: parts.allowInProject,
    ending: ending.signal,
  });
  const untilOver: UntilOver = async (session, call, turn) => {
    const outcome = await locked.run(session, call, (signal) => {
      jobs.follow(session);
      return turn(signal);
    });
    return typeof outcome === "symbol" ? approvals.untilOver(session, call) : outcome;
  };
  const { giveUp } = approvals;
  const { run } = subAgents.set(createSubAgents({ ...parts, live, locked, preparations, giveUp, untilOver, current }));
  const { resumesTurns, resuming, warn } = parts;
  const spentToday = async (name: string) => (await parts.usage.spentBy(name, clock.now())).amount;
  const adoption = createAdoption({
    ...{ store, clock, live, locked, current, run, untilOver, warn, resuming, spentToday },
  });
  const watching = resumesTurns ? adoption.watch(ending.signal) : Promise.resolve();
  const skills = skillsFor(parts, live, current);
  const { finishTurn } = adoption;
  const endOf = createEndOf({ store, untilOver: approvals.untilOver, finishTurn });
  const lacks: NonNullable<Resuming["lacks"]> = (caller) => resuming.lacks?.(caller);
  const repeat = createRepeats(live, endOf, () => inbox);
  const { beginQueued, ...turns } = createTurnOperations(
    { ...parts, lacks, spentToday },
    { live, locked, skills, current, untilOver, run, repeat, inbox: () => inbox, goals: () => goals },
  );
  const beginning = (session: LiveSession, message: Parameters<typeof beginQueued>[1], signal: AbortSignal) => {
    jobs.follow(session);
    return beginQueued(session, message, signal);
  };
  const carriesOn = !parts.forgetting.isShortLived;
  const inbox = createInbox({
    ...{ store, clock, live, locked, giveUp, untilOver: approvals.untilOver, resumesTurns },
    carriesOn,
    begin: beginning,
    ending: ending.signal,
  });
  const interrupt = async (session: LiveSession): Promise<void> => {
    await store.locks.interrupt(session.state.sessionId);
    // What is made ready behind it is to be paid for, too.
    void preparations.stop(session.state.sessionId);
    await approvals.giveUp(session);
    await adoption.cancel(session);
    await goals.end(session, "interrupted");
  };
  const goals = createGoals({
    ...{ store, clock, redact, live, current, carriesOn, lacks, interrupt, record: inbox.record },
    untilOver: approvals.untilOver,
    begin: beginning,
    ending: ending.signal,
  });

  const { enqueue } = inbox;
  const comms = createComms({ store, clock, live, redact, enqueue, rules: () => configuration.current().routeRules });
  const sizesOf = createSizes(current, clock);
  const service: Service = {
    ...turns,
    finishTurn: createFinishTurn(store, live, { endOf, finishTurn }),
    answerApproval: approvals.answerApproval,
    listApprovals: approvals.listApprovals,
    readInbox: inbox.readInbox,
    removeInboxMessage: inbox.removeInboxMessage,
    endGoal: goals.endGoal,
    listJobs: async ({ session_id }) => ({ jobs: [...(await jobs.list(session_id))] }),
    cancelJob: async ({ session_id, job_id }) => {
      await jobs.cancel(session_id, job_id);
      return { cancelled: true };
    },
    sendComms: comms.sendComms,
    listPeers: comms.listPeers,
    interruptTurn: async ({ session_id }) => {
      await interrupt(await live.findFresh(session_id));
      return { interrupted: true };
    },
    ...createSessionReader({
      store,
      live,
      hash: parts.hash,
      yieldToEventLoop,
      sizesOf,
      unfinishedIn: adoption.describe,
    }),
    ...createModelCalls({ store, live, clock, sizesOf }),
    ...createCompactions({ ...parts, live, locked }, () => ({ ...current(), live, locked })),
    ...createRewrites({ ...parts, live, locked }, () => ({ ...current(), live, locked })),
    ...createMemoryOperations({
      memory: parts.memory,
      live,
      scope: () => configuration.current().memoryScope,
      telemetry: parts.telemetry,
      sessionsWith: (labels) => sessionsWith(store, labels),
    }),
    ...parts.agents,
    ...parts.schedules,
    ...skills.operations,
    ...erasing.operations,
    ...configuration.operations,
    readUsage: parts.usage.readUsage,
    ...createInjections(parts, { live, locked }),
    ...createMcpServerOperations({ ...parts, live, locked, current }),
    ...createForks({ store, live, clock, memory: parts.memory }),
    ...createPortableSessions({ store, live, clock, memory: parts.memory }),
    ...createHistoryImports({ ...parts, live }, current),
    archiveSession: async ({ session_id }) => {
      const session = await live.findFresh(session_id);
      if (session.state.archived) return { archived: true };
      await approvals.giveUp(session);
      await preparations.stop(session_id);
      await locked.run(session, {}, async () => {
        await jobs.end(session);
        await appendEntries(store.log, session, [{ kind: "archived" }]);
        await runSessionHooks(current(), session, "session_archived");
      });
      parts.servers.drop(session.state.settings);
      return { archived: true };
    },
    readBlob: ({ blob_id }) => readBlob(store.blobs, blob_id),
    readAccess: async (_, { caller }) => describeAccess(caller),
    readCapabilities: async () => parts.describeCapabilities(),
    readModels: async () => configuration.current().catalogue(),
  };
  const stop = async (): Promise<void> => {
    ending.abort("the runtime closes");
    await erasing.close();
    await Promise.all([preparations.close(), locked.stop(resumesTurns)]);
    await watching;
    await jobs.close();
    await live.close();
  };
  return { service, live, loadSkill: skills.load, jobs, comms, stop };
}

function skillsFor(parts: ServiceParts, live: LiveSessions, current: Current): Skills {
  return createSkills({
    ...parts,
    live,
    hasMemory: parts.capabilities.has("memory-store"),
    hasAgentsMd: () => current().hasAgentsMd,
    isOn: () => current().hasSkills,
    pinningIn: (session) => {
      const began = current();
      const contextWindow = began.windowOf(session.state.settings);
      return pinningIn(began, () => chooseTools(began, session).values(), { contextWindow });
    },
  });
}

/** How large contexts may grow, and what their tools add. */
function createSizes(
  current: () => ToolParts & Pick<TurnParts, "windowOf" | "pricesOf" | "compaction">,
  clock: Pick<Clock, "now">,
) {
  return (session: LiveSession, state: SessionState, settings = state.settings): ContextSizes => {
    const began = current();
    const model = modelOf(began, settings);
    const { contextWindow: context_window, prices } = model;
    const compacting = began.compaction && compactingFor(began.compaction, settings, model);
    const tools = chooseTools(began, { ...session, state: { ...state, settings } });
    const tool_tokens = toolTokens(tools.values());
    const idleMs = idleMsOf(state, clock.now());
    return {
      tools: [...tools.keys()],
      tool_tokens,
      ...(context_window === undefined ? {} : { context_window }),
      ...(compacting && { auto_compact_threshold: dueAt(state, compacting, { model, idleMs }) }),
      ...(prices && { next_call_cost: nextCallCost(state.shownTokens + tool_tokens, prices, idleMs) }),
    };
  };
}

/** What goes for good: when that is asked for, and when it was kept long enough. */
function createErasing(
  { forgetting: given, configuration, capabilities, ...parts }: ServiceParts,
  live: LiveSessions,
  jobs: Jobs,
) {
  const { store, clock, memory } = parts;
  const retention = () => configuration.current().retention;
  const runsInBackground = capabilities.has("session-store") && !given.isShortLived;
  const erasing = { retention, runsInBackground, configuration, eraseJobs: jobs.erase, eraseJobText: jobs.eraseText };
  return createForgettingLater({ ...given, ...erasing, store, live, clock, memory });
}

async function readBlob(blobs: ServiceParts["store"]["blobs"], blob_id: string) {
  const blob = await blobs.get(blob_id);
  if (blob === undefined) throw new RuntimeError("INVALID_PARAMS", `blob_id: there is no blob ${blob_id}`);
  return { blob_id, media_type: blob.mediaType, data: Buffer.from(blob.data).toString("base64") };
}
