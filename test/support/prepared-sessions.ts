import { setImmediate } from "node:timers/promises";
import type { AgentEvent, AgentEventOf, AgentEventType } from "@rkat/core/contract/event";
import { createInMemoryStore, createRuntime, type Runtime, type RuntimeOptions } from "@rkat/core/create-runtime";
import type { Session } from "@rkat/core/sessions/session-handle";
import { type HeldModel, SAID } from "./held-summaries.ts";
import { listen } from "./runtime.ts";

/** A turn takes about 150 tokens: it is prepared at 800, due at 1,000. */
export const READY = {
  autoCompactThreshold: 1_000,
  recentTurnBudget: 2,
  maxSummaryTokens: 100,
  minTurnsBetweenCompactions: 1,
  prepare: true,
} as const;
export const TURNS_MAX = 40;
export const ANSWER = { input_tokens: 10, output_tokens: 5 };

export function open(model: HeldModel, options: RuntimeOptions = {}): Runtime {
  return createRuntime({
    model,
    env: {},
    store: createInMemoryStore(),
    toolPreset: "none",
    compaction: READY,
    ...options,
  });
}

/** Says so much that a summary is being made, and no turn has waited for it. */
export async function saidMuch(model: HeldModel, runtime: Runtime): Promise<{ session: Session; turns: number }> {
  model.hold();
  const session = await runtime.createSession(`Build 1000 is in /srv/build/0/out.log. ${SAID}`);
  let turns = 1;
  while (turns < TURNS_MAX && (await session.context()).estimatedTokens < 900) turns += await say(session, turns);
  while (model.asked() === 0) await setImmediate();
  return { session, turns };
}

export async function say(session: Session, turn: number): Promise<number> {
  await session.turn(`Build ${1_000 + turn} is in /srv/build/${turn}/out.log. ${SAID}`);
  await otherWork();
  return 1;
}

/** Nothing of these turns waits for the world, so nothing else would have its turn. */
export async function otherWork(rounds = 20): Promise<void> {
  for (let round = 0; round < rounds; round += 1) await setImmediate();
}

/** Goes on until something is so. */
export async function goOn(session: Session, isSo: (events: readonly AgentEvent[]) => boolean | Promise<boolean>) {
  for (let turn = 0; turn < TURNS_MAX; turn += 1) {
    const { events } = await listen(session.stream(`And on. ${SAID}`));
    await otherWork();
    if (await isSo(events)) return events;
  }
  throw new Error("it never was so");
}

export const isCompacted = async (session: Session): Promise<boolean> => (await session.compactions()).length > 0;

/** Resolves with the next event of a kind that comes after a number. */
export async function waitForEvent<T extends AgentEventType>(
  session: Session,
  type: T,
  after = 0,
): Promise<AgentEventOf<T>> {
  const stop = new AbortController();
  for await (const { event } of session.events({ after, signal: stop.signal })) {
    if (event.type !== type) continue;
    stop.abort();
    return event as AgentEventOf<T>; // Its type is the one that was asked for.
  }
  throw new Error(`no ${type} came`);
}

export const eventsOf = async (session: Session): Promise<readonly AgentEvent[]> => {
  const { events } = await session.listEvents({ limit: 500 });
  return events.map(({ payload }) => payload as AgentEvent); // What a page tells is what listeners are told.
};

export const lastSeq = async (session: Session): Promise<number> =>
  (await session.listEvents({ limit: 500 })).latestCursor.sequence;

export const compactionsIn = (events: readonly AgentEvent[]): readonly AgentEvent[] =>
  events.filter(({ type }) => type.startsWith("compaction"));
