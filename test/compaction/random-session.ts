import { hash } from "node:crypto";
import { runEviction } from "@rkat/core/compaction/evict";
import { grammarFaults } from "@rkat/core/compaction/grammar";
import { planExpansion, planReturn, shownWith } from "@rkat/core/compaction/plan";
import type { CompactionOutcome } from "@rkat/core/compaction/run-compaction";
import { turnsOf } from "@rkat/core/compaction/shown-messages";
import { RuntimeError } from "@rkat/core/contract/error";
import type { Message } from "@rkat/core/contract/message";
import type { Clock } from "@rkat/core/ports/clock";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { forkBodies } from "@rkat/core/sessions/fork";
import { evictedFrom, type Placed } from "@rkat/core/state/context";
import { planRewrite, splice, type Wanted } from "@rkat/core/state/plan-rewrite";
import { findRevision, revisionOf, transcriptAfter } from "@rkat/core/state/rewrites";
import { createRandom } from "../crash/random.ts";
import type { Random } from "../support/random-history.ts";
import { createVirtualClock } from "../support/virtual-clock.ts";
import { below, chance, pick } from "./chances.ts";
import { createFoldedSession, type FoldedSession } from "./folded-session.ts";
import { compactRandomly } from "./random-compaction.ts";
import { randomEntries, type Wording } from "./random-entries.ts";

/** A session to which everything is done that can be done to a context, the same for the same seed. */
export interface RandomSession extends FoldedSession {
  readonly random: Random;
  addTurns(turnsMax: number): Promise<void>;
  compact(): Promise<CompactionOutcome>;
  /** Lets tool output leave the context; false where nothing could. */
  evict(): Promise<boolean>;
  /** A session that begins with all that was said. */
  fork(): Promise<RandomSession>;
  pin(): Promise<void>;
  unpin(): Promise<void>;
  /** Brings back part of what a standing compaction took out, or outputs that were evicted. */
  expand(): Promise<void>;
  /** Undoes one of the standing compactions, not only the newest. */
  undo(): Promise<void>;
  /** Puts other messages in the place of some; what a provider would not take is refused. */
  rewrite(): Promise<"rewritten" | "refused">;
  /** Makes the transcript what it once was. */
  restore(): Promise<"rewritten" | "refused">;
}

export async function createRandomSession(seed: number, wording: Wording): Promise<RandomSession> {
  const random = createRandom(seed);
  const folded = createFoldedSession(chance(random, 0.7) ? "be brief" : undefined);
  const session = withActions(folded, { random, wording, partsBefore: 0 });
  await session.addTurns(wording.turnsMax);
  return session;
}

interface Living {
  readonly random: Random;
  readonly wording: Wording;
  /** What was said in the session it was forked from: ids of calls go on from there. */
  readonly partsBefore: number;
}

function withActions(session: FoldedSession, { random, wording, partsBefore }: Living): RandomSession {
  const { isWordless, strategy } = wording;
  const { state, append } = session;
  const clock = createVirtualClock();
  let parts = partsBefore;
  const addTurns = (turnsMax: number): Promise<void> => {
    parts += 1;
    return append(randomEntries(random, parts, { turnsMax, isWordless }));
  };
  return {
    ...session,
    random,
    addTurns,
    compact: () => compactRandomly({ session, random, clock, isWordless, strategy }),
    evict: () => evictNow(session, clock),
    fork: async () => {
      const fork = createFoldedSession(state.settings.system_prompt);
      const [, ...bodies] = await forkBodies(state, { before: state.transcript.length }, clock.yieldToEventLoop);
      await fork.append(bodies);
      return withActions(fork, { random, wording, partsBefore: parts });
    },
    pin: () => pin(session, random),
    unpin: async () => {
      const seq = pick(random, [...state.pins]);
      if (seq !== undefined) await append([{ kind: "pinned", seq, pinned: false }]);
    },
    expand: () => expand(session, random),
    undo: async () => {
      const compaction_id = pick(random, standingIn(session))?.body.compaction_id;
      if (compaction_id !== undefined) await append([{ kind: "compaction_undone", compaction_id }]);
    },
    rewrite: () => {
      parts += 1;
      const written = randomEntries(random, parts, { turnsMax: 1, isWordless });
      const messages = written.flatMap((body) => ("message" in body ? [body.message] : []));
      return change(session, rewriting(session, random, messages));
    },
    restore: () => {
      const past = transcriptAfter(state, below(random, state.rewrites.length + 1));
      const length = chance(random, 0.5) ? past.length : below(random, past.length + 1);
      const to = findRevision(state, revisionOf(past.slice(0, length), sha256), sha256);
      if (to === undefined) throw new Error("a transcript the session had is not found by its revision");
      const selection = { type: "message_range", start: 0, end: state.transcript.length } as const;
      return change(session, { to, selection, range: selection });
    },
  };
}

const sha256 = (text: string): string => hash("sha256", text);

/** A few messages for a few others, for none, or for themselves with one of them changed. */
function rewriting({ state }: FoldedSession, random: Random, messages: readonly Message[]): Wanted {
  const { length } = state.transcript;
  const { start, end } = randomRange(state.transcript, random);
  const there = state.transcript.slice(start, end).map(({ message }) => message);
  const changed = there.map((message) => (chance(random, 0.3) ? reworded(message) : message));
  const replacement = pick(random, [messages, messages.slice(0, 2), changed, changed, []]) ?? [];
  const now = new Date(state.updatedAtMs).toISOString();
  const selection = { type: "message_range", start, end } as const;
  return splice(state, { selection, replacement: [...replacement] }, { seen: length, now });
}

/** Turns as a whole, all of it, or anything. */
function randomRange(transcript: readonly Placed[], random: Random): { start: number; end: number } {
  const { length } = transcript;
  if (chance(random, 0.1)) return { start: 0, end: length };
  const messages = transcript.map(({ message }) => message);
  const turns = turnsOf(messages, messages[0]?.role === "system" ? 1 : 0);
  const first = below(random, turns.length);
  const last = Math.min(turns.length - 1, first + below(random, 3));
  const [from, to] = [turns[first], turns[last]];
  if (from !== undefined && to !== undefined && chance(random, 0.7)) return { start: from.start, end: to.end };
  const start = below(random, length + 1);
  return { start, end: Math.min(length, start + below(random, 6)) };
}

function reworded(message: Message): Message {
  switch (message.role) {
    case "system":
      return { ...message, content: `${message.content}!` };
    case "user":
      return { ...message, content: "and now something else" };
    case "system_notice":
      return { ...message, body: "never mind" };
    case "tool_results":
      return { ...message, results: message.results.map((result) => ({ ...result, content: "nothing" })) };
    case "block_assistant":
      return { ...message, blocks: message.blocks.filter(({ block_type }) => block_type !== "reasoning") };
  }
}

/** As the service does it. */
async function change({ state, append }: FoldedSession, wanted: Wanted): Promise<"rewritten" | "refused"> {
  const parent = revisionOf(state.transcript, sha256);
  const making = { parent, seen: state.transcript.length, now: state.updatedAtMs, hash: sha256, judge: grammarFaults };
  try {
    await append([planRewrite(state, wanted, { ...making, why: { reason: { kind: "test" } } }).body]);
    return "rewritten";
  } catch (thrown) {
    if (thrown instanceof RuntimeError && thrown.code === "INVALID_PARAMS") return "refused";
    throw thrown;
  }
}

function standingIn({ state }: FoldedSession) {
  return state.compactions.filter((record) => !record.undone);
}

/** As the service does it: unless a provider would not take what comes back with it. */
async function pin({ state, append }: FoldedSession, random: Random): Promise<void> {
  const placed = pick(random, state.transcript);
  if (placed === undefined || placed.message.role === "system" || state.pins.has(placed.seq)) return;
  const { seq } = placed;
  if (isTaken(shownWith(state, { pin: seq }))) await append([{ kind: "pinned", seq, pinned: true }]);
}

async function evictNow({ state, append }: FoldedSession, clock: Clock): Promise<boolean> {
  const model = createScriptedModel(() => ({ text: "nobody asks it" }));
  const { signal } = new AbortController();
  return runEviction({
    state,
    compacting: { workStateTokens: 600 },
    asking: { model, clock, signal, redact: (text) => text },
    append,
  });
}

/** As the service does it: whole turns of the range that is asked for, unless a provider would not take them. */
async function expand(session: FoldedSession, random: Random): Promise<void> {
  const { state, append } = session;
  const lines = evictedFrom(state);
  if (lines.length > 0 && chance(random, 0.5)) {
    const asked = lines.filter(() => chance(random, 0.4));
    const back = [...planReturn(state, asked, pick(random, [400, 4_000, 100_000]) ?? 0).expanded];
    if (back.length > 0 && isTaken(shownWith(state, { ranges: back })))
      await append([{ kind: "expanded", ranges: back }]);
    return;
  }
  const range = pick(random, pick(random, standingIn(session))?.body.discarded ?? []);
  if (range === undefined) return;
  const from_seq = range.from_seq + below(random, range.to_seq - range.from_seq + 1);
  const room = pick(random, [40, 400, 100_000]) ?? 0;
  const ranges = [...planExpansion(state, [{ ...range, from_seq }], room).expanded];
  if (ranges.length > 0 && isTaken(shownWith(state, { ranges }))) await append([{ kind: "expanded", ranges }]);
}

function isTaken(shown: readonly Placed[]): boolean {
  return grammarFaults(shown.map(({ message }) => message)).length === 0;
}
