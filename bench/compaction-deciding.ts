import type { Compacting } from "@rkat/core/compaction/prepare";
import type { EntryBody } from "@rkat/core/contract/entry";
import type { Message } from "@rkat/core/contract/message";
import type { ToolSpec } from "@rkat/core/ports/model";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { foldAhead, type SessionState } from "@rkat/core/state/session-state";
import { judgeTurnBoundary, runDueCompaction } from "@rkat/core/turn/boundary";
import { createFoldedSession, type FoldedSession } from "../test/compaction/folded-session.ts";
import { bodyOf, SYSTEM_PROMPT, tileHistory } from "./compaction-history.ts";
import { askingFor, composeFor } from "./compaction-stage.ts";
import { median } from "./report.ts";

const EARLY_TURN = 100;
const LATE_TURN = 10_000;
/** Several compactions lie in a window, so it does not matter where in the rise and fall of a context it begins. */
const WINDOW_TURNS = 100;
const ROUNDS = 9;
const REPETITIONS = 100;
const NEVER = Number.MAX_SAFE_INTEGER;

export interface Deciding {
  readonly session: string;
  readonly compactions: number;
  readonly early: Window;
  readonly late: Window;
}

interface Window {
  readonly turn: number;
  /** Messages of the context, on average. */
  readonly messages: number;
  /** Of one decision. */
  readonly decideUs: number;
  /** Of it, folding ahead what is not saved. */
  readonly foldUs: number;
}

/** What deciding at a boundary takes early and late in a session that compacts, and in one that never does. */
export async function measureDeciding(): Promise<readonly Deciding[]> {
  const { messages } = tileHistory({ turns: LATE_TURN + WINDOW_TURNS });
  const sessions = [
    { session: "compacting at 6,000 tokens", threshold: 6_000 },
    { session: "never compacting", threshold: NEVER },
  ];
  const measured: Deciding[] = [];
  for (const { session, threshold } of sessions) {
    const compacting = composeFor(
      { autoCompactThreshold: threshold, maxSummaryTokens: 500, curator: () => "The work goes on as agreed." },
      undefined,
    );
    const { boundaries, compactions } = await hold(messages, compacting);
    measured.push({ session, compactions, ...measureWindows(boundaries, compacting) });
  }
  return measured;
}

/** A boundary as it was when the turn came to it. */
interface Boundary {
  readonly turn: number;
  readonly state: SessionState;
  readonly unsaved: readonly EntryBody[];
}

const MODEL = createScriptedModel([]);
const TOOLS = new Map<string, ToolSpec>(
  ["shell", "read_file", "apply_patch"].map((name) => [name, { name, description: `Does ${name}.`, inputSchema: {} }]),
);

/** Lives a session as a turn does: judge, compact when due, save, answer; keeps the boundaries of both windows. */
async function hold(messages: readonly Message[], compacting: Compacting) {
  const session = createFoldedSession(SYSTEM_PROMPT);
  const boundaries: Boundary[] = [];
  let unsaved: EntryBody[] = [];
  let turn = 0;
  for (const message of messages) {
    if (message.role === "user") turn += 1;
    if (message.role !== "block_assistant") {
      unsaved.push(bodyOf(message, 0));
      continue;
    }
    if (isIn(turn, EARLY_TURN) || isIn(turn, LATE_TURN)) boundaries.push(keep(turn, session.state, unsaved));
    await passBoundary(session, unsaved, compacting);
    const { shownTokens } = session.state;
    await session.append([bodyOf(message, shownTokens)]);
    unsaved = [];
  }
  return { boundaries, compactions: session.state.compactions.length };
}

function isIn(turn: number, middle: number): boolean {
  return Math.abs(turn - middle) <= WINDOW_TURNS / 2;
}

function keep(turn: number, state: SessionState, unsaved: readonly EntryBody[]): Boundary {
  return { turn, state: { ...state, shown: [...state.shown] }, unsaved };
}

async function passBoundary(session: FoldedSession, unsaved: readonly EntryBody[], compacting: Compacting) {
  const { state, append } = session;
  const { clock } = askingFor(MODEL, append);
  const hash = (text: string): string => text;
  const at = { state, whole: async () => state, model: MODEL, tools: TOOLS, compacting, clock, hash, append };
  const verdict = judgeTurnBoundary(at, foldAhead(state, unsaved));
  await append(unsaved);
  if (verdict !== "not_due") await runDueCompaction(at, askingFor(MODEL, append), "due");
  await append([{ kind: "model_called", turn_number: 0, model: "scripted", context_sha256: "" }]);
}

/** Early and late boundaries are judged in turn, so that both meet the same machine and the same compiled code. */
function measureWindows(boundaries: readonly Boundary[], compacting: Compacting): Pick<Deciding, "early" | "late"> {
  const timings = boundaries.map((boundary) => ({ boundary, decide: [] as number[], fold: [] as number[] }));
  const early = timings.filter(({ boundary }) => isIn(boundary.turn, EARLY_TURN));
  const late = timings.filter(({ boundary }) => isIn(boundary.turn, LATE_TURN));
  const pairs = Array.from({ length: Math.max(early.length, late.length) }, (_, at) => [early[at], late[at]]).flat();
  const { clock } = askingFor(MODEL, async () => {});
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const timing of pairs) {
      if (timing === undefined) continue;
      const { state, unsaved } = timing.boundary;
      const at = { state, model: MODEL, tools: TOOLS, compacting, clock };
      timing.decide.push(timeUs(() => judgeTurnBoundary(at, foldAhead(state, unsaved))));
      timing.fold.push(timeUs(() => foldAhead(state, unsaved)));
    }
  }
  const windowOf = (turn: number, window: typeof timings): Window => ({
    turn,
    messages: mean(window.map(({ boundary }) => boundary.state.shown.length)),
    decideUs: mean(window.map(({ decide }) => median(decide))),
    foldUs: mean(window.map(({ fold }) => median(fold))),
  });
  return { early: windowOf(EARLY_TURN, early), late: windowOf(LATE_TURN, late) };
}

/** Keeps the compiler from leaving out what nobody looks at. */
const results = new Set<unknown>();

/** Microseconds of one call. */
function timeUs(work: () => unknown): number {
  let last: unknown;
  const startedMs = performance.now();
  for (let done = 0; done < REPETITIONS; done += 1) last = work();
  const tookMs = performance.now() - startedMs;
  results.add(last).clear();
  return (tookMs * 1_000) / REPETITIONS;
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
